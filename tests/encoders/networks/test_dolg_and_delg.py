"""DOLG, with and without its multi-atrous part, and DELG, compared with the results of their programs."""

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
from kinrank_bench.encoders.pycls_networks import Local, MultiAtrous, orthogonal_part  # noqa: E402
from kinrank_bench.encoders.retrieval_encoders import open_delg, open_dolg  # noqa: E402

Golden = dict[str, NDArray[Any]]


@pytest.fixture(scope="module", params=["dolg", "dolg_ma", "delg"])
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def golden(shared_dir: Path, family: str) -> Golden:
    """Return golden outputs and inputs. The inputs are equal for all three and stored for DOLG."""
    inputs = invented_weights.arrays(shared_dir, "dolg")
    return {
        **{name: value for name, value in inputs.items() if "tensor" in name},
        **invented_weights.arrays(shared_dir, family),
    }


@pytest.fixture(scope="module")
def encoder(shared_dir: Path, written: Write, family: str) -> Any:
    """Open an encoder from a file with all published keys, including the classifier of the training set."""
    weights = invented_weights.checked(invented_weights.description(shared_dir, family)["layout_resnet50"])
    if family == "delg":  # keys that only training uses
        weights |= {"desc_cls.weight": np.zeros((3, 512), np.float32), "att_cls.fc.bias": np.zeros(3, np.float32)}
    open_family = open_delg if family == "delg" else open_dolg
    return open_family(
        Options(weights=written(invented_weights.tensors(weights)))
    )  # without the key model_state, which is also accepted


@pytest.mark.parametrize("name", "AB")
def test_inputs(encoder: Any, golden: Golden, images: dict[str, Any], name: str) -> None:
    """The resizing of kinrank is within 4e-4 grey levels of OpenCV; at scale 1 nothing is resized."""
    for scale in encoder.scales:
        found = encoder.scale_input(encoder.pixels(images[name])[..., ::-1], scale).numpy()
        expected = golden[f"tensor_{name}_scale{scale}"]
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= (0 if scale == 1 else 4e-4 / 255 / 0.224)


@pytest.mark.parametrize("name", "AB")
def test_every_scale(encoder: Any, golden: Golden, name: str) -> None:
    for scale in encoder.scales:
        with torch.inference_mode():
            found = encoder.run(torch.from_numpy(golden[f"tensor_{name}_scale{scale}"]))
        assert invented_weights.off(found, golden[f"scale{scale}_{name}"]) <= 1e-5


@pytest.mark.parametrize("name", "AB")
def test_pictures(encoder: Any, golden: Golden, images: dict[str, Any], family: str, name: str) -> None:
    picture = images[name]
    assert invented_weights.off(encoder.pictures([picture])[0], golden[f"ms_{name}"]) <= 1e-5
    assert invented_weights.off(layer_outputs.at(encoder, 1.0).pictures([picture])[0], golden[f"ss_{name}"]) <= 1e-5
    if family != "delg":
        part = encoder.crop(picture, BOXES[name])
        assert invented_weights.off(encoder.pictures([part])[0], golden[f"query_ms_{name}"]) <= 1e-5


@pytest.mark.parametrize("family", ["dolg", "dolg_ma"], indirect=True)
@pytest.mark.parametrize("name", "AB")
def test_layer_outputs_of_dolg(encoder: Any, golden: Golden, family: str, name: str) -> None:
    picture, network = torch.from_numpy(golden[f"tensor_{name}_scale1.0"]), encoder.network
    names = ["globalmodel.s3", "globalmodel.s4", "pool_g", "fc_t", "localmodel", "localmodel.bn", "fc"]
    seen = layer_outputs.outputs(network, picture, *names, *(["localmodel.aspp"] if family == "dolg_ma" else []))
    assert list(seen["globalmodel.s3"].shape) == golden[f"shape_f3_{name}"].tolist()
    assert list(seen["globalmodel.s4"].shape) == golden[f"shape_f4_{name}"].tolist()
    with torch.inference_mode():
        attention = network.localmodel.attention(seen["localmodel.bn"])
        fused = orthogonal_part(seen["localmodel"], seen["fc_t"])
    found = {
        "mean_f3": layer_outputs.mean(seen["globalmodel.s3"]),
        "mean_f4": layer_outputs.mean(seen["globalmodel.s4"]),
        "gem": seen["pool_g"][0],
        "g": seen["fc_t"][0],
        "mean_local_bn": layer_outputs.mean(seen["localmodel.bn"]),
        "attention": attention[0, 0],
        "mean_local": layer_outputs.mean(seen["localmodel"]),
        "mean_orthogonal": layer_outputs.mean(fused),
        "fc": seen["fc"][0],
    }
    if family == "dolg_ma":
        found["mean_multiatrous"] = layer_outputs.mean(seen["localmodel.aspp"])
    for part, value in found.items():
        assert invented_weights.off(value, golden[f"{part}_{name}"]) <= 1e-5, part


