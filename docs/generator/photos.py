"""Encoding speed of images, and the gain of re-ranking on them, between two marks of a page."""

from __future__ import annotations

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from kinrank_bench.photos import show_photos


def parts(found: Measurements) -> list[str]:
    """A sentence and a table."""
    if not found.photos:
        return ["Nothing has been measured yet: `make demo-photos`, then `make docs`."]
    summary, gains, _ = show_photos(found.photos)
    return [
        summary,
        table([gains.head, *gains.rows]),
        f"mAP, joint. Printed by `kinrank bench photos --data DIR`. {tell_origin(found.photos)}",
    ]
