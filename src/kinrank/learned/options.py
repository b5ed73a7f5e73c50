"""What a user may choose of a network and its training, declared once -> checks, flags, documentation, the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from kinrank.parameters import Parameter, parameter, parameters_of

LISTS = "how many lists, each of an item and its nearest others, are trained on"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may choose, checked as the hyper-parameters of a method are."""

    method: ClassVar[str] = ""
    verb: ClassVar[str] = "fit"

    def __post_init__(self) -> None:
        for declared in self.parameters():
            value = declared.check(self._owner(), getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Every option with its meaning, default and range."""
        return parameters_of(cls)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Any:
        """From the options a user gave; a ValueError for a name that is none of them."""
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(f"{cls._owner()}: there is no option {name!r}; give {' | '.join(known)}, or none")
        return cls(**given)

    @classmethod
    def _owner(cls) -> str:
        return f"{cls.verb} {cls.method}"


@dataclass(frozen=True, kw_only=True)
class Recipe(Options):
    """How a network is trained: batches of lists, Adam, a warm-up over a tenth of the steps, then a cosine to 0.

    Attributes:
        batch: lists per step.
        rate: the largest step of Adam.
        decay: share of matrices that is taken off per unit of rate.
        clip: the largest length of a gradient.
        dropout: share of numbers inside the network that is set to 0 while it learns.
        hard: whether only lists are taken that the search gets wrong in part.
    """

    batch: ClassVar[int]
    rate: ClassVar[float]
    decay: ClassVar[float] = 0.0
    clip: ClassVar[float | None] = None
    dropout: ClassVar[float] = 0.1
    hard: ClassVar[bool] = False

    lists: int = parameter(2400, LISTS, low=1, high=10_000_000)

    def sizes(self, dimensions: int) -> dict[str, Any]:
        """What is saved beside the weights; a ValueError where it does not fit the features."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "lists"}

    @property
    def candidates(self) -> int:
        """How many of the nearest others of an item are in its list."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """All of it, for the record."""
        fixed = {
            name: getattr(self, name) for name in ("batch", "rate", "decay", "clip", "dropout", "hard", "candidates")
        }
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, **fixed}

    def memory(self, dimensions: int) -> int:
        """Bytes that a step takes, roughly: what each layer keeps until its derivative is taken."""
        raise NotImplementedError
