"""`kinrank near-duplicates`: find groups of near-duplicates and print them as a table, CSV or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kinrank
from kinrank.cli.input_files import IdColumn, ItemIds, Metric, read_vectors_and_ids
from kinrank.cli.option_groups import File, OptionGroup, option
from kinrank.cli.output import OutputOptions, check_output, write_text
from kinrank.errors import InputError
from kinrank.tables import align_columns, render_csv

if TYPE_CHECKING:
    from kinrank.manifold import Group

MAX_PRINTED_GROUPS = 20
MAX_PRINTED_ITEMS = 8  # of each group
SUSPICIOUS_SHARE = 0.5  # a group with a larger share of the gallery suggests that the threshold is too large


class ItemVectors(OptionGroup):
    """Vectors of the items, unless there is a prepared gallery, and their ids."""

    title = "Vectors"
    gallery: File = option(None, "Vectors, one row per item; or FILE:KEY.", "--gallery", "-g")
    item_ids: ItemIds = None
    id_column: IdColumn = None
    metric: Metric = None


class GroupOutput(OutputOptions):
    """Output of groups: a file, or a table."""

    output: File = option(None, "File to write: .csv with group, size, id, distance.", "--output", "-o")


def near_duplicates(
    vectors: ItemVectors,
    output: GroupOutput,
    folder: Annotated[File, typer.Argument(help="Folder written by `kinrank build`; or give --gallery.")] = None,
    max_distance: float | None = option(
        None, "Largest cosine distance, 0 to 2, of two items that are linked. Default: 0.05."
    ),
    neighbours: int = option(20, "Neighbours that can be linked to an item directly."),
) -> None:
    """Find groups of near-duplicates, the largest first.

    \b
    kinrank near-duplicates --gallery g.npy
    kinrank near-duplicates --gallery g.npy --max-distance 0.02 --item-ids names.txt -o groups.csv
    kinrank near-duplicates gallery.manifold --json

    Two items are linked if their cosine distance is at most --max-distance and each is among the --neighbours nearest
    of the other, or one is the nearest of all to the other. 0 is the same direction, 0.05 an angle of 18 degrees, 1 a
    right angle. A group is a set of items connected by links. The distance of duplicates depends on the model that made
    the vectors: look at some groups, then choose.
    """
    check_output(output.output, (".csv",), folder, vectors.gallery, vectors.item_ids)
    if (folder is None) == (vectors.gallery is None):
        raise InputError("give either a prepared gallery or --gallery, a file of vectors")
    if folder is not None and (vectors.item_ids or vectors.id_column) is not None:
        raise InputError("--item-ids and --id-column need --gallery; a prepared gallery has its own ids")
    source: Any
    if vectors.gallery is None:
        source, names = kinrank.Manifold.load(folder or Path()), None
        metric = source.info()["metric"]
    else:
        source, names = read_vectors_and_ids(vectors.gallery, vectors.id_column, vectors.item_ids, "item_ids")
        metric = vectors.metric
    groups = kinrank.near_duplicates(
        source, max_distance, k=neighbours, ids=names, progress=output.progress, metric=vectors.metric
    )
    facts: dict[str, Any] = {
        "items": len(source),
        "max_distance": 0.05 if max_distance is None else max_distance,
        "groups": len(groups),
        "grouped": sum(map(len, groups)),
    }
    line = "{groups} groups hold {grouped} of {items} items "
    line += f"({'distance' if metric == 'euclidean' else 'cosine distance'} at most {{max_distance:g}})"
    if output.output is not None:
        _write_csv(output.output, groups)
        facts, line = {"output": str(output.output), **facts}, "{output}: " + line
    elif output.json:
        facts["found"] = [
            {"size": len(group), "items": group.ids.tolist(), "distances": group.distances.tolist()} for group in groups
        ]
    elif groups:
        _print_table(groups)
        line = "\n" + line
    if groups and len(groups[0]) > max(SUSPICIOUS_SHARE * len(source), 2):
        line += f"\nOne group holds {len(groups[0])} items: --max-distance is probably too large for these vectors."
    output.print_summary(line, facts)


def _print_table(groups: list[Group]) -> None:
    """Print the first MAX_PRINTED_GROUPS groups."""
    rows = []
    for group in groups[:MAX_PRINTED_GROUPS]:
        items = ", ".join(map(str, group.ids[:MAX_PRINTED_ITEMS].tolist()))
        rest = ", ..." if len(group) > MAX_PRINTED_ITEMS else ""
        rows.append((len(group), f"{group.distances.max():.4f}", items + rest))
    print(align_columns([("size", "distance", "items"), *rows], right=(0, 1)))
    if len(groups) > MAX_PRINTED_GROUPS:
        hidden = len(groups) - MAX_PRINTED_GROUPS
        print(f"... and {hidden} more groups: write them with -o, or print them with --json")


def _write_csv(path: Path, groups: list[Group]) -> None:
    """Write a line per item. Groups count from 1; the distance is that to the nearest item it is linked to."""
    rows = [
        (number, len(group), name, f"{distance:.6g}")
        for number, group in enumerate(groups, start=1)
        for name, distance in zip(group.ids.tolist(), group.distances.tolist(), strict=True)
    ]
    write_text(path, render_csv(["group", "size", "id", "distance"], rows))
