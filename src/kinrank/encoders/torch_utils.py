"""Helpers of the torch encoders: device, batches, long images."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinrank.encoders.base import check_rows
from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.vector_input import Vectors

MAX_ASPECT_RATIO = 32


def select_device(name: str | None, encoder: str) -> Any:
    """Return a torch device, by default the CPU. Raise InputError if it is not available."""
    torch = import_extra("torch", f"the encoder {encoder}", "torch")
    try:
        device = torch.device("cpu" if name is None else name)
        torch.zeros(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise InputError(
            f"is not available ({first_error_line(error)})",
            parameter="device",
            given=name,
            allowed="cpu, or cuda or mps if this machine has it",
        ) from None
    return device


def run_network(network: Callable[[Any], Any], inputs: Sequence[Any], device: Any, dimensions: int) -> Vectors:
    """Run a network on tensors (1, ...) of one shape and return its (n, dimensions) output.

    On a CPU inputs are processed one by one: a batch is not faster there and would change the last bits.
    """
    torch = import_extra("torch", "this encoder", "torch")
    if not inputs:
        return np.empty((0, dimensions), np.float32)
    groups = [[tensor] for tensor in inputs] if device.type == "cpu" else [list(inputs)]
    with torch.inference_mode():
        made = [network(torch.cat(group).to(device)).float().cpu().numpy() for group in groups]
    return check_rows(np.concatenate(made), len(inputs), dimensions)


def crop_long_image(image: Any) -> Any:
    """Return the image, or the middle of a very long one, which would fill the memory when resized."""
    wide, high = image.size
    most = MAX_ASPECT_RATIO * min(wide, high)
    if max(wide, high) <= most:
        return image
    left, top = max(0, (wide - most) // 2), max(0, (high - most) // 2)
    return image.crop((left, top, wide - left, high - top))


def unknown_model_error(model: str, library: str, names: Sequence[str]) -> InputError:
    """Return the error for a model that a library does not have, with similar names."""
    near = difflib.get_close_matches(model, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names[:3])} and {len(names) - 3} more"
    return InputError(f"is not known to {library}", parameter="model", given=model, remedy=hint)


def first_error_line(error: BaseException) -> str:
    """Return the first line of an error message, short enough for a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:160].rstrip(".:; ")
