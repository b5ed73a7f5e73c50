"""Fuzzing of every file reader: any error that is not documented is a finding.

`make fuzz` runs each reader for a minute, in the folder out; `python tests/fuzz/readers.py csv` runs one until it finds
something. Its files are in the folder fuzz in the current folder. The bytes of a finding are written next to that
folder as `crash-...`; `readers.py csv crash-...` repeats it.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import atheris
import numpy as np
from scipy.io import savemat

with atheris.instrument_imports(include=["kinrank"]):
    from kinrank import METHODS, Manifold, Truth, vector_input
    from kinrank import weight_files as weights_files  # noqa: F401 - instrumented
    from kinrank.errors import MemoryLimitError
    from kinrank.files import matlab, numpy_files, safe_pickle, vector_tables  # noqa: F401 - instrumented
    from kinrank.files import vector_files as readers  # noqa: F401 - instrumented
    from kinrank.files.text_columns import read_labels, read_names
    from kinrank.manifold import deltas
    from kinrank.manifold.folder_reader import open_array
    from kinrank.manifold.saved_folder import seal_manifest
    from kinrank.ranking import Ranking
    from kinrank_bench.random_weights import add_random_weights

DOCUMENTED = (ValueError, FileNotFoundError, ImportError, MemoryLimitError)
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
RANKING = Ranking(np.array([[1, 0], [0, 1]]), np.array([[0.25, 0.5], [0.0, 1.0]], np.float32), {"mode": "joint"})


@dataclass(frozen=True)
class Reader:
    """A function that reads a path, the name of the file, and files to start from, which may need the folder."""

    read: Callable[[Path], Any]
    name: str
    seeds: Callable[[Path], list[bytes]]


def saved(write: Callable[[Any], Any]) -> bytes:
    """Return the bytes that a function writes to a file."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def ranking(ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        RANKING.save(Path(folder) / f"x{ending}")
        return (Path(folder) / f"x{ending}").read_bytes()


def vectors(path: Path) -> None:
    """Read the rows as `rerank` does, with an id column too if possible."""
    vector_input.check_vectors(vector_input.load(path))


def table(path: Path) -> None:
    for column in (None, 0, "id"):
        try:
            vector_input.load_with_ids(path, id_column=column)
        except DOCUMENTED:
            continue


def manifold(path: Path) -> None:
    """Load a complete folder with this file as its manifest."""
    Manifold.load(path.parent)


def sealed_manifold(path: Path) -> None:
    """Load the folder after giving the manifest a valid checksum, so that its content is examined."""
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(path.read_bytes())
        path.write_text(json.dumps(seal_manifest(content) if isinstance(content, dict) else content))
    Manifold.load(path.parent)


def an_array(path: Path) -> None:
    for mmap in (True, False):
        open_array(path, {"dtype": "<f4", "shape": [3, 4]}, mmap)


LEARNED = ("csa", "ssr", "lattqe")


def some_weights(path: Path) -> None:
    """Read weights of any method."""
    for name in LEARNED:
        try:
            METHODS[name](weights=str(path)).network()
        except DOCUMENTED:
            continue


def weights_of(place: Path, name: str) -> bytes:
    add_random_weights(name, place / "seed.npz", 4, k=3) if name == "lattqe" else add_random_weights(
        name, place / "seed.npz"
    )
    return (place / "seed.npz").read_bytes()


def a_change(place: Path) -> list[bytes]:
    return [deltas.pack_diffs([{"keep": np.arange(3), "vectors": ROWS}, {"lengths": np.ones(2)}])]


def a_manifest(place: Path) -> list[bytes]:
    """Save a small manifold where the fuzzed manifest will be, and start from its own manifest."""
    place.rmdir()
    Manifold.build(np.random.default_rng(0).standard_normal((20, 4)), "aqe").save(place)
    return [(place / "manifest.json").read_bytes()]


