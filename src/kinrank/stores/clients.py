"""What the clients of several databases have in common: how to call them, and what to make of their answers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors

Result = TypeVar("Result")


def rows_of(vectors: Sequence[Sequence[float] | None], dimensions: int) -> Vectors:
    """(n, d) the vectors as rows, NaN where one is missing or has another length.

    Packing them takes a quarter of the time that `numpy.array` takes for lists of lists.
    """
    numbers = struct.Struct(f"{dimensions}d")
    packed = bytearray(numbers.size * len(vectors))
    for place, vector in enumerate(vectors):
        try:
            numbers.pack_into(packed, place * numbers.size, *(vector or ()))
        except struct.error:  # the wrong length, or something in it that is no number
            numbers.pack_into(packed, place * numbers.size, *([np.nan] * dimensions))
    with np.errstate(over="ignore"):
        return np.frombuffer(packed, np.float64).reshape(len(vectors), dimensions).astype(np.float32)


def unit_checked(rows: Vectors, who: Any) -> Vectors:
    """The rows, if those that can be compared have length one: only then an inner product says what cosine says."""
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    if (np.isfinite(lengths) & (lengths > 0) & (np.abs(lengths - 1.0) > 1e-3)).any():
        raise not_unit(who)
    return rows


def not_unit(who: Any) -> ValueError:
    """What to say of a collection that compares by inner product, and whose vectors differ in length."""
    return ValueError(
        f"{who!r} compares by inner product, and not all of its vectors have length one; kinrank compares by cosine or "
        "by distance: store vectors of length one, or make the collection anew with cosine"
    )


def angles(similarities: NDArray[Any]) -> NDArray[np.float64]:
    """Euclidean distances of unit rows with these inner products."""
    return np.sqrt(np.maximum(2.0 - 2.0 * np.asarray(similarities, np.float64), 0.0))


def raised_by(error: BaseException, package: str) -> bool:
    """Whether an error came out of a package, or out of what that called."""
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).split(".")[0] == package:
            return True
        trace = trace.tb_next
    return False


def flag(options: Mapping[str, str], name: str) -> bool:
    """An option of a URL that is true or false, and false where it is left out."""
    if options.get(name, "false") not in ("true", "false"):
        raise ValueError(f"{name}={options[name]!r} is not allowed; give true or false")
    return options.get(name) == "true"


def header(text: str | None, what: str) -> str | None:
    """A secret as it can stand in a header; the clients' own errors about one that cannot would print it."""
    text = (text or "").strip()
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{what} holds a character that no header can carry; look at it again")
    return text or None


def waited(call: Callable[[], Result], timeout: float | None) -> Result:
    """What a call gives, or a TimeoutError after so many seconds: for clients that know no limit themselves.

    The call goes on in its thread, and what it gives then is dropped.
    """
    if timeout is None:
        return call()
    answers: Queue[tuple[list[Result], Exception | None]] = Queue()

    def ask() -> None:
        try:
            answers.put(([call()], None))
        except Exception as error:
            answers.put(([], error))

    Thread(target=ask, daemon=True).start()
    try:
        result, failed = answers.get(timeout=timeout)
    except Empty:
        raise TimeoutError("it is still busy") from None
    if failed is not None:
        raise failed
    return result[0]
