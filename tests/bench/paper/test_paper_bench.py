"""A complete run over a tiny folder: measured and absent features, page, files, and resuming after an interruption."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from kinrank.cli.app import app
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.paper.comparison_tables import build_comparison_tables, describe_printed_numbers
from kinrank_bench.paper.feature_selection import list_methods, select_ablation_sets, select_features
from kinrank_bench.paper.paper_bench import paper
from kinrank_bench.paper.paper_numbers import MEASURED, ComparisonTable
from kinrank_bench.paper.paper_page import paper_summary, write_files

pytestmark = [pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning"), pytest.mark.slow]


@pytest.fixture(scope="module")
def written(measured: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    assert write_files(measured, place)[0] == place / "index.html"
    return place


def table(measured: dict[str, Any], key: str) -> ComparisonTable:
    (found,) = (one for one in build_comparison_tables(measured) if one.key == key)
    return found


def test_everything_is_measured_joint(measured: dict[str, Any]) -> None:
    assert [(one["set"], one["features"]) for one in measured["found"]] == [
        ("roxford5k", "rgem"), ("roxford5k", "toy"), ("caltech101", "toy"),
    ]  # fmt: skip
    assert measured["mode"] == "joint"
    assert {row["mode"] for row in measured["scores"]} == {"joint"}
    assert all("error" not in row for part in ("scores", "ablations", "curves") for row in measured[part])
    assert {row["figure"] for row in measured["curves"]} == {"4a", "5a", "5d"}
    assert {row["set"] for row in measured["ablations"]} == {"roxford5k"}  # class sets only if there is nothing else
    assert {row["settings"] for row in measured["orders"]} == {"defaults", "paper"}
    residuals = [point["to_target"] for point in measured["convergence"][0]["points"]]
    assert len(residuals) == 6
    assert residuals == sorted(residuals, reverse=True)
    assert [point["candidates"] for point in measured["time"][0]["points"]] == [20, 72]
    json.dumps(measured, allow_nan=False)


def test_measured_numbers_are_next_to_printed_ones(measured: dict[str, Any]) -> None:
    first = table(measured, "table-1")
    blocks = [head.block for head in first.heads]
    assert blocks == ["printed in the paper"] * 8 + [MEASURED] * 3
    assert [head.name for head in first.heads[8:10]] == ["ROxf", "ROxf"]
    rows = {line.name: line.cells for line in first.lines}
    assert rows["LPMT"][0].mean == 84.7
    assert rows["LPMT"][0].low is None
    assert rows["LPMT"][8].low is not None
    assert rows["GSS"][0].mean == 78.0
    assert rows["GSS"][8].mean is not None
    assert rows["LAttDBA+LAttQE"][8].mean is not None
    learned = (
        "CSA was fitted on pseudo-labels of the gallery, seed 0; the paper's was trained on the labels of another set."
    )
    assert learned in first.notes
    known = {row["method"]: 100 * row["mean"] for row in measured["scores"]
             if (row["features"], row.get("truth")) == ("rgem", "medium")}  # fmt: skip
    assert rows["CAS"][8].mean == known["cas"]
    *_, settings, published = first.lines
    assert (settings.name, settings.cells[0].word) == ("LPMT, the paper's settings", "-")
    assert settings.cells[8].mean == known["lpmt-ablation"]
    assert (published.name, published.cells[0].word) == ("LPMT, as published", "-")
    assert published.cells[8].mean == known["lpmt-as-published"]
    assert "k1=60" in measured["methods"]["lpmt-ablation"]
    assert "direct=0.0" in measured["methods"]["lpmt-ablation"]
    assert any(note.startswith("LPMT here is kinrank's") for note in first.notes)
    assert len(table(measured, "table-2").lines) == 12  # nothing is measured there
    assert any("direct=0" in note for note in table(measured, "your-tmt-roxford5k-toy").notes)


def test_the_summary_starts_with_a_check_of_the_features(measured: dict[str, Any]) -> None:
    first = table(measured, "table-1").lines[0].cells
    said = paper_summary(measured)
    assert said[0].startswith(
        "rgem without re-ranking, to check that the features are the paper's: "
        f"Medium, ROxf: printed 67.3, measured {first[8].mean:.1f}; "
    )
    assert not any("toy without re-ranking" in sentence for sentence in said)
    assert describe_printed_numbers(measured) == (
        "Printed numbers are the paper's. To check whether your rgem is its R-GeM, compare the rows without re-ranking."
    )
    assert "not in this folder" in describe_printed_numbers({"found": [{"features": "toy"}]})


def test_absent_features_are_named(measured: dict[str, Any]) -> None:
    assert table(measured, "table-1").heads[-1].absent == (
        "no features named rgem in the folder of --data: put roxford5k_rgem.npz, distractors_rgem.npy, "
        "rparis6k_rgem.npz there"
    )
    second = table(measured, "table-2")
    assert [head.absent for head in second.heads if head.block == MEASURED] == [
        "no features named dolg in the folder of --data: put roxford5k_dolg.npz, rparis6k_dolg.npz there"
    ]


def test_features_that_the_paper_lacks_have_their_own_tables(measured: dict[str, Any]) -> None:
    own = [one for one in build_comparison_tables(measured) if one.key.startswith("your-")]
    assert [one.key for one in own] == [
        "your-landmarks-toy", "your-classes-toy", "your-lse-roxford5k-rgem", "your-tmt-roxford5k-rgem",
        "your-lse-roxford5k-toy", "your-tmt-roxford5k-toy",
    ]  # fmt: skip
    assert {"SG", "AQE", "LPMT", "CSA"} <= {line.name for line in own[0].lines}
    assert any("is not" in note or "published" in note for note in own[0].notes)  # 72 images are not ROxford5k
    rows = {line.name: line.method for line in own[1].lines}  # printed rows of classes include augmentation
    assert (rows["AQE"], rows["AQE without DBA"]) == ("adba+aqe", "aqe")
    assert any("include database augmentation" in note for note in own[1].notes)
    assert not any("include database augmentation" in note for note in own[0].notes)
    assert own[3].lines[-1].name == "TMT without a power"
    assert all(cell.mean is not None for line in own[2].lines for cell in line.cells)


def test_the_page_needs_nothing_else(written: Path) -> None:
    text = (written / "index.html").read_text("utf-8")
    assert not re.search(r'(src|href|url)\s*[=(]\s*["\']?(https?:)?//', text)
    assert "http" not in text.replace("https", "http").split("<style>")[0]
    assert "<script" not in text
    for part in ("Does the paper's order hold?".replace("'", "&#x27;"), "Figure 5a", "Table 10.", "joint"):
        assert part in text
    parser = re.findall(r'href="([^"#]+)"', text)
    assert all((written / link).exists() for link in parser)
    anchors = re.findall(r'href="#([^"]+)"', text)
    assert anchors
    assert all(f'id="{anchor}"' in text for anchor in anchors)


def test_figures_are_whole_and_tables_come_in_three_formats(written: Path, measured: dict[str, Any]) -> None:
    drawings = sorted((written / "figures").glob("*.svg"))
    assert {path.stem.split("-")[1] for path in drawings} == {"4a", "4b", "5a", "5d", "time"}
    for path in drawings:
        assert ElementTree.fromstring(path.read_text("utf-8")).tag == "{http://www.w3.org/2000/svg}svg"
    stems = {
        ending: {path.stem for path in (written / "tables").glob(f"*.{ending}")} for ending in ("md", "tex", "csv")
    }
    assert stems["md"] == stems["tex"] == stems["csv"] >= {"table-1", "table-10", "order-lse-roxford5k-toy"}
    with (written / "tables" / "table-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    (one,) = (row for row in rows if (row["block"], row["name"], row["column"], row["truth"]) == (
        "printed in the paper", "LPMT", "RPar", "hard"))  # fmt: skip
    assert (one["mean"], one["set"], one["features"], one["mode"]) == ("84.1", "rparis6k", "rgem", "as printed")
    latex = (written / "tables" / "table-1.tex").read_text("utf-8")
    assert r"$\alpha$QE & 69.7" in latex
    body = latex.split(r"\begin{tabular}")[1]
    assert (
        len(re.findall(r"\\\\$", body, flags=re.MULTILINE)) == 3 + 24
    )  # the printed rows, the paper's settings, as published
    assert json.loads((written / "record.json").read_text("utf-8")) == measured


def test_an_interrupted_run_continues(folder: Path, tmp_path: Path) -> None:
    def until(limit: int) -> tuple[list[str], Any]:
        seen: list[str] = []

        def show(label: str, done: int, total: int) -> None:
            if done == limit:
                raise KeyboardInterrupt
            seen.append(label)

        return seen, show

    about = {"parts": ["tables"], "sets": ["caltech101"], "cache": Cache(tmp_path)}
    seen, show = until(3)
    with pytest.raises(KeyboardInterrupt):
        paper(folder, **about, progress=show)
    first = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(first) == len(seen) == 3
    found = paper(folder, **about)
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert len({row["method"] for row in found["scores"]}) == len(list_methods("caltech101", "toy"))


def test_chosen_methods_only(folder: Path, kept: Path) -> None:
    about: dict[str, Any] = {"parts": ["tables"], "features": ["toy"], "cache": Cache(kept)}
    record = paper(folder, methods=["lpmt", "aqe"], **about)
    assert record["chosen"] == ["none", "lpmt", "aqe"]
    assert list(dict.fromkeys(row["method"] for row in record["scores"])) == ["none", "aqe", "lpmt"]
    own = [one for one in build_comparison_tables(record) if one.key.startswith("your-")]
    assert [line.name for line in own[0].lines] == ["toy, no re-ranking", "AQE", "LPMT"]
    assert paper(folder, methods=["all"], sets=["caltech101"], **about)["chosen"] == list_methods("caltech101", "toy")


def test_what_embed_writes_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From images and a split list to a table: two poolings in one pass, in the order of the list."""
    fake, models = pytest.importorskip("encoders.fake_encoders"), pytest.importorskip("encoders.onnx_models")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    lines = [f"CUB/{seed % 3}/{seed}.png {int(seed > 8)}" for seed in range(24)]
    for seed, line in enumerate(lines):
        fake.draw(tmp_path / line.partition(" ")[0], seed)
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "cub_split.txt").write_text("\n".join(lines))
    model = models.saved(tmp_path / "map.onnx", (1, 3, "h", "w"), end="map")
    words = ["embed", "CUB", "--names", "features/cub_split.txt", "-o", "features/cub200_{pooling}.npy"]
    words += ["--encoder", "onnx", "--weights", str(model), "--pooling", "gem,mac"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    words = ["bench", "paper", "--data", "features", "-o", "made", "--parts", "tables", "--methods", "lpmt", "--json"]
    done = CliRunner().invoke(app, [*words, "--no-cache"])
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert [(entry["features"], entry["queries"], entry["items"]) for entry in record["found"]] == [
        ("gem", 9, 15), ("mac", 9, 15),
    ]  # fmt: skip
    assert {row["method"] for row in record["scores"]} == {"none", "lpmt"}
    assert str(tmp_path) not in done.stdout


def test_features_of_ablations(folder: Path) -> None:
    assert [entry.features for entry in select_ablation_sets(select_features(folder, None, None))] == ["rgem", "toy"]
    assert [entry.set for entry in select_ablation_sets(select_features(folder, ["caltech101"], None))] == [
        "caltech101"
    ]


def test_wrong_input(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"part 'figures' is not known; give some of: tables, ablations"):
        paper(folder, parts=["figures"])
    with pytest.raises(ValueError, match=r"set 'coil20' is not one of the paper's; give some of: roxford5k"):
        paper(folder, sets=["coil20"])
    with pytest.raises(ValueError, match=r"has no features named 'dolg'; give some of: rgem, toy"):
        paper(folder, features=["dolg"])
    with pytest.raises(ValueError, match=r"method 'zebra' is not known; give some of: none, aqe"):
        paper(folder, methods=["lpmt", "zebra"])
    np.savez(tmp_path / "roxford5k_rgem.npz", q=np.ones((1, 2)), d=np.ones((3, 2)))
    with (
        pytest.warns(UserWarning, match="roxford5k_rgem.npz has no gnd_roxford5k.pkl next to it"),
        pytest.raises(FileNotFoundError, match=r"has no features of roxford5k, .*put files such as"),
    ):
        paper(tmp_path)


def test_wrong_input_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    def mistake(*words: str | Path) -> str:
        said = CliRunner().invoke(app, ["bench", "paper", *map(str, words)], prog_name="kinrank")
        assert (said.exit_code, said.stdout) == (2, "")
        assert said.stderr.count("\n") == 1
        return str(said.stderr)

    (tmp_path / "file").write_text("")
    assert "file is a file; give the path of a folder" in mistake("--data", folder, "-o", tmp_path / "file")
    assert "is not a folder" in mistake("--data", tmp_path / "gone", "-o", tmp_path / "made")
    assert "is inside the input" in mistake("--data", folder, "-o", folder / "made")
    assert "unknown ending" in mistake("--data", folder, "-o", tmp_path / "made", "--record", tmp_path / "a.txt")
    assert not (tmp_path / "made").exists()


def test_the_command_writes_a_folder_and_a_record(folder: Path, kept: Path, tmp_path: Path) -> None:
    record = tmp_path / "results.jsonl"
    words = ["--data", folder, "-o", tmp_path / "made", "--parts", "tables,convergence", "--features", "rgem"]
    done = CliRunner().invoke(app, ["bench", "paper", *map(str, [*words, "--cache", kept, "--record", record])])
    said = done.stdout
    assert done.exit_code == 0, done.stderr
    assert "joint: mAP" in said
    assert f"open {tmp_path / 'made' / 'index.html'}" in said
    (line,) = record.read_text("utf-8").splitlines()
    assert json.loads(line)["parts"] == ["tables", "convergence"]
    assert str(folder) not in line
