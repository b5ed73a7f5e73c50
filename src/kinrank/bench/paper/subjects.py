"""A folder of features -> which of them are measured, and what for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from kinrank.bench.paper.layout import Printed, Row
from kinrank.bench.paper.printed import TABLES
from kinrank.bench.paper.variants import AS_IN_PAPER
from kinrank.datasets.finding import CLASSES, LANDMARKS, Found, found, missing
from kinrank.methods import METHODS

AS_PRINTED = Row("LPMT, the paper's settings", AS_IN_PAPER, ())  # measured below LPMT; nothing is printed of it
NAMED = {table.features: table for table in TABLES if table.features}  # the features that the paper has


def chosen(folder: str | os.PathLike[str], sets: Sequence[str] | None, features: Sequence[str] | None) -> list[Found]:
    """The features in a folder, of these sets and with these names only, if any are given; at least one."""
    known = (*LANDMARKS, *CLASSES)
    for name in sets or ():
        if name not in known:
            raise ValueError(f"set {name!r} is not one of the paper's; give some of: {', '.join(known)}")
    there = found(folder)
    for sentence in missing(folder):
        warnings.warn(sentence, stacklevel=2)
    words = list(dict.fromkeys(entry.features for entry in there))
    for word in features or ():
        if word not in words:
            raise ValueError(f"no features named {word!r} are in {folder}; there are: {', '.join(words) or 'none'}")
    kept = [
        entry
        for entry in there
        if (sets is None or entry.set in sets) and (features is None or entry.features in features)
    ]
    if not kept:
        raise FileNotFoundError(
            f"{folder} holds no features of {', '.join(sets or known)}; put files such as roxford5k_rgem.npz there, "
            "with gnd_roxford5k.pkl beside them"
        )
    return kept


def looked_into(there: Sequence[Found]) -> list[Found]:
    """Those that ablations and figures are about: revisited sets, else class sets; distractors add nothing here."""
    plain = [entry for entry in there if not entry.distractors]
    return [entry for entry in plain if entry.set in LANDMARKS] or plain


def table_of(name: str, features: str) -> Printed:
    """The printed table with these features of this set, or else the one whose layout theirs follows."""
    kind = "landmarks" if name in LANDMARKS else "classes"
    table = NAMED.get(features)
    if table is not None and table.kind == kind:
        return table
    return next(one for one in TABLES if one.kind == kind)


def rows_of(name: str, features: str) -> tuple[Row, ...]:
    """The rows of that table, and LPMT with the paper's settings below them.

    Features that the paper has not are measured with every method of its landmark tables.
    """
    table = table_of(name, features)
    if table.kind == "classes" or table.features == features:
        return (*table.rows, AS_PRINTED)
    first = {row.method for row in table.rows}
    others = [row for row in TABLES[1].rows if row.method not in first]
    rows = list(table.rows)
    place = 1 + max(number for number, row in enumerate(rows) if row.method in ("aqe", "aqewd", "dqe"))
    return (*rows[:place], *others, *rows[place:], AS_PRINTED)


def methods_of(name: str, features: str) -> list[str]:
    """The methods of these rows that kinrank has, no re-ranking first."""
    return [row.method for row in rows_of(name, features) if row.method in METHODS]
