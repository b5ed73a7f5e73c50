"""Published evaluation protocols, one query and one item at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def revisited(order: Sequence[int], entry: Mapping[str, Any], difficulty: str) -> tuple[float | None, list[float]]:
    """Return average precision and precision at 1, 5, 10 of one query of revisited Oxford or Paris.

    None without positives. The list is read from its best image. Images to ignore are skipped. At a positive, recall
    rises by 1 / positives, and the area under the curve grows by a trapezium between the precision before the step (1
    at the very start) and after it.
    """
    positives, ignored = {
        "easy": (set(entry["easy"]), set(entry["junk"]) | set(entry["hard"])),
        "medium": (set(entry["easy"]) | set(entry["hard"]), set(entry["junk"])),
        "hard": (set(entry["hard"]), set(entry["junk"]) | set(entry["easy"])),
    }[difficulty]
    if not positives:
        return None, []
    seen = right = 0
    area = 0.0
    places = []
    for image in order:
        if image in ignored:
            continue
        if image in positives:
            before = right / seen if seen else 1.0
            right += 1
            area += (before + right / (seen + 1)) / 2 / len(positives)
            places.append(seen + 1)
        seen += 1
    precisions = []
    for k in (1, 5, 10):
        until = min(k, max(places))
        precisions.append(len([place for place in places if place <= until]) / until)
    return area, precisions


def person(
    order: Sequence[int], query: tuple[int, int], gallery: Sequence[tuple[int, int]], ks: Sequence[int]
) -> dict[str, float] | None:
    """Return AP, CMC and INP of one query of Market-1501; None without match.

    `query` and `gallery` are (person, camera). Junk, whose person is -1, and pictures of the query's person from its
    own camera are removed from the list.
    """
    kept = [item for item in order if gallery[item][0] != -1 and gallery[item] != query]
    matches = [gallery[item][0] == query[0] for item in kept]
    if not any(matches):
        return None
    found: dict[str, float] = {}
    for k in ks:
        found[f"CMC@{k}"] = 1.0 if any(matches[:k]) else 0.0
    precisions = [sum(matches[: place + 1]) / (place + 1) for place, match in enumerate(matches) if match]
    found["mAP"] = sum(precisions) / len(precisions)
    hardest = max(place + 1 for place, match in enumerate(matches) if match)
    found["mINP"] = sum(matches) / hardest
    return found