def mat(place: Path) -> list[bytes]:
    plain, packed = (
        saved(lambda file, how=how: savemat(file, {"x": ROWS}, do_compression=how)) for how in (False, True)
    )
    return [plain, packed]


def fvecs(place: Path) -> list[bytes]:
    return [b"".join(np.int32(len(row)).tobytes() + row.tobytes() for row in ROWS)]


TEXT = [b"1,2\n3,4\n", b'id,a\n"x, ""y""",1\nz,2\n', b"a,b\n1,\n", b",0,1\n0,1.5,2\n", b"\xef\xbb\xbfx,1\r\ny,2\r\n"]
PICKLED = {"x": ROWS.tolist(), "n": [None, True, -1, 2**70, "text", b"bytes", (1, 2)]}
READERS = {
    "npy": Reader(vectors, "x.npy", lambda _: [saved(lambda file: np.save(file, ROWS))]),
    "npz": Reader(vectors, "x.npz", lambda _: [saved(lambda file: np.savez(file, x=ROWS))]),
    "csv": Reader(table, "x.csv", lambda _: TEXT),
    "mat": Reader(vectors, "x.mat", mat),
    "fvecs": Reader(vectors, "x.fvecs", fvecs),
    "pkl": Reader(safe_pickle.load, "x.pkl", lambda _: [pickle.dumps(PICKLED, number) for number in range(6)]),
    "pkl-vectors": Reader(vectors, "x.pkl", lambda _: [pickle.dumps(ROWS.tolist(), number) for number in range(6)]),
    "ids": Reader(read_names, "x.txt", lambda _: [b"a\nb\n", b"\xef\xbb\xbfa\r\nb"]),
    "labels": Reader(read_labels, "x.npz", lambda _: [saved(lambda file: np.savez(file, label=np.arange(3)))]),
    "ranking-trec": Reader(Ranking.load, "x.trec", lambda _: [ranking(".trec")]),
    "ranking-csv": Reader(Ranking.load, "x.csv", lambda _: [ranking(".csv")]),
    "ranking-npz": Reader(Ranking.load, "x.npz", lambda _: [ranking(".npz")]),
    "qrels": Reader(Truth.from_qrels, "x.txt", lambda _: [b"1 0 2 1\n1 0 3 0\n2 0 1 2\n"]),
    "revisited": Reader(Truth.revisited, "x.pkl", lambda _: [pickle.dumps({"imlist": ["a"], "gnd": []}, 2)]),
    "manifest": Reader(manifold, "manifest.json", a_manifest),
    "manifest-sealed": Reader(sealed_manifold, "manifest.json", a_manifest),
    "arrays": Reader(an_array, "x.npy", lambda _: [saved(lambda file: np.save(file, ROWS))]),
    "weights": Reader(some_weights, "x.npz", lambda place: [weights_of(place, name) for name in LEARNED]),
    "changes": Reader(lambda path: deltas.unpack_diffs(path.read_bytes()), "change", a_change),
}


def main(words: list[str]) -> None:
    """Run `readers.py --list`, or `readers.py NAME [options of libFuzzer] [files]`."""
    if words == ["--list"]:
        print(*READERS)
        return
    reader = READERS[words[0]]
    place, seeds = Path("fuzz", words[0], "place"), Path("fuzz", words[0], "seeds")
    for folder in (place, seeds):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for number, seed in enumerate(reader.seeds(place)):
        (seeds / str(number)).write_bytes(seed)
    warnings.simplefilter("ignore")

    def one(content: bytes) -> None:
        path = place / reader.name
        path.write_bytes(content)
        try:
            reader.read(path)
        except DOCUMENTED:
            pass
        except OSError as error:
            if error.filename is None and str(path.parent) not in str(error):
                raise

    files = [word for word in words[1:] if not word.startswith("-")]
    limits = ["-timeout=30", "-rss_limit_mb=4096", "-max_len=20000"]
    atheris.Setup([sys.argv[0], *limits, *words[1:], *([] if files else [str(seeds)])], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
