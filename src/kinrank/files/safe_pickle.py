"""A reader of pickle files that contain only lists, dicts, text and numbers. It refuses everything else.

A pickle is a program. Its instructions are checked before it runs: only those of Python's own containers, text and
numbers are allowed, and their work and memory are limited. A class or function is never looked up.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from kinrank.errors import InputError
from kinrank.files.path_checks import check_regular_file

MAX_BYTES = 256 * 2**20
MAX_STEPS = 15_000_000  # instructions: some seconds of work, a hundred thousand rows of 128 numbers
MAX_CONTAINERS = 4_000_000  # lists, dicts and tuples: one byte of a file becomes a hundred in memory
MAX_DEPTH = 100  # of nested containers, so that code that walks over the result does not exhaust the stack
MAX_SHARING = 100  # size of the result relative to the file; every part counts as often as it is used
MAX_RESULT_PARTS = 2**26  # numbers, containers and groups of eight characters in the result, counted in the same way
MAX_DIGITS = 620  # of a number written as text: as many as 255 bytes can hold
MAX_KEY_BYTES = 9  # of a whole number as a key of a dict: longer ones can be chosen to have the same hash
MAX_KEY_DIGITS = 22  # of such a number written as text, with "L" and the end of the line

_LENGTH_BYTES = {  # the argument starts with its length, in so many bytes
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
_ATOMS = (
    "NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"
)
_ALLOWED = frozenset(
    f"{_ATOMS} EMPTY_LIST EMPTY_DICT EMPTY_TUPLE LIST DICT TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS "
    "MARK POP POP_MARK DUP PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET PROTO FRAME STOP".split()
)
_CLASSES = frozenset({"GLOBAL", "INST", "STACK_GLOBAL"})  # the Unpickler refuses them by name
_NUMBER_LINES = frozenset({"INT", "LONG", "FLOAT", "PUT", "GET"})
_POPPED = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1}
_INSTRUCTIONS = {  # code -> name and size of the argument
    ord(opcode.code): (opcode.name, opcode.arg.n if opcode.arg else 0) for opcode in pickletools.opcodes
}
_NEW_ATOMS = frozenset(_ATOMS.split())
_SHORT_ATOMS = {code: size for code, (name, size) in _INSTRUCTIONS.items() if name in _NEW_ATOMS and size >= 0}
_OTHERWISE = "save it as plain lists and dicts, or as .npz"
_TOO_DEEP = f"nests its lists and dicts more than {MAX_DEPTH} deep; save it as .npz"


class _RefusedError(ValueError):
    """The file needs a full unpickler, or exceeds a limit."""


def load(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Any:
    """Return the lists, dicts, text and numbers of a pickle file without executing anything.

    Raises an InputError if the file asks for any class or function (numpy arrays are classes), is larger than
    `max_bytes`, unpacks to much more than its size, is truncated, or is not a pickle. Raises a FileNotFoundError if it
    does not exist.

    Example:
        >>> load("gnd_roxford5k.pkl")["qimlist"][0]
        'all_souls_000013'
    """
    path = check_regular_file(Path(path))
    size = path.stat().st_size
    if size > max_bytes:
        raise InputError(
            f"{path} has {size} bytes, but at most {max_bytes} are read from a pickle", remedy="save it as .npz"
        )
    content = path.read_bytes()
    try:
        _check_instructions(content)
        result = _PlainUnpickler(io.BytesIO(content), encoding="latin1").load()  # Python 2 wrote text as bytes
        _count_parts(result, min(MAX_RESULT_PARTS, MAX_SHARING * size), {}, 0)
        return result
    except _RefusedError as refused:
        raise InputError(f"{path} {refused}") from None
    except MemoryError:
        raise InputError(f"{path} unpacks to more than fits into memory", remedy="save it as .npz") from None
    except Exception as error:  # a damaged pickle can raise nearly anything: IndexError, KeyError, UnicodeError, ...
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is truncated or is not a pickle ({type(error).__name__}: {reason})") from None


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler without classes, functions and outside objects."""

    def find_class(self, module: str, name: str) -> NoReturn:
        array = module.split(".")[0] in ("numpy", "torch")
        remedy = "save its arrays as .npz" if array else _OTHERWISE
        raise _RefusedError(f"asks for {module:.100}.{name:.100}, which is never loaded from a pickle; {remedy}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _RefusedError(f"refers to objects outside the file; {_OTHERWISE}")


def _check_instructions(content: bytes) -> None:
    """Check the instructions until the end, or until the first class, which the unpickler then refuses by name.

    The stacks and the memo have, in place of each value, whether it may be the key of a dict: no container, because
    its hash can take for ever, and no long number.
    """
    stack: list[bool] = []
    below: list[list[bool]] = []  # the stacks below the marks
    memo: dict[int, bool] = {}
    position = containers = 0
    for step in range(MAX_STEPS):
        code = content[position]
        if code in _SHORT_ATOMS:  # most of a file
            stack.append(True)
            position += 1 + _SHORT_ATOMS[code]
            continue
        name, size = _INSTRUCTIONS[code]
        if name not in _ALLOWED:
            if name in _CLASSES:
                return
            raise _RefusedError(f"contains the instruction {name}, which is never followed; {_OTHERWISE}")
        start = position + 1
        if size == pickletools.UP_TO_NEWLINE:
            size = content.index(b"\n", start) + 1 - start
            if name in _NUMBER_LINES and size > MAX_DIGITS:
                raise _RefusedError(f"contains a number of {size} digits; save it as a float")
        elif size < 0:
            width = _LENGTH_BYTES[size]
            size = width + int.from_bytes(content[start : start + width], "little")
        position = start + size
        if position > len(content):
            raise _RefusedError("is truncated, or is not a pickle")

        if name in _NEW_ATOMS:
            long = size > MAX_KEY_BYTES + 1 if name == "LONG1" else name in ("INT", "LONG") and size > MAX_KEY_DIGITS
            stack.append(not long)
        elif name == "MARK":
            if len(below) > MAX_DEPTH:  # one mark per container that is being filled
                raise _RefusedError(_TOO_DEEP)
            below.append(stack)
            stack = []
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            number = len(memo) if name == "MEMOIZE" else _read_number(name, content[start:position])
            if not 0 <= number <= step:
                raise _RefusedError(
                    "numbers its objects beyond its own length; it is damaged or designed to exhaust memory"
                )
            memo[number] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[_read_number(name, content[start:position])])
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "POP" and stack:
            stack.pop()
        elif name in ("SETITEM", "SETITEMS", "DICT"):
            if name == "SETITEM":
                items = [stack.pop(-2), stack.pop()]
            else:
                items, stack = stack, below.pop()
            if not all(items[::2]):
                raise _RefusedError(
                    "has a dict key that is neither text nor a number of up to 64 bits; save it as .npz"
                )
        elif name in ("POP", "POP_MARK", "APPENDS", "LIST", "TUPLE"):
            stack = below.pop()
        elif name in _POPPED:
            del stack[-_POPPED[name] :]
        elif name == "STOP":
            return
        if name.endswith(("LIST", "DICT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")):
            stack.append(False)
            containers += 1
            if containers > MAX_CONTAINERS:
                raise _RefusedError(f"contains more than {MAX_CONTAINERS} lists, dicts and tuples; save it as .npz")
    raise _RefusedError(f"has more than {MAX_STEPS} instructions; save it as .npz")


