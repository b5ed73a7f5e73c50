"""A pickle file of plain lists, dicts, text and numbers -> those objects; everything else in it is refused.

A pickle is a program. Here it is read by an interpreter that knows nothing but Python's own containers, text and
numbers: there is no instruction in it that could look up a class or call a function. Its work, its memory and the size
of what it makes are bounded.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from kinrank.files.opening import regular

MAX_BYTES = 256 * 2**20
MAX_STEPS = 15_000_000  # instructions: some seconds of work, a hundred thousand rows of 128 numbers
MAX_CONTAINERS = 4_000_000  # lists, dicts and tuples: one byte of a file makes a hundred in memory
MAX_DEPTH = 100  # containers in one another: whoever walks over the result must not run out of stack
MAX_SHARING = 100  # times the file that the result may be, everything counted as often as it is used
MAX_RESULT = 2**26  # numbers, containers and eights of characters of the result, counted in the same way
MAX_DIGITS = 620  # of a number written as text: as many as 255 bytes hold


class _Refused(ValueError):
    """The file asks for something that only an open unpickler would give, or for too much."""


def load(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Any:
    """The plain lists, dicts, text and numbers of a pickle file, with nothing executed.

    Refused with a ValueError: a file that asks for any class or function (numpy arrays are classes), one of
    more than `max_bytes` or that unpacks to much more than it is, a truncated one, and one that is no pickle. A missing
    file is a FileNotFoundError.

    Example:
        >>> load("gnd_roxford5k.pkl")["qimlist"][0]
        'all_souls_000013'
    """
    path = regular(Path(path))
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path} has {size} bytes, more than the {max_bytes} read from a pickle; save it as .npz")
    content = path.read_bytes()
    try:
        result = _Interpreter(content).run()
        _check_result(result, min(MAX_RESULT, MAX_SHARING * size))
        return result
    except _Refused as refused:
        raise ValueError(f"{path} {refused}") from None
    except MemoryError:
        raise ValueError(f"{path} unpacks to more than fits in memory; save it as .npz") from None
    except Exception as error:  # a damaged pickle raises nearly anything: IndexError, KeyError, UnicodeError, ...
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is truncated or is no pickle ({type(error).__name__}: {said})") from None


class _Interpreter:
    """The instructions of a pickle, followed one after the other."""

    def __init__(self, content: bytes) -> None:
        self.content, self.position, self.steps, self.containers = content, 0, 0, 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks under the marks
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """What the program leaves behind."""
        content, known = self.content, _INSTRUCTIONS
        for step in range(MAX_STEPS):
            code = content[self.position]
            self.position += 1
            if code == _STOP:
                return self.stack.pop()
            if code not in known:
                raise _Refused("is no pickle, or a damaged one")
            self.steps = step
            known[code](self)
        raise _Refused(f"has more than {MAX_STEPS} instructions; save it as .npz")

    # Arguments, which follow their instruction.

    def take(self, size: int) -> bytes:
        start = self.position
        self.position = start + size
        if self.position > len(self.content):
            raise _Refused("is truncated, or is no pickle")
        return self.content[start : self.position]

    def line(self) -> bytes:
        end = self.content.find(b"\n", self.position)
        if end < 0:
            raise _Refused("is truncated, or is no pickle")
        return self.take(end + 1 - self.position)[:-1]

    def whole(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def digits(self) -> bytes:
        text = self.line()
        if len(text) > MAX_DIGITS:
            raise _Refused(f"holds a number of {len(text)} digits; save it as a float")
        return text

    # The stack.

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_byte(self) -> None:
        """A number below 256; these and the next are most of a file, so they take no detour."""
        self.stack.append(self.content[self.position])
        self.position += 1

    def push_double(self) -> None:
        self.stack.append(_DOUBLE.unpack_from(self.content, self.position)[0])
        self.position += 8

    def make(self, container: Any) -> None:
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise _Refused(f"holds more than {MAX_CONTAINERS} lists, dicts and tuples; save it as .npz")
        self.stack.append(container)

    def mark(self) -> None:
        if len(self.below) > MAX_DEPTH:  # one for each container that is being filled
            raise _Refused(_TOO_DEEP)
        self.below.append(self.stack)
        self.stack = []

    def marked(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.marked()

    def remember(self, number: int) -> None:
        if not 0 <= number <= self.steps:
            raise _Refused("numbers its objects beyond its own length; it is damaged or made to exhaust memory")
        self.memo[number] = self.stack[-1]

    # Containers that are there and get more.

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise _Refused("appends to something that is no list; it is damaged")
        target.extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise _Refused("sets entries of something that is no dict; it is damaged")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in _KEYS or (type(key) is int and key.bit_length() > 64):
                raise _Refused(
                    "has a key of a dict that is neither text nor a number of up to 64 bits; save it as .npz"
                )
            target[key] = value

    def fill(self, container: Any, add: Callable[[_Interpreter, list[Any]], None]) -> None:
        items = self.marked()
        self.make(container)
        add(self, items)

    # What is never done.

    def refuse_class(self, module: str, name: str) -> NoReturn:
        array = module.split(".")[0] in ("numpy", "torch")
        remedy = "save its arrays as .npz" if array else "save it as plain lists and dicts, or as .npz"
        raise _Refused(f"asks for {module}.{name}, which is never loaded from a pickle; {remedy}")

    def refuse_named(self) -> NoReturn:
        self.refuse_class(self.line().decode(), self.line().decode())

    def refuse_stacked(self) -> NoReturn:
        self.refuse_class(str(self.stack[-2])[:100], str(self.stack[-1])[:100])

    def refuse(self, what: str) -> NoReturn:
        raise _Refused(f"{what}, which is never loaded from a pickle; save it as plain lists and dicts, or as .npz")

    def protocol(self) -> None:
        if (number := self.whole(1)) > 5:
            raise _Refused(f"has protocol {number}, this program reads up to 5; save it again with protocol=5")

    def frame(self) -> None:
        if self.whole(8) > len(self.content) - self.position:
            raise _Refused("is truncated, or is no pickle")


def _quoted(text: bytes) -> str:
    """Text as Python 2 wrote it into a program: 'it\\'s'."""
    if len(text) < 2 or text[:1] != text[-1:] or text[:1] not in (b"'", b'"'):
        raise _Refused("holds text without its quotes; it is damaged")
    return text[1:-1].decode("unicode_escape")


