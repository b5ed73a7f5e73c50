"""Count what makes the code hard to follow: files per call, long parameter lists, private access, lines.

    python benchmarks/structure.py --list

The exit code is 1 if a count exceeds its limit.
A call "touches" a file of kinrank if it runs a function of it, also a compiled one; imports do not count.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import kinrank as kr

SOURCE = Path(kr.__file__).resolve().parent
ROOT = SOURCE.parents[1]
FOLDERS = [SOURCE.parent, ROOT / "bench"]
MAX_PARAMETERS = 7  # more than these make a function count
PUBLIC_DESPITE_NAME = {"_asdict", "_replace", "_fields", "_make", "_exit"}  # of named tuples, and os._exit
THIRD_PARTY = {  # internals without a public counterpart
    "_InTreeCacheLocator",  # numba: the folder of the compiled loops
    "_finalize_dynamic_globals",  # numba: link loops that call each other
    "_cache_path",
    "_impl",
    "_index_path",
    "_data_path",  # numba: the files of a loop, for code that comes with a wheel
    "_unset_keepalive_if_required",  # uvicorn: the timer of an idle connection
}
LIMITS = {
    "joint rerank": 32,
    "build": 30,
    "search": 14,
    "add + save": 22,
    "POST /v1/items": 14,
    "rerank --store": 40,
    "functions with eight or more parameters": 15,
    "private access across packages": 0,
    "lines in src": 53_000,
}


class Recorder:
    """Records the files of all functions that run inside a `with` block, in this thread and in new ones.

    Attributes:
        files: the files.
    """

    def __init__(self, ignore: str = "") -> None:
        """`ignore` is the name of a thread."""
        self.files, self._ignore = set[str](), ignore

    def __enter__(self) -> Recorder:
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _record(self, frame: FrameType, event: str, _: Any) -> None:
        is_known = frame.f_code.co_name == "<module>" or frame.f_code.co_filename in self.files
        if event == "call" and not is_known and threading.current_thread().name != self._ignore:
            self.files.add(frame.f_code.co_filename)


def trace(call: Callable[[], object]) -> set[str]:
    """Run `call` and return the source files that it touches, in all threads."""
    with Recorder() as recorder:
        call()
    return _keep_ours(recorder.files)


def _keep_ours(files: set[str]) -> set[str]:
    paths = (Path(name) for name in files)
    return {str(path.relative_to(SOURCE)) for path in paths if path.is_relative_to(SOURCE)}


def trace_calls() -> dict[str, set[str]]:
    """Return the files touched by each of six calls, each made once before to load what is loaded lazily."""
    rng = np.random.default_rng(0)
    gallery, queries = (rng.normal(size=(count, 16)).astype(np.float32) for count in (400, 5))
    method = kr.LPMT(k1=20, k2=5, k=5)
    manifold = kr.Manifold.build(gallery, method)
    calls: dict[str, Callable[[], object]] = {
        "joint rerank": lambda: kr.rerank(queries, gallery, method=method),
        "build": lambda: kr.Manifold.build(gallery, method),
        "search": lambda: manifold.search(queries, k=10),
    }
    traced = {}
    for name, call in calls.items():
        call()
        traced[name] = trace(call)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        manifold.save(home / "manifold")

        def add_and_save() -> None:
            manifold.add(rng.normal(size=(2, 16)).astype(np.float32))
            manifold.save(home / "manifold")

        add_and_save()
        traced["add + save"] = trace(add_and_save)
        traced["POST /v1/items"] = trace_post(home / "manifold")
        np.save(home / "queries.npy", queries)
        np.save(home / "gallery.npy", gallery)
        traced["rerank --store"] = trace_store(home)
    return traced


def trace_post(folder: Path) -> set[str]:
    """Add an item to a service in this process; the thread that applies and saves the change does not count."""
    from fastapi.testclient import TestClient

    from kinrank.web.http.http_app import make_app
    from kinrank.web.service import Service
    from kinrank.web.settings import Settings

    scratch = folder.parent / "scratch"
    scratch.mkdir()
    recorder = Recorder(ignore="kinrank-writer")
    with recorder:
        service = Service.open(Settings(str(folder), writable=True, scratch=str(scratch)))
        try:
            with TestClient(make_app(service), base_url="http://127.0.0.1:8000") as api:
                for _ in range(2):
                    recorder.files.clear()
                    api.post("/v1/items", json={"vectors": [[1.0] * 16]}).raise_for_status()
                files = set(recorder.files)
        finally:
            service.close()
    return _keep_ours(files)


def trace_store(home: Path) -> set[str]:
    """Run `kinrank rerank --store` in this process, on a table of DuckDB."""
    import duckdb

    from kinrank.cli.app import app

    with duckdb.connect(str(home / "items.db")) as database:
        database.execute("create table items (id integer, embedding float[16])")
        rows = np.load(home / "gallery.npy").tolist()
        database.executemany("insert into items values (?, ?)", list(enumerate(rows)))
    url = f"duckdb:///{home / 'items.db'}?table=items&vector=embedding&key=id"
    files = ["--queries", str(home / "queries.npy"), "-o", str(home / "ranking.npz")]

    def call() -> None:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            app(["rerank", "--store", url, "--candidates", "50", *files], standalone_mode=False)

    call()
    return trace(call)


def parse_files() -> dict[Path, ast.Module]:
    """Parse the files of kinrank and kinrank_bench."""
    return {path: ast.parse(path.read_text()) for folder in FOLDERS for path in sorted(folder.rglob("*.py"))}


def find_long_signatures(files: dict[Path, ast.Module]) -> list[str]:
    """Return the functions with more than MAX_PARAMETERS parameters, without self and cls."""
    found = []
    for path, tree in files.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                count = sum(argument.arg not in ("self", "cls") for argument in every)
                if count > MAX_PARAMETERS:
                    name = getattr(node, "name", "lambda")
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {name} {count}")
    return found


def find_private_access(files: dict[Path, ast.Module]) -> list[str]:
    """Return the accesses to private names that no file of the same package defines."""
    defined: dict[str, set[str]] = {}
    for path, tree in files.items():
        defined.setdefault(_name_package(path), set()).update(_list_definitions(tree))
    found = []
    for path, tree in files.items():
        own = defined[_name_package(path)] | PUBLIC_DESPITE_NAME | THIRD_PARTY
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Attribute):
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kinrank"):
                names = [alias.name for alias in node.names]
            found += [
                f"{path.relative_to(ROOT)}:{node.lineno} {name}"
                for name in names
                if name.startswith("_") and not name.endswith("__") and name not in own
            ]
    return found


def _name_package(path: Path) -> str:
    return str(path.parent if path.parent != SOURCE else path)


def _list_definitions(tree: ast.Module) -> set[str]:
    """Return all functions, classes, attributes of self and variables of a module."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def count_lines(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))


def main() -> None:
    files = parse_files()
    found: dict[str, list[str]] = {name: sorted(touched) for name, touched in trace_calls().items()}
    found["functions with eight or more parameters"] = find_long_signatures(files)
    found["private access across packages"] = find_private_access(files)
    lines = [count_lines(folder) for folder in FOLDERS]
    counts = {name: len(rows) for name, rows in found.items()}
    counts |= {"lines in src": lines[0], "lines in src and bench": sum(lines)}
    if "--list" in sys.argv[1:]:
        for name, rows in found.items():
            print(name, *rows, sep="\n  ")
    for name, count in counts.items():
        print(f"{name:45} {count:6}   limit {LIMITS.get(name, 'none')}")
    sys.exit(any(counts[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    main()
