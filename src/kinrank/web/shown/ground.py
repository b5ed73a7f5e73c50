"""A file of ground truth -> for every query the ids of what is right, and of what is neither right nor wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kinrank.evaluation import Truth
from kinrank.evaluation.truth import REVISITED
from kinrank.files import closed_pickle
from kinrank.files.opening import fits, regular
from kinrank.web.shown.verdicts import USUAL, Ground, Judged

PICKLES, QRELS, LISTS, LABELS = (".pkl", ".pickle"), (".txt", ".qrels"), (".json",), (".npy", ".npz", ".csv")


def ground_of(path: Path, order: Sequence[str], queries: int, query_names: list[str] | None) -> Ground:
    """What a file says is right for each of the queries, in the ids of the items.

    Args:
        path: .pkl of the revisited benchmarks, TREC judgements .txt, or .json: level -> {"right": [[ids], ...],
            "junk": [[ids], ...]}, one list per query.
        order: the ids of all items.
        queries: how many there are.
        query_names: what they are called; None for what the file says.
    """
    ending = path.suffix.lower()
    if not queries:
        raise ValueError(f"{path} says what is right for queries, but there are none; give their vectors with queries=")
    if ending in PICKLES:
        ground = _revisited(path, order)
    elif ending in QRELS:
        ground = _qrels(path, order, queries, query_names)
    elif ending in LISTS:
        ground = Ground(_lists(path))
    else:
        known = " | ".join(PICKLES + QRELS + LISTS + LABELS)
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; what is right is told by {known}")
    for judged in ground.levels.values():
        if len(judged.right) != queries or len(judged.neither) != queries:
            raise ValueError(
                f"{path} judges {len(judged.right)} queries but there are {queries}; give the vectors of exactly "
                "these, in the same order"
            )
    return ground


def _revisited(path: Path, order: Sequence[str]) -> Ground:
    content = closed_pickle.load(path)
    truths = {level: Truth.revisited(content, level) for level in REVISITED}
    first = truths[USUAL]
    names = None if first.item_ids is None else [str(name) for name in first.item_ids.tolist()]
    if names is None or not set(order) & set(names):
        if len(order) != first.gallery_size:
            raise ValueError(
                f"{path} judges {first.gallery_size} items but there are {len(order)}, and their ids are not the names "
                "in it; serve exactly these items, in the same order or with these names as ids"
            )
        called, names = names, list(order)  # the ids are other names for the same items
    else:
        called = None
    queries = None if first.query_ids is None else [str(name) for name in first.query_ids.tolist()]
    return Ground({level: _named(truth, names) for level, truth in truths.items()}, queries, called)


def _qrels(path: Path, order: Sequence[str], queries: int, query_names: list[str] | None) -> Ground:
    numbers = [str(number) for number in range(queries)]
    if query_names is None:
        judged = Truth.from_qrels(path, None, order).query_ids
        strange = sorted(set([] if judged is None else judged.tolist()) - set(numbers))
        if strange:
            raise ValueError(
                f"{path} judges query {strange[0]!r:.80}, but the queries have no names and go by their row, 0 to "
                f"{queries - 1}; give query_names=, a file with a name per line"
            )
    truth = Truth.from_qrels(path, query_names or numbers, order)
    return Ground({"relevant": _named(truth, order)})


def _named(truth: Truth, names: Sequence[str]) -> Judged:
    """By the names of the items; those behind the last one are documents that the gallery does not have."""
    count = len(names)
    lists = [
        [{names[place] for place in entry[query].tolist() if place < count} for query in range(len(truth))]
        for entry in (truth.positives, truth.junk)
    ]
    return Judged(*lists)


def _lists(path: Path) -> dict[str, Judged]:
    fits(path, 8 * regular(path).stat().st_size)
    try:
        content = json.loads(path.read_bytes())
        return {
            str(level): Judged(*([{str(item) for item in row} for row in entry[part]] for part in ("right", "junk")))
            for level, entry in content.items()
        }
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f'{path} cannot be read as level -> {{"right": [[ids], ...], "junk": [[ids], ...]}} '
            f"({type(error).__name__}: {' '.join(str(error).split())[:80]})"
        ) from None
