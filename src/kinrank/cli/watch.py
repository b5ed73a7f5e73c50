"""`kinrank watch`: keep a prepared gallery in sync with a folder of images or texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kinrank.cli.encoder_options import ContentOptions, EncoderOptions
from kinrank.cli.option_groups import OptionGroup, option
from kinrank.cli.output import OutputOptions, print_json
from kinrank.errors import InputError
from kinrank.sync_folder import SyncResult, sync_source
from kinrank.sync_folder.setup import prepare_sync
from kinrank.sync_folder.sync import watch_source

MAX_LISTED_SKIPS = 5  # skipped items to print


class WatchOptions(OptionGroup):
    """Gallery to keep in sync, and interval of the checks."""

    title = "Sync"
    once: bool = option(False, "Sync once and exit, as for a nightly job.")
    every: float = option(2.0, "Seconds between two checks.", min=0.1, max=86_400)
    join: bool = option(False, "Add items to a gallery that was made in another way, with the same encoder.")
    token: str | None = option(None, "Secret of a service with tokens.", envvar="KINRANK_TOKEN")


def watch(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder or .zip of images, or texts, as for `kinrank embed`.")
    ],
    manifold: Annotated[
        str,
        typer.Argument(
            metavar="MANIFOLD",
            help="Prepared gallery: a folder, created if it does not exist; or the address of a service.",
        ),
    ],
    options: WatchOptions,
    encoder: EncoderOptions,
    content: ContentOptions,
    output: OutputOptions,
) -> None:
    """Keep a prepared gallery in sync with a folder: add new items, replace changed ones, remove missing ones.

    \b
    kinrank watch photos photos.manifold
    kinrank watch photos photos.manifold --once
    kinrank watch photos http://127.0.0.1:8000 --join
    kinrank watch notes.csv --column body notes.manifold

    The first time everything is encoded and the gallery is built; later only changes. MANIFOLD.source.json records the
    state of each file. Change a gallery that is being served through its service: give its address. A folder that
    cannot be read, or is empty, removes nothing. A gallery of texts is built for queries with one right answer.
    """
    setup = prepare_sync(
        source,
        manifold,
        encoder.encoder,
        encoder.options,
        content=content.content,
        columns=(content.column, content.id_column),
        token=options.token,
        join=options.join,
    )
    if output.json and not options.once:
        raise InputError("--json prints one document; also give --once")

    def report(result: SyncResult) -> None:
        if not output.quiet:
            print(f"{manifold}: {result}", flush=True)
            for name, reason in list(result.skipped.items())[:MAX_LISTED_SKIPS]:
                print(f"  skipped {name}: {reason}", flush=True)

    def report_problem(text: str) -> None:
        print(f"kinrank: {' '.join(text.split())}", file=sys.stderr, flush=True)

    result = sync_source(*setup, progress=output.progress)
    if output.json:
        names = ("added", "changed", "removed", "skipped", "items")
        print_json({"manifold": manifold, **{name: getattr(result, name) for name in names}})
        return
    report(result)
    if not options.once:
        watch_source(setup, options.every, None, report, report_problem, output.progress)
