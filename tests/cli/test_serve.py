"""`kinrank serve`: what it says before it serves, and that it serves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

import numpy as np

import kinrank
from kinrank.web.settings import parse_tokens
from reference.commands import bad, good, hear_ctrl_c

pytestmark = pytest.mark.slow


def test_help_teaches(tmp_path: Path) -> None:
    message = good(tmp_path, "serve", "--help")
    for words in ("--images", "--token", "--workers", "kinrank serve gallery.manifold", "Ctrl-C"):
        assert words in message


def test_others_need_a_token(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.eye(8, dtype=np.float32))
    assert "--token" in bad(tmp_path, "serve", "@g.npy", "--host", "0.0.0.0")


@pytest.mark.parametrize(
    "token", ["secret-secret", "admin:secret-secret", "read:short", "write:has a blank", "read:é" * 9]
)
def test_tokens_that_are_none(token: str, tmp_path: Path) -> None:
    assert "--token" in bad(tmp_path, "serve", "--token", token)


def test_tokens_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_TOKENS", "read:aaaaaaaa,write:bbbbbbbb,")
    assert parse_tokens(None) == (("aaaaaaaa",), ("bbbbbbbb",))
    assert parse_tokens(["read:cccccccc"]) == (("cccccccc",), ())


def test_what_cannot_be_served_has_a_sentence(tmp_path: Path) -> None:
    assert "does not exist" in bad(tmp_path, "serve", "@nothing")
    (tmp_path / "x.bin").write_text("hello")
    assert "x.bin" in bad(tmp_path, "serve", "@x.bin")
    (tmp_path / "x.txt").write_bytes(b"\xff\xfe")
    small = ("--encoder", "encoders.fake_encoders:pixels", "--keep", "@kept")
    assert "choose another --encoder" in bad(tmp_path, "serve", "@x.txt", "--content", "texts", *small)
    (tmp_path / "photos").mkdir()
    assert "it contains no pictures or texts; give" in bad(tmp_path, "serve", "@photos")
    (tmp_path / "photos" / "x.png").write_bytes(b"no picture")
    assert "could be encoded" in bad(tmp_path, "serve", "@photos", *small, "--quiet")
    np.save(tmp_path / "g.npy", np.eye(8, dtype=np.float32))
    (tmp_path / "labels.txt").write_text("a\nb\n")
    assert "labels" in bad(tmp_path, "serve", "@g.npy", "--labels", "@labels.txt", "--quiet")
    assert "--watch is for a folder of images" in bad(tmp_path, "serve", "@g.npy", "--watch", "--quiet")
    needs = bad(tmp_path, "serve", "@photos", "--watch", "--token", "read:aaaaaaaa")
    assert "--watch changes the gallery; also give --token write:SECRET" in needs


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    folder = tmp_path / "gallery.manifold"
    kinrank.Manifold.build(np.random.default_rng(0).normal(size=(50, 8)), ids=[f"n{i}" for i in range(50)]).save(folder)
    command = [sys.executable, "-m", "kinrank.cli", "serve", str(folder), "--port", "0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c)
    try:
        assert running.stdout is not None
        message = running.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", message)
        assert address, message
        with urllib.request.urlopen(f"{address[0]}/v1/info", timeout=180) as answer:
            assert json.load(answer)["items"] == 50
        with kinrank.Client(address[0]) as client:
            client.add(np.ones((1, 8)), ids=["new"])
            assert len(client) == 51
        np.save(tmp_path / "one.npy", np.ones((1, 8), np.float32))
        refused = bad(tmp_path, "add", "@gallery.manifold", "--vectors", "@one.npy", "--wait", "0")
        assert f"process {running.pid}" in refused
        running.send_signal(signal.SIGINT)
        assert running.wait(180) == 0
    finally:
        running.kill()
        running.communicate()
    assert len(kinrank.Manifold.load(folder)) == 51
