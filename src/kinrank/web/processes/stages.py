"""What `progress` is told during long work -> the stages so far: how much is done, how fast, how long it will take."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

MOST = 50  # stages that are told of
SAMPLES, SPACING = 60, 0.5  # reports from which speed is measured, and seconds between them: the last half minute
LEAST = 2.0  # seconds that have to be seen before a speed is told
WATCHED = 3.0  # seconds after which somebody who asked is believed to have gone


@dataclass
class Stage:
    """One piece of the work. What was told once only may be one of a few steps, and says nothing of its own size."""

    label: str
    started: float
    done: int = 0
    total: int = 0
    counted: bool = False
    ended: float | None = None
    samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def tell(self, done: int, total: int, now: float) -> None:
        if total != self.total or done < self.done:  # it is counted in another way from here on
            self.samples.clear()
        else:
            self.counted = self.counted or bool(self.samples)
        self.done, self.total = done, total
        if not self.samples or now - self.samples[-1][0] >= SPACING:
            self.samples.append((now, done))

    def facts(self, now: float) -> dict[str, Any]:
        """Plain values: `rate` is per second, `left` in seconds; None where they are not known."""
        rate = left = None
        if self.samples and self.ended is None:
            first, before = self.samples[0]
            if now - first >= LEAST and self.done > before:
                rate = (self.done - before) / (now - first)
                left = (self.total - self.done) / rate
        return {
            "label": self.label, "done": self.done, "total": self.total, "counted": self.counted,
            "seconds": (now if self.ended is None else self.ended) - self.started, "rate": rate, "left": left,
            "over": self.ended is not None,
        }  # fmt: skip


class Stages:
    """A callable for `progress`, called by the thread that works and asked by those that answer.

    Example:
        >>> stages = Stages("photos")
        >>> stages("embedding", 17, 5063)
        >>> stages.sentence()
        'the gallery is being prepared: embedding, 17 of 5063'
    """

    def __init__(self, title: str) -> None:
        self.title, self.problem = title, ""
        self.seen = False  # somebody has read the problem
        self._asked = -WATCHED
        self._started = monotonic()
        self._stages: list[Stage] = []
        self._lock = threading.Lock()

    def __call__(self, label: str, done: int, total: int) -> None:
        with self._lock:
            now, label = monotonic(), str(label)
            if not self._stages or self._stages[-1].label != label:
                if self._stages:
                    self._stages[-1].ended = now
                self._stages = [*self._stages[1 - MOST :], Stage(label, now)]
            self._stages[-1].tell(int(done), int(total), now)

    def fail(self, words: str) -> None:
        """Say why there will be no gallery."""
        self.problem = words

    @property
    def watched(self) -> bool:
        """Whether somebody looks at the page."""
        return monotonic() - self._asked < WATCHED

    def facts(self) -> dict[str, Any]:
        """What the page shows, for JSON."""
        with self._lock:
            now = self._asked = monotonic()
            self.seen = bool(self.problem)
            return {
                "state": "failed" if self.problem else "preparing",
                "title": self.title,
                "problem": self.problem or None,
                "seconds": now - self._started,
                "stages": [stage.facts(now) for stage in self._stages],
            }

    def sentence(self, known: bool = True) -> str:
        """The same in a sentence; to those who are not known, only that it is so."""
        words = "the gallery could not be prepared" if self.problem else "the gallery is being prepared"
        if not known:
            return words
        if self.problem:
            return f"{words}: {self.problem}"
        with self._lock:
            last = self._stages[-1] if self._stages else None
            if last is None:
                return words
            return f"{words}: {last.label}" + (f", {last.done} of {last.total}" if last.counted else "")
