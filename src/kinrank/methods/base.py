"""Method: a frozen set of hyper-parameters that turns items into distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.served import Answer, Chain, Gallery, Kept
from kinrank.neighbors import Neighbors
from kinrank.parameters import Parameter, parameters_of
from kinrank.progress import SILENT, Progress
from kinrank.stages.marks import Marks
from kinrank.stages.masks import EVERYONE, Masks
from kinrank.stages.turnover import Turnover

# The constants of `Method.seconds` were set by hand against measured times, on a core of a shared virtual machine (AMD
# EPYC, 2026): curves with 500 to 2,000 candidates of 128 dimensions and 2,000 of 1,024; random directions and tight
# clusters with 2,000 of 128. The slowest of the three counted. Known to be too small by up to 2 times: k-reciprocal and
# SCA with long lists, and LPMT with a very small tolerance, which is refused all the same.
SEARCH_SECONDS = 5e-11  # per inner product and dimension of the neighbour search
LIST_SECONDS = 5e-7  # per entry of a neighbour list


@dataclass(frozen=True, kw_only=True)
class Method:
    """One paper, one frozen dataclass: the hyper-parameters, `prepare` and `distances`.

    `prepare` computes what does not depend on which queries are asked for; `distances` then answers a block of
    queries. `rerank` calls `prepare` once and `distances` block by block, so that memory stays bounded.

    A method that can answer queries it has never seen also has `keep`, `opened`, `reach`, `answer` and `memory_kept`:
    a Manifold calls `keep` once for a gallery, saves what it returns, and `answer` for every search. The functions
    behind these, about explaining and changing, are a method's own choice.
    """

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # else `dataclass` would write one that lists all parameters
            cls.__repr__ = Method.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for declared in self.parameters():
            value = declared.check(type(self).__name__, getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Every hyper-parameter with its meaning, default and range."""
        return parameters_of(cls)

    def __repr__(self) -> str:
        """What it takes to make it again: the parameters that differ from their defaults."""
        return self._spelled([entry for entry in self.parameters() if getattr(self, entry.name) != entry.default])

    def spelled_out(self) -> str:
        """The same with all parameters, for records that outlive today's defaults."""
        return self._spelled(self.parameters())

    def _spelled(self, shown: Sequence[Parameter]) -> str:
        return f"{type(self).__name__}({', '.join(f'{entry.name}={getattr(self, entry.name)!r}' for entry in shown)})"

    def limited(self, items: int) -> Method:
        """The same with every number of items at most `items`: more than there are means all of them."""
        counts = {entry.name: getattr(self, entry.name) for entry in self.parameters() if entry.counts}
        most = {name: max(items, 1) for name, value in counts.items() if value > max(items, 1)}
        return replace(self, **most) if most else self

    def over_candidates(self) -> Method:
        """The method as it works in a small graph per query; itself, unless that would take too long."""
        return self

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

    def seconds(self, items: int, dimensions: int) -> float:
        """About how long one core is busy with one query and its `items` candidates, in a graph of their own.

        A service refuses requests by this estimate, so it must not be far too small; `tests/methods/test_seconds.py`
        compares it with measured times. This one holds for methods that make lists of neighbours and look at each list
        a few times; methods that do more have their own.
        """
        longest = max((getattr(self, one.name) for one in self.parameters() if one.counts), default=0)
        return self._listed_seconds(items, dimensions, longest)

    def _listed_seconds(self, items: int, dimensions: int, longest: int) -> float:
        """The same for lists of at most `longest` neighbours of every item."""
        return SEARCH_SECONDS * items * items * (dimensions + 100) + LIST_SECONDS * items * (min(longest, items) + 50)

    def check_ready(self) -> None:
        """A ValueError or an OSError if it lacks something it cannot rank without, such as a file of weights."""

    def check_served(self) -> None:
        """A ValueError if a Manifold cannot serve this method, or not with these hyper-parameters."""
        if type(self).keep is not Method.keep:
            return
        from kinrank.methods import METHODS  # late: its classes are derived from this one

        served = [name for name, kind in reversed(METHODS.items()) if kind.keep is not Method.keep]  # LPMT first
        raise ValueError(
            f"{type(self).__name__} has no part that can be prepared without the queries, so a Manifold cannot serve "
            f"it; use one of: {', '.join(served)}, or rerank(queries, store, method, candidates=...)"
        )

    def memory_kept(self, items: int, dimensions: int, changes: bool) -> int:
        """Bytes `keep` needs at its peak, vectors and neighbour lists included."""
        return 4 * dimensions * items + self.memory(items, 0, dimensions)

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """What is to be known of a gallery before there are queries; with `changes` also what `change` needs."""
        raise NotImplementedError

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Any:
        """What searches use, made of what was kept; it is passed to `answer`.

        `kept` may come from files: a ValueError if its parts are missing or do not fit together. `checked` says that it
        was made a moment ago, and need not be looked at again.
        """
        raise NotImplementedError

    def reach(self, depth: int) -> int:
        """How many nearest items of a query `answer` needs to return `depth` of them."""
        raise NotImplementedError

    def answer(
        self, gallery: Gallery, opened: Any, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None,
        masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        """The best items for queries (q, d), q > 0, each query on its own.

        Args:
            gallery, opened: what was prepared.
            queries: (q, d) rows; of length one where those of the gallery are.
            found: (q, reach(depth)) their nearest items, rows padded with -1.
            k: how many items are to be certain.
            depth: how many to return, from 1 to the size of the gallery.
            budget: most items to look at per query, for methods that look further and further; None: their own choice.
            masks: who may be a result; a Manifold fills up rows that know fewer than `depth` of them.
        """
        raise NotImplementedError

    def answer_marked(
        self, gallery: Gallery, opened: Any, query: Vectors, found: Neighbors, marks: Marks, k: int, depth: int,
        budget: int | None, masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        """The same for one query (1, d) and items marked right or wrong, which `masks` leaves out of the results."""
        self.check_marked()
        raise NotImplementedError

    def distances_marked(self, prepared: Any, query: int, marks: Marks) -> NDArray[Any]:
        """(gallery,) as `distances` for one query, with items marked right or wrong, by their place in the gallery."""
        self.check_marked()
        raise NotImplementedError

    def check_marked(self) -> None:
        """A ValueError if this method has no use for items marked right or wrong."""
        raise ValueError(
            f"{type(self).__name__} cannot use positives= and negatives=, which need chains; "
            "use LPMT, or leave them out"
        )

    def explain_answer(
        self, gallery: Gallery, opened: Any, query: Vectors, found: Neighbors, item: int, flows: int,
        masks: Masks = EVERYONE,
    ) -> Chain:  # fmt: skip
        """The chain that `answer` ranks an item by, for one query (1, d); at most `flows` movements of mass a step."""
        raise ValueError(
            f"{type(self).__name__} ranks without chains, so there is nothing to explain; build the manifold with LPMT"
        )

    def check_explained(self) -> None:
        """A ValueError if `explain` has nothing to show of this method in a joint graph."""
        raise ValueError(f"{self!r} has no chains to show; use LPMT()")

    def check_observed(self) -> None:
        """A ValueError if queries that are remembered cannot help this method."""
        raise ValueError(
            f"remembered queries are stepping stones of chains, and {type(self).__name__} ranks without chains; build "
            "the manifold with LPMT"
        )

    def check_changes(self, kept: Kept, verb: str) -> None:
        """A ValueError if a gallery of which this was kept cannot change; `verb` is "add items" or the like."""
        raise ValueError(f"a manifold of {type(self).__name__} cannot {verb}; change the vectors and build anew")

    def change(self, before: Kept, gallery: Gallery, turnover: Turnover, tolerance: float | None) -> Kept:
        """What is kept of a gallery that changed; `gallery` is the one after the change.

        `tolerance` is how far the result may be from that of `keep`, in units of the method; None: its own choice.
        Kept anew from the whole gallery, unless a method knows better.
        """
        return self.keep(gallery, SILENT)

    def stale(self, kept: Kept, items: int) -> float:
        """How far changes have moved what is kept from what `keep` would make of the same items, from 0 to 1."""
        return 0.0
