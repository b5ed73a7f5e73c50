"""Record: what LPMT keeps of a gallery beside its states and steps, so that a change can stay local."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.lpmt import LPMT, NEAR
from kinrank.methods.served import array_in as kept
from kinrank.methods.served import check_items
from kinrank.neighbors import Neighbors
from kinrank.stages.graph import Layers

ROWS, STATES, COSTS = 0, 1, 2  # columns of `drift`


@dataclass(frozen=True, eq=False)
class Record:
    """About 0.9 kB per item by default.

    Attributes:
        near: (n, w) neighbours, the item first: exact, or as the store found them. Where some left, lists end sooner,
            with -1 and inf behind; `lpmt_served.offline.least_width_of` are always there.
        kin, similar: (n, k1) the items of the largest F, and F; the item itself where F reaches fewer.
        starts, ends, weights: a S_beta, the graph that F spreads over, as csr.
        beta: weights of the graphs, as built.
        drift: (n, 3) how far F, state and costs of an item may be from those of a rebuild, as total L1 change of mass
            that was seen and not followed; see `lpmt_served.repair`.
    """

    near: Neighbors
    kin: NDArray[np.int32]
    similar: NDArray[np.float32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int32]
    weights: NDArray[np.float32]
    beta: NDArray[np.float64]
    drift: NDArray[np.float32]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved."""
        return {
            "near_items": self.near.indices,
            "near_gaps": self.near.distances,
            "kin_items": self.kin,
            "kin_values": self.similar,
            "graph_starts": self.starts,
            "graph_items": self.ends,
            "graph_weights": self.weights,
            "beta": self.beta,
            "drift": self.drift,
        }

    @classmethod
    def of(
        cls,
        method: LPMT,
        near: Neighbors,
        kin: NDArray[np.int32],
        similar: NDArray[np.float32],
        layers: Layers,
        beta: NDArray[np.float64],
    ) -> Record:
        """The record of a gallery just built."""
        drift = np.zeros((len(kin), 3), np.float32)
        weights = spreading(method, layers, beta)
        return cls(near, kin, similar, layers.indptr, layers.indices, weights, beta, drift)


def record_in(arrays: dict[str, NDArray[Any]]) -> Record:
    """The record among arrays that are known to be whole."""
    return Record(
        Neighbors(arrays["near_items"], arrays["near_gaps"]), arrays["kin_items"], arrays["kin_values"],
        arrays["graph_starts"], arrays["graph_items"], arrays["graph_weights"], arrays["beta"], arrays["drift"],
    )  # fmt: skip


def spreading(method: LPMT, layers: Layers, beta: NDArray[np.float64]) -> NDArray[np.float32]:
    """a S_beta on the entries of the graphs, as `stages.offline.kindred` spreads over it."""
    return layers.blended(1.0 / (1.0 + method.mu) * beta)


def recorded(arrays: dict[str, NDArray[Any]], n: int) -> Record | None:
    """The record among what was kept; None where the manifold was built without, a ValueError where it is damaged."""
    if "near_items" not in arrays:
        return None
    near = kept(arrays, "near_items", np.int32, (n, None))
    kin = kept(arrays, "kin_items", np.int32, (n, None))
    starts = kept(arrays, "graph_starts", np.int64, (n + 1,))
    ends = kept(arrays, "graph_items", np.int32, (None,))
    for name in ("kin_items", "graph_items"):
        check_items(name, arrays[name], n)
    check_items("near_items", near, n, missing=True)
    if int(starts[0]) != 0 or int(starts[-1]) != len(ends) or bool((np.diff(starts) < 0).any()):
        raise ValueError("graph_starts do not fit graph_items")
    kept(arrays, "near_gaps", np.float32, near.shape)
    kept(arrays, "kin_values", np.float32, kin.shape)
    kept(arrays, "graph_weights", np.float32, ends.shape)
    kept(arrays, "beta", np.float64, (None,))
    kept(arrays, "drift", np.float32, (n, 3))
    return record_in(arrays)


def contrast_of(near: Neighbors, least: int) -> float:
    """log(d_far / d_1) of the median distances, as `fit_to` measures, but no farther than all lists go."""
    columns = min(least, near.k) - 1, min(NEAR, near.k - 1)
    far, close = (float(np.median(near.distances[:, column])) for column in columns)
    return float(np.log(far / close)) if 0.0 < close <= far else 1.0
