"""Imports follow the order of the layers; `import kinrank` is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [ROOT / "src" / "kinrank", ROOT / "bench" / "kinrank_bench"]

# Every layer may import from layers above it, and from itself. Layers on one line do not import each other.
ORDER = [
    ["errors"],
    ["parameters", "progress", "memory_limit", "deadline", "interrupts", "lazy_import", "ids"],
    ["filters", "tables", "plots"],
    ["files", "chain"],
    ["ranking"],
    ["rank_fusion"],
    ["pictures", "vector_input"],
    ["whitening", "weight_files", "display"],
    ["encoders"],
    ["stages.kernels"],
    ["neighbors"],
    ["problem", "feature_combination"],
    ["vector_space"],
    ["stages"],
    ["stores", "methods", "thermodynamics"],
    ["reranking"],
    ["augmentation", "joint_explanation", "learned"],
    ["manifold"],
    ["warmup"],
    ["distributed"],
    ["evaluation", "client"],
    ["diagnosis", "sync_folder", "file_kinds"],
    ["kinrank"],  # the public names, in kinrank/__init__.py
    ["datasets", "testing", "integrations"],
    ["report"],
    ["web", "web.settings"],
    ["web.request_queues", "web.collection", "web.query_encoder", "web.writes"],
    ["web.page_data"],
    ["web.service"],
    ["web.http"],
    ["web.server"],
    ["web.startup"],
    ["cli"],
    ["kinrank_bench"],  # a distribution of its own, in bench/
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


def name_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__").removeprefix("kinrank.")


MODULES = {name_of(path, source): path for source in SOURCES for path in sorted(source.rglob("*.py"))}


def room_of(module: str) -> str:
    """Return the longest prefix in the table."""
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        if ".".join(parts[:size]) in RANK:
            return ".".join(parts[:size])
    pytest.fail(f"kinrank.{module} stands in no room: add it to ORDER in {Path(__file__).name}")


def imported(tree: ast.AST, module: str) -> set[str]:
    """Return the modules of kinrank and kinrank_bench that a file imports, also inside functions, for types only."""
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
    ours = {name for name in found if name.split(".")[0] in ("kinrank", "kinrank_bench")}
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
    tree = ast.parse(
        "def late():\n    from kinrank.methods.query_expansion import AQE\n    from kinrank import reranking"
    )
    wrong = {"stages.graph": imported(tree, "stages.graph")}
    assert against_the_direction(wrong) == [
        "stages.graph imports methods.query_expansion",
        "stages.graph imports reranking",
    ]
    tree = ast.parse("import kinrank_bench.datasets")
    assert against_the_direction({"cli": imported(tree, "cli")}) == ["cli imports kinrank_bench.datasets"]


def test_stages_know_no_method() -> None:
    for module in MODULES:
        if room_of(module) in ("stages", "stages.kernels"):
            assert not {room_of(target) for target in IMPORTS[module]} & {"methods", "reranking", "kinrank"}, module


def test_methods_know_no_store_no_file_no_page() -> None:
    allowed = {
        "errors",
        "parameters",
        "progress",
        "memory_limit",
        "deadline",
        "vector_input",
        "ranking",
        "chain",
        "neighbors",
        "problem",
        "methods",
    }
    allowed |= {"weight_files", "stages", "stages.kernels", "lazy_import"}
    for module, path in MODULES.items():
        if room_of(module) == "methods":
            assert {room_of(target) for target in IMPORTS[module]} <= allowed, module
            tree = ast.parse(path.read_text())
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            assert not names & {"open", "Path"}, f"{module} touches files"


def test_nothing_can_unpickle() -> None:
    """No module imports pickle but the restricted reader, which finds no class; numpy is never allowed to use it."""
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        if module == "files.safe_pickle":
            check_the_only_unpickler(tree)
            continue
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "cPickle", "dill", "joblib", "cloudpickle"} & set(names), module
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), module
                assert node.value.value is False, module


def check_the_only_unpickler(tree: ast.Module) -> None:
    """`pickle` is used once: as the base of a class whose two ways to an object do nothing but raise."""
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "pickle"]
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "pickle"]
    (unpickler,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.bases and uses[0] in ast.walk(node)
    ]
    assert len(uses) == 1
    assert ast.unparse(unpickler.bases[0]) == "pickle.Unpickler"
    ways = {node.name: node.body for node in unpickler.body if isinstance(node, ast.FunctionDef)}
    assert set(ways) == {"find_class", "persistent_load"}
    for body in ways.values():
        assert isinstance(body[-1], ast.Raise)
        assert all(isinstance(line, ast.Assign) for line in body[:-1])


def test_import_is_light() -> None:
    """Less work than `import numpy`, best of five, and nothing heavy comes along, not even numpy.

    A ratio within one process, because seconds say more about the load of a machine: about 0.2 where this was set.
    """
    program = (
        "import sys, json; from time import process_time as now; start = now(); import kinrank; middle = now(); "
        "loaded = sorted(sys.modules); import numpy; print(json.dumps([now() - middle, middle - start, loaded]))"
    )
    ratios = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        numpy, spent, modules = json.loads(done.stdout)
        ratios.append(spent / numpy)
    assert [name for name in ["numpy", *HEAVY] if name in modules] == []
    assert min(ratios) < 1, f"import kinrank takes {min(ratios):.1f} times as long as import numpy"


def test_the_command_line_is_light_too() -> None:
    """`kinrank --help` loads neither the compiler nor plotting, nor any command."""
    program = "import sys, json, kinrank.cli.app; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    heavy = ["numpy", "kinrank.methods", "kinrank.cli.rerank", *HEAVY]
    assert [name for name in heavy if name in modules and name != "typer"] == []


def test_heavy_imports_are_deferred_in_one_place() -> None:
    """No function imports a stage: `from kinrank import stages` at the top is lazy already."""
    for module, path in MODULES.items():
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                late = isinstance(node, ast.ImportFrom) and str(node.module).startswith("kinrank.stages")
                assert not late, f"{module}.{function.name} imports {getattr(node, 'module', '')}"
