"""Where a number comes from: version, machine, date, and whether the code is still the one that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kinrank_bench.fingerprint import is_current

EARLIER = "†"
Result = dict[str, Any]


class Origin(NamedTuple):
    """The origin of a row. `current` is False if the code on its measured path has changed since."""

    version: str
    machine: str
    date: str
    current: bool

    @property
    def day(self) -> str:
        return self.date.split()[0]


def add_origins(record: Result) -> None:
    """Add `origin` to a record and to all rows in its lists."""
    version = f"kinrank {record['version']}" + (f" ({record['commit']})" if record.get("commit") else "")
    machine = "{threads} threads, {architecture}, Python {python}".format(**record["machine"])
    about = (version, machine, str(record["date"]))
    for rows in [value for value in record.values() if isinstance(value, list)]:
        for row in rows:
            if isinstance(row, dict):
                row["origin"] = Origin(*about, is_current(record, row))
    record["origin"] = Origin(*about, is_current(record))


class Origins:
    """The origins of the lines of a table: a mark for some of them, and the sentence below the table."""

    def __init__(self, lines: Iterable[Sequence[Result]]) -> None:
        """Each line shows one or several results."""
        origins = [decisive_origin(*results) for results in lines]
        self.current = [origin for origin in origins if origin.current]
        self.earlier = [origin for origin in origins if not origin.current]

    @property
    def mixed(self) -> bool:
        """True if some lines, and not all, are of an earlier version."""
        return bool(self.current and self.earlier)

    def mark(self, *results: Result) -> str:
        """A mark for a line with a result of an earlier version; nothing if the sentence says it of all lines."""
        return f" {EARLIER}" if self.current and not decisive_origin(*results).current else ""

    def sentence(self) -> str:
        """Measured with which version, on which machine, and when."""
        if not self.current:
            return f"Measured with an earlier version: {_describe(self.earlier)}."
        text = f"Measured with {_describe(self.current)}."
        return (
            f"{text} {EARLIER}: measured with an earlier version, {_describe(self.earlier)}." if self.earlier else text
        )


def decisive_origin(*results: Result) -> Origin:
    """The origin of a number that depends on several results: an earlier version if there is one, the oldest first."""
    return min((result["origin"] for result in results), key=lambda origin: (origin.current, origin.date))


def tell_origin(*results: Result) -> str:
    """The sentence for numbers that are not marked one by one: of an earlier version if one of the results is."""
    return Origins([results]).sentence()


def _describe(origins: list[Origin]) -> str:
    """Versions, the machine of the newest, and the first and the last day."""
    ordered = sorted(origins, key=lambda origin: origin.date)
    versions = ", ".join(dict.fromkeys(origin.version for origin in ordered))
    first, last = ordered[0].day, ordered[-1].day
    return f"{versions}, {ordered[-1].machine}, {last if first == last else f'{first} to {last}'}"
