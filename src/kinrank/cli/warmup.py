"""`kinrank warmup`: compile all loops now instead of at their first use."""

from __future__ import annotations

from kinrank.cli.option_groups import option
from kinrank.cli.output import OutputOptions
from kinrank.warmup import warm_up, write_baseline_code


def warmup(
    output: OutputOptions,
    processes: int | None = option(None, "Number of parallel processes. Default: one per core.", min=1),
    baseline: bool = option(False, "Compile for a processor that most computers have, to build a wheel with."),
) -> None:
    """Compile all loops once, so that the first use is as fast as later ones.

    \b
    kinrank warmup
    RUN kinrank warmup          in a Dockerfile

    Machine code is stored next to the package if that folder is writable, or in NUMBA_CACHE_DIR, or in your cache
    folder. It works for processors of this kind only: on others the loops are compiled again at their first use.
    --baseline writes it to the folder machine_code of the package, and the next wheel that is built includes it.
    """
    if baseline:
        folder = write_baseline_code()
        size = sum(path.stat().st_size for path in folder.iterdir())
        text = "wrote {bytes} bytes of machine code to {folder}"
        output.print_summary(text, {"bytes": size, "folder": str(folder)})
        return
    seconds = warm_up(processes, output.progress)
    output.print_summary("compiled all loops in {seconds:.1f} s", {"seconds": round(seconds, 3)})
