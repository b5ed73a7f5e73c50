"""The learned methods -> how each is trained: the sizes of its network, what is fixed, the memory it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kinrank.learned.options import LISTS, Options, Recipe
from kinrank.parameters import parameter

HEADS = "heads of attention, which share the {} evenly"
HEADS_UNLESS_GIVEN = 8
HEADS_OF_FEATURES = (
    f"{HEADS.format('dimensions of the features')}; where not given {HEADS_UNLESS_GIVEN}, or the next smaller number "
    "that can"
)


@dataclass(frozen=True, kw_only=True)
class CSARecipe(Recipe):
    """CSA: loss over the 128 nearest others; weights then serve for lists of any length."""

    method: ClassVar[str] = "CSA"
    batch: ClassVar[int] = 16
    rate: ClassVar[float] = 1e-3
    decay: ClassVar[float] = 1e-4
    clip: ClassVar[float | None] = 1.0

    anchors: int = parameter(64, "similarities to how many first items describe an item, the query among these", low=1,
                             high=4096)  # fmt: skip
    width: int = parameter(128, "how many numbers the state of an item has", low=1, high=4096)
    depth: int = parameter(2, "blocks of the network", low=1, high=64)
    heads: int = parameter(4, HEADS.format("width"), low=1, high=256)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise ValueError(
                f"{self._owner()}: heads={self.heads} do not divide width={self.width}; give a width that is a "
                "multiple of heads"
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
    """SSR: lists that the search gets wrong in part, with more than 2 relevant items and an AP below 0.95."""

    method: ClassVar[str] = "SSR"
    batch: ClassVar[int] = 8
    rate: ClassVar[float] = 1e-3
    dropout: ClassVar[float] = 0.0
    hard: ClassVar[bool] = True

    top: int = parameter(64, "how many first items of a query are re-ranked", low=1, high=4096)
    hidden: int = parameter(256, "width of the two networks", low=1, high=8192)
    lr: float = parameter(1e-3, "how far vectors move, times what the networks say", low=0, above_low=True, high=1)
    steps: int = parameter(1, "how often query and items are moved", low=1, high=10)
    variant: str = parameter(
        "cut", "whether a move takes the moves before it as they are (`cut`), or is differentiated through them as in "
        "the `published` program, which then needs torch to answer, too", choices=("cut", "published"),
    )  # fmt: skip

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
    """LAttQE: a query moves towards what is relevant among its 200 nearest, away from the 5 nearest of the others."""

    method: ClassVar[str] = "LAttQE"
    batch: ClassVar[int] = 32
    rate: ClassVar[float] = 3e-4

    lists: int = parameter(9600, LISTS, low=1, high=10_000_000)
    k: int = parameter(16, "how many neighbours of a query the network can weigh", low=1, high=4096)
    layers: int = parameter(1, "layers of the network", low=1, high=64)
    heads: int | None = parameter(None, HEADS_OF_FEATURES, low=1, high=256)
    hidden: int = parameter(512, "width of the feed-forward part of a layer", low=1, high=16_384)

    def sizes(self, dimensions: int) -> dict[str, Any]:
        fitting = [heads for heads in range(1, min(dimensions, 256) + 1) if dimensions % heads == 0]
        heads = max(heads for heads in fitting if heads <= HEADS_UNLESS_GIVEN) if self.heads is None else self.heads
        if heads not in fitting:
            near = min(fitting, key=lambda other: (abs(other - heads), other))
            raise ValueError(
                f"{self._owner()}: heads={heads} do not divide the {dimensions} dimensions of the features; give "
                f"heads={near}"
            )
        return {"dimensions": dimensions, **super().sizes(dimensions), "heads": heads}

    @property
    def candidates(self) -> int:
        return max(200, self.k)

    def memory(self, dimensions: int) -> int:
        rows = self.k + 1
        inside = self.layers * (16 * dimensions + 3 * self.hidden + 3 * (self.heads or HEADS_UNLESS_GIVEN) * rows)
        network = 16 * self.layers * dimensions * (4 * dimensions + 2 * self.hidden)
        return 4 * self.batch * (rows * inside + 3 * self.candidates * dimensions) + network


@dataclass(frozen=True, kw_only=True)
class CSAImport(Options):
    """What the shapes of published weights of CSA do not tell."""

    method: ClassVar[str] = "CSA"
    verb: ClassVar[str] = "import"

    heads: int = parameter(12, HEADS.format("width"), low=1, high=256)


@dataclass(frozen=True, kw_only=True)
class SSRImport(Options):
    """What the shapes of published weights of SSR do not tell."""

    method: ClassVar[str] = "SSR"
    verb: ClassVar[str] = "import"

    lr: float = parameter(1e-4, "how far vectors move, times what the networks say", low=0, above_low=True, high=1)
    steps: int = parameter(1, "how often query and items are moved", low=1, high=10)
    variant: str = parameter(
        "published", "whether a move is differentiated through the moves before it (`published`, as these weights were "
        "trained), or takes them as they are (`cut`)", choices=("cut", "published"),
    )  # fmt: skip


RECIPES: dict[str, type[Recipe]] = {"csa": CSARecipe, "ssr": SSRRecipe, "lattqe": LAttQERecipe}
IMPORTS: dict[str, type[Options]] = {"csa": CSAImport, "ssr": SSRImport}