def _number(text: bytes) -> Any:
    return {b"00": False, b"01": True}[text] if text in (b"00", b"01") else int(text)


def _utf8(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")


_STOP = ord(".")
_TOO_DEEP = f"nests its lists and dicts more than {MAX_DEPTH} deep; save it as .npz"
_KEYS = frozenset({str, bytes, int, float, bool, type(None)})
_OBJECTS, _SETS, _OUTSIDE = "builds objects of classes", "holds a set", "refers to objects outside itself"
_DOUBLE = struct.Struct(">d")
_INSTRUCTIONS: dict[int, Callable[[_Interpreter], Any]] = {
    ord(code): follow
    for code, follow in {
        "\x80": _Interpreter.protocol,
        "\x95": _Interpreter.frame,
        "(": _Interpreter.mark,
        "0": _Interpreter.pop,
        "1": _Interpreter.marked,
        "2": lambda self: self.push(self.stack[-1]),
        # Numbers, None, True and False.
        "N": lambda self: self.push(None),
        "\x88": lambda self: self.push(True),
        "\x89": lambda self: self.push(False),
        "I": lambda self: self.push(_number(self.digits())),
        "L": lambda self: self.push(int(self.digits().removesuffix(b"L"))),
        "F": lambda self: self.push(float(self.digits())),
        "G": _Interpreter.push_double,
        "K": _Interpreter.push_byte,
        "M": lambda self: self.push(self.whole(2)),
        "J": lambda self: self.push(int.from_bytes(self.take(4), "little", signed=True)),
        "\x8a": lambda self: self.push(int.from_bytes(self.take(self.whole(1)), "little", signed=True)),
        "\x8b": lambda self: self.refuse("holds a whole number of more than 255 bytes"),
        # Text and bytes. Files written by Python 2 hold text as bytes; latin1 reads every one of them.
        "S": lambda self: self.push(_quoted(self.line())),
        "T": lambda self: self.push(self.take(self.whole(4)).decode("latin1")),
        "U": lambda self: self.push(self.take(self.whole(1)).decode("latin1")),
        "V": lambda self: self.push(self.line().decode("raw_unicode_escape")),
        "X": lambda self: self.push(_utf8(self.take(self.whole(4)))),
        "\x8c": lambda self: self.push(_utf8(self.take(self.whole(1)))),
        "\x8d": lambda self: self.push(_utf8(self.take(self.whole(8)))),
        "B": lambda self: self.push(self.take(self.whole(4))),
        "C": lambda self: self.push(self.take(self.whole(1))),
        "\x8e": lambda self: self.push(self.take(self.whole(8))),
        "\x96": lambda self: self.push(bytearray(self.take(self.whole(8)))),
        # Containers.
        "]": lambda self: self.make([]),
        "}": lambda self: self.make({}),
        ")": lambda self: self.make(()),
        "l": lambda self: self.fill([], _Interpreter.extend),
        "d": lambda self: self.fill({}, _Interpreter.update),
        "t": lambda self: self.make(tuple(self.marked())),
        "\x85": lambda self: self.make((self.stack.pop(),)),
        "\x86": lambda self: self.make((self.stack.pop(-2), self.stack.pop())),
        "\x87": lambda self: self.make((self.stack.pop(-3), self.stack.pop(-2), self.stack.pop())),
        "a": lambda self: self.extend([self.stack.pop()]),
        "e": lambda self: self.extend(self.marked()),
        "s": lambda self: self.update([self.stack.pop(-2), self.stack.pop()]),
        "u": lambda self: self.update(self.marked()),
        # The memory for what is used again.
        "p": lambda self: self.remember(int(self.digits())),
        "q": lambda self: self.remember(self.whole(1)),
        "r": lambda self: self.remember(self.whole(4)),
        "\x94": lambda self: self.remember(len(self.memo)),
        "g": lambda self: self.push(self.memo[int(self.digits())]),
        "h": lambda self: self.push(self.memo[self.whole(1)]),
        "j": lambda self: self.push(self.memo[self.whole(4)]),
        # Classes, functions and what lies outside.
        "c": _Interpreter.refuse_named,
        "i": _Interpreter.refuse_named,
        "\x93": _Interpreter.refuse_stacked,
        **dict.fromkeys("Rbo\x81\x92", lambda self: self.refuse(_OBJECTS)),
        **dict.fromkeys("\x8f\x90\x91", lambda self: self.refuse(_SETS)),
        **dict.fromkeys("PQ\x82\x83\x84\x97\x98", lambda self: self.refuse(_OUTSIDE)),
    }.items()
}


def _check_result(result: Any, most: int) -> None:
    """Refuse what is nested too deep, contains itself, or has too many parts, each counted as often as it is used."""
    counts: dict[int, int] = {}  # by container: its parts, once they are counted
    path: list[tuple[Any, Any]] = []  # the containers from the result to here, each with its children to come
    inside: set[int] = set()
    waiting = iter([result])
    while True:
        child = next(waiting, None)
        if child is not None and id(child) not in counts:
            if id(child) in inside:
                raise _Refused(
                    "holds a list or dict that contains itself; save it as plain lists and dicts, or as .npz"
                )
            if len(path) >= MAX_DEPTH:
                raise _Refused(_TOO_DEEP)
            inside.add(id(child))
            path.append((child, waiting))
            waiting = iter(_containers(child))
        elif child is None:
            if not path:
                return
            done, waiting = path.pop()
            inside.discard(id(done))
            counts[id(done)] = _parts(done, counts)
            if counts[id(done)] > most:
                raise _Refused(
                    f"uses its parts so often that it unpacks to more than {most} numbers and texts; save it as .npz"
                )


def _children(value: Any) -> Any:
    if type(value) is dict:
        return chain(value.keys(), value.values())
    return value if type(value) in (list, tuple) else ()


def _containers(value: Any) -> list[Any]:
    kinds = (list, tuple, dict)
    if not set(map(type, _children(value))).intersection(kinds):
        return []
    return list({id(child): child for child in _children(value) if type(child) in kinds}.values())


def _parts(value: Any, counts: dict[int, int]) -> int:
    """How many numbers, containers and eights of characters a container holds, its containers counted before."""
    if type(value) not in (list, tuple, dict):
        return 1 + len(value) // 8 if isinstance(value, (str, bytes, bytearray)) else 1
    kinds = set(map(type, _children(value)))
    if kinds <= {int, float, bool}:
        return 1 + len(value)
    return 1 + sum(counts[id(child)] if id(child) in counts else _parts(child, counts) for child in _children(value))
