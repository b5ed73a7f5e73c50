"""Minimal engine for tests of `EngineStore`, which can be made to fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from engines.harness import Harness, Rows
from kinrank.errors import InputError
from kinrank.stores.client_utils import parse_conditions
from kinrank.stores.engine import EngineStore, Hits


class MemoryStore(EngineStore):
    """Store over a dict, searched exhaustively."""

    exact = True

    def __init__(self, rows: Rows, ids: list[Any], fields: list[dict[str, Any]], metric: str) -> None:
        self.metric, self.dimensions = metric, rows.shape[1]
        self.held: dict[Any, Any] = dict(zip(ids, rows, strict=True))
        self.fields = dict(zip(ids, fields, strict=True))
        self.errors: list[Exception] = []  # errors raised by the next requests, one each
        self.asked: list[str] = []
        self.reopened = self.closed = 0

    def __repr__(self) -> str:
        return "MemoryStore()"

    def _left(self, where: Any) -> list[Any]:
        if where is None:
            return list(self.held)
        wanted = parse_conditions(where)
        return [key for key in self.held if all(self.fields[key].get(name) in values for name, values in wanted)]

    def _search(self, rows: Rows, k: int, where: Any, vectors: bool) -> list[Hits]:
        self._note("search")
        keys = self._left(where)
        held = np.array([self.held[key] for key in keys], np.float32).reshape(-1, self.dimensions)
        lengths = np.linalg.norm(held, axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            compared = np.divide(held, lengths, where=lengths > 0, out=np.zeros_like(held))
        compared = compared if self.metric == "cosine" else held
        hits = []
        for row in rows:
            with np.errstate(invalid="ignore"):
                gaps = np.linalg.norm(compared - row, axis=1)
            order = np.argsort(gaps, kind="stable")[:k]
            hits.append(Hits([keys[place] for place in order], held[order] if vectors else None, gaps[order]))
        return hits

    def _fetch(self, keys: list[Any]) -> Hits:
        self._note("fetch")
        there = [key for key in keys if key in self.held]
        return Hits(there, np.array([self.held[key] for key in there], np.float32).reshape(-1, self.dimensions))

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        keys = self._left(where)
        for start in range(0, len(keys), 7):
            self._note("scan")
            yield self._fetch(keys[start : start + 7])

    def _count(self) -> int:
        self._note("count")
        return len(self.held)

    def _note(self, question: str) -> None:
        self.asked.append(question)
        if self.errors:
            raise self.errors.pop(0)

    def _classify(self, error: Exception) -> type[Exception] | None:
        kinds = {BrokenPipeError: ConnectionError, InterruptedError: TimeoutError, LookupError: InputError}
        return kinds.get(type(error))

    def _reopen(self) -> None:
        self.reopened += 1

    def _close(self) -> None:
        self.closed += 1


class Engine(Harness):
    name = "memory"

    def make(
        self,
        rows: Rows,
        ids: list[Any],
        kinds: list[str] | None = None,
        years: list[int] | None = None,
        metric: str = "cosine",
    ) -> EngineStore:
        fields = [
            {"kind": None if kinds is None else kinds[place], "year": None if years is None else years[place]}
            for place in range(len(ids))
        ]
        self.store = MemoryStore(rows, ids, fields, metric)
        return self.store

    def put(self, ids: list[Any], rows: Rows, kinds: list[str] | None = None) -> None:
        for place, name in enumerate(ids):
            self.store.held[name] = rows[place]
            self.store.fields[name] = {"kind": None if kinds is None else kinds[place], "year": None}

    def delete(self, ids: list[Any]) -> None:
        for name in ids:
            del self.store.held[name], self.store.fields[name]
