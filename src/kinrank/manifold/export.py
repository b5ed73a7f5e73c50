"""A gallery prepared by LPMT -> its graph, diffused similarities, states and steps as scipy's sparse matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinrank import stages
from kinrank.manifold.manifold import Manifold
from kinrank.methods import LPMT
from kinrank.progress import Progress, Show

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from kinrank.methods.served import Gallery
    from kinrank.stages.csr import Rows
    from kinrank.stages.pipeline import Prepared

MEANINGS = {
    "graph": "the weights of the graph that similarity spreads over: the three neighbour graphs, weighted and damped",
    "similarities": "the diffused similarity F of every item to its k1 most similar ones, itself among them",
    "states": "the state of every item: a probability distribution over items, each row summing to 1",
    "steps": "the cost of every step that a chain may take between two items; symmetric",
}


def export(manifold: Manifold, progress: Show = None) -> dict[str, csr_array]:
    """What LPMT computed of a gallery, by name, each (n, n) with row and column i for `manifold.ids[i]`.

    * `graph`: a (beta_1 S_1 + beta_2 S_2 + beta_3 S_3), the graph that similarity spreads over, a = 1 / (1 + mu).
    * `similarities`: F = (1 - a)(I - graph)^-1, of which every row keeps its k1 largest entries.
    * `states`: p_i, one distribution over items per item, at most `support` entries each.
    * `steps`: what a chain pays for going from i to j; where nothing is stored, it cannot go. A cost may be 0.

    Rows and columns of remembered queries are left out; then a state may sum to less than 1.

    States and steps are those that searches use. Graph and similarities are kept by a manifold that was built with
    `changes=True`; otherwise they are computed again, which takes as long as building it.

    Args:
        manifold: prepared by LPMT.
        progress: True for a bar, or a callable `f(label, done, total)`.

    Example:
        >>> states = kinrank.manifold.export(manifold)["states"]
        >>> scipy.sparse.save_npz("states.npz", states)
    """
    snapshot = manifold._snapshot
    method, vectors = snapshot.method, snapshot.vectors
    if not isinstance(method, LPMT):
        raise ValueError(f"manifold was prepared by {method.name}; only those prepared by lpmt can be exported")
    kept = stages.saved.restored(vectors, snapshot.kept.arrays, snapshot.kept.facts)
    graph, similarities = _diffused(kept, snapshot.gallery, method, Progress(progress))
    found = {"graph": graph, "similarities": similarities, "states": _copied(kept.states), "steps": _copied(kept.steps)}
    if not snapshot.remembered.count:
        return found
    items = snapshot.remembered.items
    return {name: matrix[items][:, items] for name, matrix in found.items()}


def _diffused(kept: Prepared, gallery: Gallery, method: LPMT, progress: Progress) -> tuple[csr_array, csr_array]:
    """Graph and similarities, as they were kept or computed from the start."""
    csr, pipeline, count = stages.csr, stages.pipeline, len(gallery)
    if count < 2:  # nowhere to spread to: F = (1 - a) I
        own = np.zeros((count, 1), np.int32)
        return _copied(kept.steps), csr.from_lists(own, own + stages.diffusion.restart_of(method.mu), count)
    record = kept.record
    if record is None:
        record = pipeline.prepare(
            gallery.lists, gallery.vectors, method, keep=True, progress=progress, unit=gallery.unit
        ).record
    assert record is not None
    # what only fills a list up stands there at 0, or is the item itself once more
    again = record.nearest == np.arange(count)[:, None]
    again[:, 0] = False
    similarities = csr.from_lists(record.nearest, record.similar, count, ~again & (record.similar > 0))
    similarities.sort_indices()
    return _copied(record.graph), similarities


def _copied(rows: Rows) -> csr_array:
    """A matrix of its own: what the manifold reads must not change with it, and may lie on disk."""
    matrix: csr_array = stages.csr.matrix_of(rows, len(rows.indptr) - 1).copy()
    matrix.sort_indices()
    return matrix
