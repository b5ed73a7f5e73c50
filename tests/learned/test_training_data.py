"""Input from which nothing can be learned: one clear message each, before training starts. Runs without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.learned import IMPORTS, RECIPES
from kinrank.learned.recipes import LAttQERecipe
from kinrank.learned.training_data import encode_labels
from learned.small import OPTIONS, noisy

pytestmark = pytest.mark.slow

LABELS = noisy()[1]


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


def refused(
    message: str, *given: Any, kind: type[Exception] = ValueError, call: Any = kinrank.fit, **options: Any
) -> None:
    with pytest.raises(kind, match=message) as error:
        call(*given[:-1], path=given[-1], **options)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, r"labels=None is not allowed; give one label per row of features: .*, or `labels='pseudo'` to learn"),
        ("k-means", "labels='k-means' is not allowed; give one label per row"),
        (7, "labels=7 is not allowed"),
        (LABELS[:-1], "labels has 119 entries but `features` has 120 rows; give one for each"),
        (np.zeros(120, int), "labels are all equal, so there is nothing to distinguish; give at least two"),
        (
            np.arange(120),
            "labels are all different, so no item is relevant to another; give labels that items share",
        ),
        (np.full(120, -1), "labels are all unknown, so there is nothing to learn; give some .*, or `labels=pseudo`"),
        ([""] * 120, "labels are all unknown"),
        (np.array([0] * 60 + [-1] * 60), "labels are all equal"),
        (LABELS[:, None], r"labels has shape \(120, 1\); give one label per row"),
        (LABELS[:, None].tolist(), "labels must be one label per row of `features`, not rows of labels"),
        (LABELS.astype(float), "labels has dtype float64; give one label per row of features: whole numbers"),
        (
            LABELS.astype(float).tolist(),
            "labels has 0.0 at place 0; give one label per row",
        ),
        (
            [*LABELS[:-1].tolist(), "a"],
            "labels has a number at place 0 and a text at place 119; give one label",
        ),
        (np.ma.masked_equal(LABELS, 3), "labels has 10 masked entries"),
    ],
)
def test_labels(tmp_path: Path, labels: Any, message: str) -> None:
    refused(message, "csa", noisy()[0], labels, tmp_path / "w.npz")
    assert list(tmp_path.iterdir()) == []


def test_labels_become_numbers() -> None:
    assert encode_labels(["b", "", "a", "b"], 4).tolist() == [0, -1, 1, 0]
    assert encode_labels(np.array([9, -1, 4, 9], np.int8), 4).tolist() == [0, -1, 1, 0]
    assert encode_labels(np.array(["b", "", "a", "b"], object), 4).tolist() == [0, -1, 1, 0]


def test_features(tmp_path: Path) -> None:
    rows, path = noisy()[0], tmp_path / "w.npz"
    refused("features has 2 rows, and there is nothing to learn from fewer than 3", "csa", rows[:2], [0, 0], path)
    refused("features has 0 rows", "csa", rows[:0], [], path)
    broken = rows.copy()
    broken[3, 2] = np.nan
    refused("features row 3 contains NaN or Inf", "csa", broken, LABELS, path)
    refused("features row 5 is a zero vector", "csa", np.where(np.arange(120)[:, None] == 5, 0, rows), LABELS, path)
    refused("features must be 2-d", "csa", rows[0], LABELS, path)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "csa",
            {"top": 5},
            r"fit CSA: there is no option 'top'; give lists \| anchors \| width \| depth \| heads, or none",
        ),
        ("csa", {"heads": 0}, "fit CSA: heads=0 is not allowed; give a whole number >= 1 and <= 256"),
        (
            "csa",
            {"width": 30, "heads": 4},
            "fit CSA: heads=4 does not divide `width=30`; give a `width` that is a multiple of",
        ),
        ("csa", {"lists": 2.5}, "fit CSA: lists=2.5 is not allowed"),
        ("csa", {"lists": True}, "fit CSA: lists=True is not allowed"),
        ("csa", {"depth": 10**6}, "fit CSA: depth=1000000 is not allowed"),
        ("ssr", {"lr": 0}, "fit SSR: lr=0 is not allowed; give a number > 0 and <= 1"),
        ("ssr", {"lr": float("nan")}, "fit SSR: lr=nan is not allowed"),
        ("ssr", {"variant": "new"}, r"fit SSR: variant='new' is not allowed; give cut \| published"),
        (
            "lattqe",
            {"heads": 5},
            "fit LAttQE: heads=5 does not divide the 16 dimensions of the features; give `heads=4`",
        ),
        ("lattqe", {"hidden": None}, "fit LAttQE: hidden=None is not allowed"),
        ("lattqe", {"seed": -1}, "seed=-1 is not allowed; give a whole number from 0"),
        ("lattqe", {"seed": True}, "seed=True is not allowed"),
        ("lattqe", {"seed": 1.5}, "seed=1.5 is not allowed"),
    ],
)
def test_options(tmp_path: Path, name: str, options: dict[str, Any], message: str) -> None:
    refused(message, name, *noisy(), tmp_path / "w.npz", **options)


def test_options_are_declared() -> None:
    for table in (RECIPES, IMPORTS):
        for name, kind in table.items():
            assert kind.method == kinrank.METHODS[name].__name__
            assert all(one.meaning and (one.default is not None or one.optional) for one in kind.parameters())
    assert [one.name for one in LAttQERecipe.parameters()] == ["lists", "k", "layers", "heads", "hidden"]
    defaults = {name: {one.name: one.default for one in kind.parameters()} for name, kind in RECIPES.items()}
    assert defaults == {
        "csa": {"lists": 2400, "anchors": 64, "width": 128, "depth": 2, "heads": 4},
        "ssr": {"lists": 2400, "top": 64, "hidden": 256, "lr": 1e-3, "steps": 1, "variant": "cut"},
        "lattqe": {"lists": 9600, "k": 16, "layers": 1, "heads": None, "hidden": 512},
    }


@pytest.mark.parametrize(("dimensions", "heads"), [(512, 8), (2048, 8), (7, 7), (12, 6), (10, 5), (11, 1), (1, 1)])
def test_heads_of_lattqe_unless_given(dimensions: int, heads: int) -> None:
    assert LAttQERecipe().sizes(dimensions)["heads"] == heads


def test_methods(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    refused(r"LPMT has nothing to fit; give one of: csa, ssr, lattqe", kinrank.LPMT(), *noisy(), path)
    refused(r"GSS learns from the gallery that it ranks; give one of: csa", "gss", *noisy(), path)
    refused("method 'xyz' is not known", "xyz", *noisy(), path)
    refused(
        "LAttQE has no published weights to import; fit some", "lattqe", path, path, call=kinrank.learned.import_weights
    )
    refused(r"LPMT has nothing to fit", "lpmt", path, path, call=kinrank.learned.import_weights)


def test_paths(tmp_path: Path) -> None:
    for call, given in ((kinrank.fit, noisy()), (kinrank.learned.import_weights, (tmp_path / "x.pth",))):
        path = "w.npy has the unknown ending '.npy'; a file of weights is saved as .npz"
        late = call is kinrank.fit  # fit has its path last, and so has import_weights
        assert late == (len(given) == 2)
        refused(path, "csa", *given, tmp_path / "w.npy", call=call)
        missing = "absent does not exist; create it, or choose another path"
        refused(missing, "csa", *given, tmp_path / "absent" / "w.npz", call=call, kind=FileNotFoundError)
        refused("path=None is not allowed; give the path of the .npz file", "csa", *given, None, call=call)
        (tmp_path / "folder.npz").mkdir(exist_ok=True)
        refused(
            "folder.npz is a folder; give the name of a file in it", "csa", *given, tmp_path / "folder.npz", call=call
        )


def test_torch_is_not_there(tmp_path: Path) -> None:
    message = r"fitting CSA needs torch, which cannot be imported .*; install it in .* with: pip install '\.\[torch\]'"
    refused(message, "csa", *noisy(), tmp_path / "w.npz", kind=ImportError, **OPTIONS["csa"])
    refused(message, "csa", noisy()[0], "pseudo", tmp_path / "w.npz", kind=ImportError)  # before LPMT starts
    message = "importing weights of SSR needs torch"
    refused(
        message, "ssr", tmp_path / "x.pth", tmp_path / "w.npz", kind=ImportError, call=kinrank.learned.import_weights
    )
    assert list(tmp_path.iterdir()) == []
