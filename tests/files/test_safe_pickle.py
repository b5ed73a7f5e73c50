"""The safe unpickler: plain content is restored, classes are refused by name, nothing runs or explodes."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections import OrderedDict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinrank.files import safe_pickle

pytestmark = pytest.mark.slow

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
    assert safe_pickle.load(path) == content


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 400), noise=st.binary(max_size=40))
def test_damage_is_a_value_error_or_harmless(cut: int, noise: bytes, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"easy": list(range(40)), "name": "x" * 99, "box": [0.5] * 9})[:cut] + noise)
    with contextlib.suppress(ValueError):  # any other error fails the test
        safe_pickle.load(path)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [os.system, Fraction(1, 2), OrderedDict(a=1), np.arange(3), np.float64(1)])
def test_every_class_is_refused_by_name(value, protocol: int, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"a": [value]}, protocol))
    with pytest.raises(ValueError, match=r"asks for \S+\.\S+, which is never loaded"):
        safe_pickle.load(path)


def test_arrays_are_refused_with_the_way_out(tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"x": np.ones((2, 2))}))
    with pytest.raises(ValueError, match=r"numpy.*save its arrays as \.npz"):
        safe_pickle.load(path)


def test_nothing_is_executed(tmp_path) -> None:
    sprung, path = tmp_path / "sprung", tmp_path / "x.pkl"
    command = f"cos\nmkdir\n(S'{sprung}'\ntR.".encode()
    path.write_bytes(command)
    pickle.loads(command.replace(b"cos\nmkdir", b"cbuiltins\nstr"))  # the shape of the attack itself is valid
    with pytest.raises(ValueError, match=r"os\.mkdir"):
        safe_pickle.load(path)
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
    "a key that takes for ever to hash": b"\x80\x04})" + b"2\x86" * 60 + b"K\x01s.",
    "keys that all collide": b"\x80\x04}("
    + b"".join(b"\x8a\x0b" + (number * (2**61 - 1)).to_bytes(11, "little") + b"N" for number in range(200_000))
    + b"u.",
    "a number of a million digits": b"L" + b"9" * 1_000_000 + b"L\n.",
    "a number of a million bytes": b"\x80\x02\x8b\x40\x42\x0f\x00" + b"\x7f" * 1_000_000 + b".",
    "lists a hundred thousand deep": b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a list that contains itself": b"\x80\x04]\x94h\x00a.",
    "marks and nothing else": b"\x80\x04" + b"(" * 1_000_000 + b".",
    "a set": b"\x80\x04\x8f.",
    "a protocol of the future": b"\x80\x06N.",
}


def nested(depth: int, width: int) -> Any:
    """Return nested lists: `width` to the power of `depth` numbers, in a few dozen bytes each."""
    made: Any = [0] * width
    for _ in range(depth - 1):
        made = [made] * width
    return made


def late(depth: int) -> bytes:
    """Return nested lists filled from the outside: every list is empty while it is added to the next one."""
    made = b"\x80\x04" + b"".join(b"]q" + bytes([number]) + b"0" for number in range(depth))
    return made + b"".join(b"h%c(h%ch%ce0" % (n, n + 1, n + 1) for n in range(depth - 1)) + b"h\x00."


BOMBS |= {
    "shared lists": pickle.dumps(nested(9, 10)),
    "shared lists filled late": late(40),
    "shared tuples": b"\x80\x04)" + b"2\x86" * 40 + b".",
    "shared text": pickle.dumps([["x" * 10_000] * 1000] * 1000),
    "shared dicts": b"\x80\x04}q\x00" + b"".join(b"}q%c(K\x01h%cK\x02h%cu" % (n + 1, n, n) for n in range(40)) + b".",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused(bomb: str, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(BOMBS[bomb])
    started = time.process_time()
    with pytest.raises(ValueError, match=r"x\.pkl"):
        safe_pickle.load(path)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("piece", [b"N", b"N0", b"]", b"(", b"K\x01", b"\x88"])
def test_many_small_instructions_end_in_seconds(piece: bytes, tmp_path, monkeypatch) -> None:
    """A tenth of the limits and of 20 MB, so that the test is short; the work grows with the limits."""
    monkeypatch.setattr(safe_pickle, "MAX_STEPS", safe_pickle.MAX_STEPS // 10)
    monkeypatch.setattr(safe_pickle, "MAX_CONTAINERS", safe_pickle.MAX_CONTAINERS // 10)
    path = tmp_path / "x.pkl"
    path.write_bytes(b"\x80\x04" + piece * (2_000_000 // len(piece)) + b".")
    started = time.process_time()
    with contextlib.suppress(ValueError):
        safe_pickle.load(path)
    assert time.process_time() - started < 20


def test_shared_objects_stay_shared(tmp_path) -> None:
    path, row = tmp_path / "x.pkl", [1, 2.5]
    path.write_bytes(pickle.dumps([row, row, {"a": row}]))
    found = safe_pickle.load(path)
    assert found == [row, row, {"a": row}]
    assert found[0] is found[1] is found[2]["a"]


OLD = {"name": 'it\'s "x" \\ \n \u00e9\u20ac', "n": [0, -1, 255, 256, 65536, 2**31, -(2**70), True, None, 0.1, -1e300]}


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_read(protocol: int, tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps((OLD, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}), protocol))
    assert safe_pickle.load(path) == (OLD, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {})


def test_text_of_python_two(tmp_path) -> None:
    path = tmp_path / "x.pkl"
    for content in (b"S'it\\'s \\xe9 \\\\u20ac'\np0\n.", b"U\x0dit's \xe9 \\u20ac."):
        path.write_bytes(content)
        assert safe_pickle.load(path) == "it's \xe9 \\u20ac"


def test_large_and_missing_files_are_refused(tmp_path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(list(range(1000))))
    with pytest.raises(ValueError, match="but at most 100 are read from a pickle"):
        safe_pickle.load(path, max_bytes=100)
    with pytest.raises(FileNotFoundError, match="check the path"):
        safe_pickle.load(tmp_path / "absent.pkl")


def test_the_official_ground_truth_loads(shared_dir) -> None:
    for name, images in (("roxford5k", 4993), ("rparis6k", 6322)):
        content = safe_pickle.load(shared_dir / "data" / "revisited" / f"gnd_{name}.pkl")
        assert (len(content["gnd"]), len(content["imlist"])) == (70, images)
