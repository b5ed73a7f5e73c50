"""A gallery, what is known of its items and a question -> what the page shows: before and after, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.manifold import Manifold
from kinrank.web.asked.again import python_lines
from kinrank.web.asked.asking import Asked, Query, Shown, place_of, vector_of, worded
from kinrank.web.asked.chains import Problem, walked
from kinrank.web.asked.comparing import Compared, Listed, compared, query_card
from kinrank.web.asked.example import example
from kinrank.web.asked.map import mapped
from kinrank.web.asked.searching import searched
from kinrank.web.asked.wording import note, why

ADDRESS = "http://127.0.0.1:8000"

__all__ = ["Asked", "Query", "Shown", "chained", "example", "looked", "searched", "vector_of"]


def looked(manifold: Manifold, collection: Shown, asked: Asked, address: str = ADDRESS) -> dict[str, Any]:
    """What the plain search finds beside what re-ranking makes of it, `asked.k` items of each, for JSON.

    Every item has its rank in the other list, too: `other` where it is shown there, `other_beyond` where it stands
    behind, as far as that is known.
    """
    found = compared(manifold, collection, asked)
    old, new = (_judged(found, collection, one) for one in (found.before, found.after))
    known = collection.known_right(asked.query, asked.level)
    scores = None
    if old is not None and new is not None:
        scores = {"before": _score(old, asked.k, known), "after": _score(new, asked.k, known)}
    return {
        "query": query_card(collection, asked),
        "mode": "online" if found.online else "candidates",
        "method": worded(found.method),
        "before": _entries(collection, asked.k, found.before, found.after, old),
        "after": _entries(collection, asked.k, found.after, found.before, new),
        "judged": scores is not None,
        "scores": scores,
        "known_right": known,
        "marked": {
            "positives": [collection.card(item) for item in asked.positives],
            "negatives": [collection.card(item) for item in asked.negatives],
        },
        "seconds": found.seconds,
        "certain": found.certain,
        "note": note(found),
        "python": python_lines(found, address),
    }


def chained(manifold: Manifold, collection: Shown, asked: Asked, item: Any) -> dict[str, Any]:
    """Why an item stands where it stands: the chain that leads there, its largest flows, and the map, for JSON."""
    found = compared(manifold, collection, asked)
    row, problem = int(found.snapshot.remembered.items[place_of(found.snapshot, item)]), Problem(found)
    walk = walked(found, row, problem)
    before, after = found.before.ranks.get(item), found.after.ranks.get(item)
    apart = (found.query[0] - found.snapshot.vectors[row]).astype(np.float64)
    return {
        "item": collection.card(item),
        "reached": bool(walk.rows),
        "total": walk.total if walk.rows else None,
        "distance": float(np.sqrt(apart @ apart)) * (found.snapshot.space.scale or 1.0),
        "direct": walk.direct,
        "shared": walk.shared,
        "rank_before": before,
        "rank_after": after,
        "steps": walk.steps(found, collection),
        "map": mapped(found, walk, collection, problem),
        "words": why(found, walk, collection, row, before, after),
    }


def _judged(found: Compared, collection: Shown, listed: Listed) -> list[bool | None] | None:
    return collection.verdicts(found.asked.query, found.asked.level, listed.ids)


def _entries(
    collection: Shown, k: int, mine: Listed, other: Listed, verdicts: list[bool | None] | None
) -> list[dict[str, Any]]:
    """The first k items of a list, with their ranks in the other one."""
    entries = []
    for place, (item, distance) in enumerate(zip(mine.ids[:k], mine.distances, strict=False)):
        rank = other.ranks.get(item)
        shown = rank is not None and rank <= k
        entries.append(
            {
                **collection.card(item),
                "rank": place + 1,
                "other": rank if shown else None,
                "other_beyond": None if shown else rank,
                "distance": distance,
                "right": None if verdicts is None else verdicts[place],
            }
        )
    return entries


def _score(verdicts: list[bool | None], k: int, known: int | None) -> dict[str, Any]:
    """How many of the first k that are judged are right; and, where it is known how many there are, the average
    precision of the list as far as it was looked at."""
    first = [one for one in verdicts[:k] if one is not None]
    right = sum(first)
    score: dict[str, Any] = {"precision": right / len(first) if first else None, "right": right, "of": len(first)}
    if known:
        hits = np.array([one for one in verdicts if one is not None], np.float64)
        precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        score["average_precision"] = float((precisions * hits).sum()) / known
    return score
