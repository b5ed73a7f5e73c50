"""OnnxEncoder: an image encoder over an ONNX model and a description of its preprocessing."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.encoders.base import PICTURES, Encoder, Options, check_rows, weights_checksum
from kinrank.encoders.descriptors import DESCRIPTORS, unit
from kinrank.encoders.image_preparation import KEYS, Preprocessing
from kinrank.encoders.torch_utils import first_error_line
from kinrank.errors import InputError, MissingFileError
from kinrank.files.path_checks import check_regular_file
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

NAME = "onnx"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}
INPUT_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
POOLINGS = {"none": None, "mean": DESCRIPTORS["spoc"], **DESCRIPTORS}
RANK_NAMES = {2: "a vector", 4: "a feature map"}
# Message type -> number of the field -> type of the message in it. Other fields are skipped.
MESSAGE_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
KEY_FIELD, VALUE_FIELD = 1, 2  # fields of an entry
Span = tuple[int, int]


@dataclass(frozen=True)
class ModelEnds:
    """Input, output, pooling and normalisation of a model, as set in the preprocessing file."""

    input: str | None = None
    output: str | None = None
    pool: str = "none"
    normalize: bool = False

    def __post_init__(self) -> None:
        for key in ("input", "output"):
            if not isinstance(getattr(self, key), (str, type(None))):
                raise InputError(parameter=key, given=getattr(self, key), allowed="a name in the model")
        if self.pool not in POOLINGS:
            raise InputError(parameter="pool", given=self.pool, allowed=" or ".join(POOLINGS))
        if not isinstance(self.normalize, bool):
            raise InputError(parameter="normalize", given=self.normalize, allowed="true or false")


class OnnxEncoder(Encoder):
    """Runs a model on one image at a time, in one thread, so that each vector depends on its image only."""

    kinds = (PICTURES,)

    def __init__(
        self, path: Path, settings: dict[str, Any], device: str | None, pooling: tuple[str, ...] | None = None
    ) -> None:
        runtime = import_extra("onnxruntime", f"the encoder {NAME}", NAME)
        external = find_weight_files(path)
        self._session = _open_session(runtime, path, device)
        self._ends = _select_ends(self._session, path, settings)
        self._poolings = pooling or (self._ends.pool,)
        entry = next(tensor for tensor in self._session.get_inputs() if tensor.name == self._ends.input)
        self._type = INPUT_DTYPES[entry.type]
        self._preprocessing = _fit_preprocessing(entry.shape, path, settings)
        self.reads = self._preprocessing.reads
        grey = np.full((64, 64, 3), 127, np.uint8)
        image = import_extra("PIL.Image", f"the encoder {NAME}", NAME).fromarray(grey)
        parts = self._pooled(image)
        self.dimensions = sum(map(len, parts))
        if pooling:
            self.columns = {name: len(part) for name, part in zip(pooling, parts, strict=True)}
        self.facts = {
            "encoder": NAME,
            "weights": "+".join(weights_checksum(file) for file in (path, *external)),
            **self._preprocessing.facts(),
            **asdict(self._ends),
            "pool": "+".join(self._poolings),
        }

    def pictures(self, images: Sequence[Any]) -> Vectors:
        made = [np.concatenate(self._pooled(image)) for image in images]
        return check_rows(np.stack(made) if made else np.empty((0, self.dimensions)), len(images), self.dimensions)

    def _pooled(self, image: Any) -> list[Vectors]:
        """Return the vector of every pooling."""
        pixels = self._preprocessing.array(image).astype(self._type, copy=False)
        try:
            (made,) = self._session.run([self._ends.output], {self._ends.input: pixels})
        except Exception as error:  # onnxruntime has many types
            raise InputError(
                f"the model cannot read an input of shape {pixels.shape} ({first_error_line(error)})",
                remedy="give another `size`, or another layout in `preprocessing`",
            ) from None
        vectors = [self._pool(np.asarray(made, np.float32), pooling) for pooling in self._poolings]
        scales = self._ends.normalize
        return [np.asarray(unit(row, 0.0), np.float32) if scales and row.any() else row for row in vectors]

    def _pool(self, made: Vectors, pooling: str) -> Vectors:
        """Extract the vector from the output of the model."""
        name, pool = self._ends.output, POOLINGS[pooling]
        if made.ndim not in RANK_NAMES or made.shape[0] != 1:
            raise InputError(
                f"the output {name!r} of the model has the shape {made.shape}, but a vector (1, d) or a feature map "
                "(1, c, h, w) is needed",
                remedy="select another with the key output in `preprocessing`",
            )
        if made.ndim == 4 and pool is not None:
            maps = made if self._preprocessing.layout == "NCHW" else made.transpose(0, 3, 1, 2)
            return np.asarray(pool(maps[0]), np.float32)
        if made.ndim == 4 and made.size == max(made.shape):  # already pooled, with two axes of length one
            return made.ravel()
        if made.ndim == 4 or pool is not None:
            raise InputError(
                f"the output {name!r} of the model is {RANK_NAMES[made.ndim]} of shape {made.shape}, but pool is "
                f"{pooling!r}",
                remedy=f"set pool in `preprocessing` to one of {', '.join(list(POOLINGS)[1:])} for a feature map, "
                "or to none for a vector",
            )
        return made.ravel()


def open_with_options(options: Options) -> Encoder:
    """Open the encoder. Options: weights (the model), preprocessing, size, pooling, device."""
    options.allow_only(NAME, "weights", "preprocessing", "size", "pooling", "device")
    if options.weights is None:
        raise InputError(f"the encoder {NAME} needs `weights`, the file of an ONNX model")
    settings = {} if options.preprocessing is None else _read_preprocessing(Path(options.preprocessing))
    if options.size is not None:
        settings["size"] = options.size
    return OnnxEncoder(check_regular_file(Path(options.weights)), settings, options.device, options.pooling)


def _read_preprocessing(path: Path) -> dict[str, Any]:
    """Read a preprocessing file and check its keys."""
    content = check_regular_file(path).read_bytes()
    try:
        settings = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not JSON ({first_error_line(error)})", remedy="see docs/encoders.md for an example"
        ) from None
    known = [*KEYS, *asdict(ModelEnds())]
    if not isinstance(settings, dict):
        raise InputError(
            f"{path} is not a JSON object", remedy=f"write {{}} around keys such as {', '.join(known[:3])}"
        )
    for key in settings:
        if key not in known:
            raise InputError(f"{path} has the unknown key {key!r:.80}", allowed=f"one of {', '.join(known)}")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}


def _open_session(runtime: Any, path: Path, device: str | None) -> Any:
    provider = PROVIDERS.get("cpu" if device is None else device)
    session_options = runtime.SessionOptions()
    session_options.intra_op_num_threads = session_options.inter_op_num_threads = 1
    session_options.log_severity_level = 4  # fatal only; errors raise exceptions
    available, session = runtime.get_available_providers(), None
    try:
        if provider in available:
            session = runtime.InferenceSession(str(path), session_options, providers=[provider])
    except Exception as error:  # onnxruntime has many types
        raise InputError(
            f"{path} cannot be opened by onnxruntime ({first_error_line(error)})",
            remedy="check that the model is complete and not newer than onnxruntime",
        ) from None
    if session is None or provider not in session.get_providers():  # onnxruntime silently falls back to the CPU
        devices = ", ".join(name for name, known in PROVIDERS.items() if known in available)
        raise InputError(
            "is not supported by the installed onnxruntime",
            parameter="device",
            given=device,
            allowed=f"one of {devices}",
        )
    return session


def _select_ends(session: Any, path: Path, settings: dict[str, Any]) -> ModelEnds:
    """Select the input and the output. Raise InputError if there are several outputs and none is named."""
    ends = ModelEnds(**{key: settings[key] for key in asdict(ModelEnds()) if key in settings})
    chosen = {}
    for key, tensors in (("input", session.get_inputs()), ("output", session.get_outputs())):
        names, name = [tensor.name for tensor in tensors], getattr(ends, key)
        if key == "input" and len(names) != 1:
            raise InputError(f"{path} has {len(names)} inputs ({', '.join(names)}), but an image model has one")
        if name is not None and name not in names:
            raise InputError(f"{path} has no {key} {name!r:.80}", allowed=f"one of {', '.join(names)}")
        if name is None and len(names) != 1:
            raise InputError(
                f"{path} has the outputs {', '.join(names)}", remedy="select one with the key output in `preprocessing`"
            )
        chosen[key] = name or names[0]
    entry = session.get_inputs()[0]
    if entry.type not in INPUT_DTYPES or len(entry.shape) != 4:
        raise InputError(
            f"{path} reads {entry.type} of shape {entry.shape}, but an image is an array of numbers of shape "
            "(1, 3, height, width) or (1, height, width, 3)"
        )
    return replace(ends, **chosen)


def _fit_preprocessing(shape: list[Any], path: Path, settings: dict[str, Any]) -> Preprocessing:
    """Complete the preprocessing with the shape of the input, some axes of which may be unknown."""
    fixed = [side if isinstance(side, int) and side > 0 else None for side in shape]
    known = {key: settings[key] for key in KEYS if key in settings}
    known.setdefault("layout", "NHWC" if fixed[3] == 3 and fixed[1] != 3 else "NCHW")
    made = Preprocessing(**known)
    channels, *places = (1, 2, 3) if made.layout == "NCHW" else (3, 1, 2)
    if fixed[0] not in (None, 1) or fixed[channels] not in (None, 3):
        raise InputError(
            f"{path} reads the shape {shape}, which does not fit the layout {made.layout}",
            remedy="export the model for one image of three channels: (1, 3, height, width) for NCHW, "
            "(1, height, width, 3) for NHWC",
        )
    sides = tuple(fixed[place] or side for place, side in zip(places, made.shape, strict=True))
    if made.resize == "longest" and any(fixed[place] for place in places):
        raise InputError(
            f"resize='longest' is for models that read any size, but {path} reads {shape}",
            remedy="export the model with free height and width, or use longest-pad",
        )
    if "size" in known and sides != made.shape:
        raise InputError(
            f"differs from the size that {path} reads, {sides}",
            parameter="size",
            given=known["size"],
            remedy="leave it out",
        )
    if made.crop is False and made.resize == "shorter" and None not in [fixed[place] for place in places]:
        raise InputError(
            f"crop=false is for models that read any size, but {path} reads {sides}", remedy="leave it out"
        )
    return replace(made, size=(sides[0], sides[1]))


def find_weight_files(path: Path) -> list[Path]:
    """Return the sorted external files of a model. Raise InputError if it is damaged or a file is outside its folder.

    A model may refer to any path, so the paths are checked before onnxruntime opens them. The format is protocol
    buffers: fields with a number and a length, some of which contain further fields.
    """
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise InputError(f"{path} is empty", allowed="an ONNX model")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                names = sorted(set(_find_locations(content)))
            except (IndexError, ValueError):
                raise InputError(
                    f"{path} is not an ONNX model, or is damaged", remedy="export or copy it again"
                ) from None
    return [_resolve_inside(path, name) for name in names]


def _resolve_inside(path: Path, name: str) -> Path:
    folder = os.path.realpath(path.parent)
    found = os.path.realpath(os.path.join(folder, name))
    if os.path.isabs(name) or os.path.commonpath([folder, found]) != folder:
        raise InputError(
            f"{path} refers to weights in {name!r:.100}, which is outside its folder and is not read",
            remedy="save the model with its weights inside",
        )
    if not os.path.isfile(found):
        raise MissingFileError(f"{path} refers to weights in {name!r:.100}, which does not exist; copy it as well")
    return Path(found)


def _find_locations(content: mmap.mmap) -> Iterator[str]:
    """Yield the paths of the files to which tensors of a model refer."""
    waiting: list[tuple[str, Span]] = [("model", (0, len(content)))]
    while waiting:
        kind, span = waiting.pop()
        for number, part in _iterate_fields(content, *span):
            inner = MESSAGE_FIELDS[kind].get(number)
            if inner == "entry":
                entry = dict(_iterate_fields(content, *part))
                if content[slice(*entry.get(KEY_FIELD, (0, 0)))] == b"location":
                    yield content[slice(*entry.get(VALUE_FIELD, (0, 0)))].decode()
            elif inner is not None:
                waiting.append((inner, part))


def _iterate_fields(content: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, Span]]:
    """Yield number and span (start, end) of each field between two positions."""
    while at < end:
        key, at = _read_varint(content, at)
        kind = key & 7
        if kind == 0:  # varint
            after = _read_varint(content, at)[1]
        elif kind == 2:  # length-delimited
            length, at = _read_varint(content, at)
            after = at + length
        elif kind in (1, 5):  # 64 or 32 bits
            after = at + (8 if kind == 1 else 4)
        else:
            raise InputError("a field has an unknown wire type")
        if after > end:
            raise InputError("a field is longer than its message")
        yield key >> 3, (at, after)
        at = after


def _read_varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """Read a varint (seven bits per byte, lowest first). Return its value and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise InputError("a varint does not end")
