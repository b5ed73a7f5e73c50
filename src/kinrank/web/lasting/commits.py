"""Changes that many threads ask for at the same time -> one block of the log, and a receipt for each of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kinrank.manifold.log import Log, said
from kinrank.manifold.log_records import Change, Vectors
from kinrank.web.lasting.known import Known
from kinrank.web.lasting.receipts import InDoubt, Receipt, Refused, Unavailable, reason


class Wish:
    """A change that somebody waits for: these rows are put or observed, or, without rows, these items removed.

    Attributes:
        rows: (n, d) vectors as they were given, checked; None for a removal.
        ids: names as they were given; None where new items get numbers.
        replace: whether items that are there may be replaced.
        observe: whether the rows are queries to remember, not items.
    """

    def __init__(self, rows: Vectors | None, ids: Any, replace: bool = False, observe: bool = False) -> None:
        self.rows, self.ids, self.replace, self.observe = rows, ids, replace, observe
        self.receipt: Receipt | None = None
        self.error: Exception | None = None

    @property
    def answered(self) -> bool:
        return self.receipt is not None or self.error is not None


class Commits:
    """Who comes first writes for all who wait: a flush of the disk takes as long for one change as for many.

    Attributes:
        closed: why no change is made any more; empty as long as they are.
    """

    def __init__(self, known: Known, log: Log, take: Callable[[list[Change]], None]) -> None:
        """`take` is given the changes that are in the log, in their order, before anybody gets a receipt."""
        self.closed = ""
        self._known, self._log, self._take = known, log, take
        self._wishes: list[Wish] = []  # those that wait
        self._turn, self._busy = threading.Condition(), False  # whether somebody writes to the log

    def made(self, wish: Wish) -> Receipt:
        """The receipt of a change that would survive `kill -9` now; Refused or Unavailable if there is none."""
        with self._turn:
            self._wishes.append(wish)
        with self.alone(lambda: wish.answered) as mine:
            if mine:
                with self._turn:
                    wishes, self._wishes = self._wishes, []
                self._write(wishes)
        if wish.receipt is None:
            raise wish.error or Unavailable("the change was interrupted, and was not made; try again")
        return wish.receipt

    @contextlib.contextmanager
    def alone(self, needless: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Nobody else writes to the log meanwhile; False, and not alone, as soon as there is no need for it."""
        with self._turn:
            self._turn.wait_for(lambda: needless() or not self._busy)
            mine = not needless()
            self._busy = self._busy or mine
        try:
            yield mine
        finally:
            if mine:
                with self._turn:
                    self._busy = False
                    self._turn.notify_all()

    def _write(self, wishes: list[Wish]) -> None:
        changes, receipts = list[Change](), dict[Wish, Receipt]()
        before, broken = self._log.version, self._log.broken
        try:
            for wish in wishes:
                change = self._granted(wish, before + len(changes) + 1, receipts)
                changes += [] if change is None else [change]
            if changes:
                self._log.append(changes)
                self._known.settle()
                self._take(changes)
            for wish, receipt in receipts.items():
                wish.receipt = receipt
        except BaseException as error:
            self._known.undo()
            if self._log.version != before:  # logged, and nobody will apply it: the next start does
                self.closed = f"the service was interrupted ({type(error).__name__}); start it again"
            unknown = self._log.version != before or self._log.broken != broken
            for wish in wishes:
                wish.error = wish.error or (InDoubt if unknown else Unavailable)(self._why_not(error))
            if isinstance(error, OSError):
                said.error("a change could not be written to %s (%s)", self._log.path, error)
            else:
                said.exception("a change could not be logged")
            if not isinstance(error, Exception):
                raise

    def _granted(self, wish: Wish, version: int, receipts: dict[Wish, Receipt]) -> Change | None:
        """The change to be logged; None if nothing changes, or if it cannot be made."""
        known, rows = self._known, wish.rows
        if self.closed:
            wish.error = Unavailable(self.closed)
            return None
        if rows is not None and wish.observe:
            version -= not len(rows)
            receipts[wish] = Receipt(version, 0, 0, 0, len(known), observed=len(rows))
            return Change(version, None, queries=rows) if len(rows) else None
        try:
            made = known.remove(wish.ids) if rows is None else known.put(wish.ids, len(rows), wish.replace)
        except ValueError as error:
            wish.error = Refused(str(error))
            return None
        nothing = not made.fresh + made.there
        version -= nothing
        if rows is None:
            receipts[wish] = Receipt(version, 0, 0, made.there, len(known))
        else:
            ids = made.ids if made.first is None else list(range(made.first, made.first + len(rows)))
            receipts[wish] = Receipt(version, made.fresh, made.there, 0, len(known), ids)
        return None if nothing else Change(version, made.ids, rows, made.first)

    def _why_not(self, error: BaseException) -> str:
        if self._log.broken or self.closed:
            return self._log.broken or self.closed
        return f"the change could not be written to the log ({reason(error)}), and was not made; try again later"
