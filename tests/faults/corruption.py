"""Damaged copies of saved manifolds, and the checks of what happens when they are used.

Files are found by listing the folder, not by name, so that another layout is tested in the same way. As a program it
works through cases and prints each before it starts, so that a crash or a hang can be attributed.

    python corruption.py random FOLDER...    cases on standard input, one JSON line of a folder and a seed each
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinrank as kr
from kinrank.manifold.deltas import pack_diffs, unpack_diffs
from kinrank.manifold.saved_folder import seal_manifest
from kinrank.manifold.verify import verify

SECONDS = 10  # of CPU time: a longer case hangs
PATIENCE = 120  # seconds of wall time, because other processes may use the machine
ITEMS, DIMENSIONS = 60, 6
HUGE = 10**400  # a whole number that JSON can represent, but a float cannot


def vectors(seed: int, items: int = ITEMS) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, DIMENSIONS))
    return (centres[rng.integers(0, 5, items)] + 0.3 * rng.normal(size=(items, DIMENSIONS))).astype(np.float32)


def saved_folders(place: Path) -> list[Path]:
    """Save one small folder per kind of manifold: methods, with and without ids, before and after changes."""
    names, rows = [f"n{i}" for i in range(ITEMS)], vectors(1)
    lpmt = kr.LPMT(k1=20, k2=4, k=6, path_k=5, support=20)
    changed = kr.Manifold.build(rows, lpmt)
    changed.add(vectors(2, 3))
    changed.remove([4, 61])
    remembering = kr.Manifold.build(rows, lpmt, observed_limit=9)
    remembering.observe(vectors(6, 5))
    remembering.add(vectors(2, 3))
    manifolds = {
        "lpmt_remembering": remembering,
        "lpmt": kr.Manifold.build(rows, lpmt, ids=names),
        "lpmt_changed": changed,
        "lpmt_whole_numbers": kr.Manifold.build(rows, kr.LPMT(transport="exact", support=6, k1=8), ids=range(7, 67)),
        "lpmt_without_changes": kr.Manifold.build(rows, kr.LPMT(support=0, k1=8), changes=False),
        "dfs": kr.Manifold.build(rows, kr.DFS(k=8, kq=3), ids=names),
        "fsr": kr.Manifold.build(rows, kr.methods.FSR(k=8, kq=3, rank=20)),
        "eir": kr.Manifold.build(rows, kr.methods.EIR(kd=8, kq=3, truncation=12)),
        "alpha_qe": kr.Manifold.build(rows, kr.AlphaQE(k=3)),
        "augmented": kr.Manifold.build(rows, kr.methods.AugmentedAQE(k=3, kdba=3), ids=names),
    }
    for name, manifold in manifolds.items():
        manifold.save(place / name)
    for name in ("lpmt", "lpmt_remembering", "alpha_qe"):  # and the same with change files
        shutil.copytree(place / name, place / f"{name}_appended")
        manifold = kr.Manifold.load(place / f"{name}_appended")
        for change in (_add, _remove):
            change(manifold)
            manifold.save(place / f"{name}_appended")
        assert len(changes_in(place / f"{name}_appended")) == 2
    return sorted(place.iterdir())


# kinds of damage: each function changes a folder and describes the change


def random_bytes(folder: Path, rng: random.Random) -> str:
    """Alter, cut off or add bytes of one file, as broken disks and incomplete copies do."""
    path = rng.choice(files_in(folder))
    content = bytearray(path.read_bytes())
    at, size = rng.randrange(len(content) + 1), rng.choice([1, 1, 4, 64])
    how = rng.choice(["flip", "random", "zeros", "cut", "insert"])
    if how == "flip" and at < len(content):
        content[at] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del content[at:]
    elif how == "insert":
        content[at:at] = rng.randbytes(size)
    else:
        content[at : at + size] = rng.randbytes(size) if how == "random" else bytes(size)
    path.write_bytes(content)
    return f"{how} {size} at {at} of {path.relative_to(folder)}"


def crafted(folder: Path, rng: random.Random) -> str:
    """Replace one array or one value of a manifest, and make all checksums valid again."""
    arrays = [path for path in files_in(folder) if path.suffix == ".npy"]
    kind = rng.choice(["values"] * 6 + ["shape", "header", "manifest", "manifest"])
    if changes_in(folder) and rng.random() < 0.7:
        return _other_change(folder, rng.choice(changes_in(folder)), rng)
    if kind == "manifest":
        return _other_manifest(rng.choice([path for path in files_in(folder) if path.suffix == ".json"]), rng)
    path = rng.choice(arrays)
    array = np.load(path)
    if kind == "header":
        return _claimed(folder, path, array, rng)
    array, how = _other_values(array, rng) if kind == "values" else _other_shape(array, rng)
    replace(folder, path, array)
    return f"{how} in {path.name}"


def _other_change(folder: Path, path: Path, rng: random.Random) -> str:
    """Replace one array of a change file."""
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    differences = [dict(found) for found in unpack_diffs(path.read_bytes())]
    found = rng.choice(differences)
    name = rng.choice(sorted(found))
    spoil = _other_shape if rng.random() < 0.2 else _other_values
    found[name], how = spoil(found[name], rng)
    path.write_bytes(pack_diffs(differences))
    _describe(folder, before, path)
    return f"{how} in {name} of a change"


def changes_in(folder: Path) -> list[Path]:
    return [path for path in files_in(folder) if path.name.startswith("change-")]


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _other_values(array: NDArray[Any], rng: random.Random) -> tuple[NDArray[Any], str]:
    """Replace one number, a few, a row or all of them; or shuffle them."""
    array = array.copy()
    if rng.random() < 0.15:
        return np.random.default_rng(rng.randrange(2**32)).permutation(array.reshape(-1)).reshape(
            array.shape
        ), "permuted"
    flat = array.reshape(-1)
    if not flat.size:
        return array, "nothing"
    at = rng.randrange(flat.size)
    place: Any = rng.choice([at, slice(at, at + 9), slice(None), slice(0, 1), slice(-1, None)])
    if array.dtype.kind == "f":
        top = float(np.finfo(array.dtype).max)
        value: Any = rng.choice([np.nan, np.inf, -np.inf, top, -top, 0.0, -0.0, -1.0, 1.0, 1e30, 1e-40, 5e-324])
    elif array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        value = rng.choice([info.min, info.max, 0, 1, ITEMS, ITEMS - 1] + [-1, -2] * (info.min < 0))
    elif array.dtype.kind == "b":
        flat = flat.view(np.uint8)
        value = rng.choice([0, 1, 1, 2, 255])
    else:
        flat = flat.view(np.uint32)
        value = rng.choice([0x110000, 0xD800, 0, 65, 2**32 - 1])
    with np.errstate(over="ignore"):
        flat[place] = value
    return array, f"{value} at {place}"


def _other_shape(array: NDArray[Any], rng: random.Random) -> tuple[NDArray[Any], str]:
    """Return the same numbers, or nearly, in another shape or dtype."""
    changes: dict[str, Callable[[], NDArray[Any]]] = {
        "one less": lambda: array[:-1],
        "one more": lambda: np.concatenate([array, array[-1:]]),
        "transposed": lambda: np.ascontiguousarray(array.T),
        "flat": lambda: array.reshape(-1),
        "deeper": lambda: array[None],
        "nothing left": lambda: array[:0],
        "half as precise": lambda: array.astype(np.float16 if array.dtype.kind == "f" else array.dtype),
        "other byte order": lambda: array.astype(array.dtype.newbyteorder()),
        "a column less": lambda: np.ascontiguousarray(array[..., :-1]),
    }
    how = rng.choice(sorted(changes))
    with np.errstate(over="ignore"):
        return changes[how](), how


def _claimed(folder: Path, path: Path, array: NDArray[Any], rng: random.Random) -> str:
    """Write a header that claims more numbers than exist, a negative shape, columns first, or Python objects."""
    shape: tuple[int, ...] = (rng.choice([10**12, 2**62, 2**63, -1, 0]), *array.shape[1:])
    kind = rng.choice([array.dtype.str, "|O", "V8"])
    header = {"descr": kind, "fortran_order": rng.random() < 0.3, "shape": shape}
    data = array.tobytes()
    with path.open("r+b") as file:
        before = hashlib.sha256(file.read()).hexdigest()
        file.seek(0)
        file.truncate()
        np.lib.format.write_array_header_1_0(file, header)
        file.write(data)
    _describe(folder, before, path, dtype=kind, shape=list(shape))
    return f"header {header} of {path.name}"


def _other_manifest(path: Path, rng: random.Random) -> str:
    """Replace or remove one value anywhere in a JSON file, and make its checksum valid again."""
    content = json.loads(path.read_bytes())
    places = [(node, key) for node in _nodes(content) for key in (node if isinstance(node, dict) else range(len(node)))]
    node, key = rng.choice([(node, key) for node, key in places if (node is not content or key != "sha256")])
    value: Any = rng.choice(
        [float("nan"), float("inf"), -float("inf"), 0, -1, 1e300, HUGE, "", "text", None, [], {}, True, "leave out"]
    )
    if value == 1e300 and node is content.get("parameters"):
        value = -1e300  # parameters that are too large and take forever are tested elsewhere
    if value == "leave out":
        del node[key]
    else:
        node[key] = value
    path.write_text(json.dumps(seal_manifest(content) if "sha256" in content else content))
    return f"{str(value)[:20]} as {key} in {path.name}"


def extreme(folder: Path, rng: random.Random) -> str:
    """Set one parameter in a manifest to a number that is allowed but absurd."""
    path = rng.choice([path for path in files_in(folder) if path.suffix == ".json"])
    content = json.loads(path.read_bytes())
    given = content["parameters"]
    name = rng.choice([name for name, value in given.items() if value is None or isinstance(value, (int, float))])
    given[name] = rng.choice([10**9, 10**6, 1e300, 1e-300, 1e-6, 1])
    path.write_text(json.dumps(seal_manifest(content)))
    return f"{given[name]} as {name} in {path.name}"


def _nodes(value: Any) -> Iterator[Any]:
    """Yield every dict and every list in a JSON value."""
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _nodes(inner)


def replace(folder: Path, path: Path, array: NDArray[Any]) -> None:
    """Replace an array, and make all checksums valid again."""
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
    _describe(folder, before, path, dtype=array.dtype.str, shape=list(array.shape))


def _describe(folder: Path, before: str, path: Path, **about: Any) -> None:
    """Update the JSON files to the current content of a file that had the checksum `before`."""
    entry = {**about, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    for other in files_in(folder):
        if other.suffix == ".json":
            content = json.loads(other.read_bytes())
            for node in _nodes(content):
                if isinstance(node, dict) and node.get("sha256") == before:
                    node.update({key: value for key, value in entry.items() if key in node})
            other.write_text(json.dumps(seal_manifest(content) if "sha256" in content else content))


# what becomes of it


def same_or_refused(folder: Path, whole: Path) -> str:
    """Return `refused`, or `harmless` if every answer is that of the intact folder; anything else is an error."""
    try:
        manifold = kr.Manifold.load(folder)
    except ValueError:
        return "refused"
    for left, right in zip(answers_of(manifold), answers_of(kr.Manifold.load(whole)), strict=True):
        np.testing.assert_array_equal(left, right)
    return "harmless"


def answers_of(manifold: kr.Manifold) -> list[NDArray[Any]]:
    found = manifold.search(vectors(3, 4), 10)
    return [found.indices, found.distances, found.ids, manifold.ids]


def valid_or_refused(folder: Path, whole: Path) -> str:
    """Return `refused` if `verify` refuses it too; or `harmless` if everything done with it succeeds or is refused."""
    try:
        manifold = kr.Manifold.load(folder)
    except ValueError:
        with contextlib.suppress(ValueError):  # not a manifold, or one of another version
            assert not verify(folder).whole, "verify says whole, but load refuses it"
        return "refused"
    assert verify(folder).whole, "load takes it, but verify says that it is not whole"
    check_answers(manifold)
    if not len(manifold):  # an empty array of vectors is an empty manifold
        return "harmless"
    with contextlib.suppress(ValueError):
        explanation = manifold.explain(vectors(4, 1), manifold.ids[:6].tolist()[-1])
        assert np.isfinite(explanation.costs).all()
        assert 1 <= explanation.rank_after <= len(manifold)
    with contextlib.suppress(ValueError):
        for change in (_add, _remove, _observe):
            change(manifold)
            check_answers(manifold)
        assert 0.0 <= manifold.staleness <= 1.0
    manifold.save(folder)
    check_answers(kr.Manifold.load(folder))
    return "harmless"


def _add(manifold: kr.Manifold) -> None:
    given = manifold.info()["ids"] == "given"
    new: list[Any] = ["new", "newer"] if manifold.ids.dtype.kind == "O" else [10**6, 10**6 + 1]
    manifold.add(vectors(5, 2), new if given else None)


def _remove(manifold: kr.Manifold) -> None:
    manifold.remove(manifold.ids[[0, 7, len(manifold) - 1]].tolist())


def _observe(manifold: kr.Manifold) -> None:
    manifold.forget()
    manifold.observe(vectors(7, 3))


def check_answers(manifold: kr.Manifold) -> None:
    """Check for existing items, each once, with finite distances that do not decrease."""
    found = manifold.search(vectors(3, 4), 10, depth=15)
    there = found.indices >= 0
    assert there[:, : min(10, len(manifold))].all()
    assert np.isfinite(found.distances[there]).all()
    assert (found.distances[:, 1:] >= found.distances[:, :-1]).all()
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in found.indices)
    assert set(found.ids[there].tolist()) <= set(manifold.ids.tolist())
    assert (np.isfinite(found.distances) == there).all()


# many cases, in a process of their own

KINDS: dict[str, tuple[Callable[[Path, random.Random], str], Callable[[Path, Path], str]]] = {
    "random": (random_bytes, same_or_refused),
    "crafted": (crafted, valid_or_refused),
    "extreme": (extreme, valid_or_refused),
}


def failures(kind: str, folders: list[Path], count: int, first: int = 0) -> tuple[dict[str, int], list[str]]:
    """Return how often each outcome occurred, and a line for each of `count` cases that failed, crashed or hung."""
    left = [(folders[seed % len(folders)], seed) for seed in range(first, first + count)]
    outcomes, bad = {"refused": 0, "harmless": 0}, []
    while left:
        asked = "".join(json.dumps([str(folder), seed]) + "\n" for folder, seed in left)
        command = [sys.executable, __file__, kind, *map(str, folders)]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        ended = [line for line in lines if "outcome" in line]
        for line in ended:
            if line["outcome"] in outcomes:
                outcomes[line["outcome"]] += 1
            else:
                bad.append(f"{line['folder']} {line['seed']}: {line['what']}: {line['outcome']}")
        left = left[len(ended) :]
        if left:  # the program did not finish the next one
            what = lines[-1].get("what", "") if lines else "before the first case"
            bad.append(f"{left[0][0].name} {left[0][1]}: {what}: exit code {done.returncode}: {done.stderr[-1500:]}")
            left = left[1:] if lines else []
    return outcomes, bad


def main(kind: str, *folders: str) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # prints a traceback, then ends the program
    spoil, judge = KINDS[kind]
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "copy"
        for folder in folders:  # compile kernels before the time is measured; intact folders must pass
            shutil.copytree(folder, copy)
            assert judge(copy, Path(folder)) == "harmless"
            shutil.rmtree(copy)
        for line in sys.stdin:
            folder, seed = json.loads(line)
            shutil.copytree(folder, copy)
            case = {"folder": Path(folder).name, "seed": seed, "what": spoil(copy, random.Random(seed))}
            print(json.dumps(case), flush=True)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            try:
                outcome = judge(copy, Path(folder))
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps({**case, "outcome": outcome}), flush=True)
            shutil.rmtree(copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