def _read_number(name: str, argument: bytes) -> int:
    """Read the number of an object in the memo, which is text in the oldest protocol."""
    return int(argument) if name in ("PUT", "GET") else int.from_bytes(argument, "little")


def _count_parts(value: Any, most: int, counts: dict[int, int], depth: int) -> int:
    """Count the numbers, containers and groups of eight characters in a value, as often as they are used.

    Refuses a container that has more than `most`, is nested too deeply or contains itself. `counts` are those of the
    containers so far; 0 if a container is being counted.
    """
    if type(value) not in (list, tuple, dict):
        return 1 + len(value) // 8 if isinstance(value, (str, bytes, bytearray)) else 1
    count = counts.get(id(value))
    if count == 0:
        raise _RefusedError(f"contains a list or dict that contains itself; {_OTHERWISE}")
    if count is None:
        if depth >= MAX_DEPTH:
            raise _RefusedError(_TOO_DEEP)
        counts[id(value)] = 0
        children = [*value.keys(), *value.values()] if type(value) is dict else value
        if {int, float, bool}.issuperset(map(type, children)):
            count = 1 + len(children)
        else:
            count = 1 + sum(_count_parts(child, most, counts, depth + 1) for child in children)
        if count > most:
            raise _RefusedError(
                f"uses its parts so often that it unpacks to more than {most} numbers and texts; save it as .npz"
            )
        counts[id(value)] = count
    return count
