"""Descriptors compared with the results of the published programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.encoders.descriptors import crow, gem, mac, regional, rmac, rmac_regions, scda, scda_mask, spoc, unit
from reference import descriptors as slow

pytestmark = pytest.mark.slow

SIZES = ["7x7", "5x12", "12x5", "1x9", "9x1", "1x1", "2x2", "10x11", "3x20", "6x8", "24x32"]
Arrays = dict[str, NDArray[np.float32]]


@pytest.fixture(scope="session")
def pooling(shared_dir: Path) -> Arrays:
    """Results of the toolbox of R-GeM and R-MAC."""
    return dict(np.load(shared_dir / "golden/encoders/pooling.npz"))


@pytest.fixture(scope="session")
def pyretri(shared_dir: Path) -> Arrays:
    return dict(np.load(shared_dir / "golden/encoders/pyretri_pooling.npz"))


@pytest.fixture(scope="session")
def regions(shared_dir: Path) -> Arrays:
    return dict(np.load(shared_dir / "golden/encoders/rmac_regions.npz"))


def near(found: NDArray[np.float32], golden: NDArray[np.float32]) -> bool:
    return found.shape == golden.shape and np.abs(found - golden).max() <= 1e-5 * np.abs(golden).max()


@pytest.mark.parametrize("size", SIZES)
def test_pooling(pooling: Arrays, size: str) -> None:
    maps = pooling[f"map_{size}"]
    found = {
        "mac": mac(maps),
        "spoc": spoc(maps),
        "gem3": gem(maps),
        "gem2.7": gem(maps, p=2.7),
        "gemmp": gem(maps, p=pooling["gemmp_p"]),
        "rmac": rmac(maps),
    }
    for name, vectors in found.items():
        assert near(vectors, pooling[f"{name}_{size}"]), name
        assert near(unit(vectors), pooling[f"{name}_l2_{size}"]), name


@pytest.mark.parametrize("size", SIZES)
def test_regional_pooling(pooling: Arrays, size: str) -> None:
    maps = pooling[f"map_{size}"]
    vectors = regional(maps, gem)
    assert near(vectors, pooling[f"regional_gem3_regionvectors_{size}"])
    assert near(unit(vectors.sum(-2)), pooling[f"regional_gem3_{size}"])
    assert near(unit(regional(maps, mac).sum(-2)), pooling[f"regional_mac_{size}"])
    whitened = unit(vectors @ pooling["regional_weight"].T + pooling["regional_bias"])
    assert near(unit(whitened.sum(-2)), pooling[f"regional_gem3_whiten_{size}"])


@pytest.mark.parametrize("size", SIZES)
def test_regions_of_these_maps(pooling: Arrays, size: str) -> None:
    height, width = pooling[f"map_{size}"].shape[2:]
    assert np.array_equal(rmac_regions(height, width), pooling[f"rmac_regions_{size}"])


def test_regions_of_every_size_up_to_64(regions: Arrays) -> None:
    offset, all_regions = regions["offset"], regions["regions"]
    for i, (height, width) in enumerate(zip(regions["H"].tolist(), regions["W"].tolist(), strict=True)):
        expected = all_regions[offset[i] : offset[i + 1]].tolist()
        assert [list(region) for region in rmac_regions(height, width)] == expected, (height, width)


def test_exact_arithmetic_differs_for_the_listed_sizes(regions: Arrays) -> None:
    listed = {(height, width) for height, width in regions["differs_from_exact_rule"].tolist()}
    differ = set()
    for height in range(1, 65):
        for width in range(1, 65):
            if list(rmac_regions(height, width)) != slow.rmac_regions(height, width):
                differ.add((height, width))
    assert differ == listed


@pytest.mark.parametrize("size", SIZES)
def test_pyretri(pooling: Arrays, pyretri: Arrays, size: str) -> None:
    """All except its R-MAC, which omits the last row and column of every region by mistake."""
    maps = pooling[f"map_{size}"]
    assert near(crow(maps), pyretri[f"crow_{size}"])
    assert near(gem(maps), pyretri[f"gem3_{size}"])
    assert near(spoc(maps), pyretri[f"gap_{size}"])
    assert near(mac(maps), pyretri[f"gmp_{size}"])
    assert near(spoc(maps, centre_prior=True), pyretri[f"spoc_centre_prior_{size}"])
    if size != "1x1":  # the program has no result here; kinrank uses the whole map
        assert near(scda(maps), pyretri[f"scda_{size}"])
        assert np.array_equal(scda_mask(maps), pyretri[f"scda_mask_{size}"])


def test_a_map_with_several_objects(pyretri: Arrays) -> None:
    assert near(scda(pyretri["map_cc"]), pyretri["scda_cc"])
    assert near(crow(pyretri["map_cc"]), pyretri["crow_cc"])


def test_unit_of_tiny_and_zero_vectors(pooling: Arrays) -> None:
    assert np.abs(unit(pooling["l2n_in"]) - pooling["l2n_out"]).max() <= 1e-6
