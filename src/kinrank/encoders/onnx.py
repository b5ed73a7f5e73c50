"""A network in the ONNX format, and how pictures are prepared for it -> an encoder of pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.encoders.base import PICTURES, Encoder, Options, checksum, rows
from kinrank.encoders.descriptors import DESCRIPTORS, unit
from kinrank.encoders.on_torch import first_line
from kinrank.encoders.onnx_files import weight_files
from kinrank.encoders.preprocessing import KEYS, Preprocessing
from kinrank.features import Vectors
from kinrank.files.opening import regular

NAME = "onnx"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
POOLS = {"none": None, "mean": DESCRIPTORS["spoc"], **DESCRIPTORS}
RANKS = {2: "a vector", 4: "a feature map"}


@dataclass(frozen=True)
class Ends:
    """What goes in and what is taken out, as the file of preprocessing may say it."""

    input: str | None = None
    output: str | None = None
    pool: str = "none"
    normalize: bool = False

    def __post_init__(self) -> None:
        for key in ("input", "output"):
            if not isinstance(getattr(self, key), (str, type(None))):
                raise ValueError(f"{key}={getattr(self, key)!r} is not allowed; give a name in the model")
        if self.pool not in POOLS:
            raise ValueError(f"pool={self.pool!r} is not allowed; give {' or '.join(POOLS)}")
        if not isinstance(self.normalize, bool):
            raise ValueError(f"normalize={self.normalize!r} is not allowed; give true or false")


class OnnxEncoder(Encoder):
    """Runs a model on one picture at a time, in one thread, so that bits depend on nothing else."""

    kinds = (PICTURES,)

    def __init__(self, path: Path, said: dict[str, Any], device: str | None) -> None:
        runtime = needed("onnxruntime", f"the encoder {NAME}", NAME)
        beside = weight_files(path)
        self._session = _session(runtime, path, device)
        self._ends = _ends(self._session, path, said)
        entry = next(one for one in self._session.get_inputs() if one.name == self._ends.input)
        self._type = TYPES[entry.type]
        self._preprocessing = _fitted(entry.shape, path, said)
        self.reads = self._preprocessing.reads
        grey = np.full((64, 64, 3), 127, np.uint8)
        image = needed("PIL.Image", f"the encoder {NAME}", NAME).fromarray(grey)
        self.dimensions = len(self._vector(image))
        self.facts = {
            "encoder": NAME,
            "weights": "+".join(checksum(file) for file in (path, *beside)),
            **self._preprocessing.facts(),
            **asdict(self._ends),
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [self._vector(image) for image in images]
        return rows(np.stack(made) if made else np.empty((0, self.dimensions)), len(images), self.dimensions)

    def _vector(self, image: Any) -> Vectors:
        pixels = self._preprocessing.array(image).astype(self._type, copy=False)
        try:
            (made,) = self._session.run([self._ends.output], {self._ends.input: pixels})
        except Exception as error:  # of the runtime, which has many kinds
            raise ValueError(
                f"the model cannot read an input of shape {pixels.shape} ({first_line(error)}); give another size= or "
                "layout in preprocessing="
            ) from None
        vector = self._pooled(np.asarray(made, np.float32))
        return np.asarray(unit(vector, 0.0), np.float32) if self._ends.normalize and vector.any() else vector

    def _pooled(self, made: Vectors) -> Vectors:
        """The vector in what the model returned."""
        name, pool = self._ends.output, POOLS[self._ends.pool]
        if made.ndim not in RANKS or made.shape[0] != 1:
            raise ValueError(
                f"the output {name!r} of the model has the shape {made.shape}; a vector (1, d) or a feature map "
                "(1, c, h, w) is needed: name another with output in preprocessing="
            )
        if made.ndim == 4 and pool is not None:
            maps = made if self._preprocessing.layout == "NCHW" else made.transpose(0, 3, 1, 2)
            return np.asarray(pool(maps[0]), np.float32)
        if made.ndim == 4 and made.size == max(made.shape):  # pooled already, with two axes left over
            return made.ravel()
        if made.ndim == 4 or pool is not None:
            raise ValueError(
                f"the output {name!r} of the model is {RANKS[made.ndim]} of shape {made.shape} and pool is "
                f"{self._ends.pool!r}; give a feature map one of {', '.join(list(POOLS)[1:])} in preprocessing=, and a "
                "vector none"
            )
        return made.ravel()


def opened(options: Options) -> Encoder:
    """The encoder over the model in weights=."""
    options.only(NAME, "weights", "preprocessing", "size", "device")
    if options.weights is None:
        raise ValueError(f"the encoder {NAME} needs weights=, the file of a model in the ONNX format")
    said = {} if options.preprocessing is None else _read(Path(options.preprocessing))
    if options.size is not None:
        said["size"] = options.size
    return OnnxEncoder(regular(Path(options.weights)), said, options.device)


def _read(path: Path) -> dict[str, Any]:
    """The keys of a file of preprocessing, none of them unknown."""
    try:
        said = json.loads(regular(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({first_line(error)}); see docs/encoders.md for an example") from None
    known = [*KEYS, *asdict(Ends())]
    if not isinstance(said, dict):
        raise ValueError(f"{path} holds no object of JSON; write {{}} around keys such as {', '.join(known[:3])}")
    for key in said:
        if key not in known:
            raise ValueError(f"{path} has the unknown key {key!r:.80}; give {', '.join(known)}")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}


def _session(runtime: Any, path: Path, device: str | None) -> Any:
    provider = PROVIDERS.get("cpu" if device is None else device)
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4  # what is wrong is said by the exception
    there, session = runtime.get_available_providers(), None
    try:
        if provider in there:
            session = runtime.InferenceSession(str(path), settings, providers=[provider])
    except Exception as error:  # of the runtime, which has many kinds
        raise ValueError(
            f"{path} cannot be opened by onnxruntime ({first_line(error)}); is it a whole model, and not too new?"
        ) from None
    if session is None or provider not in session.get_providers():  # which falls back to the CPU without a word
        able = ", ".join(name for name, one in PROVIDERS.items() if one in there)
        raise ValueError(f"device={device!r} cannot be used by the onnxruntime that is installed; give one of {able}")
    return session


def _ends(session: Any, path: Path, said: dict[str, Any]) -> Ends:
    """Which input and output are used; where there are several and none is named, that is asked for."""
    ends = Ends(**{key: said[key] for key in asdict(Ends()) if key in said})
    chosen = {}
    for key, there in (("input", session.get_inputs()), ("output", session.get_outputs())):
        names, name = [one.name for one in there], getattr(ends, key)
        if key == "input" and len(names) != 1:
            raise ValueError(f"{path} has {len(names)} inputs ({', '.join(names)}); a model of pictures has one")
        if name is not None and name not in names:
            raise ValueError(f"{path} has no {key} {name!r:.80}; it has {', '.join(names)}")
        if name is None and len(names) != 1:
            raise ValueError(f"{path} has the outputs {', '.join(names)}; name one with output in preprocessing=")
        chosen[key] = name or names[0]
    entry = session.get_inputs()[0]
    if entry.type not in TYPES or len(entry.shape) != 4:
        raise ValueError(
            f"{path} reads {entry.type} of shape {entry.shape}; pictures are read as numbers of shape (1, 3, height, "
            "width) or (1, height, width, 3)"
        )
    return replace(ends, **chosen)


def _fitted(shape: list[Any], path: Path, said: dict[str, Any]) -> Preprocessing:
    """The preprocessing as it was said, the rest read off the shape of the input, of which axes may be unknown."""
    fixed = [side if isinstance(side, int) and side > 0 else None for side in shape]
    known = {key: said[key] for key in KEYS if key in said}
    known.setdefault("layout", "NHWC" if fixed[3] == 3 and fixed[1] != 3 else "NCHW")
    made = Preprocessing(**known)
    channels, *places = (1, 2, 3) if made.layout == "NCHW" else (3, 1, 2)
    if fixed[0] not in (None, 1) or fixed[channels] not in (None, 3):
        raise ValueError(
            f"{path} reads the shape {shape}; one picture of three channels in the layout {made.layout} is "
            "(1, 3, height, width) for NCHW and (1, height, width, 3) for NHWC: export it that way"
        )
    sides = tuple(fixed[place] or side for place, side in zip(places, made.shape, strict=True))
    if "size" in known and sides != made.shape:
        raise ValueError(f"size={known['size']!r} is not what {path} reads, which is {sides}; leave it out")
    if made.crop is False and made.resize == "shorter" and None not in [fixed[place] for place in places]:
        raise ValueError(f"crop=false is for models that read any size, and {path} reads {sides}; leave it out")
    return replace(made, size=(sides[0], sides[1]))
