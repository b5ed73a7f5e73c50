"""Recipes of the learned methods: network sizes that a user can choose, and fixed settings of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from kinrank.errors import InputError
from kinrank.parameters import Parameter, list_parameters, parameter

LISTS_MEANING = "number of training lists, each of an item and its nearest others"
HEADS_MEANING = "attention heads, which divide the {} evenly"
DEFAULT_HEADS = 8
HEADS_OF_FEATURES = (
    f"{HEADS_MEANING.format('dimensions of the features')}; default {DEFAULT_HEADS}, or the next smaller number "
    "that can"
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of fitting or importing, checked like the hyper-parameters of a method."""

    method: ClassVar[str] = ""
    verb: ClassVar[str] = "fit"

    def __post_init__(self) -> None:
        for declared in self.parameters():
            value = declared.check(self._owner(), getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """List every option with its meaning, default and range."""
        return list_parameters(cls)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Any:
        """Create from the options that a user gave; raise an InputError for an unknown name."""
        known = [entry.name for entry in fields(cls)]
        for name in given:
            if name not in known:
                raise InputError(
                    f"there is no option {name!r}", allowed=f"{' | '.join(known)}, or none", context=cls._owner()
                )
        return cls(**given)

    @classmethod
    def _owner(cls) -> str:
        return f"{cls.verb} {cls.method}"


@dataclass(frozen=True, kw_only=True)
class Recipe(Options):
    """Training of a network: batches of lists, Adam, a warm-up over a tenth of the steps, then a cosine to 0.

    Attributes:
        batch: lists per step.
        rate: the largest step of Adam.
        decay: weight decay of matrices per unit of rate.
        clip: the largest length of a gradient.
        dropout: share of numbers inside the network that is set to 0 during training.
        hard: True to use only lists that the search gets partly wrong.
    """

    batch: ClassVar[int]
    rate: ClassVar[float]
    decay: ClassVar[float] = 0.0
    clip: ClassVar[float | None] = None
    dropout: ClassVar[float] = 0.1
    hard: ClassVar[bool] = False

    lists: int = parameter(2400, LISTS_MEANING, low=1, high=10_000_000)

    def sizes(self, dimensions: int) -> dict[str, Any]:
        """Return the sizes that are saved with the weights; raise an InputError if they do not fit the features."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "lists"}

    @property
    def candidates(self) -> int:
        """Number of nearest others in the list of an item."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Return all settings for the record."""
        fixed = {
            name: getattr(self, name) for name in ("batch", "rate", "decay", "clip", "dropout", "hard", "candidates")
        }
        return {**{entry.name: getattr(self, entry.name) for entry in fields(self)}, **fixed}

    def memory(self, dimensions: int) -> int:
        """Estimate the bytes of a step: the results of each layer until its derivative is computed."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class CSARecipe(Recipe):
    """CSA: loss over the 128 nearest others; the weights then work for lists of any length."""

    method: ClassVar[str] = "CSA"
    batch: ClassVar[int] = 16
    rate: ClassVar[float] = 1e-3
    decay: ClassVar[float] = 1e-4
    clip: ClassVar[float | None] = 1.0

    anchors: int = parameter(
        64, "number of first items, including the query, whose similarities describe an item", low=1, high=4096
    )
    width: int = parameter(128, "length of the state of an item", low=1, high=4096)
    depth: int = parameter(2, "blocks of the network", low=1, high=64)
    heads: int = parameter(4, HEADS_MEANING.format("width"), low=1, high=256)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise InputError(
                f"does not divide `width={self.width}`",
                parameter="heads",
                given=self.heads,
                remedy="give a `width` that is a multiple of `heads`",
                context=self._owner(),
            )

    @property
    def candidates(self) -> int:
        return max(128, self.anchors)

    def memory(self, dimensions: int) -> int:
        rows = self.candidates + 1
        inside = self.depth * (24 * self.width + 3 * self.heads * rows)
        return (
            4 * self.batch * rows * (2 * dimensions + 3 * self.anchors + inside) + 64 * self.depth * 12 * self.width**2
        )


@dataclass(frozen=True, kw_only=True)
class SSRRecipe(Recipe):
    """SSR: lists that the search gets partly wrong, with more than 2 relevant items and an AP below 0.95."""

    method: ClassVar[str] = "SSR"
    batch: ClassVar[int] = 8
    rate: ClassVar[float] = 1e-3
    dropout: ClassVar[float] = 0.0
    hard: ClassVar[bool] = True

    top: int = parameter(64, "number of first items of a query to re-rank", low=1, high=4096)
    hidden: int = parameter(256, "width of the two networks", low=1, high=8192)
    lr: float = parameter(1e-3, "length of a move, times the output of the networks", low=0, above_low=True, high=1)
    steps: int = parameter(1, "number of moves of the query and the items", low=1, high=10)
    variant: str = parameter(
        "cut",
        "whether a move takes the moves before it as they are (`cut`), or is differentiated through them as in "
        "the `published` program, which then needs torch to answer, too",
        choices=("cut", "published"),
    )

    @property
    def candidates(self) -> int:
        return self.top

    def memory(self, dimensions: int) -> int:
        rows, seen = self.top + 1, 2 * self.top + 1
        moves = 2 * self.steps * (8 * dimensions + 8 * rows + 12 * seen + 8 * self.hidden)
        network = 16 * 2 * self.hidden * (self.hidden + 2 * seen)
        return 4 * self.batch * rows * (1 if self.variant == "cut" else 4) * moves + network


@dataclass(frozen=True, kw_only=True)
class LAttQERecipe(Recipe):
    """LAttQE: a query moves towards the relevant items among its 200 nearest, away from the 5 nearest of the others."""

    method: ClassVar[str] = "LAttQE"
    batch: ClassVar[int] = 32
    rate: ClassVar[float] = 3e-4

    lists: int = parameter(9600, LISTS_MEANING, low=1, high=10_000_000)
    k: int = parameter(16, "number of neighbours of a query that the network can weight", low=1, high=4096)
    layers: int = parameter(1, "layers of the network", low=1, high=64)
    heads: int | None = parameter(None, HEADS_OF_FEATURES, low=1, high=256)
    hidden: int = parameter(512, "width of the feed-forward part of a layer", low=1, high=16_384)

    def sizes(self, dimensions: int) -> dict[str, Any]:
        fitting = [heads for heads in range(1, min(dimensions, 256) + 1) if dimensions % heads == 0]
        heads = max(heads for heads in fitting if heads <= DEFAULT_HEADS) if self.heads is None else self.heads
        if heads not in fitting:
            near = min(fitting, key=lambda other: (abs(other - heads), other))
            raise InputError(
                f"does not divide the {dimensions} dimensions of the features",
                parameter="heads",
                given=heads,
                remedy=f"give `heads={near}`",
                context=self._owner(),
            )
        return {"dimensions": dimensions, **super().sizes(dimensions), "heads": heads}

    @property
    def candidates(self) -> int:
        return max(200, self.k)

    def memory(self, dimensions: int) -> int:
        rows = self.k + 1
        inside = self.layers * (16 * dimensions + 3 * self.hidden + 3 * (self.heads or DEFAULT_HEADS) * rows)
        network = 16 * self.layers * dimensions * (4 * dimensions + 2 * self.hidden)
        return 4 * self.batch * (rows * inside + 3 * self.candidates * dimensions) + network


@dataclass(frozen=True, kw_only=True)
class CSAImport(Options):
    """Settings of CSA that the shapes of published weights do not determine."""

    method: ClassVar[str] = "CSA"
    verb: ClassVar[str] = "import"

    heads: int = parameter(12, HEADS_MEANING.format("width"), low=1, high=256)


@dataclass(frozen=True, kw_only=True)
class SSRImport(Options):
    """Settings of SSR that the shapes of published weights do not determine."""

    method: ClassVar[str] = "SSR"
    verb: ClassVar[str] = "import"

    lr: float = parameter(1e-4, "length of a move, times the output of the networks", low=0, above_low=True, high=1)
    steps: int = parameter(1, "number of moves of the query and the items", low=1, high=10)
    variant: str = parameter(
        "published",
        "whether a move is differentiated through the moves before it (`published`, as these weights were "
        "trained), or takes them as they are (`cut`)",
        choices=("cut", "published"),
    )


RECIPES: dict[str, type[Recipe]] = {"csa": CSARecipe, "ssr": SSRRecipe, "lattqe": LAttQERecipe}
IMPORTS: dict[str, type[Options]] = {"csa": CSAImport, "ssr": SSRImport}
