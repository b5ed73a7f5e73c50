"""The chain between a query outside the graph and an item of a prepared gallery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinrank.chain import Chain, Link
from kinrank.manifold.snapshot import BLOCK_ROWS, Snapshot
from kinrank.neighbors import pairwise_distances
from kinrank.stages.request import Request
from kinrank.vector_input import Vectors


def explain_item(snapshot: Snapshot, query: Vectors, item: int, flows: int) -> Chain:
    """Explain the rank of an item, given by its number, for one query (1, d).

    The names of links are ids. A chain can pass through an observed query: its kind is "remembered", and its name is
    "remembered query 0" for the oldest one.
    """
    place = int(snapshot.remembered.items[item])
    difference = query[0] - snapshot.gallery.vectors[place]
    chain = find_online_chain(snapshot, query, place, flows)
    return replace(
        chain.rename(chain.links[0], lambda node: _describe_link(snapshot, node)),
        distance=float(np.sqrt(difference @ difference)),
        rank_before=_find_rank_before(query, snapshot.item_vectors, item, snapshot.gallery.unit),
        rank_after=_find_rank_after(snapshot, query, item),
    )


def find_online_chain(snapshot: Snapshot, query: Vectors, place: int, flows: int) -> Chain:
    """Find the chain to the item at a position among all rows, by which the method ranks it; names are positions."""
    snapshot.method.require("explain")
    request = Request(query, 1, 1, masks=snapshot.masks(), neighbors=snapshot.found(query, 1))
    return snapshot.method.explain_result(snapshot.gallery, snapshot.state, request, place, flows)


def _describe_link(snapshot: Snapshot, place: int) -> Link:
    """Return the item or observed query at a position."""
    remembered, names = snapshot.remembered, snapshot.names
    number = remembered.numbers(np.array([place]))
    if remembered.mask[place]:
        return Link("remembered", int(number[0]), f"remembered query {int(number[0])}")
    return Link("item", int(names.numbers(number)[0]), names.of(number).tolist()[0])


def _find_rank_after(snapshot: Snapshot, query: Vectors, item: int) -> int:
    """Return the rank of an item in the re-ranked answer, from 1."""
    k = 256
    while True:  # most explained items are ranked high; search deeper only for the others
        answer = snapshot.search(Request(query, k, k))
        places = np.flatnonzero(answer.indices[0] == item)
        if len(places):
            return int(places[0]) + 1
        if k >= len(snapshot):  # an approximate store may never find it: then it is ranked last
            return len(snapshot)
        k *= 16


def _find_rank_before(query: Vectors, vectors: Vectors, item: int, unit: bool = True) -> int:
    """Return the rank of an item in an exact search of one query (1, d), from 1; ties go to the lower number."""
    own = pairwise_distances(query, vectors[item : item + 1], unit)[0, 0]
    place = 1
    for start in range(0, len(vectors), BLOCK_ROWS):
        distances = pairwise_distances(query, vectors[start : start + BLOCK_ROWS], unit)[0]
        numbers = np.arange(start, start + len(distances))
        nearer = (distances < own) | ((distances == own) & (numbers < item))
        place += int(nearer[numbers != item].sum())
    return place
