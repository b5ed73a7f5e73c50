"""`kinrank embed`, interrupted and killed at random moments and run again until it is done, gives the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("PIL")

from encoders.fake_encoders import draw
from reference.interruptions import MOMENTS, Interruptions

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize("workers", ["1", "4"])
def test_embed_survives_interruptions(tmp_path: Path, workers: str) -> None:
    for seed in range(24):
        draw(tmp_path / "photos" / f"{seed:02}.png", seed)
    (tmp_path / "photos" / "broken.png").write_bytes(b"no picture")
    words = ["embed", "photos", "-o", "f.npy", "--encoder", "encoders.fake_encoders:slowly", "--workers", workers]
    runs = Interruptions([*words, "--batch", "2"], tmp_path, seed=int(workers))
    runs.survive(-(-MOMENTS // 2))
    assert runs.counts["finished"] > 0
