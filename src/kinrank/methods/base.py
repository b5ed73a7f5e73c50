"""Method: a frozen set of hyper-parameters that turns items into distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.items import Items
from kinrank.parameters import Parameter, parameters_of
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Method:
    """One paper, one frozen dataclass: the hyper-parameters, `prepare` and `distances`.

    `prepare` computes what does not depend on which queries are asked for; `distances` then answers a block of
    queries. `rerank` calls `prepare` once and `distances` block by block, so that memory stays bounded.
    """

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for declared in self.parameters():
            value = declared.check(type(self).__name__, getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Every hyper-parameter with its meaning, default and range."""
        return parameters_of(cls)

    def prepare(self, items: Items, progress: Progress) -> Any:
        """Whatever is shared by all queries: graphs, states, costs. Returned object is passed to `distances`."""
        raise NotImplementedError

    def distances(self, prepared: Any, queries: NDArray[np.int64]) -> NDArray[Any]:
        """(len(queries), gallery) distances, smaller is nearer, every one finite.

        `queries` are positions in `items.queries`, the columns follow `items.gallery`. Equal distances are
        ordered by item number; a method whose items can be out of reach puts them behind the others itself.
        """
        raise NotImplementedError

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Bytes `prepare` needs at its peak beside the vectors, estimated before anything is allocated."""
        return 0
