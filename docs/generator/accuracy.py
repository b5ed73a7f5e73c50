# ruff: noqa: E501 - sentences
"""Table of the scores of all methods and sets in one mode, and its legend."""

from __future__ import annotations

from generator.origins import Origins
from generator.pages import table
from generator.records import Result, Scores
from generator.titles import TITLES
from generator.two_lpmts import AS_PUBLISHED, COLUMNS, describe_columns
from kinrank_bench.accuracy import gain_verdict

HEADS = {
    "candidates": (
        "Accuracy with candidates",
        "Each query alone, in a graph of its 500 nearest items, as with a vector database; at most {most} queries per "
        "set, evenly sampled. If every item of a set is a query, every fourth item is used as a query and the rest is the gallery. "
        "Seconds are for all these queries together.",
    ),
    "online": (
        "Accuracy online",
        "New queries against a gallery that was prepared without them (`Manifold`). If every item of a set is a query, "
        "every fourth item is removed from the gallery and used as a query. Methods that are missing here do not "
        "support new queries. Seconds are for the search alone.",
    ),
}


def section(mode: str, scores: Scores) -> list[str]:
    """The section about a mode other than joint."""
    if not panels(scores):
        return []
    most = max(result["queries"] for results in scores.values() for result in results.values())
    head, text = HEADS[mode]
    return [f"## {head}", text.format(most=most), table_of(scores), f"{legend(scores)} {origins(scores).sentence()}"]


def panels(scores: Scores) -> list[tuple[str, str, str]]:
    return [key for key in scores if key[2] == "mAP"]


def origins(scores: Scores) -> Origins:
    """The origins of the table."""
    return Origins(_by_method(scores).values())


def _by_method(scores: Scores) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for key in panels(scores):
        for name, result in scores[key].items():
            found.setdefault(name, []).append(result)
    return found


def table_of(scores: Scores) -> str:
    """A row per method, a column per set and truth, mAP in percent."""
    marks, by_method = origins(scores), _by_method(scores)
    keys, paired = panels(scores), is_paired(scores)
    best = {key: max(result["mean"] for result in scores[key].values()) for key in keys}
    rows: list[tuple[str, ...]] = [("mAP", *(title(key) for key in keys), "seconds")]
    timed = next(key for key in keys if key[0] == largest(scores))
    for name, own in by_method.items():
        cells = [f"{_method_link(name)}{marks.mark(*own)}"]
        for key in keys:
            result = scores[key].get(name)
            cells.append("" if result is None else _cell(result, result["mean"] == best[key], paired))
        seconds = scores[timed].get(name, {}).get("seconds")
        rows.append((*cells, "" if seconds is None else f"{seconds:.2f}"))
    return table(list(rows))


def _method_link(name: str) -> str:
    """The name of a method with a link to its page; LPMT as published by the heading that it has in other tables."""
    shown = COLUMNS[name] if name == AS_PUBLISHED else f"`{name}`"
    return f"[{shown}](methods/{name}.md)"


def is_paired(scores: Scores) -> bool:
    """True if every result was compared with no re-ranking, query by query."""
    return all("gain_low" in result for results in scores.values() for result in results.values())


def legend(scores: Scores) -> str:
    """The meaning of the marks and of the last column of the table."""
    marks = "↓: worse than no re-ranking, by the mean."
    if is_paired(scores):
        marks = (
            "↑ better, ↓ worse than no re-ranking: the whole 95 % interval of the paired difference is on that "
            "side of 0."
        )
    name = TITLES.get(largest(scores), largest(scores))
    seconds = f"Seconds: one run on the largest set, {name}."
    return " ".join([f"Bold: the best mean in a column. {marks} {seconds}", *describe_columns(scores.values())])


def largest(scores: Scores) -> str:
    """The set with the most queries times items, for which times are most meaningful."""
    results = [next(iter(scores[key].values())) for key in panels(scores)]
    return str(max(results, key=lambda result: result["queries"] * result["items"])["set"])


def title(key: tuple[str, str, str]) -> str:
    name = TITLES.get(key[0], key[0])
    return f"{name}, {key[1]}" if key[1] in ("easy", "medium", "hard") else name


def _cell(result: Result, best: bool, paired: bool) -> str:
    value = f"{100 * result['mean']:.1f}"
    value = f"**{value}**" if best else value
    mark = gain_verdict(result) if paired else "↓" if result["worse"] else ""
    return f"{value} {mark}".rstrip()
