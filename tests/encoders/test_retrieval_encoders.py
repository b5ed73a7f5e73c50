"""Retrieval encoders: small images, threads, accepted and refused options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

from kinrank.encoders.base import PICTURES, Options, encode_items, use_one_thread  # noqa: E402
from kinrank.encoders.encoder_registry import open_encoder  # noqa: E402
from kinrank_bench.encoders import pycls_networks  # noqa: E402
from kinrank_bench.encoders.cirtorch_network import CirNetwork  # noqa: E402
from kinrank_bench.encoders.opencv_resize import resize_by_factor, resize_to_size  # noqa: E402
from kinrank_bench.encoders.retrieval_encoders import CirtorchEncoder, PyclsEncoder  # noqa: E402

NAMES = ["cirtorch", "cvnet", "delg", "dolg", "senet"]
META = {"architecture": "resnet50", "pooling": "gem", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
SCALES = (0.3535, 1.0, 1.4142)
Make = Callable[[str], Any]


def picture(width: int, height: int) -> Any:
    pixels = np.random.default_rng(width * 1000 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return encoders over networks with the initial weights of torch."""
    path = tmp_path_factory.mktemp("some") / "file"
    path.write_bytes(b"of which only the checksum is asked")
    options = Options(weights=str(path))
    made: dict[str, Any] = {}

    def build(name: str) -> Any:
        if name in made:
            return made[name]
        torch.manual_seed(0)
        if name in ("alexnet", "vgg16", "resnet50", "rmac"):
            pooling, architecture = ("rmac", "resnet50") if name == "rmac" else ("gem", name)
            network = CirNetwork(architecture, pooling, False, None).eval()
            made[name] = CirtorchEncoder(network, options, META)
        else:
            network, resize = {
                "cvnet": lambda: (pycls_networks.CVNet(50, 64), resize_by_factor),
                "senet": lambda: (pycls_networks.SENet(50, 64, 16), resize_by_factor),
                "delg": lambda: (pycls_networks.DELG(50, 64), resize_to_size),
                "dolg": lambda: (pycls_networks.DOLG(50, 64, atrous=True), resize_to_size),
            }[name]()
            made[name] = PyclsEncoder(name, network.eval(), options, SCALES, resize)
        return made[name]

    return build


@pytest.mark.parametrize("name", ["cvnet", "senet", "delg", "dolg", "resnet50", "rmac"])
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (33, 2)])
def test_tiny_pictures_have_a_vector(make: Make, name: str, size: tuple[int, int]) -> None:
    with use_one_thread():
        vector = make(name).pictures([picture(*size)])[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("name", "least"), [("vgg16", 16), ("alexnet", 31)])
def test_too_small_images_are_refused(make: Make, name: str, least: int) -> None:
    encoder = make(name)
    encoder.scales = (1.0,)
    with use_one_thread():
        assert np.isfinite(encoder.pictures([picture(least, least)])).all()
        with pytest.raises(ValueError, match=f"an image of 40 x {least - 1} pixels is too small .* needs {least} on"):
            encoder.pictures([picture(40, least - 1)])


def test_pictures_that_would_fill_the_memory(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank_bench.encoders.retrieval_encoders.default_limit_bytes", lambda: 10**6)
    with (
        use_one_thread(),
        pytest.raises(ValueError, match=r"of 141 x 141 pixels needs 5\.57 MB .* 1 MB are free; give `size`"),
    ):
        make("cvnet").run(torch.zeros(3, 141, 141))


def test_no_pictures_and_grey_ones(make: Make) -> None:
    encoder = make("cvnet")
    assert encoder.pictures([]).shape == (0, 64)
    grey = picture(40, 30).convert("L")
    with use_one_thread():
        assert np.array_equal(encoder.pictures([grey]), encoder.pictures([grey.convert("RGB")]))


@pytest.mark.parametrize("name", ["cvnet", "dolg"])
def test_the_same_bits_whatever_else_runs(make: Make, name: str) -> None:
    encoder, pictures = make(name), [picture(30 + 7 * i, 60 - 5 * i) for i in range(3)]
    alone = [encode_items(encoder, PICTURES, [one])[0] for one in pictures]
    assert np.array_equal(encode_items(encoder, PICTURES, pictures), np.stack(alone))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: encode_items(encoder, PICTURES, [one])[0], pictures * 2))
    assert np.array_equal(np.stack(together), np.stack(alone * 2))


def test_a_picture_is_shrunk_and_a_part_of_it_by_the_same_factor(make: Make) -> None:
    encoder = make("resnet50")
    encoder.size = 50
    whole = picture(100, 80)
    assert encoder.pixels(whole).shape == (40, 50, 3)
    part = encoder.crop(whole, (10, 10, 70, 50))
    assert part.size == (30, 20)
    assert encoder.pixels(part).shape == (20, 30, 3)
    assert whole.size == (100, 80)
    encoder.size = 1024
    assert encoder.crop(whole, (10, 10, 70, 50)).size == (60, 40)
    assert encoder.pixels(whole).shape == (80, 100, 3)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_needed(name: str) -> None:
    with pytest.raises(ValueError, match=f"the encoder {name} needs `weights`, the file that its authors published"):
        open_encoder(name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "abacus"}, "device='abacus' is not available"),
        ({"model": "x"}, "model has no meaning for the encoder"),
        ({"preprocessing": "x"}, "preprocessing has no meaning for the encoder"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_options_are_reported_before_reading_the_file(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_encoder(name, weights="nothing-here.pth", **given)


def test_whitening_is_for_cirtorch() -> None:
    with pytest.raises(ValueError, match="whitening has no meaning for the encoder cvnet"):
        open_encoder("cvnet", weights="nothing-here.pth", whitening="none")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing-here\.pth does not exist"):
        open_encoder(name, weights="nothing-here.pth")


@pytest.mark.parametrize("name", NAMES)
def test_error_without_torch_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs torch, .* pip install '\.\[torch\]'"):
        open_encoder(name, weights="nothing-here.pth")


def test_cirtorch_files_with_incomplete_meta(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    weights = {"features.0.weight": torch.zeros(3)}
    for meta, message in [
        ({}, "has no architecture in its part meta"),
        (
            {**META, "architecture": "resnet18"},
            "has the unknown architecture 'resnet18'; give one with alexnet or vgg16 or resnet50",
        ),
        ({**META, "pooling": "sum"}, "has the unknown pooling 'sum'; give one with mac or spoc or gem"),
        ({**META, "local_whitening": True}, "whitens every position"),
        (META, "does not fit the encoder cirtorch: it lacks features.1.weight"),
    ]:
        torch.save({"meta": meta, "state_dict": weights}, path)
        with pytest.raises(ValueError, match=message):
            open_encoder("cirtorch", weights=str(path))
    torch.save(weights, path)
    with pytest.raises(ValueError, match="has no architecture in its part meta"):
        open_encoder("cirtorch", weights=str(path))
