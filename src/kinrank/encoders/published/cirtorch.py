"""weights= of cirtorch (R-GeM, MAC, R-MAC) -> an encoder: scales made of the tensor, learned whitening at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinrank.encoders.base import Encoder, Options
from kinrank.encoders.published.boxes import ROUND
from kinrank.encoders.published.encoder import Published, prepared
from kinrank.files.opening import FileProblem

SIZE = 1024
ROOT = 2**0.5
TRAINED = (1.0, ROOT, 1 / ROOT)  # scales of networks that end with a whitening of their own
OTHERS = (1.0, 1 / ROOT, 0.5)
NONE = "none"


class CirtorchEncoder(Published):
    """Vectors v of several scales are put together as (mean of v^q)^(1/q), q the exponent of GeM or 1."""

    box_rule = ROUND

    def __init__(self, network: Any, options: Options, meta: Mapping[str, Any]) -> None:
        super().__init__("cirtorch", network, options, TRAINED if network.trained_whitening else OTHERS, SIZE)
        self.mean, self.deviation = meta["mean"], meta["std"]
        self.centre: Any = None
        described = [meta["architecture"], meta["pooling"]]
        described += [word for word in ("regional", "whitening") if meta.get(word)]
        self.facts |= {"network": "-".join(described), "whitening": NONE}

    def whiten(self, name: str, centre: Any, directions: Any) -> None:
        """End with y = P (x - m), brought to unit length."""
        self.centre, self.directions = (self._torch.from_numpy(part).to(self.device) for part in (centre, directions))
        self.dimensions = len(directions)
        self.facts["whitening"] = name

    def vector(self, image: Any) -> Any:
        picture = self.normalised(self.pixels(image), self.mean, self.deviation)
        made = self.run(picture) if self.scales == (1.0,) else self.combined(picture)
        if self.centre is None:
            return made
        white = self.directions @ (made.double() - self.centre)
        return white / (white.norm() + 1e-6)

    def combined(self, picture: Any) -> Any:
        power = self.network.power
        total = sum(self.run(self.scaled(picture, scale)) ** power for scale in self.scales)
        vector = (total / len(self.scales)) ** (1 / power)
        return vector / vector.norm()

    def scaled(self, picture: Any, scale: float) -> Any:
        """The tensor resized linearly; its sizes are cut off, not rounded, and are one at least."""
        if scale == 1:
            return picture
        resize = self._torch.nn.functional.interpolate
        size = [int(side * scale) for side in picture.shape[1:]]
        target = {"scale_factor": scale} if min(size) > 0 else {"size": [max(1, side) for side in size]}
        return resize(picture[None], **target, mode="bilinear", align_corners=False)[0]


def opened(options: Options) -> Encoder:
    """Takes weights=, scales=, size=, device= and whitening=: "none" or the name of one that the file holds."""
    module, file = prepared("cirtorch", options, "whitening")
    network = module.network(file)
    _three_numbers(file, "mean")
    _three_numbers(file, "std")
    encoder = CirtorchEncoder(network, options, file.meta)
    if options.whitening not in (None, NONE):
        scales = "ms" if len(encoder.scales) > 1 else "ss"
        name = str(options.whitening)
        encoder.whiten(f"{name} {scales}", *_learned(file, name, scales, encoder.dimensions))
    return encoder


def _three_numbers(file: Any, name: str) -> None:
    given = file.meta.get(name)
    numbers = isinstance(given, (list, tuple)) and len(given) == 3 and all(isinstance(n, (int, float)) for n in given)
    if not numbers or not np.isfinite(given).all() or (name == "std" and min(given) <= 0):
        raise FileProblem(f"{file.path} does not say the {name} of three colours in its part meta; got {given!r:.60}")


def _learned(file: Any, name: str, scales: str, dimensions: int) -> tuple[Any, Any]:
    """m (d,) and P (e, d) of a whitening that the file holds; "ms" for several scales and "ss" for one."""
    from kinrank.encoders.networks.arrays import plain

    known = file.meta.get("Lw")
    known = known if isinstance(known, Mapping) else {}
    if name not in known:
        held = f"{file.path} holds {', '.join(map(str, known))}" if known else f"{file.path} holds none"
        raise ValueError(f"whitening={name!r:.60} is not in the file; {held}: give one of these or {NONE}")
    found = known[name].get(scales) if isinstance(known[name], Mapping) else None
    parts = [plain(found.get(part)) for part in "mP"] if isinstance(found, Mapping) else []
    if not all(isinstance(part, np.ndarray) and part.dtype.kind == "f" for part in parts) or not parts:
        raise FileProblem(f"{file.path} has no arrays m and P for the whitening {name} {scales}; choose another")
    centre, directions = parts[0].astype(np.float64).reshape(-1), parts[1].astype(np.float64)
    if centre.shape != (dimensions,) or directions.ndim != 2 or directions.shape[1] != dimensions:
        raise FileProblem(
            f"{file.path} has the whitening {name} for other vectors: m {parts[0].shape} and P {directions.shape}; the "
            f"network makes {dimensions} numbers"
        )
    return centre, directions
