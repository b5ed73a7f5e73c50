"""Fingerprint of the code that was measured: it tells whether a stored number is of the current code.

The measured path of a number is the module of its method, the modules that its mode and its benchmark start from, and
everything of kinrank that these import. The fingerprint is a hash of the syntax trees of these modules. Comments,
docstrings, error messages and layout do not count. A method that the measured one does not use does not count either.
"""

from __future__ import annotations

import ast
import importlib.util
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kinrank
from kinrank.errors import InputError
from kinrank.methods import METHODS, Method, find_method
from kinrank.methods.learned_method import LearnedMethod
from kinrank_bench.measurement_cache import digest

METHOD_PACKAGE = "kinrank.methods"
PAPER_PACKAGE = "kinrank_bench.paper"  # its method builds on LPMT
RERANK, MANIFOLD = "kinrank.reranking.entry_point", "kinrank.manifold.manifold"
MODE_MODULES = {"online": (MANIFOLD,), "grown": (MANIFOLD,), None: (RERANK, MANIFOLD)}  # all others: RERANK
SCORING = (
    "kinrank_bench.measurement",
    "kinrank.evaluation.measures",
    "kinrank.evaluation.scores",
    "kinrank.evaluation.significance",
)
BENCH_MODULES: dict[str, tuple[str, ...]] = {  # in addition to those of the mode; a package stands for all its modules
    "candidates": (),
    "diagnosis": (
        *SCORING,
        "kinrank.diagnosis.gain_model",
        "kinrank.diagnosis.neighborhood_facts",
        "kinrank.diagnosis.vector_preparation",
    ),
    "learned": (*SCORING, "kinrank.learned"),
    "memory": ("kinrank_bench.synthetic",),
    "paper": (*SCORING, f"{PAPER_PACKAGE}.dense_diffusion", f"{PAPER_PACKAGE}.lpmt_ablation"),
    "photos": (*SCORING, "kinrank.encoders", "kinrank.pictures"),
    "scale": (*SCORING, "kinrank_bench.synthetic", "kinrank.stores.faiss"),
    "service": (
        "kinrank.web.http.api_routes",
        "kinrank.web.request_queues",
        "kinrank.web.service",
        "kinrank.web.writes",
    ),
    "speed": (),
    "stores": (*SCORING, MANIFOLD, "kinrank.stores"),
    "whitening": (*SCORING, "kinrank.whitening"),
}  # all others: SCORING
UNMEASURED = ("kinrank.chain", "kinrank.errors", "kinrank.files", "kinrank.plots", "kinrank.progress")  # not followed
IGNORED_FIELDS = {"ctx", "kind", "type_comment", "type_ignores"}  # of syntax trees
STARTED = time.time()
Record = dict[str, Any]
Row = dict[str, Any]


def fingerprint_record(bench: str, results: Record) -> dict[str, str]:
    """Return the fingerprints of a record: one for each method and mode of its rows.

    Code that was changed since this process started has none: what ran is not what the files contain.
    """
    found = {}
    for method, mode in _list_paths(results):
        kind = _find_kind(method)
        if kind is not None and not any(map(_is_changed, list_measured_modules(*_list_roots(kind, mode, bench)))):
            found[_label(method, mode)] = fingerprint_method(kind, mode, bench)
    return found


def is_current(record: Record, row: Row | None = None) -> bool:
    """True if the code that a row of a record measured, or all that the record measured, is the code of today."""
    stored: dict[str, str] = record.get("fingerprints", {})
    for method, mode in _list_paths(record) if row is None else [_path_of(record, row)]:
        kind = _find_kind(method)
        if kind is None or stored.get(_label(method, mode)) != fingerprint_method(kind, mode, record["bench"]):
            return False
    return True


