"""Methods of other packages: a small distribution, installed into a folder, registers them by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import InputError
from kinrank.methods.registry import MethodRegistry
from kinrank.testing import toy

BUILT_IN = dict(kr.METHODS.data)  # listing kr.METHODS itself would load the plugins for other tests, too
MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

import kinrank as kr
from kinrank.parameters import parameter


@dataclass(frozen=True, kw_only=True)
class FarthestFirst(kr.Method):
    """Rank the farthest item first."""

    name: ClassVar[str] = "farthest-first"
    paper: ClassVar[str] = "a method of another package"
    strength: float = parameter(1.0, "factor of the distances", low=0.1, high=10)

    def prepare(self, items, progress):
        return items

    def distances(self, prepared, queries):
        return 10 - self.strength * prepared.query_distances(queries)

    def memory(self, items, queries, dimensions):
        return 0


class NoMethod:
    name = "no-method"
'''
ENTRY_POINTS = """[kinrank.methods]
farthest-first = small_plugin:FarthestFirst
aqe = small_plugin:FarthestFirst
broken = small_plugin_without_this_module:Broken
no-method = small_plugin:NoMethod
other-name = small_plugin:FarthestFirst
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as `pip install --target` writes it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "small_plugin.py").write_text(MODULE)
    facts = folder / "small_plugin-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: small-plugin\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def registry(installed: Path, monkeypatch: pytest.MonkeyPatch) -> MethodRegistry:
    monkeypatch.syspath_prepend(str(installed))
    return MethodRegistry(BUILT_IN)


def run_kinrank(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), str(Path(kr.__file__).parents[1])])
    command = [sys.executable, "-m", "kinrank.cli", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["farthest-first", "Farthest_First", "FarthestFirst"])
@pytest.mark.filterwarnings("ignore:method:UserWarning")
def test_a_method_of_another_package_is_found(registry: MethodRegistry, name: str) -> None:
    method = registry.find(name)(strength=2.0)
    assert repr(method) == "FarthestFirst(strength=2.0)"
    data = toy("clusters")
    ranking = kr.rerank(data.queries, data.gallery, method)
    plain = kr.rerank(data.queries, data.gallery, "none")
    np.testing.assert_array_equal(ranking.distances[:, 0], 10 - 2 * plain.distances[:, -1])


def test_built_in_names_import_no_plugin(registry: MethodRegistry) -> None:
    sys.modules.pop("small_plugin", None)
    assert registry["aqe"] is registry.find("AQE") is BUILT_IN["aqe"]  # and a plugin cannot replace it
    assert "small_plugin" not in sys.modules


def test_listing_leaves_out_broken_plugins_with_a_warning(registry: MethodRegistry) -> None:
    with pytest.warns(UserWarning, match="left out") as caught:
        names = list(registry)
    assert names == [*BUILT_IN, "farthest-first"]
    assert len(registry) == len(names)
    messages = sorted(str(entry.message) for entry in caught)
    assert len(messages) == 3  # once each
    assert messages[0].startswith("method 'broken' of the package small-plugin cannot be imported from small_plugin_w")
    assert "is not a class that extends kinrank.Method" in messages[1]
    assert "has another name in its class, 'farthest-first'" in messages[2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "cannot be imported from small_plugin_without_this_module:Broken: ModuleNotFoundError"),
        ("no-method", "is not a class that extends kinrank.Method"),
        ("other-name", "has another name in its class, 'farthest-first'; give both the same name"),
    ],
)
def test_a_broken_plugin_is_an_input_error(registry: MethodRegistry, name: str, message: str) -> None:
    for find in (registry.find, registry.__getitem__):
        with pytest.raises(InputError, match=f"method '{name}' of the package small-plugin {message}"):
            find(name)


def test_an_unknown_name_is_no_key(registry: MethodRegistry) -> None:
    assert "farthest-first" in registry
    assert "nonsense" not in registry
    assert registry.get("nonsense") is None
    with pytest.raises(KeyError):
        registry["nonsense"]


def test_the_command_line_ranks_by_it(installed: Path, tmp_path: Path) -> None:
    data = toy("clusters")
    np.save(tmp_path / "gallery.npy", data.gallery)
    np.save(tmp_path / "queries.npy", data.queries)
    files = ["--gallery", str(tmp_path / "gallery.npy"), "--queries", str(tmp_path / "queries.npy")]
    named = ["--method", "farthest-first", "--strength", "2"]
    done = run_kinrank(installed, "rerank", *files, *named, "-o", str(tmp_path / "ranks.npz"))
    assert done.returncode == 0, done.stderr
    described = run_kinrank(installed, "methods", "farthest-first", "--json")
    assert json.loads(described.stdout)["paper"] == "a method of another package"
    refused = run_kinrank(installed, "rerank", *files, "--method", "broken", "-o", str(tmp_path / "no.npz"))
    assert refused.returncode == 2
    assert "method 'broken' of the package small-plugin cannot be imported" in refused.stderr
    assert "Traceback" not in refused.stderr
    listed = run_kinrank(installed, "methods")
    assert "a method of another package" in listed.stdout
    assert listed.returncode == 0
