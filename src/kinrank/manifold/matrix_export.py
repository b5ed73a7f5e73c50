"""Export of the graph, similarities, states and steps of LPMT as SciPy sparse matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinrank import stages
from kinrank.errors import InputError
from kinrank.manifold.manifold import Manifold
from kinrank.methods.lpmt import LPMT, LPMTState
from kinrank.progress import Progress, ProgressOption

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from kinrank.methods.base import GalleryIndex
    from kinrank.stages.csr import Rows
    from kinrank.stages.pipeline import LpmtGraph
    from kinrank.stages.states import PackedRows

MATRIX_MEANINGS = {
    "graph": "weights of the graph over which similarity spreads: the three neighbour graphs, weighted and damped",
    "similarities": "diffused similarity F of every item to its k1 most similar ones, including itself",
    "states": "state of every item: a probability distribution over items; each row sums to 1",
    "steps": "cost of every step that a chain can take between two items; symmetric",
}


def export(manifold: Manifold, progress: ProgressOption = None) -> dict[str, csr_array]:
    """Return the matrices that LPMT computed, by name, each (n, n) with row and column i for `manifold.ids[i]`.

    * `graph`: a (beta_1 S_1 + beta_2 S_2 + beta_3 S_3), the graph over which similarity spreads, a = 1 / (1 + mu).
    * `similarities`: F = (1 - a)(I - graph)^-1; every row keeps its k1 largest entries, to 3 digits.
    * `states`: p_i, one distribution over items per item, at most `support` entries each.
    * `steps`: cost of going from i to j; impossible if nothing is stored. A cost can be 0.

    Rows and columns of observed queries are left out; a state may then sum to less than 1.

    States and steps are those that searches use. Graph and similarities are stored by a manifold that was built with
    `changes=True`; otherwise they are computed again, which takes as long as building it.

    Args:
        manifold: prepared by LPMT.
        progress: True for a progress bar, or a callable `f(label, done, total)`.

    Example:
        >>> states = kinrank.manifold.export(manifold)["states"]
        >>> scipy.sparse.save_npz("states.npz", states)
    """
    snapshot = manifold.snapshot
    method = snapshot.method
    if not isinstance(method, LPMT):
        raise InputError(
            f"was prepared by {method.name}, but only one prepared by lpmt can be exported", parameter="manifold"
        )
    assert isinstance(snapshot.state, LPMTState)
    prepared = snapshot.state.prepared
    graph, similarities = _compute_diffusion(prepared, snapshot.gallery, method, Progress(progress))
    matrices = {
        "graph": graph,
        "similarities": similarities,
        "states": _copy_matrix(prepared.states.unpack()),
        "steps": _copy_matrix(prepared.steps),
    }
    if not snapshot.remembered.count:
        return matrices
    items = snapshot.remembered.items
    return {name: matrix[items][:, items] for name, matrix in matrices.items()}


def _compute_diffusion(
    prepared: LpmtGraph[PackedRows], gallery: GalleryIndex, method: LPMT, progress: Progress
) -> tuple[csr_array, csr_array]:
    """Return graph and similarities, as stored or computed again."""
    csr, pipeline, count = stages.csr, stages.pipeline, len(gallery)
    if count < 2:  # nowhere to spread to: F = (1 - a) I
        own = np.zeros((count, 1), np.int32)
        return _copy_matrix(prepared.steps), csr.matrix_from_lists(
            own, own + stages.diffusion.restart_share(method.mu), count
        )
    record = prepared.record
    if record is None:
        record = pipeline.prepare_graph(
            gallery.lists, gallery.vectors, method, keep=True, progress=progress, unit=gallery.unit, pack=True
        ).record
    assert record is not None
    record = record.unpack()
    # padding of a list has similarity 0, or repeats the item itself
    repeated = record.nearest == np.arange(count)[:, None]
    repeated[:, 0] = False
    similarities = csr.matrix_from_lists(record.nearest, record.similar, count, ~repeated & (record.similar > 0))
    similarities.sort_indices()
    return _copy_matrix(record.graph), similarities


def _copy_matrix(rows: Rows) -> csr_array:
    """Return a copy, because the arrays of the manifold must not change and may be memory-mapped."""
    matrix: csr_array = stages.csr.matrix_from_rows(rows, len(rows.indptr) - 1).copy()
    matrix.sort_indices()
    return matrix
