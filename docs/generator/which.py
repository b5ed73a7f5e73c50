# ruff: noqa: E501 - sentences
"""The page "which method when", and the numbers on each method's page."""

from __future__ import annotations

import statistics
from pathlib import Path

from generator import accuracy, held_out_sets
from generator.accuracy import title
from generator.origins import Origins, tell_origin
from generator.pages import NOTE, table
from generator.records import Measurements
from generator.titles import describe_features
from generator.two_lpmts import DEFAULTS, describe_columns, lpmt_columns
from kinrank.memory_limit import format_bytes


def page(found: Measurements) -> str:
    """The whole page; without measurements, it contains the commands to run."""
    parts = [
        NOTE,
        f"<!-- records until: {found.until} -->",
        "# Which method when",
        "Measure on your own data before you decide: `kinrank evaluate` needs labels for only a few dozen "
        "queries. Until then, start here.",
        Path(__file__).with_name("advice.md").read_text("utf-8").strip(),
        "All numbers below come from `kinrank bench`, each method with its one set of defaults, queries and "
        f"gallery in one graph (joint){', unless the heading says otherwise' if found.apart else ''}. [The guide](guide/modes.md) explains why a "
        "single query gains less.",
    ]
    if not found.panels:
        parts += [
            "Nothing has been measured yet. Run this command, then `make docs`:",
            _console("accuracy --data DIR --methods all"),
        ]
        return "\n\n".join(parts) + "\n"
    mixed = accuracy.origins(found.scores).mixed
    parts += [
        f"{describe_features(_sets(found))} [The files](datasets.md#the-fixed-sets).",
        "## Accuracy against time",
        "![Accuracy against time, one panel per set](figures/accuracy-against-time.svg)",
        "Each dot is a method, its bar the 95 % interval over queries. Labels are shown for no re-ranking, LPMT, and "
        "every method that no other beats in both time and accuracy. Seconds are those of a single run. The dashed line is no re-ranking. CSA, SSR and LAttQE were "
        "fitted on pseudo-labels of each gallery; their seconds do not include fitting ([learned methods](learned.md)).",
        *(["Methods with a † in the table: measured with an earlier version, also in the figure."] if mixed else []),
        accuracy.table_of(found.scores),
        f"{accuracy.legend(found.scores)} {accuracy.origins(found.scores).sentence()}",
        _console("accuracy --data DIR --methods all"),
    ]
    for mode, scores in sorted(found.apart.items()):
        parts += accuracy.section(mode, scores)
    if found.left_out:
        parts += ["## Held-out sets", *held_out_sets.section(found)]
        parts.append(_console("defaults --data DIR"))
    if found.speeds:
        parts += ["## Time, as a multiple of an exact search", speed_table(found)]
    if found.peaks:
        parts += ["## Memory", memory_table(found)]
    if found.modes:
        parts += [
            "## The same LPMT, run in four ways",
            WAYS,
            modes_table(found),
            tell_origin(*(row for results in found.modes.values() for row in results.values())),
            "Other methods that support a prepared gallery, online, with their defaults, on the same queries:",
            online_table(found),
            _console("scale --data DIR"),
        ]
    if found.remembered:
        parts += [
            "## Observed queries",
            "![Accuracy of a new query against the share of other queries that were observed](figures/remembered-queries.svg)",
            REMEMBERED,
            observed_queries_table(found),
            tell_origin(*(row for results in found.remembered.values() for row in results.values())),
            _console("modes --data DIR --parts remembered --queries 400"),
        ]
    if found.points:
        parts += ["## Prepared galleries of several sizes", points_table(found), *_change(found)]
    return "\n\n".join(parts) + "\n"


def _sets(found: Measurements) -> list[str]:
    """Every set on the page."""
    return [*(name for name, *_ in found.scores), *(row["set"] for row in found.left_out)]


WAYS = (
    "**Joint** puts all queries into one graph with the gallery, as the published tables do: queries for the same object help "
    "each other, and this accounts for most of the advantage of joint numbers. **Alone** rebuilds the graph for every "
    "query, **candidates** builds one from only the 1000 nearest items of the query, and **online** searches a gallery "
    "that was prepared without any query (`Manifold`). A user with a single query gets one of the last three. **Grown** is "
    "also online, after the last tenth of the gallery was added in ten calls of `add`. mAP with 95 % "
    "intervals over the same queries, at most 70 per set. If every item of a set is a query, every fourth item is "
    "removed from the gallery and used as a query."
)


