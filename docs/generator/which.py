"""Measurements -> the page "which method when", its tables and its picture, and the numbers on each method's page."""

from __future__ import annotations

from pathlib import Path

from generator.pages import NOTE, table
from generator.records import Measurements, Result

from kinrank.memory import in_words

FAMILIES = {
    "query expansion": "aqe aqewd alpha-qe dqe adba+aqe adbawd+aqewd alpha-dba+alpha-qe ddba+dqe super-global".split(),
    "context": "knn k-reciprocal sca ecn gnn conaff stml".split(),
    "diffusion": "dfs fsr rdp eir egt bsd bcd cas".split(),
}
TITLES = {
    "roxford5k": "ROxford5k",
    "caltech101": "Caltech101",
    "coil20": "COIL-20",
    "mpeg7": "MPEG-7",
    "orl": "ORL",
    "cranfield": "Cranfield (text)",
}

ADVICE = """\
| what you know about your data | start with | why |
|---|---|---|
| right answers hang together: views of an object, photographs of a place, classes | [LPMT](methods/lpmt.md) | \
chains of small steps reach what looks nothing like the query |
| you want one setting for everything and have a second to spare | [LPMT](methods/lpmt.md) | its powers are measured \
from the data, without labels |
| queries come one at a time and the gallery stays | [AQE](methods/aqe.md), [DFS](methods/dfs.md), \
[EIR](methods/eir.md) | the query is not in their graph, so one query gets what seventy would |
| the gallery is large and only the top matters | any method with `candidates=`, or [SuperGlobal](methods/super-global.md) | \
work is bounded by the candidates, not by the gallery |
| the first few answers are nearly always right | [AQE](methods/aqe.md), [AlphaQE](methods/alpha-qe.md) | a second \
search is all they cost |
| an item has one or two right answers | no re-ranking, or [KNN](methods/knn.md), [EGT](methods/egt.md) | neighbourhoods \
fill with strangers; the pages say what each method does with pairs |
| text embeddings | measure first | distances between texts carry topics more than kinship |
| near-duplicates and verified matches | [EGT](methods/egt.md) | it follows the strongest edges first |"""


def page(found: Measurements) -> str:
    """The whole page; without measurements it says how to get them."""
    parts = [
        NOTE,
        f"<!-- records until: {found.until} -->",
        "# Which method when",
        "Measure on your own data before you decide: `kinrank evaluate` needs labels for a few dozen queries only. Until "
        "then, this is where to start.",
        ADVICE,
        "All numbers below come from `kinrank bench`, each method at its one set of defaults, queries and gallery in one "
        "graph (joint). [The guide](guide.md#joint-candidates-online) says why a query on its own gets less.",
    ]
    if not found.panels:
        parts.append("Nothing has been measured yet: run `make bench`, then `make docs`.")
        return "\n\n".join(parts) + "\n"
    parts += [
        "## Accuracy against time",
        "![Accuracy against time, one panel per set](figures/accuracy-against-time.svg)",
        "Each dot is a method, its bar the 95 % interval over queries. Named are no re-ranking, LPMT, and every method that "
        "none beats in both directions. The dashed line is no re-ranking.",
        accuracy_table(found),
        "Bold: the best mean of a column. (down): worse than no re-ranking, by the mean. Seconds are those of the largest "
        f"set, {TITLES.get(largest(found), largest(found))}. Measured with {found.machines['accuracy']}.",
        "```console\n$ kinrank bench accuracy --data DIR --methods all -o benchmarks/results/accuracy.jsonl\n```",
    ]
    if found.speeds:
        parts += ["## Time, as a multiple of an exact search", speed_table(found)]
    if found.peaks:
        parts += ["## Memory", memory_table(found)]
    return "\n\n".join(parts) + "\n"


def accuracy_table(found: Measurements) -> str:
    """A row per method, a column per set and truth, mAP in percent with its interval."""
    names = list(dict.fromkeys(name for key in found.panels for name in found.scores[key]))
    best = {key: max(result["mean"] for result in found.scores[key].values()) for key in found.panels}
    rows: list[tuple[str, ...]] = [("mAP", *(title(key) for key in found.panels), "seconds")]
    timed = next(key for key in found.panels if key[0] == largest(found))
    for name in names:
        cells = [f"[`{name}`](methods/{name}.md)"]
        for key in found.panels:
            result = found.scores[key].get(name)
            cells.append("" if result is None else _cell(result, result["mean"] == best[key]))
        seconds = found.scores[timed].get(name, {}).get("seconds")
        rows.append((*cells, "" if seconds is None else f"{seconds:.2f}"))
    return table(list(rows))


