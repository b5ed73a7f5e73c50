"""The command line: every verb, and the help that teaches them."""

from __future__ import annotations

from typing import Annotated

import typer

from kinrank.cli import bench, demo, evaluate, methods, rerank
from kinrank.cli.mistakes import Commands

ANY_FLAG = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("rerank", context_settings=ANY_FLAG)(rerank.rerank)
app.command("evaluate", short_help="Score a ranking, with 95 % intervals.")(evaluate.evaluate)
app.command("methods", short_help="List all methods, or the parameters of one.")(methods.methods)
app.add_typer(bench.app, name="bench")
app.command("demo", short_help="Write a page that shows what re-ranking does.")(demo.demo)


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
    kinrank rerank --queries q.npy --gallery g.npy -o ranking.npz
    kinrank evaluate ranking.npz --query-labels ql.npy --gallery-labels gl.npy
    kinrank methods lpmt

    No data at hand? `kinrank demo` draws its own. `kinrank COMMAND --help` explains a command.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
