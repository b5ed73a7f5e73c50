"""A network without weights, and a file -> the network with them, if every name and every shape fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from kinrank.encoders.networks.checkpoint import Checkpoint
from kinrank.files.opening import FileProblem

Network = TypeVar("Network", bound=nn.Module)
COUNTER = "num_batches_tracked"  # of batch norms while they are trained; old files lack it
SIGNS = {  # names that only one kind of file has -> what it is
    "encoder_q.": "CVNet (encoder cvnet)",
    "SSM.": "SENet (encoder senet)",
    "fc_t.": "DOLG (encoder dolg)",
    "globalmodel.head.": "DELG (encoder delg)",
    "features.": "a network of cirtorch (encoder cirtorch), or a VGG of torchvision",
    "layer1.": "a ResNet of torchvision",
    "stem.": "a ResNet of pycls",
}


def on_paper(build: Callable[[], Network]) -> Network:
    """A network whose weights have names and shapes but no memory."""
    with torch.device("meta"):
        return build()


def rows_of(file: Checkpoint, name: str, otherwise: int) -> int:
    """How many outputs the layer of that name has in the file."""
    weight = file.weights.get(name)
    return int(weight.shape[0]) if weight is not None and weight.ndim > 1 and len(weight) > 0 else otherwise


def filled(network: Network, file: Checkpoint, encoder: str, unused: tuple[str, ...] = ()) -> Network:
    """The network with the weights of the file, as float32, ready to be run.

    A FileProblem names the first weights that are missing, that nobody knows, or that have another shape.

    Args:
        network: from `on_paper`.
        file: the weights.
        encoder: the name that stands in the sentence.
        unused: how names begin that may be there and are not needed.
    """
    expected, given = network.state_dict(), file.weights
    problems = [
        _listed("lacks", [name for name in expected if name not in given and not name.endswith(COUNTER)]),
        _listed("has the unknown", [name for name in given if name not in expected and not name.startswith(unused)]),
        _listed(
            "has another shape of", [_shapes(name, given[name], expected[name]) for name in _differ(given, expected)]
        ),
        _listed("has no plain numbers in", [name for name in expected if name in given and not _is_plain(given[name])]),
    ]
    if any(problems):
        said = " and ".join(problem for problem in problems if problem)
        raise FileProblem(f"{file.path} does not fit the encoder {encoder}: it {said}; it seems to be {_guess(given)}")
    weights = {name: _numbers(given.get(name), like) for name, like in expected.items()}
    broken = [name for name, value in weights.items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise FileProblem(f"{file.path} {_listed('has NaN or Inf in', broken)}; it is damaged, fetch it again")
    network.load_state_dict(weights, assign=True)
    network.eval().requires_grad_(False)
    return network


def _differ(given: dict[str, Tensor], expected: dict[str, Tensor]) -> list[str]:
    return [name for name, like in expected.items() if name in given and given[name].shape != like.shape]


def _shapes(name: str, given: Tensor, expected: Tensor) -> str:
    return f"{name} {tuple(given.shape)} for {tuple(expected.shape)}"


def _is_plain(value: Tensor) -> bool:
    return (
        value.layout == torch.strided and value.device.type == "cpu" and not (value.is_quantized or value.is_complex())
    )


def _numbers(value: Tensor | None, like: Tensor) -> Tensor:
    """A copy of its own, so that weights which share memory in a file do not share it here."""
    if value is None:
        return torch.zeros(like.shape, dtype=like.dtype)
    return value.detach().to(like.dtype, copy=True).contiguous()


def _listed(verb: str, names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{verb} {', '.join(names[:3])}{more}" if names else ""


def _guess(names: Iterable[str]) -> str:
    known = list(names)
    return next(
        (what for sign, what in SIGNS.items() if any(name.startswith(sign) for name in known)), "something else"
    )
