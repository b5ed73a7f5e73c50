"""Promises that every method keeps on realistic galleries: complete rankings, and prepared galleries that survive."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from kinrank.manifold import Manifold
from kinrank.manifold.verify import verify
from kinrank.methods import METHODS
from kinrank.methods.base import Method
from kinrank.methods.capabilities import Capability
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.testing.assertions import rank_and_check, require, require_identical
from kinrank.testing.sample_data import GALLERY_KINDS, RealisticGallery, realistic_gallery

CANDIDATE_COUNT = 40
RESULT_COUNT = 10


def realistic_galleries_are_ranked(method: Method, rtol: float) -> None:
    """Joint, over candidates and with every item as a query: complete, finite rankings of all realistic galleries."""
    for kind in GALLERY_KINDS:
        check_ranking(method, kind)


def prepared_galleries_survive(method: Method, rtol: float) -> None:
    """A prepared gallery answers, changes, explains, and after saving and loading gives the same bits."""
    if method.can("prepared_search"):
        for kind in GALLERY_KINDS:
            check_prepared(method, kind)


def check_ranking(method: Method, kind: str) -> None:
    """Rank one realistic gallery in every mode of `rerank`."""
    data = realistic_gallery(kind)
    rank_and_check(method, data.queries, data.gallery, kind)
    rank_and_check(method, None, data.gallery[:60], f"{kind}, every item a query")
    over = rerank(data.queries, data.gallery, method, candidates=CANDIDATE_COUNT, k=CANDIDATE_COUNT)
    _require_results(over, len(data.queries), CANDIDATE_COUNT, f"{kind}, over candidates")


def check_prepared(method: Method, kind: str) -> None:
    """Build one realistic gallery, change it in every way that the method allows, save and load it after each."""
    data = realistic_gallery(kind)
    ids = [f"item {number}" for number in range(len(data.gallery))]
    manifold = Manifold.build(data.gallery, method, ids=ids)
    with tempfile.TemporaryDirectory(prefix="kinrank-") as place:
        folder = Path(place) / "gallery.manifold"
        _check_saved(manifold, folder, data, f"{kind}, built")
        for change, capability, apply in _list_changes(manifold, data):
            if method.can(capability):
                apply()
                _check_saved(manifold, folder, data, f"{kind}, {change}")
        _check_explained(manifold, data, kind)


def _list_changes(manifold: Manifold, data: RealisticGallery) -> Iterator[tuple[str, Capability, Callable[[], object]]]:
    names = [f"addition {number}" for number in range(len(data.additions))]
    gone = manifold.ids[1::7].tolist()
    yield "after add", "changes", lambda: manifold.add(data.additions, names)
    yield "after observe", "observe", lambda: manifold.observe(data.queries)
    yield "after remove", "changes", lambda: manifold.remove(gone)
    yield "after upsert", "changes", lambda: manifold.upsert(data.queries, ["item 0", "item 2", "new 1", "new 2"])
    yield "after forget", "observe", manifold.forget


def _check_saved(manifold: Manifold, folder: Path, data: RealisticGallery, what: str) -> None:
    """Valid results, the same bits after saving and loading, and a folder that verifies."""
    before = manifold.search(data.queries, k=RESULT_COUNT)
    _require_results(before, len(data.queries), RESULT_COUNT, what)
    known = set(manifold.ids.tolist())
    require(known.issuperset(before.ids.ravel().tolist()), f"{what}: results name ids that the gallery does not have")
    if METHODS.get(manifold.method.name) is not type(manifold.method):
        return  # a method that is not part of kinrank can be searched but not saved
    manifold.save(folder)
    loaded = Manifold.load(folder)
    require(loaded.ids.tolist() == manifold.ids.tolist(), f"{what}: ids are others after loading")
    require_identical(before, loaded.search(data.queries, k=RESULT_COUNT), f"{what}, loaded")
    found = verify(folder)
    require(found.whole, f"{what}: {'; '.join(found.bad.values())}")


def _check_explained(manifold: Manifold, data: RealisticGallery, kind: str) -> None:
    """Explain the first and the last result of every query: a chain that ends there, at finite costs."""
    if not manifold.method.can("explain"):
        return
    ranking = manifold.search(data.queries, k=RESULT_COUNT)
    for query, ids in zip(data.queries, ranking.ids.tolist(), strict=True):
        for item in (ids[0], ids[-1]):
            explained = manifold.explain(query, item)
            require(explained.names[-1] == item, f"{kind}: the chain to {item} ends at {explained.names[-1]}")
            require(np.isfinite(explained.costs).all(), f"{kind}: the chain to {item} costs {explained.costs}")


def _require_results(ranking: Ranking, queries: int, depth: int, what: str) -> None:
    """`depth` distinct items per query at finite distances that never fall."""
    indices, distances = ranking.indices, ranking.distances
    require(indices.shape == distances.shape == (queries, depth), f"{what}: results have shape {indices.shape}")
    require(np.isfinite(distances).all(), f"{what}: a distance is not finite")
    require((np.diff(distances, axis=1) >= 0).all(), f"{what}: distances fall within a row")
    distinct = [len(set(row)) == depth and min(row) >= 0 for row in indices.tolist()]
    require(all(distinct), f"{what}: a query lists an item twice, or none")