@pytest.mark.parametrize("family", ["delg"], indirect=True)
@pytest.mark.parametrize("name", "AB")
def test_layer_outputs_of_delg(encoder: Any, golden: Golden, name: str) -> None:
    before = "globalmodel"
    names = [f"{before}.{part}" for part in ("s3", "s4", "head.pool", "head.fc")]
    third, fourth, pooled, linear = names
    seen = layer_outputs.outputs(encoder.network, torch.from_numpy(golden[f"tensor_{name}_scale1.0"]), *names)
    assert invented_weights.off(layer_outputs.mean(seen[third]), golden[f"mean_s3_{name}"]) <= 1e-5
    assert invented_weights.off(layer_outputs.mean(seen[fourth]), golden[f"mean_s4_{name}"]) <= 1e-5
    assert invented_weights.off(seen[pooled][0], golden[f"gem_{name}"]) <= 1e-5
    assert invented_weights.off(seen[linear][0], golden[f"global_raw_{name}"]) <= 1e-5


def test_facts(encoder: Any, family: str) -> None:
    scales = [0.7071, 1.0, 1.4142] if family == "delg" else [0.3535, 0.5, 0.7071, 1.0, 1.4142]
    known = {"encoder": family.removesuffix("_ma"), "depth": 50, "scales": scales, "boxes": "truncate"}
    assert {name: encoder.facts[name] for name in known} == known
    assert encoder.dimensions == 512


@pytest.fixture(scope="module")
def units(shared_dir: Path) -> Golden:
    return invented_weights.arrays(shared_dir, "dolg_units")


def test_fusion(units: Golden) -> None:
    from kinrank.encoders.descriptors import gem

    given = invented_weights.tensors({name: value for name, value in units.items() if name.startswith("fusion_")})
    linear = torch.nn.functional.linear
    pooled = gem(given["fusion_f4"], given["fusion_p"])
    whole = linear(pooled, given["fusion_fc_t_weight"], given["fusion_fc_t_bias"])
    rest = orthogonal_part(given["fusion_local"], whole)
    both = torch.cat([whole, rest.mean((2, 3))], 1)
    out = linear(both, given["fusion_fc_weight"], given["fusion_fc_bias"])
    assert invented_weights.off(whole, units["fusion_g"]) <= 1e-5
    assert invented_weights.off(rest, units["fusion_orthogonal"]) <= 1e-5
    assert invented_weights.off(rest.mean((2, 3)), units["fusion_mean_orthogonal"]) <= 1e-5
    assert invented_weights.off(out, units["fusion_out"]) <= 1e-5


def test_attention(units: Golden) -> None:
    local = Local(16).eval()
    start = "attention_"
    weights = {name.removeprefix(start): value for name, value in units.items() if "." in name}
    local.load_state_dict({**invented_weights.tensors(weights), "bn.num_batches_tracked": torch.tensor(0)})
    given = torch.from_numpy(units["attention_in"])
    with torch.inference_mode():
        assert invented_weights.off(local(given), units["attention_out"]) <= 1e-5
        score = local.attention(local.bn(local.conv1(given)))
    assert invented_weights.off(score, units["attention_score"]) <= 1e-5


def test_multi_atrous(units: Golden) -> None:
    block = MultiAtrous().eval()
    layout = [(f"localmodel.aspp.{name}", list(value.shape)) for name, value in block.state_dict().items()]
    weights = invented_weights.tensors(invented_weights.made(layout))
    block.load_state_dict({name.removeprefix("localmodel.aspp."): value for name, value in weights.items()})
    given = np.maximum(np.random.default_rng(78).standard_normal((1, 1024, 21, 20)), 0).astype(np.float32)
    with torch.inference_mode():
        found = block(torch.from_numpy(given))
    assert invented_weights.off(layer_outputs.mean(found), units["atrous_mean_out"]) <= 1e-5
    assert invented_weights.off(found[0, :8], units["atrous_out_channels0_7"]) <= 1e-5
