"""kinrank and kinrank-bench: two distributions with the same version; kinrank works without the second one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank.encoders import open_encoder
from kinrank.errors import MissingExtraError
from kinrank.web.startup.gallery_source import TOYS, VECTORS, GallerySource
from reference.commands import bad, good

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
ADVICE = "in a clone of kinrank with: pip install ./bench"


@pytest.fixture
def without_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing find the package kinrank-bench."""
    for name in [name for name in sys.modules if name.split(".")[0] == "kinrank_bench"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "kinrank_bench", None)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    monkeypatch.setattr("kinrank.datasets.published_sets.find_spec", lambda name: None)


def test_versions_are_equal() -> None:
    text = (BENCH / "pyproject.toml").read_text("utf-8")
    assert re.findall(r'^version = "(.*?)"', text, flags=re.MULTILINE) == [kinrank.__version__]
    assert re.findall(r'"kinrank==(.*?)"', text) == [kinrank.__version__]


def test_command_is_found_by_its_entry_point(tmp_path: Path) -> None:
    assert "--data" in good(tmp_path, "bench", "accuracy", "--help")
    assert "--data" in bad(tmp_path, "bench", "accuracy")


def test_method_is_found_by_its_entry_point(tmp_path: Path) -> None:
    assert "similarity" in good(tmp_path, "methods", "lpmt-ablation")
    assert kinrank.methods.find_method("LPMTAblation").__module__.startswith("kinrank_bench")


@pytest.mark.parametrize("words", [[], ["--help"], ["accuracy", "--data", "folder"], ["nonsense", "-x"]])
def test_missing_bench_is_explained(words: list[str], tmp_path: Path, without_bench: None) -> None:
    message = bad(tmp_path, "bench", *words)
    assert ADVICE in message


def test_help_lists_bench_without_it(tmp_path: Path, without_bench: None) -> None:
    assert re.search(r"^ +bench +Measure accuracy", good(tmp_path, "--help"), flags=re.MULTILINE)


def test_encoders_of_the_paper_are_explained_without_it(without_bench: None) -> None:
    with pytest.raises(MissingExtraError, match=re.escape(ADVICE)):
        open_encoder("cvnet", weights="net.pth")


def test_published_sets_are_explained_without_it(tmp_path: Path, without_bench: None) -> None:
    np.savez(tmp_path / "orl_pixels.npz", x=np.zeros((3, 4)), label=np.zeros(3))
    with pytest.raises(MissingExtraError, match=re.escape(ADVICE)):
        GallerySource(f"{tmp_path}:orl").detect_kind()
    with pytest.raises(kinrank.errors.InputError, match=re.escape("with kinrank[bench], a folder")):
        GallerySource(tmp_path).detect_kind()
    assert ADVICE in bad(tmp_path, "report", "--data", "@.", "--set", "orl", "-o", "@page.html")
    assert GallerySource().detect_kind() == TOYS
    assert GallerySource(tmp_path / "orl_pixels.npz").detect_kind() == VECTORS


def test_readme_on_a_package_index_has_absolute_links_only() -> None:
    """The text is that of the metadata of a build."""
    core = pytest.importorskip("hatchling.metadata.core", reason="needs hatchling: make install")
    pytest.importorskip("hatch_fancy_pypi_readme", reason="needs hatch-fancy-pypi-readme: make install")
    from hatchling.plugin.manager import PluginManager

    project = core.ProjectMetadata(str(ROOT), PluginManager()).core
    assert project.readme_content_type == "text/markdown"
    check_links(project.readme, project.urls["Source"])


def check_links(text: str, source: str) -> None:
    """Check that all links of the README are absolute, and that those to the repository lead to its files."""
    link = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
    before, after = (
        ["".join(found) for found in link.findall(one)] for one in ((ROOT / "README.md").read_text(), text)
    )
    assert len(before) == len(after) > 20
    for was, now in zip(before, after, strict=True):
        picture = was.endswith((".png", ".svg"))
        assert now == (was if "://" in was else f"{source}/{'raw' if picture else 'blob'}/main/{was}")