def _list_paths(record: Record) -> list[tuple[str, str | None]]:
    """Return method and mode of all rows of a record; of the record itself if it has no rows."""
    rows = [row for value in record.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    return list(dict.fromkeys(_path_of(record, row) for row in rows or [{}]))


def _path_of(record: Record, row: Row) -> tuple[str, str | None]:
    """Return method and mode of a row; a row without them has those of its record."""
    method = row.get("method") or record.get("method")
    mode = row.get("mode") or record.get("mode")
    return method if isinstance(method, str) else "lpmt", mode if isinstance(mode, str) else None


def _label(method: str, mode: str | None) -> str:
    return f"{method} {mode}" if mode else method


def _find_kind(method: str) -> type[Method] | None:
    """Return the class of a method; None if it does not exist any more."""
    try:
        return find_method(method)
    except InputError:
        return None


def _is_changed(module: str) -> bool:
    path = _find_source(module)
    return path is not None and path.stat().st_mtime > STARTED


def fingerprint_method(kind: type[Method], mode: str | None, bench: str = "accuracy") -> str:
    """Return the fingerprint of the code that a benchmark measures with a method in a mode."""
    return _fingerprint_modules(*_list_roots(kind, mode, bench))


@cache
def _fingerprint_modules(*roots: str) -> str:
    return digest([[module, digest_module(module)] for module in list_measured_modules(*roots)])[:16]


def _list_roots(kind: type[Method], mode: str | None, bench: str) -> list[str]:
    learned = ["kinrank.learned"] if issubclass(kind, LearnedMethod) else []
    return [kind.__module__, *learned, *MODE_MODULES.get(mode, (RERANK,)), *BENCH_MODULES.get(bench, SCORING)]


def list_measured_modules(*roots: str) -> list[str]:
    """Return these modules and packages, and what they import of kinrank, sorted by name."""
    waiting, found = [module for root in roots for module in _list_package(root)], set[str]()
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += [target for target in list_imports(module) if _is_followed(module, target)]
    return sorted(found)


def _is_followed(module: str, target: str) -> bool:
    """True unless the target is no part of a measurement, the list of all methods, or a method by default."""
    if target in ("kinrank", METHOD_PACKAGE) or target.startswith(UNMEASURED):
        return False
    return target not in _method_modules() or module.startswith((METHOD_PACKAGE, PAPER_PACKAGE))


@cache
def _method_modules() -> frozenset[str]:
    return frozenset(kind.__module__ for kind in METHODS.data.values())


def _list_package(name: str) -> list[str]:
    """Return a module, or all modules of a package."""
    path = _find_source(name)
    if path is None or path.name != "__init__.py":
        return [name]
    parts = (file.relative_to(path.parent).with_suffix("").parts for file in sorted(path.parent.rglob("*.py")))
    return [".".join([name, *(part for part in names if part != "__init__")]) for names in parts]


@cache
def _find_source(module: str) -> Path | None:
    """Return the source file of a module, without importing it if it is one of kinrank; None if there is none."""
    package, *names = module.split(".")
    if package == "kinrank":
        place = Path(kinrank.__file__).resolve().parent.joinpath(*names)
        return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # such as __main__
        return None
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return path if path is not None and path.suffix == ".py" else None


@cache
def _parse(module: str) -> ast.Module:
    path = _find_source(module)
    return ast.parse("" if path is None else path.read_text("utf-8"))


@cache
def digest_module(module: str) -> str:
    """Return the digest of the syntax tree of a module, the same for all versions of Python."""
    return digest("".join(_describe(_parse(module))))


def _describe(node: Any) -> Iterator[str]:
    """Yield the parts of a text that is equal for programs that do the same, apart from what they say."""
    if isinstance(node, list):
        yield "["
        for element in node:
            yield from _describe(element)
        yield "]"
    elif isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for field, value in ast.iter_fields(node):
            if field == "body" and isinstance(value, list) and value and _is_docstring(value[0]):
                value = value[1:]
            if value not in (None, []) and field not in IGNORED_FIELDS and not isinstance(node, ast.Raise):
                yield f"{field}="
                yield from _describe(value)
        yield ")"
    else:
        yield f"{node!r},"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def list_imports(module: str) -> frozenset[str]:
    """Return the modules of kinrank that define the names that a module of kinrank or of PAPER_PACKAGE imports.

    Imports for types only do not count. A package that imports its modules on use, as in `stages.states.top_mass(...)`,
    stands for the modules that are named.
    """
    if module.split(".")[0] != "kinrank" and not module.startswith(PAPER_PACKAGE):
        return frozenset()
    found, packages = set[str](), dict[str, str]()
    for node in _walk(_parse(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if _find_kinrank(alias.name)}
        elif isinstance(node, ast.ImportFrom) and _find_kinrank(str(node.module)):
            for alias in node.names:
                target = _resolve(str(node.module), alias.name)
                path = _find_kinrank(target)
                if target == f"{node.module}.{alias.name}" and path is not None and path.name == "__init__.py":
                    packages[alias.asname or alias.name] = target
                else:
                    found.add(target)
    for node in ast.walk(_parse(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            first, *names = ast.unparse(node).split(".")
            if first in packages:
                target = packages[first]
                for name in names:
                    target = _resolve(target, name)
                found.add(target)
    return frozenset(found)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all parts of a syntax tree except `if TYPE_CHECKING:`."""
    yield node
    for part in ast.iter_child_nodes(node):
        if not (isinstance(part, ast.If) and isinstance(part.test, ast.Name) and part.test.id == "TYPE_CHECKING"):
            yield from _walk(part)


def _find_kinrank(module: str) -> Path | None:
    return _find_source(module) if module.split(".")[0] == "kinrank" else None


def _resolve(module: str, name: str) -> str:
    """Return the module that defines a name, which another module may import from a package."""
    if _find_kinrank(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    for node in _parse(module).body:
        if isinstance(node, ast.ImportFrom) and _find_kinrank(str(node.module)):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _resolve(str(node.module), alias.name)
    return module
