"""Measurements -> the table of speed and memory in docs/results.md, and a short one in the README."""

from __future__ import annotations

from collections.abc import Iterator

from generator.origins import decisive_origin
from generator.pages import table
from generator.records import Measurements, Result
from kinrank.memory_limit import format_bytes
from kinrank_bench.scale import measure_size_growth

LARGE = 100_000  # items of a gallery that is worth a row
HEAD = ("LPMT", "time", "relative to", "memory", "measured")
Row = tuple[str, str, str, str, str]


def parts(found: Measurements) -> list[str]:
    """The table, and a sentence about it; nothing if nothing has been measured."""
    rows = [*_joint(found), *_candidates(found), *_prepared(found), *_growth(found)]
    if not rows:
        return []
    text = (
        "Speed and memory of LPMT with its defaults. Prepared galleries have 128 dimensions and an IVF index; their "
        "peak memory is in addition to vectors and index. Earlier version: the code has changed since that day, and so "
        "may the number. Printed by `kinrank bench speed`, `candidates` and `scale`, each with `--data DIR`."
    )
    return ["## Speed and memory", table([HEAD, *rows]), text]


def short(found: Measurements) -> list[str]:
    """A few rows for the README: a joint graph, candidates, and the largest prepared gallery."""
    rows = [*_joint(found), *list(_candidates(found))[-1:], *list(_prepared(found))[-2:]]
    if not rows:
        return []
    measured = [*found.speeds.values(), *found.candidates.values(), *found.points.values()]
    machines = " and ".join(sorted({result["origin"].machine for result in measured}))
    return [
        table(
            [
                ("LPMT", "time", "memory", "measured"),
                *((what, time, memory, day) for what, time, _, memory, day in rows),
            ]
        ),
        f"On a CPU: {machines}. [More about speed and memory](docs/results.md#speed-and-memory). Printed by `kinrank "
        "bench speed`, `candidates` and `scale`, each with `--data DIR`.",
    ]


def _joint(found: Measurements) -> Iterator[Row]:
    ours = found.speeds.get("lpmt")
    if ours:
        search = ours["search"]
        library = search["library"].split()[0].replace("faiss", "FAISS")
        bases = [f"{ours['multiple']:.1f} x an exact search for {search['k']} neighbours of all items ({library})"]
        if "product_multiple" in ours:
            bases.append(f"{ours['base_multiple']:.1f} x k-reciprocal")
            bases.append(f"{ours['product_multiple']:.1f} x the matrix product of all pairs")
        peak = f"{format_bytes(int(ours['peak_bytes']))}, whole process" if ours.get("peak_bytes") else ""
        label = f"ROxford5k, joint, {search['items']:,} x {search['dimensions']}"
        yield label, f"{ours['seconds']:.1f} s", ", ".join(bases), peak, _day(ours)


def _candidates(found: Measurements) -> Iterator[Row]:
    """Re-ranking of the results of a vector database."""
    for count in sorted(count for count, name in found.candidates if name == "lpmt"):
        ours = found.candidates[count, "lpmt"]
        base = found.candidates.get((count, "k-reciprocal"), ours)
        label = f"one query with {count} candidates, x 512, with its search"
        relative = f"{ours['multiple']:.1f} x k-reciprocal"
        yield label, f"{1000 * ours['seconds']:.0f} ms", relative, "", _day(ours, base)


def _prepared(found: Measurements) -> Iterator[Row]:
    """Preparing a gallery once, and searching it; two rows for each large size."""
    for items, point in sorted(found.points.items()):
        if items >= LARGE:
            size = f"{items:,}"
            memory = f"peak {point['build_bytes_per_vector_byte']:.1f} x the vectors"
            if "kept_bytes_per_item" in point:
                memory += f"; kept {point['kept_bytes_per_item'] / 1000:.1f} kB per item in addition to its vector"
            relative = f"{point['build_multiple']:.1f} x its neighbour search"
            yield f"preparing {size} items", f"{point['build_seconds']:.0f} s", relative, memory, _day(point)
            yield f"one query, best 10 of {size}", f"{1000 * point['latency_seconds']:.1f} ms", "", "", _day(point)


def _growth(found: Measurements) -> Iterator[Row]:
    """Time per item of the largest gallery relative to the smallest."""
    points = [found.points[items] for items in sorted(found.points)]
    growth = measure_size_growth(points)
    used = [point for point in points if growth and growth["first"] <= point["items"] <= growth["last"]]
    if len({point["origin"] for point in used}) == 1:  # measured together
        label = f"preparing, per item, {growth['last']:,} items relative to {growth['first']:,}"
        yield label, f"{growth['per_item']:.1f} x", "1 x: linear growth", "", _day(*used)


def _day(*rows: Result) -> str:
    """The day of the measurement, and whether the code has changed since."""
    first = decisive_origin(*rows)
    return first.day if first.current else f"{first.day}, earlier version"
