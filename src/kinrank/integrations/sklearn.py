"""KinrankTransformer: a scikit-learn transformer that returns the graph of re-ranked neighbours. Extra `[sklearn]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.errors import InputError
from kinrank.integrations.document_order import MethodInput, check_settings
from kinrank.lazy_import import require_extra
from kinrank.manifold import Manifold
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.reranking import rerank

with require_extra("scikit-learn", "KinrankTransformer", "sklearn"):
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted

MODES = ("distance", "connectivity")


class KinrankTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer from vectors to the sparse graph of their re-ranked neighbours, like `KNeighborsTransformer`.

    `fit` prepares the rows of the training set as a `Manifold`; `transform` returns, for each row, its best neighbours
    in the training set. Estimators that accept a graph of neighbours (`metric="precomputed"`,
    `affinity="precomputed_nearest_neighbors"`) can follow in a `Pipeline`. Each row is ranked independently of the
    other rows of the same call.

    Args:
        n_neighbors: number of neighbours per row.
        mode: "distance" for the distances of the method; there is then one neighbour more, because a row of the
            training set finds itself first. "connectivity" for ones.
        method: a Method, its name, or a dict of its name and parameters; LPMT by default.
        metric: "euclidean", the default in scikit-learn, or "cosine", which refuses zero vectors.
        candidates: None to rank the whole training set; the method must support prepared search. A number re-ranks this
            many nearest rows in a graph of their own, with any method.

    Attributes:
        manifold_: the prepared training set; None with `candidates`.
        n_features_in_: number of dimensions.
        n_samples_fit_: number of rows of the training set.

    Example:
        >>> graph = KinrankTransformer(n_neighbors=30).fit_transform(vectors)
        >>> SpectralClustering(10, affinity="precomputed_nearest_neighbors", n_neighbors=30).fit_predict(graph)
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        mode: str = "distance",
        method: MethodInput = "lpmt",
        metric: str = "euclidean",
        candidates: int | None = None,
    ) -> None:
        self.n_neighbors, self.mode, self.method = n_neighbors, mode, method
        self.metric, self.candidates = metric, candidates

    def fit(self, X: ArrayLike, y: Any = None) -> KinrankTransformer:
        """Prepare the (n, d) rows of the training set. `y` is ignored."""
        rows = self._check_rows(X, reset=True)
        self._check_parameters()
        if len(rows) < self._neighbors_per_row:
            raise InputError(
                f"{self._neighbors_per_row} neighbors per row need as many rows, but n_samples = {len(rows)}",
                remedy="give a smaller `n_neighbors`",
            )
        method, _, metric = check_settings(self.method, None, self.metric)
        self.n_samples_fit_ = len(rows)
        self._rows = rows[:0] if self.candidates is None else rows
        self.manifold_ = Manifold.build(rows, method, metric=metric) if self.candidates is None else None
        return self

    def transform(self, X: ArrayLike) -> csr_matrix:
        """Return the (q, n) graph from these rows to their neighbours in the training set, sorted by distance."""
        check_is_fitted(self, "n_samples_fit_")
        ranking = self._rank(self._check_rows(X, reset=False))
        found = ranking.indices >= 0
        values = ranking.distances.astype(np.float64)
        values -= np.minimum(values.min(axis=1, initial=0.0, where=found), 0.0)[:, None]
        if self.mode == "connectivity":
            values = np.ones_like(values)
        ends = np.concatenate([[0], found.sum(axis=1).cumsum()])
        return csr_matrix((values[found], ranking.indices[found], ends), (len(values), self.n_samples_fit_))

    @property
    def _neighbors_per_row(self) -> int:
        return self.n_neighbors + (self.mode == "distance")

    @property
    def _n_features_out(self) -> int:
        """Number of columns of the graph, which scikit-learn names."""
        return self.n_samples_fit_

    def _rank(self, rows: Any) -> Ranking:
        count = self._neighbors_per_row
        if self.manifold_ is not None:
            return self.manifold_.search(rows, count)
        method, _, metric = check_settings(self.method, None, self.metric)
        return rerank(rows, self._rows, method, candidates=self.candidates, k=count, metric=metric)

    def _check_rows(self, rows: ArrayLike, *, reset: bool) -> Any:
        """Validate rows as scikit-learn does, and record or compare their number and names of dimensions."""
        from sklearn.utils.validation import validate_data

        return validate_data(self, rows, reset=reset, dtype=[np.float32, np.float64])

    def _check_parameters(self) -> None:
        check_whole_number(self.n_neighbors, "n_neighbors")
        if self.mode not in MODES:
            raise InputError(parameter="mode", given=self.mode, allowed=f"one of: {', '.join(MODES)}")
        if self.candidates is not None and check_whole_number(self.candidates, "candidates") < self._neighbors_per_row:
            raise InputError(
                "is smaller than the number of neighbors per row",
                parameter="candidates",
                given=self.candidates,
                allowed=f">= {self._neighbors_per_row}",
            )
