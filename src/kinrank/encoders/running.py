"""Items of a source -> their vectors, kept as they come; one item per thread, so that bits depend on nothing else."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from kinrank.encoders.base import Encoder, WrongShape, encoded
from kinrank.encoders.part import Part
from kinrank.encoders.sources import Source
from kinrank.features import Vectors
from kinrank.progress import Progress

AHEAD = 4  # batches per thread that wait or are under way: memory does not grow with the number of items
Made = list[tuple[str, Vectors | None, str | None]]  # stamp, vector, why there is none


def encode_missing(
    source: Source, names: Sequence[str], encoder: Encoder, part: Part, batch: int, workers: int, progress: Progress
) -> None:
    """Encode the items of these names that `part` does not know yet, in their order."""
    waiting = [name for name in names if not _is_known(source, part, name)]
    batches = [waiting[start : start + batch] for start in range(0, len(waiting), batch)]
    done = len(names) - len(waiting)

    def results() -> Iterator[None]:
        yield from [None] * done  # a bar that begins where the interrupted one ended
        with ThreadPoolExecutor(workers) as pool:
            ahead: deque[tuple[list[str], Future[Made]]] = deque()
            try:
                for group in batches:
                    if len(ahead) == AHEAD * workers:
                        yield from _kept(part, *ahead.popleft())
                    ahead.append((group, pool.submit(_made, source, encoder, group)))
                while ahead:
                    yield from _kept(part, *ahead.popleft())
            except BaseException:  # Ctrl-C, or an encoder that fails: what waits is not begun any more
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    for _ in progress.each(f"encoding {source.content}", results(), len(names)):
        pass


def _kept(part: Part, group: list[str], future: Future[Made]) -> Iterator[None]:
    for name, (stamp, vector, why) in zip(group, future.result(), strict=True):
        part.add(name, stamp, vector, why)
        yield None


def cores() -> int:
    """How many threads there are to encode with."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_known(source: Source, part: Part, name: str) -> bool:
    try:
        return part.known(name, source.stamp(name)) is not None
    except ValueError:  # gone: noted when it is its turn
        return False


def _made(source: Source, encoder: Encoder, group: list[str]) -> Made:
    """The vectors of a few items; an item that cannot be read, or has no vector, has a sentence instead."""
    made: Made = []
    loaded: list[Any] = []
    for name in group:
        stamp, item, why = "", None, None
        try:
            stamp = source.stamp(name)
            item = source.load(name, encoder)
            loaded.append(item)
        except ValueError as error:
            why = str(error)
        made.append((stamp, None, why))
    rows = iter(_encoded(source.content, encoder, loaded))
    return [(stamp, *_checked(next(rows))) if why is None else (stamp, None, why) for stamp, _, why in made]


def _encoded(content: str, encoder: Encoder, loaded: list[Any]) -> list[Vectors | str]:
    """The vector of each item, or why the encoder can make nothing of it."""
    if not loaded:
        return []
    try:
        return list(encoded(encoder, content, loaded))
    except WrongShape:
        raise
    except ValueError as error:
        if len(loaded) == 1:
            return [str(error)]
        return [one for item in loaded for one in _encoded(content, encoder, [item])]  # which of them is it?


def _checked(row: Vectors | str) -> tuple[Vectors | None, str | None]:
    if isinstance(row, str):
        return None, row
    if not np.isfinite(row).all():
        return None, "the encoder made NaN or infinite numbers of it"
    if not row.any():
        return None, "the encoder made nothing but zeros of it"
    return row, None
