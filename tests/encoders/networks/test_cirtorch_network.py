"""Cirtorch networks from files in the published layout, compared with the results of the toolbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from encoders.networks import invented_weights, layer_outputs  # noqa: E402
from encoders.networks.conftest import BOXES, Write  # noqa: E402
from kinrank.encoders.base import Options  # noqa: E402
from kinrank.encoders.torch_checkpoint import Checkpoint  # noqa: E402
from kinrank_bench.encoders import retrieval_encoders  # noqa: E402
from kinrank_bench.encoders.cirtorch_network import build_cirtorch  # noqa: E402

Golden = dict[str, NDArray[Any]]
RESNETS = ["gem-w", "gem", "mac", "rmac", "spoc", "gem-r", "gem-r-w"]
NETWORKS = [*(f"resnet50-{name}" for name in RESNETS), "vgg16-mac", "vgg16-gem-w"]
CHILDREN = {"resnet50-gem-w": (0, 3, 4, 5, 6, 7), "vgg16-gem-w": (4, 9, 16, 23, 29)}


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> Golden:
    return invented_weights.arrays(shared_dir, "cirtorch")


@pytest.fixture(scope="module")
def described(shared_dir: Path) -> dict[str, Any]:
    return invented_weights.description(shared_dir, "cirtorch")


@pytest.fixture(scope="module")
def weights(described: dict[str, Any]) -> dict[str, Any]:
    """Return encoders by network. Networks of one architecture share their layers."""
    layers = {}
    for architecture in ("resnet50", "vgg16"):
        layers[architecture] = invented_weights.tensors(
            invented_weights.checked(described[f"layout_{architecture}-gem-w"])
        )
    made = {"resnet50-gem-w": layers["resnet50"]}
    for name, extra in described["extra_keys"].items():
        features = {key: value for key, value in layers[name.split("-")[0]].items() if key.startswith("features.")}
        made[name] = {**features, **invented_weights.tensors(invented_weights.made(extra))}
    return made


@pytest.fixture(scope="module")
def any_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("some") / "file"
    path.write_bytes(b"of which only the checksum is asked")
    return path


@pytest.fixture(scope="module", params=NETWORKS)
def name(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def encoder(name: str, weights: dict[str, Any], described: dict[str, Any], any_file: Path) -> Any:
    file = Checkpoint(any_file, weights[name], described["meta"][name])
    return retrieval_encoders.CirtorchEncoder(build_cirtorch(file), Options(weights=str(any_file)), file.meta)


def test_scales(encoder: Any, golden: Golden, described: dict[str, Any], images: dict[str, Any], name: str) -> None:
    assert encoder.network.power == described["msp"][name]
    usual = "ms_e2e" if described["meta"][name]["whitening"] else "ms_lw"
    assert encoder.scales == pytest.approx(described["scales"][usual])
    for key, scales in [("ss", (1.0,)), *((key, tuple(scales)) for key, scales in described["scales"].items())]:
        found = layer_outputs.at(encoder, *scales).pictures([images["A"], images["B"]])
        assert invented_weights.off(found, golden[f"{name}_{key}"].T) <= 1e-5, key


@pytest.mark.parametrize("name", CHILDREN, indirect=True)
@pytest.mark.parametrize("picture", "AB")
def test_layer_outputs(encoder: Any, golden: Golden, name: str, picture: str) -> None:
    from kinrank.encoders.descriptors import unit

    parts = [f"features.{child}" for child in CHILDREN[name]]
    given = torch.from_numpy(golden[f"tensor_full_1024_{picture}"])
    seen = layer_outputs.outputs(encoder.network, given, *parts, "pool")
    for part in parts:
        expected = golden[f"{name}_mean_{part.replace('.', '')}_{picture}"]
        assert invented_weights.off(layer_outputs.mean(seen[part]), expected) <= 1e-5, part
    assert list(seen[parts[-1]].shape) == golden[f"{name}_featuremap_shape_{picture}"].tolist()
    assert invented_weights.off(seen["pool"][0], golden[f"{name}_pooled_{picture}"]) <= 1e-5
    assert invented_weights.off(unit(seen["pool"][0]), golden[f"{name}_pooled_l2_{picture}"]) <= 1e-5


@pytest.mark.parametrize("name", CHILDREN, indirect=True)
def test_queries(encoder: Any, golden: Golden, images: dict[str, Any], name: str) -> None:
    for size, key in [(1024, "crop_ss"), (48, "crop_imsize48_ss")]:
        other = layer_outputs.at(encoder, 1.0)
        other.size = size
        parts = [other.crop(images[picture], BOXES[picture]) for picture in "AB"]
        assert invented_weights.off(other.pictures(parts), golden[f"{name}_{key}"].T) <= 1e-5, key


@pytest.mark.parametrize("name", ["resnet50-gem-w"], indirect=True)
@pytest.mark.parametrize("picture", "AB")
def test_inputs(encoder: Any, golden: Golden, described: dict[str, Any], images: dict[str, Any], picture: str) -> None:
    for size in (1024, 48):
        other = layer_outputs.at(encoder, 1.0)
        other.size = size
        whole, part = images[picture], other.crop(images[picture], BOXES[picture])
        for kind, image in [("full", whole), ("crop", part)]:
            expected = described["tensor_fingerprints"][f"{kind}_{size}_{picture}"]
            found = other.normalise(other.pixels(image), other.mean, other.deviation).numpy()
            assert list(found.shape) == expected["shape"]
            assert invented_weights.fingerprint(found) == expected["crc32_float32_c_order"]
    tensor = torch.from_numpy(golden[f"tensor_full_1024_{picture}"])
    for factor in (2**0.5, 0.5**0.5, 0.5):
        scaled = encoder.scale_input(tensor, factor).numpy()
        assert invented_weights.off(scaled, golden[f"tensor_full_1024_{picture}_scale{factor:.4f}"]) <= 1e-6


@pytest.mark.parametrize("name", ["resnet50-gem-r"], indirect=True)
@pytest.mark.parametrize("picture", "AB")
def test_regions(encoder: Any, golden: Golden, picture: str) -> None:
    given = torch.from_numpy(golden[f"tensor_full_1024_{picture}"])
    with torch.inference_mode():
        found = encoder.network.pool.regions(encoder.network.features(given[None]))[0]
    assert invented_weights.off(found.T, golden[f"resnet50-gem-r_regionvectors_{picture}"]) <= 1e-5


def test_combination_of_scales(shared_dir: Path) -> None:
    """Encoder that replays the vectors of three scales."""
    pooling = invented_weights.arrays(shared_dir, "pooling")

    class Replayed(retrieval_encoders.CirtorchEncoder):
        def __init__(self, vectors: NDArray[Any], power: float) -> None:
            self.vectors = iter(torch.from_numpy(vectors))
            self.network, self.scales = type("Network", (), {"power": power}), (1.0, 1.0, 1.0)

        def run(self, picture: Any) -> Any:
            return next(self.vectors)

    for power in (1, 2.7, 3):
        found = Replayed(pooling["ms_vectors"], power).combine_scales(None)
        assert np.abs(found.numpy() - pooling[f"ms_combined_q{power}"]).max() <= 1e-6
    found = Replayed(pooling["ms_signed_vectors"], 1.0).combine_scales(None)
    assert np.abs(found.numpy() - pooling["ms_signed_combined_q1"]).max() <= 1e-6


def test_resizing_of_tensors(shared_dir: Path) -> None:
    pooling = invented_weights.arrays(shared_dir, "pooling")
    encoder = retrieval_encoders.CirtorchEncoder.__new__(retrieval_encoders.CirtorchEncoder)
    encoder._torch = torch
    for factor in (2**0.5, 0.5**0.5, 0.5):
        found = encoder.scale_input(torch.from_numpy(pooling["interp_in"][0]), factor)
        assert invented_weights.off(found, pooling[f"interp_out_{factor:.4f}"][0]) <= 1e-6


def test_a_file_with_learned_whitening(
    weights: dict[str, Any], described: dict[str, Any], images: dict[str, Any], written: Write
) -> None:
    """The published layout: numpy arrays in meta, one pair for a single scale and another for several."""
    rng = np.random.default_rng(3)
    pairs = {key: {"m": rng.normal(size=(2048, 1)), "P": rng.normal(size=(16, 2048))} for key in ("ss", "ms")}
    meta = {**described["meta"]["resnet50-gem"], "Lw": {"retrieval-SfM-120k": pairs}}
    path = written({"meta": meta, "state_dict": weights["resnet50-gem"]})
    plain = retrieval_encoders.open_cirtorch(Options(weights=path))
    assert plain.facts["whitening"] == "none"
    vectors = plain.pictures([images["A"]])
    white = retrieval_encoders.open_cirtorch(Options(weights=path, whitening="retrieval-SfM-120k"))
    assert white.dimensions == 16
    assert white.facts["whitening"] == "retrieval-SfM-120k ms"
    expected = pairs["ms"]["P"] @ (vectors[0][:, None] - pairs["ms"]["m"])
    assert invented_weights.off(white.pictures([images["A"]])[0], (expected / np.linalg.norm(expected))[:, 0]) <= 1e-5
    single = retrieval_encoders.open_cirtorch(Options(weights=path, whitening="retrieval-SfM-120k", scales=(1.0,)))
    assert single.facts["whitening"] == "retrieval-SfM-120k ss"
    with pytest.raises(ValueError, match=r"whitening='Paris' is not in .*; give one of retrieval-SfM-120k or none"):
        retrieval_encoders.open_cirtorch(Options(weights=path, whitening="Paris"))


def test_the_file_of_r_gem(
    weights: dict[str, Any], described: dict[str, Any], golden: Golden, images: dict[str, Any], written: Write
) -> None:
    path = written({"meta": described["meta"]["resnet50-gem-w"], "state_dict": weights["resnet50-gem-w"]})
    encoder = retrieval_encoders.open_cirtorch(Options(weights=path))
    known = {"encoder": "cirtorch", "network": "resnet50-gem-whitening", "size": 1024, "boxes": "round"}
    assert {name: encoder.facts[name] for name in known} == known
    assert invented_weights.off(encoder.pictures([images["B"]])[0], golden["resnet50-gem-w_ms_e2e"][:, 1]) <= 1e-5
    with pytest.raises(ValueError, match="give none, because the file has none"):
        retrieval_encoders.open_cirtorch(Options(weights=path, whitening="retrieval-SfM-120k"))
