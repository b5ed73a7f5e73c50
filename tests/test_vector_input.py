"""Files of vectors: saved vectors can be read again; damaged or unknown files are refused with a clear message."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile

import numpy as np
import pytest

import kinrank
from kinrank import vector_input
from kinrank.errors import MemoryLimitError


@pytest.fixture
def rows(rng) -> np.ndarray:
    return rng.random((6, 4)).astype(np.float32)


def write_fvecs(path, rows) -> None:
    path.write_bytes(b"".join(np.int32(len(row)).tobytes() + row.astype("<f4").tobytes() for row in rows))


def write_h5(path, rows) -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        file["group/x"] = rows
        file["names"] = np.arange(len(rows))


def write_parquet(path, rows) -> None:
    arrow = pytest.importorskip("pyarrow")
    column = arrow.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.table({"id": list(range(len(rows))), "vector": column}), path)


def write_safetensors(path, rows) -> None:
    pytest.importorskip("safetensors.numpy").save_file({"x": rows, "labels": np.arange(len(rows))}, path)


def write_mat(path, rows) -> None:
    import scipy.io

    scipy.io.savemat(path, {"x": rows})


WRITERS = {
    "npy": lambda path, rows: np.save(path, rows),
    "npz": lambda path, rows: np.savez(path, x=rows, label=np.arange(len(rows))),
    "csv": lambda path, rows: np.savetxt(path, rows, delimiter=",", fmt="%.9g"),
    "tsv": lambda path, rows: np.savetxt(path, rows, delimiter="\t", fmt="%.9g", header="a\tb\tc\td", comments=""),
    "fvecs": write_fvecs,
    "pkl": lambda path, rows: path.write_bytes(pickle.dumps({"x": rows.tolist()})),
    "h5": write_h5,
    "mat": write_mat,
    "parquet": write_parquet,
    "safetensors": write_safetensors,
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("mmap", [True, False])
def test_what_was_saved_comes_back(ending: str, mmap: bool, tmp_path, rows) -> None:
    path = tmp_path / f"x.{ending}"
    WRITERS[ending](path, rows)
    found = vector_input.load(path, mmap=mmap)
    np.testing.assert_array_equal(vector_input.check_vectors(found), rows)
    assert isinstance(found, np.memmap) == (mmap and ending in ("npy", "fvecs"))


@pytest.mark.parametrize("ending", [*WRITERS, "bvecs"])
def test_truncated_foreign_and_empty_files_are_refused(ending: str, tmp_path, rows) -> None:
    path = tmp_path / f"x.{ending}"
    if ending in WRITERS:
        WRITERS[ending](path, rows)
        whole = path.read_bytes()
        if ending not in ("csv", "tsv"):  # text cut between two numbers is still a table
            for size in (len(whole) - 3, len(whole) // 2 + 1, 10, 1):
                path.write_bytes(whole[:size])
                with pytest.raises(ValueError, match=r"x\."):
                    vector_input.load(path)
    for content in (b"", b"\x00\xffnot what the ending says" * 7, b"\xff" * 400):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\."):
            vector_input.load(path)


def test_bvecs_and_types_stay_as_on_disk(tmp_path) -> None:
    numbers = np.arange(12, dtype=np.uint8).reshape(3, 4)
    path = tmp_path / "x.bvecs"
    path.write_bytes(b"".join(np.int32(4).tobytes() + row.tobytes() for row in numbers))
    assert vector_input.load(path).dtype == np.uint8
    np.testing.assert_array_equal(vector_input.load(path), numbers)
    np.save(tmp_path / "half.npy", numbers.astype(np.float16))
    assert vector_input.load(tmp_path / "half.npy").dtype == np.float16
    assert vector_input.load(tmp_path / "half.npy").shape == (3, 4)
    np.save(tmp_path / "none.npy", np.empty((0, 4), np.float32))
    assert vector_input.load(tmp_path / "none.npy").shape == (0, 4)


def test_several_arrays_need_a_key_and_the_error_lists_them(tmp_path, rows) -> None:
    np.savez(tmp_path / "x.npz", q=rows[:2], d=rows, names=np.array(list("abcdef")))
    with pytest.raises(ValueError, match=r"choose one with FILE:KEY: q \(2, 4\), d \(6, 4\)"):
        vector_input.load(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="no array 'z'"):
        vector_input.load(tmp_path / "x.npz", key="z")
    np.testing.assert_array_equal(vector_input.load(tmp_path / "x.npz", key="q"), rows[:2])
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"q": rows[:2].tolist(), "d": rows.tolist(), "n": 3}))
    with pytest.raises(ValueError, match="choose one with FILE:KEY"):
        vector_input.load(tmp_path / "x.pkl")
    assert vector_input.load(tmp_path / "x.pkl", key="d").shape == (6, 4)


class Trap:
    def __reduce__(self):
        return (os.mkdir, (self.folder,))

    def __init__(self, folder: str) -> None:
        self.folder = folder


def test_objects_are_refused_and_nothing_is_executed(tmp_path) -> None:
    sprung = tmp_path / "sprung"
    trap = np.array([[Trap(str(sprung))]], dtype=object)
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=trap)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps([Trap(str(sprung))]))
    for name, key in (("x.npy", None), ("x.npz", None), ("x.npz", "x"), ("x.pkl", None)):
        with pytest.raises(ValueError):
            vector_input.load(tmp_path / name, key=key)
    assert not sprung.exists()


def test_a_header_that_promises_too_much_is_refused(tmp_path, rows) -> None:
    np.save(tmp_path / "x.npy", rows)
    whole = (tmp_path / "x.npy").read_bytes()
    claimed = whole.replace(b"(6, 4), }        ", b"(999999999, 4), }")
    assert claimed != whole
    (tmp_path / "x.npy").write_bytes(claimed)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", claimed)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match=name):
            vector_input.load(tmp_path / name)


def test_missing_unknown_and_misshapen_files_are_named(tmp_path, rows) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.npy"):
        vector_input.load(tmp_path / "absent.npy")
    (tmp_path / "x.doc").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"unknown ending '.doc'; give one of .npy"):
        vector_input.load(tmp_path / "x.doc")
    np.save(tmp_path / "flat.npy", rows[0])
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        vector_input.load(tmp_path / "flat.npy")
    (tmp_path / "x.csv").write_text("1,2\n3,four\n")
    with pytest.raises(ValueError, match="four"):
        vector_input.load(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("1,2\n3\n")
    with pytest.raises(ValueError, match=r"x\.csv"):
        vector_input.load(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("ending", "package"), [("h5", "h5py"), ("parquet", "pyarrow.parquet"), ("safetensors", "safetensors")]
)
def test_a_missing_package_says_what_to_install(ending: str, package: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / f"x.{ending}").write_bytes(b"content")
    with pytest.raises(ImportError, match=r"pip install '\.\[io\]'"):
        vector_input.load(tmp_path / f"x.{ending}")


def test_parquet_of_plain_columns_and_of_uneven_lists(tmp_path, rows) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({f"c{i}": rows[:, i] for i in range(4)}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(vector_input.load(tmp_path / "x.parquet"), rows)
    parquet.write_table(arrow.table({"v": rows.tolist()}), tmp_path / "x.parquet")
    np.testing.assert_allclose(vector_input.load(tmp_path / "x.parquet"), rows)
    for uneven in ([[1.0], [1.0, 2.0]], [[1.0], None], [[1.0], [None]]):
        parquet.write_table(arrow.table({"v": uneven}), tmp_path / "x.parquet")
        with pytest.raises(ValueError, match=r"different lengths|empty entries"):
            vector_input.load(tmp_path / "x.parquet")


def test_matlab_of_version_seven_three_keeps_its_shape(tmp_path, rows) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = rows.T  # the layout of Matlab
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + b"\x00" * 8 + b"\x00\x02IM")
    np.testing.assert_array_equal(vector_input.load(path), rows)


def test_hdf5_does_not_read_other_files(tmp_path, rows) -> None:
    h5py = pytest.importorskip("h5py")
    rows.tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", rows.shape, "f4", external=[(str(tmp_path / "secret.bin"), 0, rows.nbytes)])
        file["link"] = h5py.ExternalLink(str(tmp_path / "y.h5"), "x")
    for key in (None, "x", "link"):
        with pytest.raises(ValueError, match=r"x\.h5"):
            vector_input.load(tmp_path / "x.h5", key=key)


def test_a_mask_is_never_lost() -> None:
    masked = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [True, False]])
    with pytest.raises(ValueError, match="gallery has 2 masked entries"):
        vector_input.check_vectors(masked, "gallery")
    with pytest.raises(ValueError, match="2 masked entries"):
        vector_input.check_vectors(list(masked))
    with pytest.raises(ValueError, match="2 masked entries"):
        kinrank.rerank(None, masked, "none")
    assert vector_input.check_vectors(np.ma.array([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]


def write_hostile_mat(path) -> None:
    """Write a few bytes that claim a million times a million numbers."""
    import scipy.io

    scipy.io.savemat(path, {"x": np.ones((3, 5))})
    whole = path.read_bytes()
    sizes = np.array([3, 5], "<i4").tobytes()
    assert whole.count(sizes) == 1
    path.write_bytes(whole.replace(sizes, np.array([10**6, 10**6], "<i4").tobytes()))


def write_hostile_h5(path) -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        file.create_dataset("x", (10**6, 10**6), "f4", chunks=(100, 100), compression="gzip")


def write_hostile_safetensors(path) -> None:
    pytest.importorskip("safetensors")
    header = b'{"x":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))


def write_hostile_pickle(path) -> None:
    """Write text among the numbers: numpy would reserve room for the longest text in every entry."""
    path.write_bytes(pickle.dumps([["x" * 100_000, *("y" * 9_999)]]))


HOSTILE = {
    "mat": write_hostile_mat,
    "h5": write_hostile_h5,
    "safetensors": write_hostile_safetensors,
    "pkl": write_hostile_pickle,
    "fvecs": lambda path: path.write_bytes(np.array([2**31 - 1, 0, 0, 0], "<i4").tobytes()),
    "bvecs": lambda path: path.write_bytes(np.array([-4, 0, 0, 0], "<i4").tobytes()),
}


@pytest.mark.parametrize("ending", HOSTILE)
def test_small_files_that_claim_to_be_huge_are_refused(ending: str, tmp_path) -> None:
    path = tmp_path / f"x.{ending}"
    HOSTILE[ending](path)
    assert path.stat().st_size < 2 * 10**5
    with pytest.raises((ValueError, MemoryLimitError), match=r"x\."):
        vector_input.load(path)


def sparse() -> object:
    import scipy.sparse

    return scipy.sparse.csr_matrix(np.eye(3))


NO_ROWS = {
    "a sparse matrix": (sparse, r"a sparse matrix: pass NAME\.toarray\(\)"),
    "a dict": (lambda: {"x": np.eye(3), "y": 1}, r"a dict with the keys 'x', 'y': pass one of its arrays, NAME\['x'\]"),
    "an empty dict": (dict, "a dict with the keys nothing"),
    "a generator": (lambda: (row for row in np.eye(3)), r"a generator.* pass np\.array\(list\(NAME\)\)"),
    "a set": (lambda: {1, 2}, "a set, which has no order"),
    "bytes": (lambda: b"\x00\x01", "bytes"),
    "text": (lambda: [["a", "b"]], "real numbers; got dtype <U1"),
}


@pytest.mark.parametrize("what", NO_ROWS)
def test_what_can_be_no_rows_is_answered_with_what_to_pass(what: str) -> None:
    make, message = NO_ROWS[what]
    with pytest.raises(ValueError, match=message.replace("NAME", "vectors")):
        vector_input.check_vectors(make())
    for candidates in (None, 2):
        with pytest.raises(ValueError, match="gallery must .*" + message.replace("NAME", "gallery")):
            kinrank.rerank(np.eye(3), make(), "aqe", candidates=candidates)
        with pytest.raises(ValueError, match="queries must .*" + message.replace("NAME", "queries")):
            kinrank.rerank(make(), np.eye(3), "aqe", candidates=candidates)


def test_none_is_no_gallery() -> None:
    with pytest.raises(ValueError, match=r"gallery must be rows of numbers.* got None: .*the path of a file"):
        kinrank.rerank(np.eye(3), None)


def test_data_frames_of_numbers_are_rows_and_those_of_text_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    np.testing.assert_array_equal(vector_input.check_vectors(frame), [[1, 0.5], [2, 1.5]])
    with pytest.raises(ValueError, match="pass its columns of numbers only, without name"):
        vector_input.check_vectors(frame.assign(name=["x", "y"]))
