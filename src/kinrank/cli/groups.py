"""`kinrank groups`: vectors or a prepared gallery -> groups of near-duplicates, as a table, CSV or JSON."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.inputs import GalleryKey, IdColumn, Metric, named_vectors
from kinrank.cli.output import Json, Quiet, bars, print_json, separate, table, writable
from kinrank.files.atomic import replacing

if TYPE_CHECKING:
    from kinrank.manifold import Group

LINES = 20  # groups that are still read by people
SHOWN = 8  # items of each
SWALLOWED = 0.5  # share of the gallery in one group above which the threshold is doubted


def groups(
    folder: Annotated[Path | None, typer.Argument(help="What `kinrank build` wrote; or give --gallery.")] = None,
    gallery: Annotated[Path | None, typer.Option("--gallery", "-g", help="Vectors, one row per item.")] = None,
    max_distance: Annotated[
        float | None,
        typer.Option(
            "--max-distance", help="Largest cosine distance, 0 to 2, of two items that are joined. Without: 0.05."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="Neighbours that may be joined to an item directly.")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv to write: group, size, id, distance.")
    ] = None,
    metric: Metric = None,
    gallery_key: GalleryKey = None,
    item_ids: Annotated[
        Path | None, typer.Option("--item-ids", help="Text file of the items' names, one per line.")
    ] = None,
    id_column: IdColumn = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find groups of near-duplicates, the largest first.

    \b
    kinrank groups --gallery g.npy
    kinrank groups --gallery g.npy --max-distance 0.02 --item-ids names.txt -o groups.csv
    kinrank groups gallery.manifold --json

    Two items are joined if their cosine distance is at most --max-distance and each is among the k nearest of the
    other, or one is the nearest of all to the other: 0 is the same direction, 0.05 an angle of 18 degrees, 1 a right
    angle. A group is all that is connected so. What distance is still a duplicate depends on the model behind the
    vectors: look at some groups, then choose.
    """
    if output is not None:
        writable(output, (".csv",))
    separate(output, folder, gallery, item_ids)
    if (folder is None) == (gallery is None):
        raise ValueError("say what to look at, once: a prepared gallery, or --gallery with a file of vectors")
    if folder is not None and (item_ids or gallery_key or id_column) is not None:
        raise ValueError(
            "--item-ids, --id-column and --gallery-key are for --gallery; a prepared gallery has its own ids"
        )
    source: Any
    if folder is not None:
        source, names = kinrank.Manifold.load(folder), None
    else:
        source, names = named_vectors(gallery or Path(), gallery_key, id_column, item_ids, "--item-ids")
    found = kinrank.groups(source, max_distance, k, names, bars(quiet), metric)
    if output is not None:
        with replacing(output) as file:
            file.write(_csv(found).encode())
    most = 0.05 if max_distance is None else max_distance
    facts = {"items": len(source), "max_distance": most, "groups": len(found), "grouped": sum(map(len, found))}
    if json:
        where = {} if output is None else {"output": str(output)}
        print_json({**where, **facts, **({} if output is not None else {"found": [_plain(group) for group in found]})})
        return
    if found and output is None:
        print(table([("size", "distance", "items"), *map(_line, found[:LINES])], right=(0, 1)))
        if len(found) > LINES:
            print(f"... and {len(found) - LINES} groups more: write them with -o, or print them with --json")
    if quiet:
        return
    used = source.info()["metric"] if isinstance(source, kinrank.Manifold) else metric
    kind = "distance" if used == "euclidean" else "cosine distance"
    print(
        ("\n" if found and output is None else "")
        + ("" if output is None else f"{output}: ")
        + "{groups} groups hold {grouped} of {items} items ({kind} at most {max_distance:g})".format(kind=kind, **facts)
    )
    if found and len(found[0]) > max(SWALLOWED * len(source), 2):
        print(f"One group holds {len(found[0])} items: --max-distance is probably too large for these vectors.")


def _line(group: Group) -> tuple[str, str, str]:
    more = ", ..." if len(group) > SHOWN else ""
    return str(len(group)), f"{group.distances.max():.4f}", ", ".join(map(str, group.ids[:SHOWN].tolist())) + more


def _plain(group: Group) -> dict[str, Any]:
    return {"size": len(group), "items": group.ids.tolist(), "distances": group.distances.tolist()}


def _csv(found: list[Group]) -> str:
    """A line per item; groups count from 1, distance is that to the nearest item it is joined to."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", "size", "id", "distance"])
    for number, group in enumerate(found, start=1):
        pairs = zip(group.ids.tolist(), group.distances.tolist(), strict=True)
        writer.writerows((number, len(group), name, f"{distance:.6g}") for name, distance in pairs)
    return text.getvalue()
