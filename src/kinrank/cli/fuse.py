"""`kinrank fuse`: files of rankings -> one file with a ranking made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kinrank
from kinrank.cli.names import read_names
from kinrank.cli.output import Format, Json, Quiet, check_ranking_target, ranking_target, separate, tell
from kinrank.files.rankings import load_ranking, save_ranking
from kinrank.ranking import Ranking


def fuse(
    rankings: Annotated[list[Path], typer.Argument(help="Two rankings or more: .npz, .trec or .csv.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Ranking to write: .npz, .trec or .csv; - for stdout.")
    ],
    k: Annotated[float, typer.Option("-k", "--k", help="The larger, the less the first ranks stand out.")] = 60,
    weights: Annotated[
        str | None, typer.Option("--weights", help="One number >= 0 per ranking, such as 2,1. Without: all equal.")
    ] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="Items to return per query. Without: all.")] = None,
    query_ids: Annotated[
        Path | None,
        typer.Option("--query-ids", help="Text file of the queries' names, one per line, for files without."),
    ] = None,
    item_ids: Annotated[Path | None, typer.Option("--item-ids", help="The same, for the items.")] = None,
    format: Format = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make one ranking out of several by reciprocal rank fusion: an item scores weight / (k + its rank) in each.

    \b
    kinrank fuse images.npz texts.npz -o both.npz
    kinrank fuse ours.npz theirs.trec --weights 2,1 -o both.trec

    Only ranks count, so that the rankings may come from different models and programs. They must rank the same queries.
    """
    check_ranking_target(output, format)
    separate(output, *rankings, query_ids, item_ids)
    shares = None if weights is None else [_number(word) for word in weights.split(",")]
    names = read_names(query_ids), read_names(item_ids)
    fused = kinrank.fuse([_loaded(path, *names) for path in rankings], k, shares, depth)
    with ranking_target(output, format) as path:
        save_ranking(fused, path)
    facts = {
        "output": str(output),
        "queries": len(fused),
        "depth": fused.depth,
        "mode": fused.meta["mode"],
        "method": fused.meta["method"],
    }
    tell("{output}: {queries} queries x {depth} items, {method}", facts, json, output, quiet)


def _loaded(path: Path, query_ids: list[str] | None, item_ids: list[str] | None) -> Ranking:
    """A ranking with the names of its file, or else those of the command line."""
    found = load_ranking(path)
    return found.with_ids(item_ids if found.numbered else None, query_ids if found.query_ids is None else None)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--weights holds {word!r}; give numbers with commas between them, such as 2,1") from None
