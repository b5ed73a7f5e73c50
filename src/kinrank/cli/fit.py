"""`kinrank fit`: fit the weights of a learned method, or import published ones."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import kinrank
from kinrank.cli.input_files import read_label_file, read_vectors
from kinrank.cli.methods import format_flags, parse_parameters
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import OutputOptions, check_output
from kinrank.errors import InputError
from kinrank.learned import IMPORTS, RECIPES
from kinrank.learned.fit_weights import check_learned_method
from kinrank.methods.learned_method import LearnedMethod
from kinrank_entry import INTERRUPTED

PSEUDO_LABELS = "pseudo"


class TrainingOptions(OptionGroup):
    """Training data, or published weights instead of it."""

    title = "Training"
    features: File = option(None, "Training vectors, or FILE:KEY; - for stdin.", "--features", "-f")
    labels: File = option(None, "One label per vector: .npy, .npz, .csv or .txt; -1 or empty: unknown.")
    pseudo_labels: bool = option(False, "Train on the results of LPMT instead of labels.")
    checkpoint: File = option(None, "Published weights to import instead of training: csa, ssr.")
    seed: int | None = option(None, "Seed of the random numbers. Default: 0.", min=0)

    def check(self) -> None:
        """Check, before anything is read, that there is exactly one source of weights."""
        if self.checkpoint is not None:
            values = {"features": self.features, "labels": self.labels, "seed": self.seed}
            values["pseudo-labels"] = self.pseudo_labels or None
            given = [name for name, value in values.items() if value is not None]
            if given:
                raise InputError(f"--checkpoint imports weights and --{given[0]} is for training; give one of them")
        elif self.features is None:
            raise InputError("there is nothing to train on; give --features with --labels, or --checkpoint")
        elif self.labels is not None and self.pseudo_labels:
            raise InputError("--labels and --pseudo-labels exclude each other; give one of them")
        elif self.labels is None and not self.pseudo_labels:
            raise InputError("there are no labels; give --labels, or --pseudo-labels to train on the results of LPMT")


def fit(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="csa, ssr or lattqe.")],
    training: TrainingOptions,
    output: OutputOptions,
    target: Path = option(..., "File of weights to write: .npz.", "--output", "-o"),
) -> None:
    """Fit the weights of a learned method: CSA, SSR or LAttQE.

    \b
    kinrank fit csa --features f.npy --labels l.npy -o csa.npz
    kinrank rerank --queries q.npy --gallery g.npy --method csa --weights csa.npz -o ranking.npz
    kinrank fit lattqe --features f.npy --pseudo-labels --method-k 8 --lists 4800 -o lattqe.npz
    kinrank fit ssr --checkpoint published.pth --lr 5e-4 -o ssr.npz

    Training takes about a minute and needs torch, which the extra `torch` installs. Ranking with the weights does not.
    Ctrl-C stops early and keeps the weights so far. The same seed and input give the same weights.

    Train on other items than those you evaluate on. Without labels, LPMT and GSS rank better than methods trained on
    pseudo-labels: `kinrank methods gss`. The sizes of a network are flags, too:

    \b
    csa     --anchors 64 --width 128 --depth 2 --heads 4 --lists 2400
    ssr     --top 64 --hidden 256 --lr 1e-3 --steps 1 --variant cut --lists 2400
    lattqe  --method-k 16 --layers 1 --heads 8 --hidden 512 --lists 9600

    docs/learned.md explains them.
    """
    check_output(target, (".npz",), training.features, training.labels, training.checkpoint)
    chosen = check_learned_method(method)
    training.check()
    started = time.perf_counter()
    recipe = (RECIPES if training.checkpoint is None else IMPORTS).get(chosen.weights_name)
    options = parse_parameters(f"fit {chosen.name}", () if recipe is None else recipe.parameters(), context.args)
    if training.checkpoint is not None:
        made = kinrank.learned.import_weights(chosen, training.checkpoint, target, **options)
    else:
        rows = read_vectors(training.features or Path())
        known = PSEUDO_LABELS if training.labels is None else read_label_file(training.labels, blank=True)
        try:
            made = kinrank.fit(
                chosen, rows, known, path=target, seed=training.seed or 0, progress=output.progress, **options
            )
        except KeyboardInterrupt:
            if not output.quiet:
                print("\nkinrank: stopped before the first step ended; nothing was written", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    _print_result(made, target, time.perf_counter() - started, output)


def _print_result(made: Any, target: Path, seconds: float, output: OutputOptions) -> None:
    assert isinstance(made, LearnedMethod)
    network = made.network()
    facts = {
        "output": str(target),
        "method": made.name,
        "sizes": dict(network.sizes),
        **{key: value for key, value in network.record.items() if key != "method"},
        "seconds": round(seconds, 3),
    }
    used = f"kinrank rerank --queries q.npy --gallery g.npy {format_flags(made)}"
    done = "" if network.record["labels"] == "published" else ", {steps} of {of_steps} steps"
    words = "{output}: weights of {method}" + done + ", {seconds:.1f} s\n" + f"Use them: {used} -o ranking.npz"
    output.print_summary(words, facts, target)
    if network.record.get("stopped_early"):
        raise typer.Exit(INTERRUPTED)  # so that scripts notice
