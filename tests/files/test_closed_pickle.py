"""The closed unpickler: plain content comes back, classes are refused by name, nothing runs or explodes."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinrank.files import closed_pickle

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=PLAIN, protocol=st.sampled_from([3, 4, 5]))
def test_plain_content_comes_back(content, protocol: int, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(content, protocol))
    assert closed_pickle.load(path) == content


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 400), noise=st.binary(max_size=40))
def test_damage_is_a_value_error_or_harmless(cut: int, noise: bytes, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"easy": list(range(40)), "name": "x" * 99, "box": [0.5] * 9})[:cut] + noise)
    with contextlib.suppress(ValueError):  # any other error fails the test
        closed_pickle.load(path)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [os.system, Fraction(1, 2), OrderedDict(a=1), np.arange(3), np.float64(1)])
def test_every_class_is_refused_by_name(value, protocol: int, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"a": [value]}, protocol))
    with pytest.raises(ValueError, match=r"asks for \S+\.\S+, which is never loaded"):
        closed_pickle.load(path)


def test_arrays_are_refused_with_the_way_out(tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"x": np.ones((2, 2))}))
    with pytest.raises(ValueError, match=r"numpy.*save its arrays as \.npz"):
        closed_pickle.load(path)


def test_nothing_is_executed(tmp_path) -> None:
    sprung, path = tmp_path / "sprung", tmp_path / "x.pkl"
    command = f"cos\nmkdir\n(S'{sprung}'\ntR.".encode()
    path.write_bytes(command)
    pickle.loads(command.replace(b"cos\nmkdir", b"cbuiltins\nstr"))  # the shape of the attack itself is valid
    with pytest.raises(ValueError, match=r"os\.mkdir"):
        closed_pickle.load(path)
    assert not sprung.exists()


BOMBS = {
    "remembers at number four thousand million": b"\x80\x04]r\xff\xff\xff\xff.",
    "remembers at a written number": b"(lp99999999999\n.",
    "text longer than the file": b"\x80\x04\x8d\xff\xff\xff\xff\xff\x00\x00\x00x.",
    "bytes longer than the file": b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00x.",
    "frame longer than the file": b"\x80\x04\x95\xff\xff\xff\xff\xff\x00\x00\x00].",
    "tuples nested a million deep as a key": b"\x80\x04}()" + b"\x85" * 1_000_000 + b"K\x01u.",
    "an object of somewhere else": b"Poutside\n.",
    "an extension code": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused(bomb: str, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(BOMBS[bomb])
    with pytest.raises(ValueError, match=r"x\.pkl"):
        closed_pickle.load(path)


def test_large_and_missing_files_are_refused(tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(list(range(1000))))
    with pytest.raises(ValueError, match="more than the 100 read from a pickle"):
        closed_pickle.load(path, max_bytes=100)
    with pytest.raises(FileNotFoundError, match="check the path"):
        closed_pickle.load(tmp_path / "absent.pkl")


def test_the_official_ground_truth_loads(shared_dir) -> None:
    for name, images in (("roxford5k", 4993), ("rparis6k", 6322)):
        content = closed_pickle.load(shared_dir / "data" / "revisited" / f"gnd_{name}.pkl")
        assert (len(content["gnd"]), len(content["imlist"])) == (70, images)
