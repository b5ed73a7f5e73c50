"""What was found -> sentences for people who know nothing of it."""

from __future__ import annotations

from kinrank.web.asked.asking import Shown
from kinrank.web.asked.chains import Walk, has_chains
from kinrank.web.asked.comparing import DEEP, Compared

LARGE = 0.6  # a step with more than this share of the cost is told
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def why(found: Compared, walk: Walk, collection: Shown, row: int, before: int | None, after: int | None) -> str:
    """Why the item at a row stands where it stands, in one or two sentences.

    `before` and `after` are its ranks, None where they are beyond what was looked at.
    """
    if row == found.own:
        return "This is the query itself."
    if not has_chains(found.method):
        name = type(found.method).__name__
        return f"{name} does not use chains, so there are no steps to show. {_moved(before, after)}."
    if not found.online and row not in found.candidates:
        return (
            f"It is not among the {len(found.candidates)} nearest, and only those were re-ranked. "
            f"{_moved(before, after)}."
        )
    if not walk.rows:
        return f"{_moved(before, after)}: no chain leads there, so only its plain distance counts."
    marks = " Marked items had a part in it, too, which the chain does not show." if found.marks_count else ""
    return f"{_moved(before, after)}: {_led(walk, collection, before, after)}.{marks or _beside(walk)}"


def _moved(before: int | None, after: int | None) -> str:
    beyond = f"beyond the first {DEEP}"
    if before is not None and before == after:
        return f"{ordinal(before)} by distance, and still {ordinal(before)}"
    old = f"Found at rank {before} by distance" if before is not None else f"{beyond.capitalize()} by distance"
    return f"{old}, now {beyond if after is None else ordinal(after)}"


def _led(walk: Walk, collection: Shown, before: int | None, after: int | None) -> str:
    """How the chain leads there."""
    count, pictures = len(walk.rows), collection.has.get("pictures")
    things = "pictures" if pictures else "texts" if collection.has.get("texts") else "items"
    alike = f"{things} that look alike" if pictures else f"{things} that are alike"
    steps = f"{NUMBERS[count] if count < len(NUMBERS) else count} step{'' if count == 1 else 's'}"
    if after is None or (before is not None and after > before):
        return f"it takes {steps} to get there, and other {things} are reached at less cost"
    if count == 1:
        return f"one step leads there, because both lie among the same {things}"
    dearest = max(range(count), key=lambda step: walk.costs[step])
    if walk.costs[dearest] > LARGE * walk.total:
        hardest = f"the {ordinal(dearest + 1)} is the hardest, with {walk.costs[dearest] / walk.total:.0%} of the cost"
        return f"{steps} lead there; {hardest}, and the rest is between {alike}"
    return f"{steps} lead there, each between {alike}"


def _beside(walk: Walk) -> str:
    """What counts beside the chain, where it is much."""
    if walk.direct < 0.5:
        return ""
    return (
        f" Apart from the plain distance, the chain makes only {1.0 - walk.direct:.0%} of the score here; the rest "
        "compares wider neighbourhoods as a whole."
    )


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def note(found: Compared) -> str | None:
    """What has to be known to read the two lists; None where nothing has."""
    asked, said = found.asked, []
    if not found.online:
        prepared = found.snapshot.method
        only = f"Only the {len(found.candidates)} nearest were re-ranked: the gallery was prepared for {prepared!r}"
        same = type(found.method) is type(prepared)
        said.append(
            only + (" with other settings. Reset" if same else ". Choose that method") + " to search all of it."
        )
    if asked.marked and found.marks_count:
        said.append("Marked items are left out of both lists.")
    if asked.marked and not found.marks_count:
        said.append(f"{type(found.method).__name__} has no use for marked items: they change nothing here.")
    if found.certain is False:
        said.append(
            f"The first {asked.k} may not be exact: the search reached its budget before it could rule out all others."
        )
    return " ".join(said) or None
