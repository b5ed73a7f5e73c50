"""`kinrank warmup`: compile all loops now instead of at their first use."""

from __future__ import annotations

from typing import Annotated

import typer

from kinrank.cli.output import Json, Quiet, bars, print_json
from kinrank.warmup import warm_up


def warmup(
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="How many at once. Without: one per core.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile all loops once, so that the first use is as quick as every other.

    \b
    kinrank warmup
    RUN kinrank warmup          in the recipe of an image

    Machine code is kept beside the package if that folder can be written to, or where NUMBA_CACHE_DIR says, or in your
    cache folder. It is for processors of this kind: on another one the loops are compiled again, at their first use.
    """
    seconds = warm_up(processes, bars(quiet))
    if json:
        print_json({"seconds": round(seconds, 3)})
    elif not quiet:
        print(f"all loops are compiled; it took {seconds:.1f} s")
