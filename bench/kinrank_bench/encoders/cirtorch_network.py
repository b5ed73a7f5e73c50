"""Networks of the cirtorch toolbox: torchvision layers, a pooling, and optionally a trained whitening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from kinrank.encoders.descriptors import mac, regional, rmac, spoc, unit
from kinrank.encoders.torch_checkpoint import Checkpoint, load_weights
from kinrank.errors import UnreadableFileError
from kinrank_bench.encoders.backbones import ARCHITECTURES, Gem, build_features, build_without_memory, count_outputs

POOLINGS = ("mac", "spoc", "gem", "gemmp", "rmac")


class Pool(nn.Module):
    """A pooling without weights."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, maps: Tensor) -> Any:
        return self.function(maps)


class Regional(nn.Module):
    """Sum of the pooled and whitened R-MAC regions, with any pooling."""

    def __init__(self, pool: nn.Module, channels: int) -> None:
        super().__init__()
        self.rpool = pool
        self.whiten = nn.Linear(channels, channels)

    def regions(self, maps: Tensor) -> Any:
        """Return (n, r, c) unit vectors, one per region."""
        return unit(self.whiten(regional(maps, self.rpool)))

    def forward(self, maps: Tensor) -> Any:
        return self.regions(maps).sum(1)


class CirNetwork(nn.Module):
    """Network from (n, 3, h, w) images to (n, d) unit vectors.

    Attributes:
        power: exponent with which the vectors of several scales are combined.
        trained_whitening: True if the network ends with its own whitening.
    """

    def __init__(self, architecture: str, pooling: str, in_regions: bool, whitened: int | None) -> None:
        super().__init__()
        self.features, channels, self.least = build_features(architecture)
        pool = build_pooling(pooling, channels)
        self.pool = Regional(pool, channels) if in_regions else pool
        self.dimensions, self.trained_whitening = whitened or channels, whitened is not None
        if whitened is not None:
            self.whiten = nn.Linear(channels, whitened)

    @property
    def power(self) -> float:
        """Exponent of GeM if the vector is its direct output; otherwise 1."""
        if isinstance(self.pool, Gem) and self.pool.p.numel() == 1 and not self.trained_whitening:
            return float(self.pool.p)
        return 1.0

    def forward(self, pictures: Tensor) -> Any:
        vectors = unit(self.pool(self.features(pictures)))
        return unit(self.whiten(vectors)) if self.trained_whitening else vectors


def build_pooling(name: str, channels: int) -> nn.Module:
    if name in ("gem", "gemmp"):
        return Gem(1 if name == "gem" else channels)
    return Pool({"mac": mac, "spoc": spoc, "rmac": rmac}[name])


def build_cirtorch(file: Checkpoint) -> CirNetwork:
    """Build the network that `meta` of the file describes, and load its weights."""
    meta = file.meta
    _check_meta(file, "architecture", ARCHITECTURES)
    _check_meta(file, "pooling", POOLINGS)
    if meta.get("local_whitening"):
        raise UnreadableFileError(
            f"{file.path} whitens every position of the map, which is not supported", remedy="give another file"
        )
    whitened = count_outputs(file, "whiten.weight", 2048) if meta.get("whitening") else None
    built = build_without_memory(
        lambda: CirNetwork(meta["architecture"], meta["pooling"], bool(meta.get("regional")), whitened)
    )
    return load_weights(built, file, "cirtorch")


def _check_meta(file: Checkpoint, name: str, known: tuple[str, ...]) -> None:
    if name not in file.meta:
        raise UnreadableFileError(
            f"{file.path} has no {name} in its part meta, as cirtorch files have", remedy="give an unmodified file"
        )
    if file.meta[name] not in known:
        raise UnreadableFileError(
            f"{file.path} has the unknown {name} {file.meta[name]!r:.40}", allowed=f"one with {' or '.join(known)}"
        )
