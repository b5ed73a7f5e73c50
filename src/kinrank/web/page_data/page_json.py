"""JSON of the page: both result lists (`/view/rank`), and why an item has its rank (`/view/chain`), with sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.chain import Chain
from kinrank.manifold import Manifold
from kinrank.web.collection import Collection
from kinrank.web.page_data.before_after import QUERY_ROW, Comparison, RankedItems, compare_lists, describe_query
from kinrank.web.page_data.item_chain import CandidateProblem, find_chain, list_steps
from kinrank.web.page_data.likeness import Likeness, find_copies, measure_steps
from kinrank.web.page_data.neighborhood_map import build_map
from kinrank.web.page_data.question import Question, find_item_position, public_repr

DEFAULT_ADDRESS = "http://127.0.0.1:8000"
LARGE_COST_SHARE = 0.6  # a step with a larger share of the cost is mentioned


def build_rank_page(
    manifold: Manifold, collection: Collection, question: Question, address: str = DEFAULT_ADDRESS
) -> dict[str, Any]:
    """Return the results of the plain search and of the re-ranking, `question.k` items of each, as JSON.

    Each item has its rank in the other list: `other` if it is shown there, `other_beyond` if its rank is known but
    larger. A re-ranked item that nearly equals an earlier one has the rank of that one as `copy_of`.
    """
    comparison = compare_lists(manifold, collection, question)
    judge, query, level = collection.relevance.judge, question.query, question.level
    old, new = (judge(query, level, items.ids) for items in (comparison.before, comparison.after))
    known = collection.relevance.count_right(query, level)
    after = _list_entries(collection, question.k, comparison.after, comparison.before, new)
    scores = None
    if old is not None and new is not None:
        scores = {"before": _compute_score(old, question.k, known), "after": _compute_score(new, question.k, known)}
    return {
        "query": describe_query(collection, question),
        "mode": "online" if comparison.online else "candidates",
        "method": public_repr(comparison.method),
        "before": _list_entries(collection, question.k, comparison.before, comparison.after, old),
        "after": _add_copies(comparison, after),
        "depth": _count_ranked(comparison),
        "judged": scores is not None,
        "scores": scores,
        "known_right": known,
        "marked": {
            "positives": [collection.card(item) for item in question.positives or ()],
            "negatives": [collection.card(item) for item in question.negatives or ()],
        },
        "seconds": comparison.seconds,
        "certain": comparison.certain,
        "note": write_note(comparison),
        "python": write_python_snippet(comparison, address),
    }


def build_chain_page(manifold: Manifold, collection: Collection, question: Question, item: Any) -> dict[str, Any]:
    """Return why an item has its rank as JSON: the chain that leads to it, its largest flows, and the map."""
    comparison = compare_lists(manifold, collection, question)
    snapshot = comparison.snapshot
    row, problem = int(snapshot.remembered.items[find_item_position(snapshot, item)]), CandidateProblem(comparison)
    chain = find_chain(comparison, row, problem)
    before, after = comparison.before.ranks.get(item), comparison.after.ranks.get(item)
    difference = (comparison.query[0] - snapshot.vectors[row]).astype(np.float64)
    return {
        "item": collection.card(item),
        "reached": chain.reached,
        "total": chain.total if chain.reached else None,
        "distance": float(np.sqrt(difference @ difference)) * (snapshot.space.scale or 1.0),
        "direct": chain.direct,
        "shared": chain.shared,
        "rank_before": before,
        "rank_after": after,
        "depth": _count_ranked(comparison),
        "steps": list_steps(chain, comparison, collection),
        "map": build_map(comparison, chain, collection, problem),
        "words": explain_position(comparison, chain, collection, row, before, after),
    }


def _list_entries(
    collection: Collection, k: int, items: RankedItems, other: RankedItems, verdicts: list[bool | None] | None
) -> list[dict[str, Any]]:
    """Return the first k items of a list, with their ranks in the other one."""
    entries = []
    for place, (item, distance) in enumerate(zip(items.ids[:k], items.distances, strict=False)):
        rank = other.ranks.get(item)
        is_shown = rank is not None and rank <= k
        entries.append(
            {
                **collection.card(item),
                "rank": place + 1,
                "other": rank if is_shown else None,
                "other_beyond": None if is_shown else rank,
                "distance": distance,
                "right": None if verdicts is None else verdicts[place],
            }
        )
    return entries


def _add_copies(comparison: Comparison, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    snapshot = comparison.snapshot
    vectors = snapshot.vectors[comparison.find_rows([entry["id"] for entry in entries])]
    first = find_copies(vectors, Likeness.measure(snapshot).copy, snapshot.space.unit) if entries else []
    return [{**entry, "copy_of": None if row is None else row + 1} for entry, row in zip(entries, first, strict=True)]


def _count_ranked(comparison: Comparison) -> dict[str, int]:
    """Return the known ranks of both lists, and the items that can have one."""
    items = len(comparison.snapshot) - (comparison.own != QUERY_ROW)
    return {"before": len(comparison.before.ids), "after": len(comparison.after.ids), "items": items}


def _compute_score(verdicts: list[bool | None], k: int, known: int | None) -> dict[str, Any]:
    """Return the precision of the first k judged items; if all right items are known, also the average precision."""
    first = [verdict for verdict in verdicts[:k] if verdict is not None]
    right = sum(first)
    score: dict[str, Any] = {"precision": right / len(first) if first else None, "right": right, "of": len(first)}
    if known:
        hits = np.array([verdict for verdict in verdicts if verdict is not None], np.float64)
        precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        score["average_precision"] = float((precisions * hits).sum()) / known
    return score


def write_python_snippet(comparison: Comparison, address: str) -> str:
    """Return a program that prints the ids of the same results. `repr` writes all values, so no id can be code."""
    question, (kind, value) = comparison.question, comparison.question.query
    vector = []
    if kind == "vector":
        numbers = ", ".join(map(str, np.asarray(value, np.float32).ravel()))
        vector = [f"vector = [{numbers}]"]
    query = {"item": f"ids=[{value!r}]", "query": f"numbers=[{value!r}]", "vector": "queries=[vector]"}[kind]
    options: dict[str, Any] = {}
    if not comparison.online:
        options = {"method": question.method, "parameters": question.parameters, "candidates": question.candidate_count}
    if comparison.marks_count:
        options |= {"positives": question.positives, "negatives": question.negatives}
    arguments = "".join(f", {name}={option!r}" for name, option in options.items() if option not in (None, {}, []))
    return "\n".join(
        [
            "import kinrank as kr",
            "",
            f"client = kr.Client({address!r})",
            *vector,
            f"ranking = client.search({query}, k={question.k}{arguments})",
            "print(ranking.ids[0])",
            "",
        ]
    )


def explain_position(
    comparison: Comparison, chain: Chain, collection: Collection, row: int, before: int | None, after: int | None
) -> str:
    """Explain in one or two sentences why the item at a row has its ranks `before` and `after`, None if unknown."""
    if row == comparison.own:
        return "This is the query itself."
    if comparison.marks_count and row in comparison.find_rows(comparison.question.marked):
        return "You marked this item, so it is not ranked."
    move = _describe_move(comparison, before, after)
    if not comparison.method.can("explain"):
        name = type(comparison.method).__name__
        return f"{name} does not use chains, so there are no steps to show. {move}."
    if not comparison.online and row not in comparison.candidates:
        return f"It is not among the {len(comparison.candidates)} nearest, and only those were re-ranked. {move}."
    if not chain.reached:
        return f"{move}: no chain leads there, so only its plain distance counts."
    marks = " Marked items also had an influence, which the chain does not show." if comparison.marks_count else ""
    is_worse = after is None or (before is not None and after > before)
    alike = sum(length <= Likeness.measure(comparison.snapshot).alike for length in measure_steps(comparison, chain))
    route = _describe_chain(chain, collection.has, is_worse, alike)
    return f"{move}: {route}.{marks}"


def _describe_move(comparison: Comparison, before: int | None, after: int | None) -> str:
    depth = _count_ranked(comparison)
    if before is not None and before == after:
        return f"{format_ordinal(before)} by distance, and still {format_ordinal(before)}"
    old = f"Found at rank {before} by distance" if before else f"Not among the {depth['before']} nearest"
    return f"{old}, now {format_ordinal(after) if after else 'not among the first ' + str(depth['after'])}"


def _describe_chain(chain: Chain, has: dict[str, bool], is_worse: bool, alike: int) -> str:
    """Describe how the chain leads to the item; `alike` of its steps are between items that are alike."""
    count, has_pictures = len(chain.costs), has.get("pictures")
    things = "pictures" if has_pictures else "texts" if has.get("texts") else "items"
    steps = f"{count} step{'' if count == 1 else 's'}"
    if is_worse:
        return f"it takes {steps} to get there, and other {things} are reached at less cost"
    if count == 1:
        return f"one step leads there, because both lie among the same {things}"
    route = f"{steps} lead there"
    if 2 * alike >= count:
        which = "each" if alike == count else f"{alike} of them"
        route += f", {which} between {things} that {'look' if has_pictures else 'are'} alike"
    dearest = max(range(count), key=lambda step: chain.costs[step])
    if chain.shares[dearest] > LARGE_COST_SHARE:
        route += f"; the {format_ordinal(dearest + 1)} has {100 * chain.shares[dearest]:.0f} % of the cost"
    return route


def format_ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, ..."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def write_note(comparison: Comparison) -> str | None:
    """Return remarks that are needed to read the two lists; None if there are none."""
    question, remarks = comparison.question, []
    count = len(comparison.candidates)
    if not comparison.online and count < _count_ranked(comparison)["items"]:
        prepared = comparison.snapshot.method
        name = repr(prepared).removesuffix("()")
        only = f"Only the {count} nearest were re-ranked: the gallery was prepared for {name}"
        is_same = type(comparison.method) is type(prepared)
        remarks.append(
            only + (" with other settings. Reset" if is_same else ". Choose that method") + " to search all of it."
        )
    if question.marked and not comparison.marks_count:
        name = type(comparison.method).__name__
        remarks.append(f"{name} cannot use marked items, so they have no effect here.")
    if comparison.certain is False:
        remarks.append(
            f"The first {question.k} may not be exact: the search reached its budget before it could rule out all "
            "others."
        )
    return " ".join(remarks) or None
