"""Imports go one way, down the list of rooms; `import kinrank` is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "kinrank"

# Every room may import from rooms above it, and from itself. Rooms on one line do not know each other.
ORDER = [
    ["parameters", "progress", "memory", "deadline", "interrupts", "deferred", "given"],
    ["ranking"],
    ["files", "fuse"],
    ["pictures", "features"],
    ["whitening", "weights"],
    ["encoders"],
    ["stages.kernels"],
    ["neighbors"],
    ["items", "combine"],
    ["space"],
    ["stages"],
    ["stores", "methods", "thermodynamics"],
    ["rerank"],
    ["augment", "explain", "learned"],
    ["manifold"],
    ["warmup"],
    ["distributed"],
    ["evaluation", "client"],
    ["diagnosis", "watching"],
    ["kinrank"],  # the public names, in kinrank/__init__.py
    ["datasets", "testing", "integrations"],
    ["report"],
    ["web"],
    ["bench"],
    ["cli"],
]
RANK = {room: number for number, rooms in enumerate(ORDER) for room in rooms}
HEAVY = [
    "numba",
    "scipy.sparse",
    "matplotlib",
    "torch",
    "faiss",
    "typer",
    "tqdm",
    "distributed",
    "http.client",
    "fastapi",
    "PIL",
    "onnxruntime",
    "transformers",
]


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "kinrank"


MODULES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The longest prefix that stands in the table."""
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        if ".".join(parts[:size]) in RANK:
            return ".".join(parts[:size])
    pytest.fail(f"kinrank.{module} stands in no room: add it to ORDER in {Path(__file__).name}")


def imported(tree: ast.AST, module: str) -> set[str]:
    """Modules of kinrank that a file imports, anywhere in it, also inside functions and for types only."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"kinrank.{module} imports relatively; write the full name"
            base = str(node.module)
            for alias in node.names:  # `from kinrank.stages import context` imports the module of that name
                full = f"{base}.{alias.name}"
                found.add(full if full.removeprefix("kinrank.") in MODULES else base)
    ours = {name for name in found if name.split(".")[0] == "kinrank"}
    return {name.removeprefix("kinrank.") for name in ours}


IMPORTS = {name: imported(ast.parse(path.read_text()), name) for name, path in MODULES.items()}


def against_the_direction(imports: dict[str, set[str]]) -> list[str]:
    return [
        f"{module} imports {target}"
        for module, targets in imports.items()
        for target in sorted(targets)
        if room_of(module) != room_of(target) and RANK[room_of(target)] >= RANK[room_of(module)]
    ]


def test_imports_go_one_way() -> None:
    assert len(MODULES) > 40
    assert against_the_direction(IMPORTS) == []


def test_a_wrong_import_is_noticed() -> None:
    tree = ast.parse("def late():\n    from kinrank.methods.aqe import AQE\n    from kinrank import rerank")
    wrong = {"stages.graph": imported(tree, "stages.graph")}
    assert against_the_direction(wrong) == [
        "stages.graph imports methods.aqe",
        "stages.graph imports rerank",
    ]


def test_stages_know_no_method() -> None:
    for module in MODULES:
        if room_of(module) in ("stages", "stages.kernels"):
            assert not {room_of(target) for target in IMPORTS[module]} & {"methods", "rerank", "kinrank"}, module


def test_methods_know_no_store_no_file_no_page() -> None:
    allowed = {"parameters", "progress", "memory", "features", "ranking", "neighbors", "items", "methods"}
    allowed |= {"weights", "stages", "stages.kernels", "deferred"}
    for module, path in MODULES.items():
        if room_of(module) == "methods":
            assert {room_of(target) for target in IMPORTS[module]} <= allowed, module
            tree = ast.parse(path.read_text())
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            assert not names & {"open", "Path"}, f"{module} touches files"


def test_nothing_can_unpickle() -> None:
    """Nobody imports pickle, not even its closed reader; numpy is never told to allow it."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "cPickle", "dill", "joblib", "cloudpickle"} & set(names), module
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), module
                assert node.value.value is False, module


def test_import_is_light() -> None:
    """Less than eight times the work of `import numpy`, best of five, and nothing heavy comes along.

    A ratio within one process, because seconds say more about the load of a machine: about 5 where this was set.
    """
    program = (
        "import sys, json; from time import process_time as now; start = now(); import numpy; middle = now(); "
        "import kinrank; end = now(); print(json.dumps([middle - start, end - start, sorted(sys.modules)]))"
    )
    ratios = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        numpy, spent, modules = json.loads(done.stdout)
        ratios.append(spent / numpy)
    assert [name for name in HEAVY if name in modules] == []
    assert min(ratios) < 8, f"import kinrank takes {min(ratios):.1f} times as long as import numpy"


def test_the_command_line_is_light_too() -> None:
    """`kinrank --help` waits for no compiler and no plot."""
    program = "import sys, json, kinrank.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    assert [name for name in HEAVY if name in modules and name != "typer"] == []


def test_heavy_imports_are_deferred_in_one_place() -> None:
    """Nobody imports a stage inside a function: `from kinrank import stages` at the top does that by itself."""
    for module, path in MODULES.items():
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                late = isinstance(node, ast.ImportFrom) and str(node.module).startswith("kinrank.stages")
                assert not late, f"{module}.{function.name} imports {getattr(node, 'module', '')}"
