"""Learned, what methods share whose weights were fitted beforehand: a file of them -> a network, or a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from kinrank import stages
from kinrank import weights as files
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.weights import Weights

WEIGHTS = "the file of weights to rank by, which `kinrank fit` (kinrank.fit in Python) wrote for this method"


@dataclass(frozen=True, kw_only=True)
class Learned(Method):
    """A method that ranks by a small network. It is fitted by `kinrank.fit`, and answers with numpy alone.

    `network_name`: the name of the method whose weights it uses, where that is another one.
    """

    network_name: ClassVar[str] = ""

    weights: str | None = parameter(None, WEIGHTS, file=True)

    @property
    def fitted_as(self) -> str:
        """The name of the method whose weights it uses: its own, unless another one has the same network."""
        return self.network_name or self.name

    @property
    def stage(self) -> ModuleType:
        """Where its arithmetic is: `layout` and `FIELDS` of its weights, and what follows from them."""
        return getattr(stages, self.fitted_as)  # type: ignore[no-any-return]

    def network(self) -> Weights:
        """The weights, read and checked; a ValueError or an OSError where there are none, or others."""
        if self.weights is None:
            raise ValueError(
                f"{type(self).__name__} has no weights to rank by; give weights= with a file of `kinrank fit "
                f"{self.fitted_as}`, or take a method that needs none, such as LPMT or GSS"
            )
        return files.load(self.weights, self.fitted_as, self.stage.layout, self.stage.FIELDS)

    def check_ready(self) -> None:
        self.network()

    def sizes(self, usual: dict[str, Any]) -> dict[str, Any]:
        """The sizes of the network, for estimates; the usual ones where it cannot be read."""
        try:
            return dict(self.network().sizes)
        except (ValueError, OSError, MemoryError):
            return usual
