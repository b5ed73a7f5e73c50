"""`kinrank embed` and `kinrank watch`: what they print, write and refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")

from encoders.fake_encoders import draw
from kinrank import Manifold
from reference.commands import bad, good, hear_ctrl_c

pytestmark = pytest.mark.slow

SMALL = ("--encoder", "encoders.fake_encoders:pixels")


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for seed in range(30):
        draw(tmp_path / "photos" / f"{seed:02}.png", seed)
    return tmp_path / "photos"


def test_embed_says_what_it_made_and_what_it_skipped(photos: Path, tmp_path: Path) -> None:
    (photos / "x.jpg").write_bytes(b"")
    (photos / "link.jpg").symlink_to("/etc/hostname")
    lines = good(tmp_path, "embed", "photos", "-o", "f.npy", *SMALL).splitlines()
    assert lines[0].startswith("f.npy: 30 x 192 (encoders.fake_encoders:pixels)")
    assert lines[1] == "  skipped x.jpg: it is empty"
    assert lines[2] == "  left out 1 times: a link that leads out of the folder"
    assert np.load("f.npy").shape == (30, 192)
    output = json.loads(good(tmp_path, "embed", "photos", "-o", "f.npy", *SMALL, "--json"))
    assert output["items"] == 30
    assert output["skipped"] == {"x.jpg": "it is empty"}
    assert output["names"] == "f.names.txt"
    assert good(tmp_path, "embed", "photos", "-o", "f.npy", *SMALL, "-q") == ""
    refused = bad(tmp_path, "embed", "photos", "-o", "f.npy", *SMALL, "--strict")
    assert "1 items cannot be encoded: 'x.jpg': it is empty" in refused
    assert "no --strict" in refused


def test_embed_writes_several_poolings(photos: Path) -> None:
    onnx_models = pytest.importorskip("encoders.onnx_models")
    pytest.importorskip("onnxruntime")
    model = onnx_models.saved(photos.parent / "map.onnx", (1, 3, "h", "w"), end="map")
    words = ("embed", "photos", "--encoder", "onnx", "--weights", str(model), "--pooling", "gem, scda")
    lines = good(photos, *words, "-o", "f_{pooling}.npy").splitlines()
    assert lines[0].startswith("f_gem.npy: 30 x 5 (onnx)")
    assert lines[1] == "f_scda.npy: 30 x 10"
    output = json.loads(good(photos, *words, "-o", "f_{pooling}.npy", "--json"))
    assert output["outputs"] == {"gem": "f_gem.npy", "scda": "f_scda.npy"}
    assert "put {pooling} into its name" in bad(photos, *words, "-o", "f.npy")
    assert "also give --pooling" in bad(photos, "embed", "photos", "-o", "f_{pooling}.npy")


def test_what_embed_writes_is_what_build_reads(photos: Path) -> None:
    good(photos, "embed", "photos", "-o", "f.npy", *SMALL)
    good(photos, "build", "--gallery", "f.npy", "--ids", "f.names.txt", "-o", "f.manifold")
    assert Manifold.load("f.manifold").ids[0] == "00.png"


@pytest.mark.parametrize(
    ("content", "flags", "method"),
    [
        ("pictures", [], "LPMT()"),
        ("texts", [], "LPMT(answers='one')"),
        ("texts", ["--answers", "some"], "LPMT()"),
        ("texts", ["--k1", "30"], "LPMT(answers='one', k1=30)"),
        ("texts", ["--method", "aqe"], "AQE()"),
    ],
)
def test_texts_expect_one_right_answer(content: str, flags: list[str], method: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)
    for name in ("q.npy", "g.npy"):
        np.save(tmp_path / name, rows)
    (tmp_path / "q.embed.json").write_text(json.dumps({"made by": {"content": content}}))
    inputs = "--queries", str(tmp_path / "q.npy"), "--gallery", str(tmp_path / "g.npy")
    message = good(tmp_path, "rerank", *inputs, "-o", str(tmp_path / "r.npz"), *flags)
    assert f"joint, {method}," in message


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("absent", "-o", "f.npy"), "absent does not exist"),
        (("photos", "-o", "f.txt"), "unknown ending '.txt'; give .npy"),
        (("photos", "-o", "photos/f.npy"), "is inside the input photos"),
        (("photos", "-o", "f.npy", "--encoder", "zebra"), "--encoder 'zebra' is not known; give one of"),
        (("photos", "-o", "f.npy", "--scales", "1,x"), "--scales '1,x' is not allowed"),
        (("photos", "-o", "f.npy", "--scales", "0"), "--scales (0.0,) is not allowed; give 1 to 16 factors"),
        (("photos", "-o", "f.npy", *SMALL, "--model", "x"), "--model has no meaning for the encoder"),
        (("photos", "-o", "f.npy", *SMALL, "--content", "texts"), "choose another --encoder"),
        (("photos", "-o", "f.npy", *SMALL, "--boxes-size", "9"), "--boxes-size needs --boxes"),
    ],
)
def test_embed_refuses_in_the_words_of_the_command_line(words: tuple[str, ...], sentence: str, photos: Path) -> None:
    assert sentence in bad(photos, "embed", *words)


def test_watch_once_builds_and_follows(photos: Path) -> None:
    first = good(photos, "watch", "photos", "p.manifold", "--once", *SMALL)
    assert first == "p.manifold: 30 added; 30 items\n"
    draw(photos / "new.png", 77)
    (photos / "03.png").unlink()
    output = json.loads(good(photos, "watch", "photos", "p.manifold", "--once", "--json", *SMALL))
    assert output == {
        "manifold": "p.manifold", "added": ["new.png"], "changed": [], "removed": ["03.png"], "skipped": {}, "items": 30
    }  # fmt: skip
    again = good(photos, "watch", "photos", "p.manifold", "--once", *SMALL)
    assert again == "p.manifold: nothing changed; 30 items\n"
    assert "follows" in bad(photos, "watch", "elsewhere", "p.manifold", "--once")


def test_watch_goes_on_until_ctrl_c(photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kinrank.cli", "watch", "photos", "p.manifold", "--every", "0.2", *SMALL]
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    watching = subprocess.Popen(
        command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "p.manifold: 30 added; 30 items\n"
        draw(tmp_path / "new.png", 77).rename(photos / "new.png")  # complete when it is seen
        assert watching.stdout.readline() == "p.manifold: 1 added; 31 items\n"
        assert "new.png" in Manifold.load("p.manifold").ids
        photos.rename(tmp_path / "elsewhere")
        assert watching.stderr is not None
        assert "does not exist" in watching.stderr.readline()
        (tmp_path / "elsewhere").rename(photos)
        (photos / "new.png").unlink()
        assert watching.stdout.readline() == "p.manifold: 1 removed; 30 items\n"
    finally:
        watching.send_signal(signal.SIGINT)
        _, error = watching.communicate(timeout=180)
    assert watching.returncode == 130
    assert "Traceback" not in error


def test_ctrl_c_says_how_to_go_on(photos: Path) -> None:
    command = [
        *(sys.executable, "-m", "kinrank.cli", "embed", "photos", "-o", "f.npy"),
        *("--encoder", "encoders.fake_encoders:slowly"),
        "--workers", "1",
    ]  # fmt: skip
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "FAKE_ENCODER_SECONDS": "0.5"}
    running = subprocess.Popen(command, env=surroundings, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c)
    deadline = time.monotonic() + 180
    while not (photos.parent / "f.npy.part" / "rows").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=180)
    assert running.returncode == 130
    assert error.strip() == "kinrank: interrupted; the same command continues where it stopped"
