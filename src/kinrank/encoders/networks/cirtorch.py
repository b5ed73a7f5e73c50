"""A file of the toolbox cirtorch -> its network: layers of torchvision, a pooling, and whitening that was trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from kinrank.encoders.descriptors import mac, regional, rmac, spoc, unit
from kinrank.encoders.networks.checkpoint import Checkpoint
from kinrank.encoders.networks.filling import filled, on_paper, rows_of
from kinrank.encoders.networks.layers import Gem
from kinrank.encoders.networks.torchvision import ARCHITECTURES, features
from kinrank.files.opening import FileProblem

POOLINGS = ("mac", "spoc", "gem", "gemmp", "rmac")


class Pool(nn.Module):
    """A pooling without weights."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, maps: Tensor) -> Any:
        return self.function(maps)


class Regional(nn.Module):
    """Any pooling in the regions of R-MAC, each whitened, and their sum."""

    def __init__(self, pool: nn.Module, channels: int) -> None:
        super().__init__()
        self.rpool = pool
        self.whiten = nn.Linear(channels, channels)

    def regions(self, maps: Tensor) -> Any:
        """(n, r, c) a vector of unit length for every region."""
        return unit(self.whiten(regional(maps, self.rpool)))

    def forward(self, maps: Tensor) -> Any:
        return self.regions(maps).sum(1)


class CirNetwork(nn.Module):
    """(n, 3, h, w) pictures -> (n, d) vectors of unit length.

    Attributes:
        power: with which the vectors of several scales are put together.
        trained_whitening: whether the network ends with a whitening of its own.
    """

    def __init__(self, architecture: str, pooling: str, in_regions: bool, whitened: int | None) -> None:
        super().__init__()
        self.features, channels, self.least = features(architecture)
        pool = pooling_of(pooling, channels)
        self.pool = Regional(pool, channels) if in_regions else pool
        self.dimensions, self.trained_whitening = whitened or channels, whitened is not None
        if whitened is not None:
            self.whiten = nn.Linear(channels, whitened)

    @property
    def power(self) -> float:
        """The exponent of GeM, unless something comes between it and the vector."""
        if isinstance(self.pool, Gem) and self.pool.p.numel() == 1 and not self.trained_whitening:
            return float(self.pool.p)
        return 1.0

    def forward(self, pictures: Tensor) -> Any:
        vectors = unit(self.pool(self.features(pictures)))
        return unit(self.whiten(vectors)) if self.trained_whitening else vectors


def pooling_of(name: str, channels: int) -> nn.Module:
    if name in ("gem", "gemmp"):
        return Gem(1 if name == "gem" else channels)
    return Pool({"mac": mac, "spoc": spoc, "rmac": rmac}[name])


def network(file: Checkpoint) -> CirNetwork:
    """What the part `meta` of the file describes."""
    meta = file.meta
    _one_of(file, "architecture", ARCHITECTURES)
    _one_of(file, "pooling", POOLINGS)
    if meta.get("local_whitening"):
        raise FileProblem(f"{file.path} whitens every position of the map, which is not supported; give another file")
    whitened = rows_of(file, "whiten.weight", 2048) if meta.get("whitening") else None
    built = on_paper(lambda: CirNetwork(meta["architecture"], meta["pooling"], bool(meta.get("regional")), whitened))
    return filled(built, file, "cirtorch")


def _one_of(file: Checkpoint, name: str, known: tuple[str, ...]) -> None:
    if name not in file.meta:
        raise FileProblem(
            f"{file.path} does not say its {name} in a part called meta, as files of cirtorch do; give the file as it "
            "was published"
        )
    if file.meta[name] not in known:
        raise FileProblem(f"{file.path} has the {name} {file.meta[name]!r:.40}; known are {', '.join(known)}")
