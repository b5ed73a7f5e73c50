"""Weights must match in name and shape and be finite; errors list the first few that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from kinrank.encoders.torch_checkpoint import Checkpoint, load_weights  # noqa: E402
from kinrank_bench.encoders import cirtorch_network, pycls_networks  # noqa: E402
from kinrank_bench.encoders.backbones import build_without_memory  # noqa: E402

NN = torch.nn


def small() -> Any:
    return build_without_memory(lambda: NN.Sequential(NN.Conv2d(3, 4, 1), NN.BatchNorm2d(4)))


def weights(**other: Any) -> dict[str, Any]:
    plain = {name: torch.rand(value.shape) for name, value in small().state_dict().items()}
    return {**plain, **other}


def file(content: dict[str, Any]) -> Checkpoint:
    return Checkpoint(Path("x.pth"), content)


def test_a_network_is_filled_and_ready() -> None:
    given = weights()
    network = load_weights(small(), file(given), "small")
    assert not network.training
    assert all(torch.equal(value, given[name].to(value.dtype)) for name, value in network.state_dict().items())
    assert not any(value.requires_grad for value in network.parameters())
    given["0.weight"].zero_()
    assert network[0].weight.abs().sum() > 0


def test_old_files_lack_counters_and_some_hold_other_floats() -> None:
    given = {name: value.half() for name, value in weights().items() if not name.endswith("tracked")}
    network = load_weights(small(), file(given), "small")
    assert network[0].weight.dtype == torch.float32
    assert network[1].num_batches_tracked == 0
    load_weights(small(), file({name: value.double() for name, value in weights().items()}), "small")


def test_parts_that_are_not_needed() -> None:
    given = weights(**{"local.weight": torch.zeros(3)})
    load_weights(small(), file(given), "small", ("local.",))
    with pytest.raises(ValueError, match=r"x\.pth does not fit the encoder small: it has the unknown local\.weight;"):
        load_weights(small(), file(given), "small")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({}, "it lacks 0.weight, 0.bias, 1.weight and 3 more; it seems to be something else"),
    "a shape": (weights(**{"0.bias": torch.zeros(5)}), r"it has another shape of 0.bias \(5,\) for \(4,\)"),
    "several": (
        {**{n: v for n, v in weights().items() if n != "0.bias"}, "b": torch.zeros(1)},
        "it lacks 0.bias and has the unknown b; it seems",
    ),
    "NaN": (weights(**{"0.bias": torch.full((4,), float("nan"))}), "has NaN or Inf in 0.bias; it is damaged"),
    "sparse": (weights(**{"0.bias": torch.zeros(4).to_sparse()}), "has no plain numbers in 0.bias"),
    "without memory": (weights(**{"0.bias": torch.zeros(4, device="meta")}), "has no plain numbers in 0.bias"),
    "complex": (weights(**{"0.bias": torch.zeros(4, dtype=torch.complex64)}), "has no plain numbers in 0.bias"),
}


@pytest.mark.parametrize("case", WRONG)
def test_weights_that_do_not_fit(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(ValueError, match=message) as error:
        load_weights(small(), file(given), "small")
    assert "\n" not in str(error.value)


FAMILIES = {
    "cvnet": (pycls_networks.build_cvnet, lambda: pycls_networks.CVNet(50, 8), "CVNet"),
    "senet": (pycls_networks.build_senet, lambda: pycls_networks.SENet(50, 8, 8), "SENet"),
    "dolg": (pycls_networks.build_dolg, lambda: pycls_networks.DOLG(50, 8, atrous=True), "DOLG"),
    "delg": (pycls_networks.build_delg, lambda: pycls_networks.DELG(50, 8), "DELG"),
    "cirtorch": (None, lambda: cirtorch_network.CirNetwork("resnet50", "gem", False, None), "a network of cirtorch"),
}


@pytest.mark.parametrize("given", FAMILIES)
@pytest.mark.parametrize("wanted", ["cvnet", "senet", "dolg", "delg"])
def test_a_file_of_another_family(given: str, wanted: str) -> None:
    content = build_without_memory(FAMILIES[given][1]).state_dict()
    message = f"does not fit the encoder {wanted}: .*; it seems to be {FAMILIES[given][2]}"
    if given == wanted:
        message = "has no plain numbers in"  # this one fits, but is on the meta device
    with pytest.raises(ValueError, match=message):
        FAMILIES[wanted][0](file(content))


def test_files_of_torchvision_and_pycls_are_recognised() -> None:
    for name, message in [
        ("layer1.0.conv1.weight", "a ResNet of torchvision"),
        ("stem.conv.weight", "a ResNet of pycls"),
    ]:
        with pytest.raises(ValueError, match=f"it seems to be {message}"):
            pycls_networks.build_dolg(file({name: torch.zeros(3)}))
