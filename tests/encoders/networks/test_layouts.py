"""Names and shapes of every published layout, deep networks too, built without memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from encoders.networks import recipe  # noqa: E402
from kinrank.encoders.networks import cirtorch, cvnet, delg, dolg, senet  # noqa: E402
from kinrank.encoders.networks.filling import on_paper  # noqa: E402
from kinrank.encoders.networks.pycls import depth_of  # noqa: E402


def layout(network: Any) -> list[tuple[str, list[int]]]:
    return [(name, list(value.shape)) for name, value in network.state_dict().items()]


def listed(rows: Sequence[Any], unused: tuple[str, ...] = ()) -> list[tuple[str, list[int]]]:
    pairs = [(row["name"], row["shape"]) if isinstance(row, dict) else (row[0], row[1]) for row in rows]
    return [(name, shape) for name, shape in pairs if not name.startswith(unused)]


PYCLS = [
    ("cvnet", "layout_resnet50", lambda: cvnet.CVNet(50, 2048), cvnet.RERANKING),
    ("cvnet", "layout_resnet101_shapes", lambda: cvnet.CVNet(101, 2048), cvnet.RERANKING),
    ("senet", "layout_resnet50", lambda: senet.SENet(50, 2048, 256), ()),
    ("senet", "layout_resnet101_shapes", lambda: senet.SENet(101, 2048, 256), ()),
    ("dolg", "layout_resnet50", lambda: dolg.DOLG(50, 512, atrous=False), dolg.TRAINING),
    ("dolg", "layout_resnet101_shapes", lambda: dolg.DOLG(101, 512, atrous=False), dolg.TRAINING),
    ("dolg_ma", "layout_resnet50", lambda: dolg.DOLG(50, 512, atrous=True), dolg.TRAINING),
    ("delg", "layout_resnet50", lambda: delg.DELG(50, 512), delg.UNUSED),
    ("delg", "layout_training_model_resnet101_shapes", lambda: delg.DELG(101, 512), delg.UNUSED),
]


@pytest.mark.parametrize(("family", "name", "build", "unused"), PYCLS)
def test_families_of_pycls(shared_dir: Path, family: str, name: str, build: Any, unused: tuple[str, ...]) -> None:
    rows = recipe.description(shared_dir, family)[name]
    assert sorted(layout(on_paper(build))) == sorted(listed(rows, unused))


def test_cirtorch(shared_dir: Path) -> None:
    described = recipe.description(shared_dir, "cirtorch")
    for architecture, name in [("resnet50", ""), ("resnet101", "_shapes"), ("vgg16", "")]:
        width = 512 if architecture == "vgg16" else 2048
        network = on_paper(lambda a=architecture, w=width: cirtorch.CirNetwork(a, "gem", False, w))
        assert sorted(layout(network)) == sorted(listed(described[f"layout_{architecture}-gem-w{name}"]))


def test_what_else_the_networks_of_cirtorch_hold(shared_dir: Path) -> None:
    described = recipe.description(shared_dir, "cirtorch")
    for name, extra in described["extra_keys"].items():
        meta = described["meta"][name]
        whitened = meta["outputdim"] if meta["whitening"] else None
        network = on_paper(
            lambda m=meta, w=whitened: cirtorch.CirNetwork(m["architecture"], m["pooling"], m["regional"], w)
        )
        assert network.dimensions == meta["outputdim"]
        assert sorted(row for row in layout(network) if not row[0].startswith("features.")) == sorted(listed(extra))


def test_depths_are_read_off_the_names() -> None:
    for depth in (50, 101, 152):
        names = on_paper(lambda d=depth: cvnet.CVNet(d, 8)).state_dict()
        assert depth_of(names, "encoder_q.") == depth
    assert depth_of(["something"]) == 50


def test_an_exponent_per_channel_and_alexnet() -> None:
    network = on_paper(lambda: cirtorch.CirNetwork("alexnet", "gemmp", False, None))
    assert ("pool.p", [256]) in layout(network)
    assert layout(network)[-2:] != []
    assert ("features.10.weight", [256, 256, 3, 3]) in layout(network)
    assert network.power == 1.0
