"""Import of checkpoints of the published programs; other files are refused, and nothing in them is executed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="checkpoints need torch: `make test-learned` installs it")

import kinrank  # noqa: E402
from kinrank.methods import csa  # noqa: E402
from kinrank.methods.csa import training as csa_loss  # noqa: E402
from kinrank.methods.ssr import training as ssr_loss  # noqa: E402

CSA = {"anchors": 6, "width": 24, "depth": 2, "heads": 12}
SSR = {"top": 5, "hidden": 7, "lr": 1e-4, "steps": 1, "variant": "published"}


def states() -> dict[str, dict[str, Any]]:
    torch.manual_seed(0)
    return {"csa": csa_loss.start(CSA), "ssr": ssr_loss.start(SSR)}


def saved(path: Path, state: dict[str, Any]) -> Path:
    torch.save({"epoch": 3, "state_dict": state}, path)
    return path


def test_csa(tmp_path: Path) -> None:
    state = states()["csa"]
    method = kinrank.learned.import_weights(
        kinrank.methods.CSA(top=9), saved(tmp_path / "x.pth.tar", state), tmp_path / "w.npz"
    )
    assert method == kinrank.methods.CSA(top=9, weights=str(tmp_path / "w.npz"))
    found = method.network()  # type: ignore[attr-defined]
    assert found.sizes == CSA
    assert (found.record["labels"], found.record["recipe"]) == ("published", {"heads": 12})
    assert all(np.array_equal(array, state[name].numpy()) for name, array in found.arrays.items())
    assert (
        kinrank.learned.import_weights("csa", tmp_path / "x.pth.tar", tmp_path / "w.npz", heads=4)
        .network()
        .sizes["heads"]
        == 4
    )  # type: ignore[attr-defined]


@pytest.mark.parametrize("prefix", ["", "module."])
def test_ssr(tmp_path: Path, prefix: str) -> None:
    state = {f"{prefix}{name}": value.half() for name, value in states()["ssr"].items()}
    torch.save(state, tmp_path / "x.pth")
    method = kinrank.learned.import_weights("ssr", tmp_path / "x.pth", tmp_path / "w.npz")
    found = method.network()  # type: ignore[attr-defined]
    assert found.sizes == SSR
    rows = np.random.default_rng(0).standard_normal((40, 8))
    assert np.isfinite(kinrank.rerank(rows[:3], rows[3:], method).distances).all()
    other = kinrank.learned.import_weights(
        "ssr", tmp_path / "x.pth", tmp_path / "w.npz", lr=0.01, steps=2, variant="cut"
    )
    assert other.network().sizes == {**SSR, "lr": 0.01, "steps": 2, "variant": "cut"}  # type: ignore[attr-defined]


def test_published_scores_come_back(tmp_path: Path, shared_dir: Path) -> None:
    arrays = np.load(shared_dir / "golden" / "learned" / "csa.npz")
    state = {name[6:]: torch.tensor(arrays[name]) for name in arrays.files if name.startswith("state/")}
    method = kinrank.learned.import_weights("csa", saved(tmp_path / "x.pth", state), tmp_path / "w.npz", heads=4)
    network = method.network()  # type: ignore[attr-defined]
    for query, order, wanted in zip(arrays["queries"], arrays["order"], arrays["score"], strict=True):
        found = csa.score_items(network.arrays, network.sizes, query, arrays["gallery"][order])
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.ptp(arrays["score"]))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "csa",
            {"blocks.1.norm2.bias": None},
            "lacks the array 'blocks.1.norm2.bias'; give a checkpoint of CSA as its",
        ),
        ("csa", {"extra": torch.ones(3)}, "has the unexpected array 'extra'; give a checkpoint of CSA"),
        (
            "csa",
            {"blocks.0.attn.qkv.weight": torch.ones(3, 3)},
            r"qkv.weight is float32 \(3, 3\), and must be float32 \(72, 24\)",
        ),
        ("csa", {"topk_proj.bias": torch.full((24,), torch.nan)}, "topk_proj.bias contains NaN or Inf"),
        ("csa", {"topk_proj.weight": None}, "has no array 'topk_proj.weight'; give a checkpoint of CSA"),
        ("csa", {"topk_proj.weight": torch.ones(3)}, r"topk_proj.weight has shape \(3,\); give a checkpoint of CSA"),
        ("csa", {"topk_proj.weight": torch.ones(25, 6)}, "heads=12 does not divide the width 25 of the weights in"),
        ("csa", {"blocks.7.norm1.bias": torch.ones(24)}, "lacks the array 'blocks.2.norm1.weight'"),
        ("ssr", {"dni_query.layer1.1.weight": torch.ones(7, 10)}, "has 10 columns, and SSR has 2 top"),
        (
            "ssr",
            {"dni_database.layer3.bias": None},
            "lacks the array 'dni_database.layer3.bias'; give a checkpoint of SSR",
        ),
    ],
)
def test_other_networks(tmp_path: Path, name: str, change: dict[str, Any], message: str) -> None:
    state = {key: value for key, value in {**states()[name], **change}.items() if value is not None}
    refused(name, saved(tmp_path / "x.pth", state), message)


def test_the_weights_of_the_other_method(tmp_path: Path) -> None:
    refused(
        "ssr", saved(tmp_path / "x.pth", states()["csa"]), "has no array 'dni_query.layer1.1.weight'; give a checkpoint"
    )
    refused("csa", saved(tmp_path / "x.pth", states()["ssr"]), "has no array 'topk_proj.weight'")
    only = {name: value for name, value in states()["csa"].items() if "blocks" not in name}
    refused("csa", saved(tmp_path / "x.pth", only), "has no array 'blocks.0.norm1.weight'")


def refused(name: str, checkpoint: Path, message: str, **options: Any) -> None:
    target = checkpoint.parent / "w.npz"
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        kinrank.learned.import_weights(name, checkpoint, target, **options)
    assert "\n" not in str(error.value)
    assert not target.exists()


class Calls:
    """Content of a pickle that creates a folder when it is opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    refused("csa", tmp_path / "absent.pth", "does not exist, or is not a file")
    (tmp_path / "text.pth").write_text("weights, honestly")
    refused("csa", tmp_path / "text.pth", "is truncated or not a torch checkpoint")
    whole = saved(tmp_path / "x.pth", states()["csa"])
    (tmp_path / "half.pth").write_bytes(whole.read_bytes()[:999])
    refused("csa", tmp_path / "half.pth", "is truncated or not a torch checkpoint")
    torch.save({"state_dict": {"a": Calls(tmp_path / "made")}}, tmp_path / "calls.pth")
    refused("csa", tmp_path / "calls.pth", "which is never loaded; nothing was executed")
    assert not (tmp_path / "made").exists()
    refused("csa", whole, "import CSA: there is no option 'width'; give heads, or none", width=3)
    refused("csa", whole, "import CSA: heads=0 is not allowed", heads=0)
    refused("ssr", whole, r"import SSR: variant='old' is not allowed; give cut \| published", variant="old")


def test_a_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    path.write_bytes(b"checkpoint")
    with pytest.raises(ValueError, match="is the checkpoint itself, which would be overwritten; choose another `path`"):
        kinrank.learned.import_weights("csa", path, path)
    assert path.read_bytes() == b"checkpoint"
