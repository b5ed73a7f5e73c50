"""Expansion, what the query expansion methods share: a better query, maybe a better gallery -> distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors, are_unit
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.served import Answer, Gallery, Kept, by_halves, equally_many, halves, searched_exactly
from kinrank.neighbors import Integers, Neighbors, first_equal
from kinrank.parameters import parameter
from kinrank.progress import SILENT, Progress
from kinrank.stages.masks import EVERYONE, Masks

KDBA = (
    "how many items are mixed into each gallery item, itself included (database-side augmentation); "
    "0 leaves the gallery as it is"
)


class Neighborhoods(NamedTuple):
    """Rows to be expanded and what they are expanded with.

    rows (m, d); gallery (g, d), the original one; others (m, <= k) positions in it, the row itself left out;
    k as declared; own: which gallery item each row is, None for queries from outside; augmenting: whether the
    rows are the gallery's own; unit: whether rows have length one; network: what `Expansion.network` read.
    """

    rows: Vectors
    gallery: Vectors
    others: Neighbors
    k: int
    own: Integers | None
    augmenting: bool
    unit: bool
    network: Any = None


class Expanded(NamedTuple):
    """Expanded queries, the gallery they are compared with, the first equal of every gallery item; unit: as above."""

    queries: Vectors
    gallery: Vectors
    first: Integers
    unit: bool


class Opened(NamedTuple):
    """What searches of a prepared gallery use: the augmented one, None where it is not, and the network of a method."""

    augmented: Vectors | None
    network: Any = None


@dataclass(frozen=True, kw_only=True)
class Expansion(Method):
    """Replace every query by a mixture of itself and its nearest gallery items, then search again.

    A subclass says in `expand` how the mixture is made. With `kdba` > 0 every gallery item is replaced by the
    same kind of mixture too. Queries are expanded from the original gallery in either case; the augmented one
    is only what they are finally compared with.

    Distances are -q'.x' between unit vectors, the negated score of the published programs, as for every method that
    scores. Where the length of vectors matters (metric "euclidean"), a mixture has the mean length of what was mixed,
    and distances are |q' - x'|^2 / 2 - 1, which is the same for unit vectors.
    """

    k: int = parameter(4, "how many nearest gallery items are mixed into each query", low=1)
    kdba: int = parameter(0, KDBA, low=0)

    def expand(self, around: Neighborhoods, progress: Progress) -> Vectors:
        """(m, d) unit rows: the mixture of each row and its neighbours."""
        raise NotImplementedError

    def network(self) -> Any:
        """What `expand` needs beside the vectors, read once."""
        return None

    def prepare(self, items: Items, progress: Progress) -> Expanded:
        own = items.queries if items.self_query else None
        vectors, network = (items.query_vectors, items.gallery_vectors), self.network()
        near = items.query_neighbors(self.k)
        queries = self.expand(Neighborhoods(*vectors, near, self.k, own, False, items.unit, network), progress)
        first = first_equal(items.gallery_vectors)
        gallery = self.augmented(items, progress, network)[first] if self.kdba else items.gallery_vectors
        return Expanded(queries, gallery, first, items.unit)

    def augmented(self, items: Items, progress: Progress, network: Any = None) -> Vectors:
        """(g, d) unit rows: every gallery item mixed with its kdba - 1 nearest others; network: see `network`."""
        lists = items.gallery_neighbors(self.kdba)
        others = Neighbors(np.ascontiguousarray(lists.indices[:, 1:]), np.ascontiguousarray(lists.distances[:, 1:]))
        rows = items.gallery_vectors
        around = Neighborhoods(rows, rows, others, self.kdba - 1, np.arange(len(rows)), True, items.unit, network)
        return self.expand(around, progress)

    def distances(self, prepared: Expanded, queries: NDArray[np.int64]) -> NDArray[Any]:
        return halves(prepared.queries[queries], prepared.gallery, prepared.first, prepared.unit)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Expanded rows while they are divided by their length, neighbour lists, one block of products."""
        queried = queries * (dimensions * 12 + (min(self.k, items) + 9) * 24)
        augmented = items * (dimensions * 16 + (min(self.kdba, items) + 9) * 24) if self.kdba else 0
        return queried + augmented + min(items, 1024) * min(items, 4096) * 4

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """The augmented gallery, (n, d), where kdba > 0; else nothing."""
        return self.kept_by(self.network(), gallery, progress)

    def kept_by(self, network: Any, gallery: Gallery, progress: Progress) -> Kept:
        """`keep` with a network that is there already."""
        if not self.kdba:
            return Kept()
        items = Items.everyone(gallery.vectors, gallery.unit)
        items._lists["joint"] = gallery.lists(self.kdba)  # instead of an exact search of its own
        return Kept({"augmented": self.augmented(items, progress, network)[first_equal(gallery.vectors)]})

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Opened:
        if not self.kdba:
            return Opened(None)
        if not checked:
            augmented = stages.checks.array_in(kept.arrays, "augmented", np.float32, vectors.shape)
            if are_unit(vectors):
                stages.checks.check_unit("augmented", augmented)
            else:
                stages.checks.check_finite("augmented", augmented)
        return Opened(kept.arrays["augmented"])

    def reach(self, depth: int) -> int:
        return self.k

    def answer(
        self, gallery: Gallery, opened: Opened, queries: Vectors, found: Neighbors, k: int, depth: int,
        budget: int | None, masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        """Queries are expanded from the original gallery, then searched for again.

        Where the gallery is augmented the second search is exact, because no store holds its vectors.
        """
        expanded, unit, augmented = np.empty_like(queries), gallery.unit, opened.augmented
        for rows, others in equally_many(found, self.k):
            around = Neighborhoods(queries[rows], gallery.vectors, others, self.k, None, False, unit, opened.network)
            expanded[rows] = self.expand(around, SILENT)
        if augmented is not None:
            return by_halves(searched_exactly(expanded, augmented, depth, masks, unit))
        if masks is EVERYONE:
            return by_halves(gallery.search(expanded, depth))
        return by_halves(gallery.search_among(expanded, depth, masks.results))

    def check_changes(self, kept: Kept, verb: str) -> None:
        """Any gallery can change: what is kept, if anything, is made anew."""