REMEMBERED = (
    "An online query, after `observe` with some of the other queries ([guide](guide/observed-queries.md)). "
    "**Unrelated**: all queries that share no relevant item with it. **Repeated**: half of the others, ten times each, with 2 % "
    "noise. A query is never observed before its own search. mAP, followed by the paired change with its 95 % interval."
)


def observed_queries_table(found: Measurements) -> str:
    """A row per set and truth, a column per group of observed queries."""
    memories = list(dict.fromkeys(name for results in found.remembered.values() for name in results))
    rows: list[tuple[str, ...]] = [("mAP", *memories)]
    for (name, truth), results in found.remembered.items():
        cells = []
        for memory in memories:
            row = results.get(memory, {})
            change = ""
            if "change" in row:
                change = " ({:+.1f}: {:+.1f} to {:+.1f})".format(
                    *(100 * row[part] for part in ("change", "change_low", "change_high"))
                )
            cells.append(f"{100 * row['mean']:.1f}{change}" if row else "-")
        rows.append((title((name, truth, "mAP")), *cells))
    return table(rows)


def modes_table(found: Measurements) -> str:
    """A row per set and truth, a column per mode."""
    return _by_set(
        found,
        {"search": "no re-ranking"} | {way: way for way in ("candidates", "online", "grown", "alone", "joint")},
    )


def online_table(found: Measurements) -> str:
    """A row per set and truth, a column per method that supports online queries."""
    ways = list(dict.fromkeys(way for results in found.modes.values() for way in results if way.startswith("online ")))
    return _by_set(found, {"search": "no re-ranking"} | {way: way.split()[1] for way in ways} | {"online": "lpmt"})


def _by_set(found: Measurements, ways: dict[str, str]) -> str:
    rows: list[tuple[str, ...]] = [("mAP", *ways.values())]
    for (name, truth), results in found.modes.items():
        cells = []
        for way in ways:
            result = results.get(way)
            interval = "" if result is None else f" ({100 * result['low']:.1f} to {100 * result['high']:.1f})"
            cells.append("-" if result is None else f"{100 * result['mean']:.1f}{interval}")
        rows.append((title((name, truth, "mAP")), *cells))
    return table(rows)


def points_table(found: Measurements) -> str:
    """A row per size of `kinrank bench scale`."""
    head = (
        "items",
        "neighbour search, s",
        "build, s",
        "x",
        "memory / vectors",
        "query, ms",
        "x exact search",
    )
    rows: list[tuple[str, ...]] = [head]
    origins = _scale_origins(found)
    for items, point in sorted(found.points.items()):
        cells = (
            f"{point['neighbour_search_seconds']:.1f}",
            f"{point['build_seconds']:.1f}",
            f"{point['build_multiple']:.2f}",
            f"{point['build_bytes_per_vector_byte']:.1f}" if point["build_bytes_per_vector_byte"] >= 1 else "-",
            f"{1000 * point['latency_seconds']:.2f}",
            f"{point['latency_multiple']:.2f}",
        )
        rows.append((f"{items:,}{origins.mark(point)}", *cells))
    return table(rows)


def _scale_origins(found: Measurements) -> Origins:
    return Origins([result] for result in (*found.points.values(), *found.changes.values()))


def _change(found: Measurements) -> list[str]:
    text = (
        "128 dimensions, synthetic curves, neighbours from an IVF store. A query is one new vector whose ten best results are certain; "
        "its time is the median over 100 queries, in the fastest of five rounds. Changes are the best of three. The "
        "exact search is over the largest size of its run. -: the build fit into memory that had been freed before. "
        f"{_scale_origins(found).sentence()}"
    )
    if not found.changes:
        return [text]
    rows: list[tuple[str, ...]] = [
        ("items", "neighbours from", "build, s", "add 1 %, s", "of a build", "remove 1 %, s", "of a build")
    ]
    origins = _scale_origins(found)
    for (items, store), change in sorted(found.changes.items()):
        cells = (
            "an exact search" if store == "array" else f"a store, {store}",
            f"{change['build_seconds']:.1f}",
            f"{change['add_seconds']:.2f}",
            f"{change['add_share']:.1%}",
            f"{change['remove_seconds']:.2f}",
            f"{change['remove_share']:.1%}",
        )
        rows.append((f"{items:,}{origins.mark(change)}", *cells))
    return [text, "Cost of a change (`add`, `remove`):", table(rows)]


