"""Names and shapes of every published layout, including deep networks, built without memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from encoders.networks import invented_weights  # noqa: E402
from kinrank_bench.encoders import cirtorch_network, pycls_networks  # noqa: E402
from kinrank_bench.encoders.backbones import build_without_memory, detect_depth  # noqa: E402


def layout(network: Any) -> list[tuple[str, list[int]]]:
    return [(name, list(value.shape)) for name, value in network.state_dict().items()]


def listed(rows: Sequence[Any], unused: tuple[str, ...] = ()) -> list[tuple[str, list[int]]]:
    pairs = [(row["name"], row["shape"]) if isinstance(row, dict) else (row[0], row[1]) for row in rows]
    return [(name, shape) for name, shape in pairs if not name.startswith(unused)]


PYCLS = [
    ("cvnet", "layout_resnet50", lambda: pycls_networks.CVNet(50, 2048), pycls_networks.CVNET_UNUSED),
    ("cvnet", "layout_resnet101_shapes", lambda: pycls_networks.CVNet(101, 2048), pycls_networks.CVNET_UNUSED),
    ("senet", "layout_resnet50", lambda: pycls_networks.SENet(50, 2048, 256), ()),
    ("senet", "layout_resnet101_shapes", lambda: pycls_networks.SENet(101, 2048, 256), ()),
    ("dolg", "layout_resnet50", lambda: pycls_networks.DOLG(50, 512, atrous=False), pycls_networks.DOLG_UNUSED),
    (
        "dolg",
        "layout_resnet101_shapes",
        lambda: pycls_networks.DOLG(101, 512, atrous=False),
        pycls_networks.DOLG_UNUSED,
    ),
    ("dolg_ma", "layout_resnet50", lambda: pycls_networks.DOLG(50, 512, atrous=True), pycls_networks.DOLG_UNUSED),
    ("delg", "layout_resnet50", lambda: pycls_networks.DELG(50, 512), pycls_networks.DELG_UNUSED),
    (
        "delg",
        "layout_training_model_resnet101_shapes",
        lambda: pycls_networks.DELG(101, 512),
        pycls_networks.DELG_UNUSED,
    ),
]


@pytest.mark.parametrize(("family", "name", "build", "unused"), PYCLS)
def test_families_of_pycls(shared_dir: Path, family: str, name: str, build: Any, unused: tuple[str, ...]) -> None:
    rows = invented_weights.description(shared_dir, family)[name]
    assert sorted(layout(build_without_memory(build))) == sorted(listed(rows, unused))


def test_cirtorch(shared_dir: Path) -> None:
    described = invented_weights.description(shared_dir, "cirtorch")
    for architecture, name in [("resnet50", ""), ("resnet101", "_shapes"), ("vgg16", "")]:
        width = 512 if architecture == "vgg16" else 2048
        network = build_without_memory(lambda a=architecture, w=width: cirtorch_network.CirNetwork(a, "gem", False, w))
        assert sorted(layout(network)) == sorted(listed(described[f"layout_{architecture}-gem-w{name}"]))


def test_other_weights_of_cirtorch_networks(shared_dir: Path) -> None:
    described = invented_weights.description(shared_dir, "cirtorch")
    for name, extra in described["extra_keys"].items():
        meta = described["meta"][name]
        whitened = meta["outputdim"] if meta["whitening"] else None
        network = build_without_memory(
            lambda m=meta, w=whitened: cirtorch_network.CirNetwork(m["architecture"], m["pooling"], m["regional"], w)
        )
        assert network.dimensions == meta["outputdim"]
        assert sorted(row for row in layout(network) if not row[0].startswith("features.")) == sorted(listed(extra))


def test_depths_are_read_off_the_names() -> None:
    for depth in (50, 101, 152):
        names = build_without_memory(lambda d=depth: pycls_networks.CVNet(d, 8)).state_dict()
        assert detect_depth(names, "encoder_q.") == depth
    assert detect_depth(["something"]) == 50


def test_an_exponent_per_channel_and_alexnet() -> None:
    network = build_without_memory(lambda: cirtorch_network.CirNetwork("alexnet", "gemmp", False, None))
    assert ("pool.p", [256]) in layout(network)
    assert layout(network)[-2:] != []
    assert ("features.10.weight", [256, 256, 3, 3]) in layout(network)
    assert network.power == 1.0
