"""A pickle file of plain lists, dicts, text and numbers -> those objects; everything else in it is refused.

A pickle is a program. Here it may build nothing but Python's own containers: every request for a class or a
function is refused before it is looked up, so nothing a stranger put in the file can run.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

MAX_BYTES = 256 * 2**20
MAX_TUPLES = 20_000  # tuples nested much deeper than this overflow the C stack when they are hashed


class _Refused(ValueError):
    """The file asks for something that only an open unpickler would give."""


class _ClosedUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        wanted = f"{module_name}.{global_name}"
        array = module_name.split(".")[0] in ("numpy", "torch")
        remedy = "save its arrays as .npz" if array else "save it as plain lists and dicts, or as .npz"
        raise _Refused(f"asks for {wanted}, which is never loaded from a pickle; {remedy}")

    def persistent_load(self, persistent_id: Any, /) -> NoReturn:
        raise _Refused("refers to objects outside itself, which are never loaded; save them as .npz")


def load(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Any:
    """The plain lists, dicts, text and numbers of a pickle file, with nothing executed.

    Refused with a ValueError: a file that asks for any class or function (numpy arrays are classes), one of
    more than `max_bytes`, a truncated one, and one that is no pickle. A missing file is a FileNotFoundError.

    Example:
        >>> load("gnd_roxford5k.pkl")["qimlist"][0]
        'all_souls_000013'
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or is not a file; check the path")
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path} has {size} bytes, more than the {max_bytes} read from a pickle; save it as .npz")
    content = path.read_bytes()
    try:
        _check_sizes(content)
        # Files written by Python 2 hold text as bytes; latin1 reads every one of them.
        return _ClosedUnpickler(io.BytesIO(content), encoding="latin1").load()
    except _Refused as refused:
        raise ValueError(f"{path} {refused}") from None
    except MemoryError:
        raise ValueError(f"{path} unpacks to more than fits in memory; save it as .npz") from None
    except Exception as error:  # a damaged pickle raises nearly anything: EOFError, KeyError, UnicodeError, ...
        raise ValueError(f"{path} is truncated or is no pickle ({type(error).__name__}: {error})") from None


# Bytes of argument after each instruction; a negative number says how the argument tells its own length.
_ARGUMENT = {ord(op.code): (op.arg.n if op.arg is not None else 0) for op in pickletools.opcodes}
_LENGTH_BYTES = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
_LINES = {ord("c"): 2, ord("i"): 2}  # GLOBAL and INST take two lines
_TUPLES = frozenset(b"t\x85\x86\x87")
_STOP, _FRAME, _PUT, _BINARY_PUTS = ord("."), 0x95, ord("p"), {ord("q"): 1, ord("r"): 4}


def _check_sizes(content: bytes) -> None:
    """Walk over the instructions without following them: a few bytes must not reserve gigabytes.

    Lengths have to lie inside the file, and the unpickler keeps a table of remembered objects: their numbers
    have to stay below the number of instructions so far.
    """
    position, done, tuples, end = 0, 0, 0, len(content)
    while position < end:
        code = content[position]
        position += 1
        if code == _STOP:
            return
        if code not in _ARGUMENT:
            raise _Refused("is no pickle, or a damaged one")
        size = _ARGUMENT[code]
        if size == pickletools.UP_TO_NEWLINE:
            first = position
            for _ in range(_LINES.get(code, 1)):
                position = content.find(b"\n", position) + 1
                if position == 0:
                    raise _Refused("is truncated, or is no pickle")
            remembered = int(content[first : position - 1]) if code == _PUT else 0
        else:
            if size < 0:
                width = _LENGTH_BYTES[size]
                position, size = (
                    position + width,
                    int.from_bytes(content[position : position + width], "little"),
                )
            elif code == _FRAME:
                size = 8
                if int.from_bytes(content[position : position + 8], "little") > end - position:
                    raise _Refused("is truncated, or is no pickle")
            width = _BINARY_PUTS.get(code, 0)
            remembered = int.from_bytes(content[position : position + width], "little")
            position += size
        done += 1
        tuples += code in _TUPLES
        if position > end:
            raise _Refused("is truncated, or is no pickle")
        if remembered > done:
            raise _Refused("numbers its objects beyond its own length; it is damaged or made to exhaust memory")
        if tuples > MAX_TUPLES:
            raise _Refused(f"holds more than {MAX_TUPLES} tuples; save them as lists, or as .npz")
    raise _Refused("is truncated, or is no pickle")
