"""Base class of methods that rank by a network whose weights come from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kinrank import weight_files as files
from kinrank.errors import InputError
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.weight_files import Weights

WEIGHTS_MEANING = "file of weights of this method, written by `kinrank fit` (kinrank.fit in Python)"


@dataclass(frozen=True, kw_only=True)
class LearnedMethod(Method):
    """A method that ranks by a small network. `kinrank.fit` fits it; ranking needs numpy only.

    `network_name`: name of the method whose weights it uses, if different from its own. `size_types`: names and types
    of the sizes of the network.
    """

    network_name: ClassVar[str] = ""
    size_types: ClassVar[dict[str, type]] = {}

    weights: str | None = parameter(None, WEIGHTS_MEANING, file=True)

    @property
    def weights_name(self) -> str:
        """Name of the method whose weights it uses: its own, unless another method has the same network."""
        return self.network_name or self.name

    @staticmethod
    def layout(sizes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of the network by its published name; raise an InputError for bad sizes."""
        raise NotImplementedError

    def load_weights(self) -> None:
        self.network()

    def network(self) -> Weights:
        """Read and check the weights; raise an InputError or an OSError if they are missing or of another method."""
        if self.weights is None:
            raise InputError(
                f"{type(self).__name__} has no weights to rank by",
                remedy=f"give `weights`, a file of `kinrank fit {self.weights_name}`, or use a method that needs none, "
                "such as LPMT or GSS",
            )
        return files.load(self.weights, self.weights_name, self.layout, self.size_types)

    def sizes(self, usual: dict[str, Any]) -> dict[str, Any]:
        """Return the sizes of the network for estimates; the usual ones if the file cannot be read."""
        try:
            return dict(self.network().sizes)
        except (InputError, OSError, MemoryError):
            return usual
