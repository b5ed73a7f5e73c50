"""Records of `kinrank.bench` -> tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinrank.bench import accuracy_tables as accuracy
from kinrank.bench.defaults import places
from kinrank.bench.tables import plain
from kinrank.cli.bench_diagnosis_tables import diagnosis_tables
from kinrank.cli.bench_learned_table import learned_table
from kinrank.cli.bench_photos_table import photos_table
from kinrank.cli.bench_stores_tables import stores_parts
from kinrank.cli.bench_whitening_table import whitening_table
from kinrank.cli.output import table
from kinrank.memory import in_words

Record = dict[str, Any]


def accuracy_tables(record: Record) -> str:
    """An overview per mode, and a table per mode, set and truth."""
    parts = []
    for one in accuracy.tables(record):
        cells = [[f"{text} *" if top else text for text, top in map(plain, row)] for row in one.rows]
        notes = [note for note in one.notes if note not in (accuracy.LEGEND, accuracy.IN_SHORT)]
        parts.append("\n".join([one.title, table([one.head, *cells], right=range(one.left, len(one.head))), *notes]))
    said = [accuracy.LEGEND.replace("Bold", "*"), *accuracy.closing(record), machine(record)]
    return "\n\n".join([*parts, "\n".join(said)])


def _section(row: Record) -> tuple[str, str]:
    return row["set"], row["truth"]


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
    return "\n\n".join([*stores_parts(record), machine(record)])


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
    from kinrank.bench.service import table_rows

    columns = ("clients", "seconds", "searches/s", "p50", "p95", "p99", "200", "503", "other")
    rows = [columns, *table_rows(record, " ms")]
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
    "photos": photos_table,
    "defaults": defaults_tables,
    "stores": stores_tables,
    "service": service_tables,
    "learned": lambda record: f"{learned_table(record)}\n\n{machine(record)}",
    "whitening": lambda record: f"{whitening_table(record)}\n\n{machine(record)}",
    "diagnosis": lambda record: f"{diagnosis_tables(record)}\n\n{machine(record)}",
}
