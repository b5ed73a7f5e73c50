"""The command line `kinrank`: all commands and their headings in `--help`."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from kinrank.cli.bench import bench
from kinrank.cli.errors import CommandGroup
from kinrank.cli.option_groups import add_command

SEARCH, GALLERIES, EVALUATE = "Search and re-rank", "Prepared galleries", "Evaluate"
VECTORS, SERVE, BENCHMARKS = "Vectors and encoders", "Serve and watch", "Benchmarks"
METHOD_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}  # parameters of methods are flags, too

COMMANDS = (  # heading, verb, module and function in kinrank.cli, summary, settings
    (SEARCH, "rerank", "rerank.rerank", "Re-rank a gallery for every query.", METHOD_FLAGS),
    (SEARCH, "search", "search.search", "Search a prepared gallery.", None),
    (SEARCH, "explain", "search.explain", "Show the chain from a query to a result.", None),
    (SEARCH, "near-duplicates", "near_duplicates.near_duplicates", "Find groups of near-duplicates.", None),
    (SEARCH, "fuse", "fuse.fuse", "Fuse several rankings into one.", None),
    (SEARCH, "methods", "methods.methods", "List all methods, or the parameters of one.", None),
    (GALLERIES, "build", "build.build", "Prepare a gallery for fast searches.", METHOD_FLAGS),
    (GALLERIES, "add", "gallery.add", "Add items to a prepared gallery.", None),
    (GALLERIES, "remove", "gallery.remove", "Remove items from it.", None),
    (GALLERIES, "sync", "gallery.sync", "Apply the changes of its vector database.", None),
    (GALLERIES, "observe", "gallery.observe", "Remember queries, so that later ones find more.", None),
    (GALLERIES, "info", "gallery.info", "Describe a prepared gallery.", None),
    (GALLERIES, "verify", "gallery.verify", "Check its files for damage.", None),
    (GALLERIES, "export", "gallery.export", "Write its graph, states and steps as sparse matrices.", None),
    (EVALUATE, "evaluate", "evaluate.evaluate", "Score a ranking, with 95 % intervals.", None),
    (EVALUATE, "compare", "compare.compare", "Compare methods on your data.", None),
    (EVALUATE, "diagnose", "tune.diagnose", "Predict whether re-ranking helps, without labels.", None),
    (EVALUATE, "tune", "tune.tune", "Choose parameters by a few labels.", None),
    (EVALUATE, "report", "report.report", "Write a page that shows what re-ranking does, and why.", None),
    (EVALUATE, "demo", "report.demo", "Write such a page for toy images.", None),
    (VECTORS, "embed", "embed.embed", "Encode images or texts as vectors.", None),
    (VECTORS, "whiten", "whiten.whiten", "Whiten vectors, fully or by half.", None),
    (VECTORS, "fit", "fit.fit", "Fit the weights of a learned method.", METHOD_FLAGS),
    (SERVE, "serve", "serve.serve", "Serve a web page and an HTTP API.", None),
    (SERVE, "watch", "watch.watch", "Keep a gallery in sync with a folder of images or texts.", None),
    (BENCHMARKS, "warmup", "warmup.warmup", "Compile all loops now instead of at their first use.", None),
)


class LazyGroup(CommandGroup):
    """Imports a command when it is called or described; `--help` needs only the table above."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._imported: set[str] = set()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for heading, verb, place, short, settings in COMMANDS:
            if verb == cmd_name and verb not in self._imported:
                module, function = place.split(".")
                own = typer.Typer(rich_markup_mode=None, add_completion=False)
                work = getattr(importlib.import_module(f"kinrank.cli.{module}"), function)
                add_command(own, verb, work, short_help=short, context_settings=settings, rich_help_panel=heading)
                self.commands[verb] = typer.main.get_command(own)
                self._imported.add(verb)
        return super().get_command(ctx, cmd_name)


def _stand_in() -> None:
    """Take the place of a command that is not imported yet."""


app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False)
for heading, verb, _place, short, _settings in COMMANDS:
    app.command(verb, short_help=short, rich_help_panel=heading)(_stand_in)
app.command(
    "bench",
    short_help="Measure accuracy, speed, memory and scale on this machine.",
    context_settings=METHOD_FLAGS,
    add_help_option=False,
    rich_help_panel=BENCHMARKS,
)(bench)


def _print_version(requested: bool) -> None:
    if requested:
        import kinrank

        print(f"kinrank {kinrank.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def kinrank_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """kinrank re-ranks the results of a vector search along the manifold of the data.

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

    Three options choose results. --where FILE lists the ids of items that can be results. --filter FIELD=VALUE chooses
    them by fields of a vector database, with --store. Other items still link queries to results. --positives ID,ID
    (and --negatives) mark results of an earlier search as right (or wrong), and improve the next one.

    Without data, try `kinrank demo`. `kinrank COMMAND --help` explains a command.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