def speed_table(found: Measurements) -> str:
    origins = Origins([result] for result in found.speeds.values())
    newest = max(found.speeds.values(), key=lambda result: str(result["origin"].date))
    search = newest["search"]
    rows: list[tuple[str, ...]] = [("method", "seconds", "multiple of the search", "peak memory")]
    for name, result in found.speeds.items():
        peak = result.get("peak_bytes")
        cells = (
            f"{result['seconds']:.2f}",
            f"{result['multiple']:.1f}",
            "" if peak is None else format_bytes(int(peak)),
        )
        rows.append((f"[`{name}`](methods/{name}.md){origins.mark(result)}", *cells))
    text = (
        f"The search: {search['library']}, the {search['k']} nearest neighbours of {search['items']} items with "
        f"{search['dimensions']} dimensions in {search['seconds']:.2f} s, same threads, same run. Every time is the median "
        "of several runs, so these seconds can differ from those of a single run above. "
        f"{origins.sentence()}"
    )
    console = _console("speed --data DIR --methods all")
    return f"{table(list(rows))}\n\n{text}\n\n{console}"


def memory_table(found: Measurements) -> str:
    origins = Origins([result] for result in found.peaks.values())
    rows: list[tuple[str, ...]] = [("method", "peak of the whole process", "seconds")]
    for name, result in found.peaks.items():
        answer = f"rejected: {result['error']}" if "error" in result else format_bytes(int(result["peak_bytes"]))
        seconds = result.get("seconds")
        rows.append(
            (
                f"[`{name}`](methods/{name}.md){origins.mark(result)}",
                answer,
                "" if seconds is None else f"{seconds:.1f}",
            )
        )
    text = (
        f"{found.size['items']} items with {found.size['dimensions']} dimensions, "
        f"{found.size['queries']} queries. {origins.sentence()}"
    )
    console = _console("memory")
    return f"{table(list(rows))}\n\n{text}\n\n{console}"


def list_scores(found: Measurements, name: str) -> list[str]:
    """The lines on a method's own page: its scores, those of no re-ranking, and its time."""
    both = {key: results for key, results in found.scores.items() if {name, "none"} <= results.keys()}
    if not both:
        return []
    columns = lpmt_columns(both.values()) if name == DEFAULTS else {}
    heads = {name: f"`{name}`"} | (columns if len(columns) > 1 else {}) | {"none": "no re-ranking"}
    origins = Origins([results[method] for method in heads if method in results] for results in both.values())
    rows: list[tuple[str, ...]] = [("set", "measure", *heads.values())]
    for key, results in both.items():
        cells = {method: f"{100 * results[method]['mean']:.1f}" for method in heads if method in results}
        cells[name] += " [{:.1f}, {:.1f}]".format(*(100 * results[name][part] for part in ("low", "high")))
        mark = origins.mark(*(results[method] for method in cells))
        rows.append((title(key) + mark, key[2], *(cells.get(method, "") for method in heads)))
    text = "In percent, with the 95 % interval over queries; joint, with the defaults. "
    fits = [results[name] for results in found.scores.values() if "fitted" in results.get(name, {})]
    if fits:
        usual = statistics.median(row["fit_seconds"] for row in fits)
        text += f"Fitted on {fits[0]['fitted']}, in {usual:.0f} s (median). "
    about = describe_columns(both.values()) if name == DEFAULTS else []
    return [table(list(rows)), *about, f"{text}{origins.sentence()}", *_time(found, name)]


def _time(found: Measurements, name: str) -> list[str]:
    """A sentence on the time of a method; it is measured in one place only."""
    result = found.speeds.get(name)
    if result is None:
        return []
    search = result["search"]
    return [
        f"Time: {result['seconds']:.2f} s for ROxford5k ({search['items']} items with {search['dimensions']} dimensions), "
        f"{result['multiple']:.1f} times an exact search for {search['k']} neighbours of all items; "
        f"[other methods](../which-method-when.md#time-as-a-multiple-of-an-exact-search). {tell_origin(result)}"
    ]


def _console(bench: str) -> str:
    return f"```console\n$ kinrank bench {bench} -o benchmarks/results.jsonl\n```"
