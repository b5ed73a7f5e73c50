"""What the encoders over torch share: the device, weights read without executing anything, pictures one by one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinrank.deferred import needed
from kinrank.encoders.base import rows
from kinrank.features import Vectors
from kinrank.files.opening import FileProblem, regular

if TYPE_CHECKING:
    from kinrank.encoders.networks.checkpoint import Checkpoint

LONGEST = 32  # times the shorter side


def device_of(name: str | None, encoder: str) -> Any:
    """torch's device of that name, the CPU unless one is named; a ValueError where it cannot compute here."""
    torch = needed("torch", f"the encoder {encoder}", "torch")
    try:
        device = torch.device("cpu" if name is None else name)
        torch.zeros(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        why = first_line(error)
        raise ValueError(f"device={name!r} cannot be used here ({why}); give cpu, or cuda or mps where it is") from None
    return device


def weights_of(path: Path) -> Checkpoint:
    """The weights in a .safetensors file, or in one that torch.save wrote; nothing is executed."""
    needed("torch", f"reading {path}", "torch")
    from kinrank.encoders.networks import checkpoint

    if path.suffix != ".safetensors":
        return checkpoint.read(path)
    reader = needed("safetensors.torch", f"reading {path}", "io")
    try:
        return checkpoint.Checkpoint(path, reader.load_file(regular(path)))
    except FileNotFoundError:
        raise
    except Exception as error:  # which one depends on the byte that is wrong
        why = first_line(error)
        raise FileProblem(f"{path} is damaged, or no file of safetensors ({why}); fetch it again") from None


def rows_of(network: Callable[[Any], Any], inputs: Sequence[Any], device: Any, dimensions: int) -> Vectors:
    """(n, dimensions) what a network makes of tensors (1, ...) of one shape.

    A CPU gets them one by one: a batch is no faster there, and would change the last bits.
    """
    torch = needed("torch", "this encoder", "torch")
    if not inputs:
        return np.empty((0, dimensions), np.float32)
    groups = [[one] for one in inputs] if device.type == "cpu" else [list(inputs)]
    with torch.inference_mode():
        made = [network(torch.cat(group).to(device)).float().cpu().numpy() for group in groups]
    return rows(np.concatenate(made), len(inputs), dimensions)


def bounded(image: Any) -> Any:
    """The picture, or the middle of one that is very long: resized by its shorter side it would fill the memory."""
    wide, high = image.size
    most = LONGEST * min(wide, high)
    if max(wide, high) <= most:
        return image
    left, top = max(0, (wide - most) // 2), max(0, (high - most) // 2)
    return image.crop((left, top, wide - left, high - top))


def unknown(model: str, library: str, names: Sequence[str]) -> ValueError:
    """What is said about a model that a library does not have."""
    near = difflib.get_close_matches(model, names, n=3, cutoff=0.5)
    advice = f"is it {' or '.join(near)}?" if near else f"it has {', '.join(names[:3])} and {len(names) - 3} more"
    return ValueError(f"model={model!r} is not known to {library}; {advice}")


def first_line(error: BaseException) -> str:
    """What an error says, short enough to stand in a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:160].rstrip(".:; ")
