"""CVNet-Global and SENet from files in the published layouts, compared with the results of their programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from encoders.networks import invented_weights, layer_outputs  # noqa: E402
from encoders.networks.conftest import BOXES, Write  # noqa: E402
from kinrank.encoders.base import Options  # noqa: E402
from kinrank_bench.encoders.pycls_networks import local_correlations  # noqa: E402
from kinrank_bench.encoders.retrieval_encoders import open_cvnet, open_senet  # noqa: E402

SCALES = ("0.7071", "1.0", "1.4142")
Golden = dict[str, NDArray[Any]]


@pytest.fixture(scope="module", params=["cvnet", "senet"])
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def golden(shared_dir: Path, family: str) -> Golden:
    """Return golden outputs and inputs. The inputs are equal for both and stored for CVNet."""
    inputs = invented_weights.arrays(shared_dir, "cvnet")
    return {
        **{name: value for name, value in inputs.items() if "tensor" in name},
        **invented_weights.arrays(shared_dir, family),
    }


@pytest.fixture(scope="module")
def encoder(shared_dir: Path, written: Write, family: str) -> Any:
    """Open an encoder from a file with all published keys, for CVNet including its re-ranking network."""
    weights = invented_weights.checked(invented_weights.description(shared_dir, family)["layout_resnet50"])
    open_family = {"cvnet": open_cvnet, "senet": open_senet}[family]
    return open_family(Options(weights=written({"epoch": 1, "model_state": invented_weights.tensors(weights)})))


def prefix(family: str) -> str:
    return "encoder_q." if family == "cvnet" else ""


@pytest.mark.parametrize("name", "AB")
def test_inputs(encoder: Any, golden: Golden, images: dict[str, Any], name: str) -> None:
    for scale in SCALES:
        found = encoder.scale_input(encoder.pixels(images[name])[..., ::-1], float(scale)).numpy()
        assert np.array_equal(found, golden[f"tensor_db_{name}_scale{scale}"])


@pytest.mark.parametrize("name", "AB")
def test_inputs_of_queries(encoder: Any, shared_dir: Path, images: dict[str, Any], family: str, name: str) -> None:
    prints = invented_weights.description(shared_dir, family)["tensor_fingerprints"]
    part = encoder.crop(images[name], BOXES[name])
    for scale in SCALES:
        expected = prints[f"tensor_query_{name}_scale{scale}"]
        found = encoder.scale_input(encoder.pixels(part)[..., ::-1], float(scale)).numpy()
        assert list(found.shape) == expected["shape"]
        assert invented_weights.fingerprint(found) == expected["crc32_float32_c_order"]


@pytest.mark.parametrize("name", "AB")
def test_stages(encoder: Any, golden: Golden, family: str, name: str) -> None:
    parts, before = ["stem", "s1", "s2", "s3", "s4"], prefix(family)
    picture = torch.from_numpy(golden[f"tensor_db_{name}_scale1.0"])
    seen = layer_outputs.outputs(encoder.network, picture, *(before + part for part in [*parts, "head.fc"]))
    for part in parts:
        assert invented_weights.off(layer_outputs.mean(seen[before + part]), golden[f"mean_{part}_{name}"]) <= 1e-5
    assert list(seen[f"{before}s4"].shape) == golden[f"shape_s4_{name}"].tolist()
    assert invented_weights.off(seen[f"{before}head.fc"][0], golden[f"fc_{name}"]) <= 1e-5


@pytest.mark.parametrize("row", [0, 1])
def test_every_scale(encoder: Any, golden: Golden, row: int) -> None:
    for scale in SCALES:
        with torch.inference_mode():
            found = encoder.run(torch.from_numpy(golden[f"tensor_db_{'AB'[row]}_scale{scale}"]))
        assert invented_weights.off(found, golden["db_ss" if scale == "1.0" else f"db_scale{scale}"][row]) <= 1e-5


def test_pictures(encoder: Any, golden: Golden, images: dict[str, Any]) -> None:
    pictures = [images["A"], images["B"]]
    assert invented_weights.off(encoder.pictures(pictures), golden["db_ms"]) <= 1e-5
    assert invented_weights.off(layer_outputs.at(encoder, 1.0).pictures(pictures), golden["db_ss"]) <= 1e-5


def test_queries(encoder: Any, golden: Golden, images: dict[str, Any]) -> None:
    parts = [encoder.crop(images[name], BOXES[name]) for name in "AB"]
    assert invented_weights.off(encoder.pictures(parts), golden["query_ms"]) <= 1e-5
    assert invented_weights.off(layer_outputs.at(encoder, 1.0).pictures(parts), golden["query_ss"]) <= 1e-5


def test_facts(encoder: Any, family: str) -> None:
    known = {"encoder": family, "depth": 50, "scales": [0.7071, 1.0, 1.4142], "boxes": "truncate", "size": None}
    assert {name: encoder.facts[name] for name in known} == known
    assert len(encoder.facts["weights"]) == 32
    assert encoder.dimensions == 2048


@pytest.mark.parametrize("name", "AB")
def test_pooling(encoder: Any, golden: Golden, family: str, name: str) -> None:
    picture = torch.from_numpy(golden[f"tensor_db_{name}_scale1.0"])
    with torch.inference_mode():
        if family == "cvnet":
            pooled = layer_outputs.outputs(encoder.network, picture, "encoder_q.head.pool")["encoder_q.head.pool"]
        else:
            from kinrank.encoders.descriptors import gem

            pooled = gem(layer_outputs.outputs(encoder.network, picture, "SSM")["SSM"], 3.0)
    assert invented_weights.off(pooled[0], golden[f"gem_{name}"]) <= 1e-5


@pytest.mark.parametrize("family", ["senet"], indirect=True)
@pytest.mark.parametrize("name", "AB")
def test_self_similarity(encoder: Any, golden: Golden, name: str) -> None:
    picture = torch.from_numpy(golden[f"tensor_db_{name}_scale1.0"])
    seen = layer_outputs.outputs(encoder.network, picture, "s4", "SSM", "SSM.ch_reduction_encoder")
    module, maps = encoder.network.SSM, seen["s4"]
    with torch.inference_mode():
        products = torch.cat(list(local_correlations(module.reduce_channels(maps), 1)), 2)
        added = module.similarity(maps)
    reduced = seen["SSM.ch_reduction_encoder"]
    assert invented_weights.off(layer_outputs.mean(reduced), golden[f"mean_reduced_{name}"]) <= 1e-5
    assert invented_weights.off(products[0].mean(1), golden[f"mean_selfcorrelation_{name}"]) <= 1e-5
    assert invented_weights.off(layer_outputs.mean(added), golden[f"mean_selfsimilarity_{name}"]) <= 1e-5
    assert invented_weights.off(layer_outputs.mean(seen["SSM"]), golden[f"mean_ssm_output_{name}"]) <= 1e-5


@pytest.mark.parametrize("family", ["senet"], indirect=True)
def test_rows_of_a_large_map_one_after_the_other(encoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = torch.from_numpy(np.random.default_rng(0).random((2, 2048, 5, 4), np.float32))
    with torch.inference_mode():
        at_once = encoder.network.SSM.similarity(maps)
        monkeypatch.setattr("kinrank_bench.encoders.pycls_networks.SENET_MAX_POSITIONS", 1)
        assert invented_weights.off(encoder.network.SSM.similarity(maps), at_once.numpy()) <= 1e-6


@pytest.mark.parametrize("family", ["cvnet"], indirect=True)
def test_through_embed(encoder: Any, golden: Golden, images: dict[str, Any], tmp_path: Path) -> None:
    """Encode as `kinrank embed` does: from files, in threads, with queries cropped to their boxes."""
    for name, image in images.items():
        image.save(tmp_path / f"{name}.png")
    whole = kr.embed(tmp_path, encoder=encoder)
    parts = kr.embed(tmp_path, encoder=encoder, boxes={f"{name}.png": box for name, box in BOXES.items()})
    assert whole.ids == parts.ids == ["A.png", "B.png"]
    assert invented_weights.off(whole.vectors, golden["db_ms"]) <= 1e-5
    assert invented_weights.off(parts.vectors, golden["query_ms"]) <= 1e-5
