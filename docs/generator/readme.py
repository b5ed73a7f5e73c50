"""Numbers of the README, between its two marks."""

from __future__ import annotations

from generator import held_out_sets
from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES, describe_features

BEGIN, END = "<!-- numbers: written by make docs -->", "<!-- end of numbers -->"


def insert_numbers(text: str, written: list[str]) -> str:
    """A page with these paragraphs between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n" + "\n\n".join(written) + "\n" + END + after


def parts(found: Measurements) -> list[str]:
    if not found.panels:
        return ["Nothing has been measured yet: `make bench`, then `make docs`."]
    made = [
        _accuracy(found),
        f"{describe_features(name for name, *_ in found.scores)} [The files](docs/datasets.md#the-fixed-sets).",
        "Bold: better than no re-ranking, ↓: worse; the whole interval of the gain is on that side of 0, for each row "
        "separately. 95 % bootstrap intervals over queries; all joint (queries and gallery in one graph, as in the "
        "published tables); one set of defaults for all sets; ROxford5k under the revisited protocol. A single query "
        "gains less, see [the guide](docs/guide.md#joint-candidates-online). Printed by "
        f"`kinrank bench accuracy --data DIR`, {found.machines['accuracy']}.",
    ]
    if found.left_out:
        made.append(held_out_sets.sentence(found))
    ours = found.speeds.get("lpmt")
    if ours:
        search = found.search
        made.append(
            f"Speed: joint LPMT on ROxford5k ({search['items']} items, {search['dimensions']} dimensions) takes "
            f"{ours['seconds']:.1f} s, {ours['multiple']:.1f} times as long as an exact search for the {search['k']} "
            f"nearest neighbours of the same items ({search['seconds']:.2f} s, FAISS, same threads, same run), and "
            f"{ours['peak_bytes'] / 1e6:.0f} MB. Printed by `kinrank bench speed --data DIR`."
        )
    return made + _candidates(found) + _online(found)


def _candidates(found: Measurements) -> list[str]:
    """Latency of re-ranking the results of a vector database."""
    counts = sorted(count for count, name in found.candidates if name == "lpmt")
    if not counts:
        return []
    times = "; ".join(
        f"{count} candidates: {1000 * found.candidates[count, 'lpmt']['seconds']:.0f} ms, "
        f"{found.candidates[count, 'lpmt']['multiple']:.1f} times as long as k-reciprocal re-ranking"
        for count in counts
    )
    return [
        f"One query with its candidates, 512 dimensions, including the search for them: {times}. Printed by "
        "`kinrank bench candidates --data DIR`."
    ]


def _online(found: Measurements) -> list[str]:
    """Numbers of a service: one query at a time against a gallery prepared once."""
    ways = found.modes.get(("roxford5k", "medium"), {})
    if not found.points or not {"search", "online", "alone"} <= ways.keys():
        return []
    points = [found.points[items] for items in sorted(found.points)]
    parts = [
        f"{point['items']:,} items: {1000 * point['latency_seconds']:.1f} ms, built in {point['build_seconds']:.0f} s "
        f"with {point['build_bytes_per_vector_byte']:.1f} times the memory of the vectors"
        for point in points
        if point["items"] >= 100_000
    ]
    mean = {way: f"{100 * result['mean']:.1f}" for way, result in ways.items()}
    return [
        "One query at a time, never in the graph, against a gallery prepared once (`Manifold`, online): mAP on "
        f"ROxford5k medium is {mean['search']} without re-ranking, **{mean['online']}** online, and {mean['alone']} if "
        "the graph is rebuilt for every query. Median latency of one query with an IVF index, 128 dimensions: "
        f"{'; '.join(parts)}. Printed by `kinrank bench scale --data DIR`."
    ]


def _accuracy(found: Measurements) -> str:
    """Joint rows of no re-ranking and LPMT; with the gain, if it was measured query by query."""
    pairs = {key: results for key, results in found.scores.items() if {"none", "lpmt"} <= results.keys()}
    paired = all("gain_low" in results["lpmt"] for results in pairs.values())
    gained = ["gain"] if paired else []
    rows: list[tuple[str, ...]] = [("set", "measure", "no re-ranking", "LPMT", *gained, "seconds")]
    for (name, truth, measure), results in pairs.items():
        label = TITLES.get(name, name) + (f", {truth}" if name == "roxford5k" else "")
        plain, ours = results["none"], results["lpmt"]
        cells = [f"{100 * r['mean']:.1f} ({100 * r['low']:.1f} to {100 * r['high']:.1f})" for r in (plain, ours)]
        parts = [100 * ours[part] for part in ("gain", "gain_low", "gain_high")] if paired else []
        gain = ["{:+.1f} ({:+.1f} to {:+.1f})".format(*parts)] if paired else []
        better = ours["gain_low"] > 0 if paired else ours["mean"] > plain["mean"]
        lost = ours["gain_high"] < 0 if paired else ours["worse"]
        mine = f"**{cells[1]}**" if better else f"{cells[1]} ↓" if lost else cells[1]
        rows.append((label, measure, cells[0], mine, *gain, f"{ours['seconds']:.1f}"))
    return table(rows)
