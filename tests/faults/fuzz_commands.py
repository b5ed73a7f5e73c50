"""Fuzzing of one command with unexpected arguments for some seconds.

    python tests/faults/fuzz_commands.py rerank 60

Files are good, broken, empty, of another kind or missing; numbers are small, negative, huge or not numbers. In any
case the command must end by itself, with the right exit code, and with one line if it was a mistake of the user.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import sys
import tempfile
import time
import webbrowser
import zipfile
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

import kinrank
from kinrank.cli.app import app

LONGEST = 200  # seconds, on a busy machine, after which a call counts as hanging
WHOLE = ["0", "1", "2", "5", "-1", "1000000000", "123456789012345678901234567890", "1.5", "nan", "x", ""]
REAL = ["0", "0.5", "1", "-1", "1e-300", "1e300", "nan", "inf", "-inf", "x", ""]
WORDS = [
    "lpmt",
    "LPMT",
    "none",
    "aqe",
    "all",
    "mAP",
    "mAP,R@1",
    "nDCG@10",
    "P@0",
    "R@-1",
    "a",
    "0",
    "1",
    "",
    ",",
    "\x00",
    "ä" * 9,
]
EXTRA = [
    "--k1",
    "--k2",
    "--k",
    "--method-k",
    "--lam",
    "--mu",
    "--sigma",
    "--theta",
    "--nonsense",
    "--path-k",
    "--alpha",
    "--method",
    "-m",
]
# what makes a call succeed, so that its later steps are reached, too
GOOD = {
    "gallery": ["good.npy", "good.csv"],
    "queries": ["queries.npy"],
    "features": ["good.npy"],
    "vectors": ["queries.npy"],
    "folder": ["plain.manifold", "named.manifold", "dfs.manifold"],
    "source": ["plain.manifold", "named.manifold", "good.npy", "photos", "texts.csv"],
    "manifold": ["new.manifold", "named.manifold", "http://127.0.0.1:1"],
    "ranking": ["ranking.npz", "ranking.trec"],
    "rankings": ["ranking.npz", "ranking.csv"],
    "output": ["new.npz", "new.csv", "new.trec", "new.html", "new.manifold", "new.npy"],
    "labels": ["labels.npy"],
    "gallery_labels": ["labels.npy"],
    "query_labels": ["labels.npy"],
    "truth": ["qrels.txt"],
    "ids": ["names.txt"],
    "item_ids": ["names.txt"],
    "item": ["3", "item 3"],
    "data": ["folder"],
}
# what would take minutes with its defaults begins with these; a flag that comes again replaces them
SMALL = {
    "bench accuracy": ["--methods", "none", "--no-cache"],
    "bench diagnosis": ["--parts", "prepared", "--no-cache"],
    "bench speed": ["--methods", "none", "--sizes", "60", "--repetitions", "1", "--parts", "growth"],
    "bench candidates": ["--counts", "20", "--repetitions", "1"],
    "bench memory": ["--methods", "none", "--sizes", "60"],
    "bench service": ["--data", "folder"],
    "bench photos": ["--encoder", "encoders.fake_encoders:pixels"],
    "embed": ["--encoder", "encoders.fake_encoders:pixels"],
    "watch": ["--once", "--encoder", "encoders.fake_encoders:pixels"],
    "tune": ["--methods", "aqe"],
    "report": ["--gallery", "good.npy", "--labels", "labels.npy", "--methods", "none,lpmt,aqe"],
    "bench scale": ["--sizes", "200", "--probes", "1", "--change", ""],
}


def verbs() -> dict[str, Any]:
    """Return every command by the words that call it."""
    found: dict[str, Any] = {}
    group: Any = get_command(app)
    for name in list(group.commands):
        command = group.get_command(None, name)
        for part, inner in getattr(command, "commands", {"": command}).items():
            found[f"{name} {part}".strip()] = inner
    return found


def make_files(folder: Path) -> None:
    """Create files of every kind, good and bad, in a new folder."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((40, 6)).astype(np.float32)
    np.save(folder / "good.npy", rows)
    np.save(folder / "queries.npy", rows[:3])
    np.save(folder / "wide.npy", random.standard_normal((5, 9)))
    np.save(folder / "none.npy", rows[:0])
    np.save(folder / "nan.npy", np.full((4, 6), np.nan))
    np.save(folder / "zero.npy", np.zeros((4, 6)))
    np.save(folder / "flat.npy", rows[0])
    np.save(folder / "labels.npy", np.arange(40) % 4)
    np.savez(folder / "good.npz", a=rows, b=rows[:3])
    np.savetxt(folder / "good.csv", rows, delimiter=",")
    (folder / "odd.csv").write_text("1,,3\n1,2,3\n")
    (folder / "words.csv").write_text('id,"a b",c\nx,1,2\n"y,z",3,4\n')
    (folder / "names.txt").write_text("".join(f"item {n}\n" for n in range(40)))
    (folder / "blank.txt").write_text("a\n\nb\n")
    (folder / "qrels.txt").write_text("1 0 1 1\n2 0 2 1\n3 0 3 1\n")
    (folder / "odd-qrels.txt").write_text("1 0 1 1\n1 0 1 0\n2 0 2 999999999999999999999999\n")
    for ending in ("npy", "npz", "csv", "pkl", "mat", "fvecs", "h5", "parquet", "safetensors", "trec", "txt"):
        (folder / f"noise.{ending}").write_bytes(random.integers(0, 256, 300, dtype=np.uint8).tobytes())
        (folder / f"empty.{ending}").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "texts.csv").write_text("id,text\na,one\nb,two\n")
    pictures = folder / "photos"
    pictures.mkdir()
    for number in range(6):
        Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(pictures / f"{number}.png")
    (pictures / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        archive.write(pictures / "1.png", "1.png")
    ranking = kinrank.rerank(rows[:3], rows, "none", k=10)
    for ending in ("npz", "csv", "trec"):
        ranking.save(folder / f"ranking.{ending}")
    plain = kinrank.Manifold.build(rows, kinrank.LPMT())
    plain.save(folder / "plain.manifold")
    kinrank.Manifold.build(rows, kinrank.LPMT(), ids=[f"item {n}" for n in range(40)]).save(folder / "named.manifold")
    kinrank.Manifold.build(rows, "dfs").save(folder / "dfs.manifold")
    plain.save(folder / "broken.manifold")
    for path in sorted((folder / "broken.manifold").rglob("*.npy"))[:1]:
        path.write_bytes(path.read_bytes()[:-3])


def arguments(verb: str, command: Any, folder: Path) -> st.SearchStrategy[list[str]]:
    """Return a strategy for argument lists of the command: its flags, most of them with values of the right kind."""
    files = sorted(path.name for path in folder.iterdir())
    files += ["new.npz", "new.csv", "new.trec", "new.html", "new.manifold", "missing.npy", "nowhere/x.npz", "", "."]
    kinds = get_type_hints(command.callback)
    required, optional = [], []
    for parameter in command.params:
        kind = str(kinds[parameter.name])
        pool = files if "Path" in kind else WHOLE if "int" in kind else REAL if "float" in kind else WORDS
        good = GOOD.get(parameter.name, pool[:3])
        values = st.one_of(st.sampled_from(good), st.sampled_from(good), st.sampled_from(pool))
        flag = st.sampled_from(parameter.opts)
        if parameter.param_type_name == "argument":
            required.append(values.map(lambda value: [value]))
        elif getattr(parameter, "is_flag", False):
            optional.append(flag.map(lambda name: [name]))
        else:
            pair = st.tuples(flag, values).map(list)
            (required if parameter.required else optional).append(pair)
    extra = st.tuples(st.sampled_from(EXTRA), st.sampled_from(WHOLE + REAL)).map(list)
    some = st.lists(st.one_of(*optional, extra) if optional else extra, max_size=4)
    most = st.tuples(*[st.one_of(*[part] * 9, st.just([])) for part in required])
    start = [*verb.split(), *SMALL.get(verb, [])]
    return st.tuples(most, some).map(lambda both: start + [word for part in (*both[0], *both[1]) for word in part])


def open_only() -> None:
    """Let `kinrank serve` prepare the service and end, without a browser and with few toys."""
    from kinrank.web.server import supervisor
    from kinrank.web.service import Service
    from kinrank.web.startup import service_setup

    def run(settings: Any, announce: Any, prepare: Any, preparing: Any) -> int:
        Service.open(prepare(lambda label, done, total: None)).close()
        announce("http://127.0.0.1")
        return 0

    supervisor.run_service = run
    prepare_toys = service_setup.prepare_toys
    service_setup.prepare_toys = lambda scratch, method, progress: prepare_toys(scratch, method, progress, 2, 6)
    webbrowser.open = lambda *_: True  # type: ignore[assignment]


def check(words: list[str]) -> None:
    """Call the command and check how it ends."""
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    result = CliRunner().invoke(app, words, prog_name="kinrank")
    faulthandler.cancel_dump_traceback_later()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2), result.exit_code
    assert "Traceback" not in result.stderr, result.stderr
    if result.exit_code == 2:
        lines = [line for line in result.stderr.splitlines() if line.startswith("kinrank: error: ")]
        assert len(lines) == 1, result.stderr


def fuzz(verb: str, seconds: float) -> int:
    """Call the command for some seconds; return the number of calls."""
    calls = 0
    if verb == "serve":
        open_only()
    sys.path.insert(0, str(Path(__file__).parents[1]))  # module of a small encoder
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = place
        fresh, used = Path(place, "fresh"), Path(place, "used")
        fresh.mkdir()
        make_files(fresh)
        tries = arguments(verb, verbs()[verb], fresh)
        ends = time.monotonic() + seconds
        start = time.time_ns() % 2**32
        while time.monotonic() < ends or not calls:
            start += 1

            @seed(start)
            @settings(
                max_examples=20,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(tries)
            def one(words: list[str]) -> None:
                nonlocal calls
                if time.monotonic() > ends and calls:
                    return
                shutil.rmtree(used, ignore_errors=True)
                shutil.copytree(fresh, used)
                os.chdir(used)
                calls += 1
                print(words, file=sys.stderr, flush=True)
                check(words)

            one()
        os.chdir(place)
    return calls


if __name__ == "__main__":
    print(fuzz(sys.argv[1], float(sys.argv[2])), "calls")
