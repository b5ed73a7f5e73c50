"""`kinrank fit`: files of vectors and labels -> a file with the weights of a learned method."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import kinrank
from kinrank.cli.flags import flags_of, values_from
from kinrank.cli.inputs import vectors
from kinrank.cli.output import Json, Quiet, bars, separate, tell, writable
from kinrank.files.names import read_labels
from kinrank.learned import IMPORTS, RECIPES
from kinrank.learned.fitting import learned_method
from kinrank.methods.learned import Learned
from kinrank_entry import INTERRUPTED

File = Path | None
PSEUDO = "pseudo"


def fit(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="csa, ssr or lattqe.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Weights to write: .npz.")],
    features: Annotated[File, typer.Option("--features", "-f", help="Vectors to learn on; - for stdin.")] = None,
    labels: Annotated[
        File, typer.Option("--labels", help="A label for each: .npy, .npz, .csv or .txt; -1 or empty: unknown.")
    ] = None,
    pseudo_labels: Annotated[
        bool, typer.Option("--pseudo-labels", help="Without labels: learn from what LPMT finds in the vectors.")
    ] = False,
    checkpoint: Annotated[
        File, typer.Option("--checkpoint", help="Published weights to take over instead of learning: csa, ssr.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Where random numbers start. Without: 0.")] = None,
    features_key: Annotated[
        str | None, typer.Option("--features-key", help="Which array of an .npz, .h5, .mat or .safetensors to take.")
    ] = None,
    labels_key: Annotated[str | None, typer.Option("--labels-key", help="The same, for --labels.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn the weights of a learned method: CSA, SSR or LAttQE.

    \b
    kinrank fit csa --features f.npy --labels l.npy -o csa.npz
    kinrank rerank --queries q.npy --gallery g.npy --method csa --weights csa.npz -o ranking.npz
    kinrank fit lattqe --features f.npy --pseudo-labels --k 8 --lists 4800 -o lattqe.npz
    kinrank fit ssr --checkpoint published.pth --lr 5e-4 -o ssr.npz

    Learning takes about a minute and needs torch: pip install 'kinrank[torch]'. Ranking with the weights does not.
    Ctrl-C keeps what was learned so far. The same seed and input give the same weights.

    Learn on other items than those you judge by. Without labels LPMT and GSS rank better than what is learned from
    pseudo-labels: `kinrank methods gss`. The size of a network is a flag, too:

    \b
    csa     --anchors 64 --width 128 --depth 2 --heads 4 --lists 2400
    ssr     --top 64 --hidden 256 --lr 1e-3 --steps 1 --variant cut --lists 2400
    lattqe  --k 16 --layers 1 --heads 8 --hidden 512 --lists 9600

    What they mean: docs/learned.md.
    """
    separate(output, features, labels, checkpoint)
    writable(output, (".npz",))
    chosen = learned_method(method)
    learning = {"features": features, "labels": labels, "pseudo_labels": pseudo_labels or None, "seed": seed}
    _check(checkpoint, {**learning, "features_key": features_key, "labels_key": labels_key})
    started = time.perf_counter()
    if checkpoint is not None:
        kind = IMPORTS.get(chosen.fitted_as)
        options = values_from(f"fit {chosen.name}", () if kind is None else kind.parameters(), context.args)
        made = kinrank.import_weights(chosen, checkpoint, output, **options)
    else:
        options = values_from(f"fit {chosen.name}", RECIPES[chosen.fitted_as].parameters(), context.args)
        rows = vectors(_given(features), features_key)
        known = PSEUDO if labels is None else read_labels(labels, labels_key, blank=True)
        try:
            made = kinrank.fit(chosen, rows, known, output, seed or 0, progress=bars(quiet), **options)
        except KeyboardInterrupt:
            if not quiet:
                print("\nkinrank: stopped before the first step was done; nothing was written", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    _tell(made, output, time.perf_counter() - started, json, quiet)


def _check(checkpoint: File, learning: dict[str, Any]) -> None:
    """Refuse, before anything is read, too much or too little to learn from."""
    given = [name for name, value in learning.items() if value is not None]
    if checkpoint is not None:
        if given:
            flag = f"--{given[0].replace('_', '-')}"
            raise ValueError(f"--checkpoint takes over what others learned, and {flag} is about learning; give one")
    elif "features" not in given:
        raise ValueError("there is nothing to learn from; give --features with --labels, or --checkpoint")
    elif "labels" in given and "pseudo_labels" in given:
        raise ValueError("--labels and --pseudo-labels both say what belongs together; give one of them")
    elif "labels" not in given and "pseudo_labels" not in given:
        raise ValueError("there are no labels; give --labels, or --pseudo-labels to learn from what LPMT finds")


def _given(features: File) -> Path:
    assert features is not None  # see _check
    return features


def _tell(made: Any, output: Path, seconds: float, json: bool, quiet: bool) -> None:
    assert isinstance(made, Learned)
    network = made.network()
    facts = {
        "output": str(output),
        "method": made.name,
        "sizes": dict(network.sizes),
        **{key: value for key, value in network.record.items() if key != "method"},
        "seconds": round(seconds, 3),
    }
    used = f"kinrank rerank --queries q.npy --gallery g.npy {flags_of(made)}"
    done = "" if network.record["labels"] == "published" else ", {steps} of {of_steps} steps"
    words = "{output}: weights of {method}" + done + ", {seconds:.1f} s\n" + f"Use them: {used} -o ranking.npz"
    tell(words, facts, json, output, quiet)
    if network.record.get("stopped_early"):
        raise typer.Exit(INTERRUPTED)  # so that a script does not go on as if nothing had happened