def speed_table(found: Measurements) -> str:
    search = found.search
    rows: list[tuple[str, ...]] = [("method", "seconds", "multiple of the search", "peak memory")]
    for name, result in found.speeds.items():
        peak = result.get("peak_bytes")
        cells = (
            f"{result['seconds']:.2f}",
            f"{result['multiple']:.1f}",
            "" if peak is None else in_words(int(peak)),
        )
        rows.append((f"[`{name}`](methods/{name}.md)", *cells))
    said = (
        f"The search: {search['library']}, the {search['k']} nearest of {search['items']} items of {search['dimensions']} "
        f"dimensions in {search['seconds']:.2f} s, same threads, same run. Measured with {found.machines['speed']}."
    )
    console = (
        "```console\n$ kinrank bench speed --data DIR --methods all -o benchmarks/results/speed.jsonl\n```"
    )
    return f"{table(list(rows))}\n\n{said}\n\n{console}"


def memory_table(found: Measurements) -> str:
    rows: list[tuple[str, ...]] = [("method", "peak of the whole process", "seconds")]
    for name, result in found.peaks.items():
        answer = f"refused: {result['error']}" if "error" in result else in_words(int(result["peak_bytes"]))
        seconds = result.get("seconds")
        rows.append((f"[`{name}`](methods/{name}.md)", answer, "" if seconds is None else f"{seconds:.1f}"))
    said = (
        f"{found.size['items']} items of {found.size['dimensions']} dimensions, {found.size['queries']} queries. "
        f"Measured with {found.machines['memory']}."
    )
    console = "```console\n$ kinrank bench memory -o benchmarks/results/memory.jsonl\n```"
    return f"{table(list(rows))}\n\n{said}\n\n{console}"


def measured(found: Measurements, name: str) -> list[str]:
    """The lines on a method's own page: its scores beside those of no re-ranking."""
    rows: list[tuple[str, ...]] = [("set", "measure", name, "no re-ranking", "seconds")]
    for key, results in found.scores.items():
        if name in results and "none" in results:
            mine, plain = results[name], results["none"]
            shown = f"{100 * mine['mean']:.1f} [{100 * mine['low']:.1f}, {100 * mine['high']:.1f}]"
            rows.append((title(key), key[2], shown, f"{100 * plain['mean']:.1f}", f"{mine['seconds']:.2f}"))
    if len(rows) == 1:
        return []
    said = f"In percent, with the 95 % interval over queries; joint, at the defaults. {found.machines['accuracy']}."
    return [table(list(rows)), said]


def picture(found: Measurements, path: Path) -> None:
    """Accuracy against time, a panel per set, as SVG without dates, so that equal numbers give equal files."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "kinrank", "font.size": 8, "svg.fonttype": "none"}
    columns = 2
    height = -(-len(found.panels) // columns)
    figure, axes = plt.subplots(
        height, columns, figsize=(9, 3.1 * height), squeeze=False, layout="constrained"
    )
    colours = {"query expansion": "#4477aa", "context": "#228833", "diffusion": "#aa7733"}
    for panel, key in zip(axes.ravel(), found.panels, strict=False):
        results = found.scores[key]
        if "none" in results:
            panel.axhline(100 * results["none"]["mean"], color="#999999", linestyle="--", linewidth=0.8)
        named = front(results) | {"none", "lpmt"}
        for name, result in results.items():
            colour = next((colours[family] for family, names in FAMILIES.items() if name in names), "#999999")
            colour = "#cc3311" if name == "lpmt" else colour
            x, y = result["seconds"], 100 * result["mean"]
            panel.plot(
                [x, x], [100 * result["low"], 100 * result["high"]], color=colour, linewidth=0.6, alpha=0.35
            )
            panel.plot([x], [y], "o", color=colour, markersize=6 if name == "lpmt" else 4)
            if name in named:
                panel.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7)
        panel.set(xscale="log", title=title(key), xlabel="seconds", ylabel="mAP, %")
    for panel in axes.ravel()[len(found.panels) :]:
        panel.axis("off")
    handles = [plt.Line2D([], [], marker="o", linestyle="", color=c, label=f) for f, c in colours.items()]
    handles.append(plt.Line2D([], [], marker="o", linestyle="", color="#cc3311", label="LPMT"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def front(results: dict[str, Result]) -> set[str]:
    """The methods that no other beats in time and accuracy together."""
    return {
        name
        for name, mine in results.items()
        if not any(
            other["mean"] >= mine["mean"] and other["seconds"] < mine["seconds"] for other in results.values()
        )
    }


def title(key: tuple[str, str, str]) -> str:
    name = TITLES.get(key[0], key[0])
    return f"{name}, {key[1]}" if key[1] in ("easy", "medium", "hard") else name


def largest(found: Measurements) -> str:
    """The set with the most queries times items, whose times say most."""
    results = [next(iter(found.scores[key].values())) for key in found.panels]
    return str(max(results, key=lambda result: result["queries"] * result["items"])["set"])


def _cell(result: Result, best: bool) -> str:
    value = f"{100 * result['mean']:.1f}"
    value = f"**{value}**" if best else value
    return value + (" (down)" if result["worse"] else "")
