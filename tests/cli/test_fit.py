"""`kinrank fit`: what the library learns, from files to a file; used again; mistakes in one line."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank.cli.methods import name_flag
from kinrank.learned import IMPORTS, RECIPES
from kinrank_bench.random_weights import add_random_weights
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow

SMALL = {
    "csa": ("--anchors", "8", "--width", "16", "--depth", "1", "--heads", "2", "--lists", "32"),
    "ssr": ("--top", "12", "--hidden", "16", "--lists", "32", "--lr", "1e-3"),
    "lattqe": ("--method-k", "4", "--hidden=16", "--lists", "32"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 12)
    rows = (rng.standard_normal((10, 16))[labels] + rng.standard_normal((120, 16))).astype(np.float32)
    np.save(tmp_path / "f.npy", rows)
    np.save(tmp_path / "l.npy", labels)
    np.savez(tmp_path / "both.npz", x=rows, y=rows, label=labels, other=labels // 2)
    (tmp_path / "l.csv").write_text("label\n" + "\n".join("" if n == 3 else f"kind {n % 10}" for n in range(120)))
    np.save(tmp_path / "short.npy", labels[:50])
    np.save(tmp_path / "broken.npy", labels / 2)
    (tmp_path / "unknown.txt").write_text("-1\n" * 119 + "\n")
    return tmp_path


@pytest.fixture
def torch() -> None:
    pytest.importorskip("torch", reason="torch is not installed: make test-learned installs it")


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", SMALL)
def test_fitted_and_used(folder: Path, name: str) -> None:
    message = good(folder, "fit", name, "--features", "@f.npy", "--labels", "@l.npy", "-o", "@w.npz", *SMALL[name])
    assert f"w.npz: weights of {name}, " in message
    command = message.splitlines()[1]
    words = shlex.split(command.removeprefix("Use them: kinrank "))
    files = {"q.npy": "@f.npy", "g.npy": "@f.npy", "ranking.npz": "@r.npz"}
    text = good(folder, *(files.get(word, word) for word in words))  # as it is printed
    assert f"weights='{folder}/w.npz'" in text
    rows, labels = np.load(folder / "f.npy"), np.load(folder / "l.npy")
    flags = [word.lstrip("-").split("=")[0] for word in SMALL[name] if word.startswith("--")]
    options = {flag.removeprefix("method-") for flag in flags}
    assert options <= {entry.name for entry in RECIPES[name].parameters()}
    sizes = {"csa": {"anchors": 8, "width": 16, "depth": 1, "heads": 2}, "ssr": {"top": 12, "hidden": 16, "lr": 1e-3},
             "lattqe": {"k": 4, "hidden": 16}}[name]  # fmt: skip
    kinrank.fit(name, rows, labels, path=folder / "v.npz", lists=32, **sizes)
    assert (folder / "v.npz").read_bytes() == (folder / "w.npz").read_bytes()


@pytest.mark.usefixtures("torch")
def test_json_tells_the_record(folder: Path) -> None:
    words = ("fit", "csa", "--features", "@both.npz:y", "--labels", "@both.npz:other")
    text = json.loads(good(folder, *words, "--seed", "3", "-o", "@w.npz", "--json", *SMALL["csa"]))
    assert (text["method"], text["labels"], text["seed"], text["steps"]) == ("csa", "given", 3, text["of_steps"])
    assert text["sizes"] == {"anchors": 8, "width": 16, "depth": 1, "heads": 2}
    assert text["stopped_early"] is False
    assert len(text["sha256"]) == 64
    assert str(folder) not in json.dumps({key: value for key, value in text.items() if key != "output"})


@pytest.mark.usefixtures("torch")
def test_pseudo_labels_texts_and_quiet(folder: Path) -> None:
    words = ("fit", "csa", "--features", "@f.npy", *SMALL["csa"])
    text = json.loads(good(folder, *words, "--pseudo-labels", "-o", "@p.npz", "--json"))
    assert text["labels"] == "pseudo"
    assert good(folder, *words, "--labels", "@l.csv", "-o", "@t.npz", "-q") == ""  # a blank line: not known
    assert (folder / "t.npz").is_file()


@pytest.mark.usefixtures("torch")
def test_published_weights_are_taken_over(folder: Path) -> None:
    import torch

    method = add_random_weights("ssr", folder / "made.npz")
    arrays = {name: torch.from_numpy(np.array(array)) for name, array in method.network().arrays.items()}  # type: ignore[attr-defined]
    torch.save({"state_dict": {**arrays, "scale_cls": torch.ones(1)}}, folder / "published.pth")
    message = good(folder, "fit", "ssr", "--checkpoint", "@published.pth", "--lr", "0.02", "--steps", "2", "--variant", "cut", "-o", "@w.npz")  # fmt: skip  # noqa: E501
    assert "w.npz: weights of ssr, 0" in message
    rows = np.load(folder / "f.npy")
    expected, found = (kinrank.rerank(None, rows, kinrank.methods.SSR(weights=str(folder / name))) for name in ("made.npz", "w.npz"))  # fmt: skip  # noqa: E501
    np.testing.assert_array_equal(expected.indices, found.indices)


FEATURES = ("--features", "@f.npy")
LABELS = ("--labels", "@l.npy")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lpmt", *FEATURES, *LABELS, "-o", "@w.npz"), "LPMT has nothing to fit; give one of: csa, ssr, lattqe"),
        (("gss", *FEATURES, *LABELS, "-o", "@w.npz"), "GSS learns from the gallery that it ranks"),
        (("csar", *FEATURES, *LABELS, "-o", "@w.npz"), "'csar' is not known (did you mean csa?)"),
        (("csa", "-o", "@w.npz"), "there is nothing to train on; give --features with --labels, or --checkpoint"),
        (("csa", *FEATURES, "-o", "@w.npz"), "there are no labels; give --labels, or --pseudo-labels"),
        (("csa", *FEATURES, *LABELS, "--pseudo-labels", "-o", "@w.npz"), "exclude each other"),
        (("csa", *FEATURES, "--checkpoint", "@l.npy", "-o", "@w.npz"), "--checkpoint imports weights"),
        (("csa", *FEATURES, *LABELS, "-o", "@w.pth"), "unknown ending '.pth'; give .npz"),
        (("csa", *FEATURES, *LABELS, "-o", "@none/w.npz"), "does not exist"),
        (
            ("csa", "--features", "@both.npz", *LABELS, "-o", "@both.npz"),
            "both.npz; choose another path",
        ),
        (("csa", "--checkpoint", "@c.pth", "--seed", "1", "-o", "@w.npz"), "and --seed is for training; give one"),
        (("csa", "--checkpoint", "@c.pth", "--pseudo-labels", "-o", "@w.npz"), "--pseudo-labels is for training"),
        (("csa", *FEATURES, *LABELS, "--top", "4", "-o", "@w.npz"), "--top is not a parameter of fit csa; it takes"),
        (("csa", *FEATURES, *LABELS, "--heads", "3", "-o", "@w.npz"), "--heads 3 does not divide --width 128"),
        (("csa", *FEATURES, *LABELS, "--lists", "0", "-o", "@w.npz"), "--lists 0 is not allowed; give a whole number"),
        (("csa", *FEATURES, "--labels", "@short.npy", "-o", "@w.npz"), "labels has 50 entries but --features has 120"),
        (
            ("csa", *FEATURES, "--labels", "@broken.npy", "-o", "@w.npz"),
            "--pseudo-labels to learn from the results of LPMT",
        ),
        (("csa", *FEATURES, "--labels", "@unknown.txt", "-o", "@w.npz"), "labels are all unknown"),
        (("lattqe", *FEATURES, *LABELS, "--heads", "5", "-o", "@w.npz"), "--heads 5 does not divide the 16 dimensions"),
        (("lattqe", "--checkpoint", "@l.npy", "-o", "@w.npz"), "LAttQE has no published weights to import; fit"),
    ],
)
def test_mistakes_in_one_line_and_before_anything_is_learned(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in bad(folder, "fit", *words)
    assert not (folder / "w.npz").exists()


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_stopped_before_the_first_step(folder: Path, monkeypatch: pytest.MonkeyPatch, quiet: tuple[str, ...]) -> None:
    def stopped(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kinrank, "fit", stopped)
    found = run(folder, "fit", "csa", *FEATURES, *LABELS, "-o", "@w.npz", *quiet)
    assert found.exit_code == 130
    assert ("nothing was written" in found.stderr) is not bool(quiet)


def test_what_was_stopped_later_is_kept_and_a_script_notices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinrank import weight_files

    def stopped(method: object, rows: object, labels: object, path: Path, *more: object, **others: object) -> object:
        made = add_random_weights("csa", path)
        known = made.network()  # type: ignore[attr-defined]
        record = {"method": "csa", "labels": "given", "steps": 3, "of_steps": 9, "stopped_early": True}
        weight_files.save(path, known.arrays, dict(known.sizes), record)
        return made

    monkeypatch.setattr(kinrank, "fit", stopped)
    found = run(folder, "fit", "csa", *FEATURES, *LABELS, "-o", "@w.npz")
    assert found.exit_code == 130
    assert "weights of csa, 3 of 9 steps" in found.stdout
    assert (folder / "w.npz").is_file()


def test_torch_is_asked_for_in_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    message = bad(folder, "fit", "csa", *FEATURES, *LABELS, "-o", "@w.npz")
    assert "fitting CSA needs torch, which cannot be imported" in message
    assert "pip install '.[torch]'" in message


def test_weights_are_asked_for_in_flags(folder: Path) -> None:
    message = bad(folder, "rerank", "--gallery", "@f.npy", "--method", "csa", "-o", "@r.npz")
    assert "give --weights, a file of `kinrank fit csa`" in message
    message = bad(folder, "rerank", "--gallery", "@f.npy", "--method", "csa", "--weights", "@f.npy", "-o", "@r.npz")
    assert "unknown ending '.npy'; a file of weights is saved as .npz" in message
    assert "--weights needs a value: the path of a file" in bad(folder, "rerank", "--gallery", "@f.npy", "-m", "csa", "-o", "@r.npz", "--weights")  # fmt: skip  # noqa: E501


def test_help_names_every_size(folder: Path) -> None:
    message = run(folder, "fit", "--help").stdout
    assert "kinrank fit csa --features f.npy --labels l.npy -o csa.npz" in message
    for name, kind in RECIPES.items():
        (line,) = [line for line in message.splitlines() if line.strip().startswith(f"{name} ")]
        for entry in kind.parameters():
            shown = (
                "8" if entry.default is None else f"{entry.default:g}" if entry.kind is float else str(entry.default)
            )
            assert f"{name_flag(entry.name)} {shown}" in line.replace("1e-3", "0.001"), entry.name
    assert set(IMPORTS) == {"csa", "ssr"}
