"""Records of `kinrank.bench` -> tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from kinrank.bench.defaults import places
from kinrank.cli.output import table
from kinrank.memory import in_words

Record = dict[str, Any]
WORSE = "↓"


def accuracy_tables(record: Record) -> str:
    """One table per set and truth: a row per method, a column per measure, time last."""
    order = {key: place for place, key in enumerate(dict.fromkeys(map(_section, record["results"])))}
    results = sorted(record["results"], key=lambda row: order[_section(row)])
    parts = []
    for (name, truth), group in groupby(results, key=_section):
        rows = list(group)
        measures = list(dict.fromkeys(row["measure"] for row in rows if "measure" in row))
        lines = [("method", *(part for one in measures for part in (one, "95 % interval")), "seconds")]
        for method, found in groupby(rows, key=lambda row: row["method"]):
            lines.append(_accuracy_row(method, list(found), measures))
        first = rows[0]
        mode = first.get("mode", "joint")
        head = f"{name}, {truth}: {first['queries']} queries, {first['items']} items, {mode}"
        parts.append(head + "\n" + table(lines, right=range(1, len(lines[0]))))
    note = f"percent; {WORSE} worse than no re-ranking (mean)"
    return "\n\n".join([*parts, note + "; " + machine(record)])


def _section(row: Record) -> tuple[str, str]:
    return row["set"], row["truth"]


def _accuracy_row(method: str, found: list[Record], measures: list[str]) -> tuple[str, ...]:
    if "error" in found[0]:
        return (method, *("refused", "") * len(measures), "-")
    cells: list[str] = []
    for row in found:
        mark = WORSE if row["worse"] else ""
        cells += [f"{mark}{100 * row['mean']:.2f}", f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"]
    return (method, *cells, f"{found[0]['seconds']:.2f}")


def speed_tables(record: Record) -> str:
    lines = []
    search = record.get("search")
    if search:
        lines.append(
            f"exact search: {search['library']}, {search['k']} nearest of {search['items']} items x "
            f"{search['dimensions']}, {search['threads']} threads: {search['seconds']:.3f} s "
            f"(median of {search['repetitions']})"
        )
    if "import_seconds" in record:
        lines.append(f"import kinrank: {record['import_seconds']:.3f} s")
    if record.get("warmup_seconds"):
        lines.append(f"kinrank warmup, all loops of all methods: {record['warmup_seconds']:.1f} s")
    rows = [("method", "seconds", "x search", "peak memory", "compiling", "growth exponent")]
    for row in record["results"]:
        peak, growth = row.get("peak_bytes"), row.get("growth")
        rows.append(
            (
                row["method"],
                _number(row.get("seconds"), ".3f"),
                _number(row.get("multiple"), ".2f"),
                "-" if peak is None else in_words(peak),
                _number(row.get("compile_seconds"), ".1f", " s"),
                _number(growth and growth["exponent"], ".2f"),
            )
        )
    lines += ["", f"{record['set']}, {record['mode']}", table(rows, right=range(1, 6))]
    for row in record["results"]:
        if "growth" in row:
            lines += ["", _growth_table(row["method"], row["growth"])]
    return "\n".join([*lines, "", machine(record)])


def _growth_table(method: str, growth: Record) -> str:
    rows = [("items", "neighbour search, s", "everything after, s")]
    rows += [
        (str(point["items"]), f"{point['search_seconds']:.2f}", f"{point['after_seconds']:.3f}")
        for point in growth["points"]
    ]
    sizes = f"{growth['dimensions']} dimensions, {growth['queries']} of them queries, joint"
    head = f"{method}: made-up curves, {sizes}"
    return head + "\n" + table(rows, right=range(3))


def candidates_tables(record: Record) -> str:
    rows = [("candidates", "method", "ms per query", f"x {record['base']}")]
    rows += [
        (str(row["candidates"]), row["method"], f"{1000 * row['seconds']:.1f}", f"{row['multiple']:.2f}")
        for row in record["results"]
    ]
    head = (
        f"{record['set']}, {record['items']} items x {record['dimensions']}, one query at a time, with its search, "
        f"median of {record['queries']}"
    )
    return head + "\n" + table(rows, right=(0, 2, 3)) + "\n\n" + machine(record)


def stores_tables(record: Record) -> str:
    """One table per part that was measured."""
    parts = []
    rows: list[tuple[str, ...]]
    if "same" in record:
        rows = [("engine", "same candidates", "same ranking", "search", "LPMT", "LPMT, array")]
        rows += [
            (
                row["engine"],
                f"{row['same_plain']:.0%}",
                f"{row['same_reranked']:.0%}",
                *(_both(row[way]) for way in ("plain", "reranked", "array")),
            )
            for row in record["same"]
        ]
        first = record["same"][0]
        head = (
            f"{record['set']}, {first['queries']} queries over {first['candidates']} candidates, behind them the order "
            "of the search; mAP medium / hard"
        )
        parts.append(head + "\n" + table(rows, right=range(1, 6)))
    if "growing" in record:
        rows = [("expand", "right ones held", "mAP medium", "95 % interval", "mAP hard")]
        for row in record["growing"]:
            medium = row["medium"]
            interval = f"{100 * medium['low']:.1f} to {100 * medium['high']:.1f}"
            rows.append((str(row["expand"]), f"{medium['held']:.1%}", f"{100 * medium['mAP']:.1f}", interval,
                         f"{100 * row['hard']['mAP']:.1f}"))  # fmt: skip
        first = record["growing"][0]
        head = f"{record['set']}, {first['candidates']} candidates and vectors fetched, LPMT, exact search"
        parts.append(head + "\n" + table(rows, right=range(5)))
    if "times" in record:
        rows = [("engine", "total", "in the engine", "of it fetching", "re-ranking", "rest", "share of rest")]
        names = ("total", "engine", "fetch", "rerank", "rest")
        rows += [
            (row["engine"], *(f"{row[name + '_ms']:.1f}" for name in names), f"{row['rest_share']:.1%}")
            for row in record["times"]
        ]
        first = record["times"][0]
        head = f"milliseconds of one query, {first['candidates']} candidates x {first['dimensions']}, median"
        parts.append(head + "\n" + table(rows, right=range(1, 7)))
    for row in record.get("scale", []):
        parts.append(
            f"{row['engine']}, {row['items']} items x {row['dimensions']}, with an approximate index: filled in "
            f"{row['fill_seconds']:.0f} s, manifold built in {row['build_seconds']:.0f} s, a query takes "
            f"{row['latency_ms']:.1f} ms, {row['engine_ms']:.1f} of them in the engine;\nsync: {row['added']} added, "
            f"{row['removed']} removed, {row['changed']} changed in {row['sync_seconds']:.1f} s; {row['seen']:.1%} of "
            "what came is found first by its own vector"
        )
    return "\n\n".join([*parts, machine(record)])


def _both(scores: Record) -> str:
    return " / ".join(f"{100 * scores[truth]['mAP']:.1f}" for truth in ("medium", "hard"))


def memory_tables(record: Record) -> str:
    limit = in_words(record["limit_bytes"])
    rows = [("method", "peak memory", "seconds", "")]
    for row in record["results"]:
        peak = "-" if row.get("peak_bytes") is None else in_words(row["peak_bytes"])
        remark = row.get("error") or ("" if row["within"] else f"over {limit}")
        rows.append((row["method"], peak, _number(row.get("seconds"), ".2f"), remark))
    head = (
        f"{record['items']} items x {record['dimensions']}, {record['queries']} queries, {record['mode']}, "
        f"limit {limit}, each in a fresh process"
    )
    return head + "\n" + table(rows, right=(1, 2)) + "\n\n" + machine(record)


def scale_tables(record: Record) -> str:
    parts = _ways(record)
    rows: list[tuple[str, ...]]
    head = (
        "items",
        "neighbours, s",
        "build, s",
        "x",
        "memory / vectors",
        "query, ms",
        "x exact search",
        "certain",
    )
    rows = [head]
    for row in record["results"]:
        if "error" in row:
            rows.append((row["error"], *[""] * (len(head) - 1)))
            continue
        rows.append((
            str(row["items"]), f"{row['neighbour_search_seconds']:.1f}", f"{row['build_seconds']:.1f}",
            f"{row['build_multiple']:.2f}", _memory(row["build_bytes_per_vector_byte"]),
            f"{1000 * row['latency_seconds']:.2f}", f"{row['latency_multiple']:.2f}", f"{row['certain']:.0%}",
        ))  # fmt: skip
    about = f"online, made-up curves, {record['dimensions']} dimensions, store {record['store']}, k = 10"
    parts.append(about + "\n" + table(rows, right=range(len(head))))
    rows = [("items", "from", "build, s", "1 % added, s", "of a build", "1 % removed, s", "of a build")]
    for row in record.get("changes", ()):
        if "error" in row:
            rows.append((row["error"], *[""] * 6))
            continue
        rows.append((
            str(row["items"]), row["store"], f"{row['build_seconds']:.1f}", f"{row['add_seconds']:.2f}",
            f"{row['add_share']:.1%}", f"{row['remove_seconds']:.2f}", f"{row['remove_share']:.1%}",
        ))  # fmt: skip
    if len(rows) > 1:
        parts.append(table(rows, right=(0, 2, 3, 4, 5, 6)))
    return "\n\n".join([*parts, machine(record)])


def _ways(record: Record) -> list[str]:
    """A table per set and truth: mAP of every way to run."""
    parts: list[str] = []
    shown = {
        "search": "no re-ranking",
        "alone": "one at a time, graph rebuilt",
        "grown": "online, the last tenth added",
    }
    for name, truth in dict.fromkeys((row["set"], row["truth"]) for row in record.get("modes", ())):
        found = [row for row in record["modes"] if (row["set"], row["truth"]) == (name, truth)]
        rows: list[tuple[str, ...]] = [("mode", "mAP", "95 % interval")]
        for row in found:
            interval = f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
            mode = shown.get(row["mode"], row["mode"])
            other = row["method"] not in (record["method"], "none")
            rows.append((f"{mode}, {row['method']}" if other else mode, f"{100 * row['mean']:.2f}", interval))
        parts.append(f"{name}, {truth}: {found[0]['queries']} queries\n" + table(rows, right=(1, 2)))
    return parts


def modes_tables(record: Record) -> str:
    parts = _ways(record)
    for name, truth in dict.fromkeys(map(_section, record["results"])):
        found = [row for row in record["results"] if _section(row) == (name, truth)]
        rows = [("remembered", "kept", "mAP", "change", "95 % interval")]
        for row in found:
            change = ("", "")
            if "change" in row:
                interval = f"{100 * row['change_low']:+.1f} to {100 * row['change_high']:+.1f}"
                change = f"{100 * row['change']:+.2f}", interval
            rows.append((row["remembered"], str(row["kept"]), f"{100 * row['mean']:.2f}", *change))
        head = f"{name}, {truth}: {found[0]['queries']} queries ask, {found[0]['items']} items, online"
        parts.append(head + "\n" + table(rows, right=(1, 2, 3, 4)))
    return "\n\n".join([*parts, machine(record)])


def defaults_tables(record: Record) -> str:
    """Per way to run: LPMT, no re-ranking and the best other method on every set, and the mean places."""
    parts: list[str] = []
    rows: list[tuple[str, ...]]
    for mode in dict.fromkeys(row["mode"] for row in record["results"]):
        found = [row for row in record["results"] if row["mode"] == mode and "mean" in row]
        rows = [("set", "queries", "none", "lpmt", "R@1: none", "lpmt", "best other", "", "ahead by")]
        for name, truth in dict.fromkeys((row["set"], row["truth"]) for row in found):
            scores = {row["method"]: row for row in found if (row["set"], row["truth"]) == (name, truth)}
            none, ours = scores["none"], scores["lpmt"]
            best = max((row for row in scores.values() if row is not ours), key=lambda row: row["mean"])
            rows.append((
                f"{name} {truth}", str(ours["queries"]), _percent(none["mean"]), _percent(ours["mean"]),
                _percent(none["first"]), _percent(ours["first"]), _percent(best["mean"]), best["method"],
                f"{100 * (ours['mean'] - best['mean']):+.2f}",
            ))  # fmt: skip
        head = "LPMT's rule fitted on the other sets" if mode == "joint" else "LPMT as it comes"
        lines = [f"{mode}: {head}; mAP", table(rows, right=(1, 2, 3, 4, 5, 6, 8))]
        order = sorted(places(found).items(), key=lambda entry: entry[1])
        lines.append("mean place: " + ", ".join(f"{method} {place:.1f}" for method, place in order[:6]))
        parts.append("\n".join(lines))
    if record["fitted"]:
        rows = [("left out", "mutual", "common", "fitted")]
        for row in record["fitted"]:
            known = (f"{row['mutual']:.3f}", f"{row['common']:.3f}") if "mutual" in row else ("", "")
            rows.append((row["set"] or "none", *known, f"{row['thin']:.2f}"))
        parts.append("the constant of the rule (stages/trust.py)\n" + table(rows, right=(1, 2, 3)))
    return "\n\n".join([*parts, machine(record)])


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def feedback_tables(record: Record) -> str:
    parts = []
    for name, truth in dict.fromkeys((row["set"], row["truth"]) for row in record["results"]):
        rows = [("right", "wrong", "mAP before", "after", "gain", "95 % interval")]
        found = [row for row in record["results"] if (row["set"], row["truth"]) == (name, truth)]
        for row in found:
            interval = f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}"
            before, after = f"{100 * row['before']:.2f}", f"{100 * row['after']:.2f}"
            rows.append((str(row["right"]), str(row["wrong"]), before, after, f"{100 * row['gain']:+.2f}", interval))
        parts.append(f"{name}, {truth}: {found[0]['queries']} queries, online\n" + table(rows, right=range(6)))
    means = [("right", "wrong", "mean gain")]
    means += [(str(row["right"]), str(row["wrong"]), f"{100 * row['gain']:+.2f}") for row in record["means"]]
    parts.append("all of these\n" + table(means, right=range(3)))
    note = f"marked among the first {record['looked_at']}, and taken out before scoring; percent; {machine(record)}"
    return "\n\n".join([*parts, note])


def service_tables(record: Record) -> str:
    """Searches by clients, and what happened in the long run, under overload and while items changed."""
    rows: list[tuple[str, ...]] = [("clients", "seconds", "searches/s", "p50", "p95", "p99", "200", "503", "other")]
    steps = [*record.get("clients", []), *(record[part] for part in ("sustained", "overload") if part in record)]
    for one in steps:
        statuses, broken = dict(one["statuses"]), sum(one["errors"].values())
        good, later = statuses.pop("200", 0), statuses.pop("503", 0)
        times = (f"{one[name]:.1f} ms" for name in ("p50_ms", "p95_ms", "p99_ms"))
        counts = (str(good), str(later), str(sum(statuses.values()) + broken))
        rows.append((str(one["clients"]), f"{one['seconds']:.0f}", f"{one['per_second']:.0f}", *times, *counts))
    head = (
        f"{record['set']}, {record['items']} items x {record['dimensions']}, {record['workers']} workers, online, k 10"
    )
    parts = [head + "\n" + table(rows, right=range(9))]
    if "sustained" in record:
        sizes = [size for size in record["sustained"]["memory_bytes"] if size is not None]
        words = ", ".join(f"{size / 2**20:.0f} MB" for size in sizes) or "not known here"
        parts.append(f"memory of all processes at the start, middle and end of the long run: {words}")
    if "changes" in record:
        one = record["changes"]
        parts.append(
            f"while {one['present'] + one['gone']} items came and {one['gone']} went: "
            f"{one['readers']['per_second']:.0f} searches/s; of the acknowledged {one['lost']} lost, "
            f"{one['back']} back, {one['lost_on_disk']} lost on disk"
        )
    return "\n\n".join([*parts, machine(record)])


def _memory(multiple: float) -> str:
    """- where a build found room in what had been freed before: it holds the vectors at least."""
    return f"{multiple:.1f}" if multiple >= 1 else "-"


def machine(record: Record) -> str:
    """When, with what, on how many threads."""
    return f"kinrank {record['version']}, {record['machine']['threads']} threads, {record['date']}"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"


TABLES: dict[str, Callable[[Record], str]] = {
    "accuracy": accuracy_tables,
    "speed": speed_tables,
    "candidates": candidates_tables,
    "memory": memory_tables,
    "scale": scale_tables,
    "modes": modes_tables,
    "feedback": feedback_tables,
    "defaults": defaults_tables,
    "stores": stores_tables,
    "service": service_tables,
}
