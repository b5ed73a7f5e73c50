"""Small ONNX models: a convolution with various inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx, which makes the models, is not installed")
make, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
CHANNELS = 5
WEIGHTS = np.random.default_rng(11).normal(size=(CHANNELS, 3, 3, 3)).astype(np.float32)


def feature_map(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Compute the (channels, height - 2, width - 2) output for (1, 3, height, width) in numpy."""
    windows = np.lib.stride_tricks.sliding_window_view(pixels[0].astype(np.float64), (3, 3), axis=(1, 2))
    return np.maximum(np.einsum("chwij,ocij->ohw", windows, WEIGHTS), 0)


def saved(
    path: Path,
    shape: Sequence[int | str] = (1, 3, 8, 8),
    *,
    end: str = "vector",
    inputs: int = 1,
    outputs: int = 1,
    kind: int = FLOAT,
    location: str | None = None,
    layout: str = "NCHW",
) -> Path:
    """Write a model: convolution, ReLU, and then a "vector", a "map", a pooled map "1x1", "tokens" or a "line".

    Args:
        path: path of the model.
        shape: shape of its input; names stand for axes of any length.
        end: kind of output.
        inputs, outputs: number of inputs and outputs.
        kind: type of the numbers.
        location: name of an external file for the weights.
        layout: layout of the input.
    """
    weights = onnx.numpy_helper.from_array(WEIGHTS.astype(make.tensor_dtype_to_np_dtype(kind)), "weights")
    if location is not None:
        weights = _elsewhere(weights, location)
    first = [make.make_node("Transpose", ["in0"], ["first"], perm=[0, 3, 1, 2])] if layout == "NHWC" else []
    nodes = [*first, make.make_node("Conv", ["first" if first else "in0", "weights"], ["conv"])]
    nodes.append(make.make_node("Relu", ["conv"], ["map"]))
    nodes.append(make.make_node("GlobalAveragePool", ["map"], ["1x1"]))
    nodes.append(make.make_node("Flatten", ["1x1"], ["vector"]))
    nodes.append(make.make_node("Squeeze", ["1x1"], ["line"]))
    nodes.append(make.make_node("Flatten", ["map"], ["flat"]))
    nodes.append(make.make_node("Unsqueeze", ["flat", "one"], ["tokens"]))
    one = onnx.numpy_helper.from_array(np.array([1], np.int64), "one")
    taken = [make.make_tensor_value_info(f"in{number}", kind, list(shape)) for number in range(inputs)]
    given = [make.make_tensor_value_info(end, kind, None)]
    given += [make.make_tensor_value_info(name, kind, None) for name in ("map", "1x1")[: outputs - 1]]
    graph = make.make_graph(nodes, "small", taken, given, [weights, one])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return path


def _elsewhere(tensor: Any, location: str) -> Any:
    """Return the tensor with its data in another file, which is not written here."""
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor
