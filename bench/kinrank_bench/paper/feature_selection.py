"""Selection of the features in a folder: what is measured, and with which methods."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from kinrank.errors import InputError, MissingFileError
from kinrank.evaluation.trials import BASELINE
from kinrank.methods import METHODS
from kinrank_bench.datasets.feature_folders import (
    CLASS_SETS,
    LANDMARK_SETS,
    FeatureSet,
    describe_missing,
    find_feature_sets,
)
from kinrank_bench.paper.literal_lpmt import LPMTAsPublished
from kinrank_bench.paper.paper_numbers import PAPER_TABLES, PaperTable, Row
from kinrank_bench.paper.variants import PAPER_LPMT
from kinrank_bench.record import check_names

OWN_ROWS = (  # measured below LPMT with kinrank's defaults; the paper prints no numbers for them
    Row("LPMT, the paper's settings", PAPER_LPMT, ()),
    Row("LPMT, as published", LPMTAsPublished.name, ()),
)
WITHOUT_AUGMENTATION = (  # measured below the table of classes, whose query expansion includes augmentation
    Row("AQE without DBA", "aqe", ()),
    Row("αQE without DBA", "alpha-qe", ()),
    Row("AQEwD without DBA", "aqewd", ()),
)
TABLE_BY_FEATURES = {table.features: table for table in PAPER_TABLES if table.features}  # features in the paper


def select_features(
    folder: str | os.PathLike[str], sets: Sequence[str] | None, features: Sequence[str] | None
) -> list[FeatureSet]:
    """Return the features in a folder, optionally of some sets or names only; at least one."""
    known = (*LANDMARK_SETS, *CLASS_SETS)
    for name in sets or ():
        if name not in known:
            raise InputError(f"set {name!r} is not one of the paper's", remedy=f"give some of: {', '.join(known)}")
    entries = find_feature_sets(folder)
    for sentence in describe_missing(folder):
        warnings.warn(sentence, stacklevel=2)
    names = list(dict.fromkeys(entry.features for entry in entries))
    for word in features or ():
        if word not in names:
            raise InputError(f"{folder} has no features named {word!r}", remedy=f"give some of: {', '.join(names)}")
    selected = [
        entry
        for entry in entries
        if (sets is None or entry.set in sets) and (features is None or entry.features in features)
    ]
    if not selected:
        raise MissingFileError(
            f"{folder} has no features of {', '.join(sets or known)}; put files such as roxford5k_rgem.npz there, "
            "with gnd_roxford5k.pkl next to them"
        )
    return selected


def select_methods(entries: Sequence[FeatureSet], methods: Sequence[str]) -> list[str]:
    """Return the chosen methods of the tables of these features, and no re-ranking, with which all are compared."""
    known = list(dict.fromkeys(name for entry in entries for name in list_methods(entry.set, entry.features)))
    return known if list(methods) == ["all"] else check_names("method", [BASELINE, *methods], known)


def select_ablation_sets(entries: Sequence[FeatureSet]) -> list[FeatureSet]:
    """Return the sets for ablations and figures: revisited sets, else class sets; without distractors."""
    plain = [entry for entry in entries if not entry.distractors]
    return [entry for entry in plain if entry.set in LANDMARK_SETS] or plain


def find_table(name: str, features: str) -> PaperTable:
    """Return the printed table with these features of this set, or the table whose layout theirs follows."""
    kind = "landmarks" if name in LANDMARK_SETS else "classes"
    table = TABLE_BY_FEATURES.get(features)
    if table is not None and table.kind == kind:
        return table
    return next(candidate for candidate in PAPER_TABLES if candidate.kind == kind)


def method_rows(name: str, features: str) -> tuple[Row, ...]:
    """Return the rows of that table, and LPMT with the paper's settings and as published below them.

    Features that the paper lacks are measured with every method of its landmark tables.
    """
    table = find_table(name, features)
    if table.kind == "classes" or table.features == features:
        return (*table.rows, *own_rows(table.kind))
    first = {row.method for row in table.rows}
    others = [row for row in PAPER_TABLES[1].rows if row.method not in first]
    rows = list(table.rows)
    place = 1 + max(number for number, row in enumerate(rows) if row.method in ("aqe", "aqewd", "dqe"))
    return (*rows[:place], *others, *rows[place:], *OWN_ROWS)


def own_rows(kind: str) -> tuple[Row, ...]:
    """Return the rows that are measured below a table of methods and have no printed numbers."""
    return (*WITHOUT_AUGMENTATION, *OWN_ROWS) if kind == "classes" else OWN_ROWS


def list_methods(name: str, features: str) -> list[str]:
    """Return the methods of these rows that kinrank has, no re-ranking first."""
    return [row.method for row in method_rows(name, features) if row.method in METHODS]
