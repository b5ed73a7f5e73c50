"""The command line: every verb, and the help that teaches them."""

from __future__ import annotations

from typing import Annotated

import typer

from kinrank.cli import (
    bench,
    build,
    change,
    compare,
    demo,
    embed,
    evaluate,
    explain,
    export,
    fit,
    folder,
    fuse,
    groups,
    methods,
    report,
    rerank,
    search,
    serve,
    tune,
    warmup,
    watch,
    whiten,
)
from kinrank.cli.mistakes import Commands

VECTORS = "From pictures and texts to vectors"
RANK, SERVE, LOOK = "Re-rank and score", "Prepare once, search online", "See and measure"
ANY_FLAG = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for heading, verb, function, short, settings in (
    (VECTORS, "embed", embed.embed, "Make vectors of pictures or texts.", None),
    (VECTORS, "whiten", whiten.whiten, "Whiten vectors, wholly or by half.", None),
    (RANK, "rerank", rerank.rerank, "Re-rank a gallery for every query.", ANY_FLAG),
    (RANK, "evaluate", evaluate.evaluate, "Score a ranking, with 95 % intervals.", None),
    (RANK, "compare", compare.compare, "Which method is best on your data.", None),
    (RANK, "tune", tune.tune, "Whether re-ranking will help, and with which parameters.", None),
    (RANK, "fuse", fuse.fuse, "Make one ranking out of several.", None),
    (RANK, "fit", fit.fit, "Learn the weights of a learned method.", ANY_FLAG),
    (RANK, "methods", methods.methods, "List all methods, or the parameters of one.", None),
    (SERVE, "build", build.build, "Prepare a gallery: a folder that answers queries.", ANY_FLAG),
    (SERVE, "search", search.search, "Nearest items of queries it has never seen.", None),
    (SERVE, "explain", explain.explain, "The chain from a query to a result.", None),
    (SERVE, "add", change.add, "Put more items into a prepared gallery.", None),
    (SERVE, "remove", change.remove, "Take items out of it.", None),
    (SERVE, "sync", change.sync, "Follow the vector database it was built from.", None),
    (SERVE, "observe", change.observe, "Remember queries, so that later ones find more.", None),
    (SERVE, "info", folder.info, "What a prepared gallery holds.", None),
    (SERVE, "export", export.export, "Its graph, states and steps as sparse matrices.", None),
    (SERVE, "verify", folder.verify, "Whether all its files are whole.", None),
    (SERVE, "watch", watch.watch, "Follow a folder of pictures or texts.", None),
    (SERVE, "serve", serve.serve, "A page that shows why an item moved, and a service.", None),
    (LOOK, "report", report.report, "A page of evidence: what re-ranking does, and why.", None),
    (LOOK, "groups", groups.groups, "Groups of near-duplicates.", None),
    (LOOK, "demo", demo.demo, "Write a page that shows what re-ranking does.", None),
    (LOOK, "warmup", warmup.warmup, "Compile all loops now, not at their first use.", None),
):
    app.command(verb, short_help=short, context_settings=settings, rich_help_panel=heading)(function)
app.add_typer(bench.app, name="bench", rich_help_panel=LOOK)


def _version(wanted: bool) -> None:
    if wanted:
        import kinrank

        print(f"kinrank {kinrank.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def kinrank_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """kinrank re-ranks what a vector search found, along the manifold of the data.

    \b
    kinrank serve photos
    kinrank embed photos -o photos.npy

    \b
    kinrank rerank --queries q.npy --gallery g.npy -o ranking.npz
    kinrank evaluate ranking.npz --query-labels ql.npy --gallery-labels gl.npy
    kinrank methods lpmt

    \b
    kinrank build --gallery g.npy -o gallery.manifold
    kinrank search gallery.manifold --queries q.npy -k 10
    kinrank explain gallery.manifold --queries q.npy --query 3 --item 17

    No data at hand? `kinrank demo` draws its own. `kinrank COMMAND --help` explains a command.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
