"""kinrank.embed: inputs, outputs, skipped items with reasons, and resumption after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.encoders import Embedded
from kinrank.errors import InputError
from kinrank.vector_input import Vectors

pytest.importorskip("PIL")

from PIL import Image

from encoders.fake_encoders import Pooled, Small, digest, draw, letters, pixels

pytestmark = pytest.mark.slow


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for seed, name in enumerate(("b.jpg", "a.png", "sub/c.webp", "sub/d.bmp", "e.tif", "f.gif")):
        draw(folder / name, seed)
    return folder


def test_a_folder_with_everything_below_it(photos: Path) -> None:
    found = kr.embed(photos, Small())
    assert found.ids == ["a.png", "b.jpg", "e.tif", "f.gif", "sub/c.webp", "sub/d.bmp"]
    assert found.vectors.shape == (6, 192)
    assert found.vectors.dtype == np.float32
    with Image.open(photos / "a.png") as image:
        assert np.array_equal(found.vectors[0], pixels(image.convert("RGB")))
    assert found.skipped == {}
    assert repr(found) == "Embedded(6 x 192, 0 skipped, small)"


def test_files_are_written_with_names(photos: Path, tmp_path: Path) -> None:
    found = kr.embed(photos, Small(), tmp_path / "f.npy")
    assert np.array_equal(np.load(tmp_path / "f.npy"), found.vectors)
    assert (tmp_path / "f.names.txt").read_text().splitlines() == found.ids
    reports = json.loads((tmp_path / "f.embed.json").read_text())
    assert reports == {
        "made by": {"encoder": "small", "content": "pictures"},
        "items": 6,
        "skipped": {},
        "left out": {},
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.embed.json", "f.names.txt", "f.npy", "photos"]


def test_one_pass_writes_a_file_for_every_pooling(photos: Path, tmp_path: Path) -> None:
    encoder, plain = Pooled(), kr.embed(photos, Small()).vectors
    expected = {"mac": plain, "spoc": plain.reshape(-1, 64, 3).mean(1)}
    (photos / "bad.jpg").write_bytes(b"x")
    found = kr.embed(photos, encoder, tmp_path / "f_{pooling}.npy")
    assert sum(encoder.calls) == 6
    assert [*found.pooled] == ["mac", "spoc"]
    in_memory = kr.embed(photos, Pooled())
    for name, rows in expected.items():
        file = kr.load(tmp_path / f"f_{name}.npy")
        assert isinstance(file, Embedded)
        assert file.ids == found.ids == in_memory.ids
        assert file.facts == {"encoder": "small", "content": "pictures", "pool": name}
        assert list(file.skipped) == ["bad.jpg"]
        for vectors in (file.vectors, found.pooled[name], in_memory.pooled[name]):
            np.testing.assert_array_equal(vectors, rows)
    assert digest(found.vectors) == digest(in_memory.vectors) == digest(plain)
    assert found.facts["pool"] == "mac"
    assert len([*tmp_path.iterdir()]) == 7, "three files for each, and the photos"
    with pytest.raises(InputError, match=r"is one file for 2 poolings; put \{pooling\} into its name"):
        kr.embed(photos, encoder, tmp_path / "f.npy")
    with pytest.raises(InputError, match=r"contains \{pooling\}; also give `pooling`"):
        kr.embed(photos, Small(), tmp_path / "f_{pooling}.npy")


def test_a_pass_over_several_poolings_continues(photos: Path, tmp_path: Path) -> None:
    class Stopping(Pooled):
        def pictures(self, images: Sequence[Any]) -> Vectors:
            if len(self.calls) == 4:
                raise KeyboardInterrupt
            return super().pictures(images)

    with pytest.raises(KeyboardInterrupt):
        kr.embed(photos, Stopping(), tmp_path / "f_{pooling}.npy", workers=1)
    assert (tmp_path / "f_mac+spoc.npy.part").is_dir()
    encoder = Pooled()
    found = kr.embed(photos, encoder, tmp_path / "f_{pooling}.npy")
    assert sum(encoder.calls) < 6
    np.testing.assert_array_equal(found.pooled["spoc"], kr.embed(photos, Pooled()).pooled["spoc"])


def test_a_zip_a_list_a_picture_and_values_in_memory_are_the_same(photos: Path, tmp_path: Path) -> None:
    whole = kr.embed(photos, Small())
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for name in whole.ids:
            archive.write(photos / name, name)
    assert digest(kr.embed(tmp_path / "p.zip", Small()).vectors) == digest(whole.vectors)
    (photos / "list.txt").write_text("\n".join(reversed(whole.ids)) + "\n")
    listed = kr.embed(photos / "list.txt", Small())
    assert listed.ids == whole.ids[::-1]
    assert digest(listed.vectors[::-1]) == digest(whole.vectors)
    assert digest(kr.embed(photos / "a.png", Small()).vectors) == digest(whole.vectors[:1])
    assert digest(kr.embed([photos / name for name in whole.ids], Small()).vectors) == digest(whole.vectors)
    images = [Image.open(photos / name) for name in whole.ids]
    assert digest(kr.embed(images, Small()).vectors) == digest(whole.vectors)


def test_names_choose_and_order(photos: Path, tmp_path: Path) -> None:
    whole = kr.embed(photos, Small())
    chosen = kr.embed(photos, Small(), names=["d", "a.png"])
    assert chosen.ids == ["d", "a.png"]
    assert digest(chosen.vectors) == digest(whole.vectors[[5, 0]])
    (tmp_path / "names.txt").write_text("c\n")
    assert kr.embed(photos, Small(), names=tmp_path / "names.txt").ids == ["c"]
    with pytest.raises(ValueError, match="there is no file for 1 of 2 names, such as 'zebra'"):
        kr.embed(photos, Small(), names=["a", "zebra"])
    with pytest.raises(ValueError, match="names contains 'a' more than once"):
        kr.embed(photos, Small(), names=["a", "a"])


def test_names_are_those_of_a_split_list(photos: Path, tmp_path: Path) -> None:
    """The published lists start with the folder of their set, which is here the source, or contains it."""
    draw(photos / "sub" / "photo 1.png", 9)
    split = tmp_path / "cub_split.txt"
    split.write_text("\nphotos/sub/d.bmp 1\nphotos/sub/photo 1.png 0\nphotos/sub/c.webp 0\n")
    expected = ["photos/sub/d.bmp", "photos/sub/photo 1.png", "photos/sub/c.webp"]
    inside = kr.embed(photos, Small(), names=split)
    assert inside.ids == expected == kr.embed(tmp_path, Small(), names=split).ids
    assert digest(inside.vectors) == digest(kr.embed(photos, Small(), names=["d.bmp", "photo 1", "c.webp"]).vectors)
    split.write_text("sub/photo 1\n")  # a name without suffix that looks like a line of a split list
    assert kr.embed(photos, Small(), names=split).ids == ["sub/photo 1"]
    split.write_text("photos/sub/d.bmp 1\nphotos/sub/zebra.png 0\n")
    with pytest.raises(ValueError, match=r"no file for 1 of 2 names, such as 'photos/sub/zebra.png'"):
        kr.embed(photos, Small(), names=split)
    split.write_text("photos/sub/d.bmp 1\nphotos/sub/c.webp 2\n")
    with pytest.raises(ValueError, match=r"cub_split.txt line 2 is 'photos/sub/c.webp 2'"):
        kr.embed(photos, Small(), names=split)


def test_boxes_are_cut_out_before_anything_else(photos: Path, tmp_path: Path) -> None:
    found = kr.embed(photos, Small(), boxes={"a": (9.6, 0, 20, 10.4)})
    with Image.open(photos / "a.png") as image:
        assert np.array_equal(found.vectors[0], pixels(image.convert("RGB").crop((10, 0, 20, 10))))
    (tmp_path / "boxes.csv").write_text("name,left,top,right,bottom\na,9.6,0,20,10.4\n")
    assert digest(kr.embed(photos, Small(), boxes=tmp_path / "boxes.csv").vectors) == digest(found.vectors)
    with pytest.raises(ValueError, match="is empty; give 0 <= left < right"):
        kr.embed(photos, Small(), boxes={"a": (5, 0, 5, 10)})
    with pytest.raises(ValueError, match="is not valid; give left, top, right, bottom"):
        kr.embed(photos, Small(), boxes={"a": (5, 0)})  # type: ignore[dict-item]
    outside = kr.embed(photos, Small(), boxes={"a": (100, 0, 120, 10), "b": (0, 0, 9, 9)})
    assert "lies outside the image of 40 x 30 pixels" in outside.skipped["a"]
    (tmp_path / "boxes.csv").write_text(f"a,1,2,3,{'9' * 200_000}\n")
    with pytest.raises(ValueError, match=r"boxes.csv is not a table"):
        kr.embed(photos, Small(), boxes=tmp_path / "boxes.csv")


def test_the_queries_of_a_revisited_ground_truth(shared_dir: Path) -> None:
    truth = shared_dir / "data" / "revisited" / "gnd_roxford5k.pkl"
    pictures = shared_dir / "data" / "roxford5k_thumbnails.zip"
    small = Small()
    queries = kr.embed(pictures, small, boxes=truth, boxes_size=1024)
    assert len(queries.ids) == 70
    assert queries.ids[0] == "all_souls_000013"
    assert max(map(max, small.sizes)) <= 128
    assert min(map(max, small.sizes)) < 64
    full = kr.embed(pictures, small, boxes=truth)  # in pixels of the full images: most lie outside the thumbnails
    assert len(full.skipped) > 20
    with pytest.raises(ValueError, match="boxes_size needs `boxes`; give both"):
        kr.embed(pictures, small, boxes_size=1024)


def test_pictures_are_turned_as_their_exif_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    draw(tmp_path / "x" / "turned.png", 3, exif=exif)
    small = Small()
    kr.embed(tmp_path / "x", small)
    assert small.sizes == [(30, 40)]


def test_large_jpegs_are_decoded_at_a_fraction_where_that_suffices(tmp_path: Path) -> None:
    draw(tmp_path / "x" / "large.jpg", 3, (2000, 1000))
    small = Small()
    small.reads = 60
    kr.embed(tmp_path / "x", small)
    assert small.sizes == [(250, 125)]
    small.reads = None
    kr.embed(tmp_path / "x", small)
    assert small.sizes[1] == (2000, 1000)


BROKEN: dict[str, tuple[Any, str]] = {
    "empty.jpg": (lambda path: path.write_bytes(b""), "it is empty"),
    "noise.jpg": (lambda path: path.write_bytes(b"\xff\xd8\xff" + bytes(range(256))), "it is not one of|it is damaged"),
    "text.png": (lambda path: path.write_text("no picture"), "it is not one of JPEG"),
    "half.jpg": (lambda path: _cut_off(path), "it is damaged"),
    "huge.png": (lambda path: _huge(path), "it has more than 80000000 pixels, which is too many to decode"),
}


def _cut_off(path: Path) -> None:
    draw(path, 1, (400, 300))
    path.write_bytes(path.read_bytes()[:2000])


def _huge(path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(path)  # 50 kB that would be 1.2 GB in RGB


@pytest.mark.parametrize("name", BROKEN)
def test_undecodable_images_are_skipped_or_refused(name: str, photos: Path) -> None:
    make, sentence = BROKEN[name]
    make(photos / name)
    found = kr.embed(photos, Small())
    assert len(found.ids) == 6
    assert set(found.skipped) == {name}
    with pytest.raises(ValueError, match=f"1 items cannot be encoded: '{name}': ({sentence}).*`on_error='skip'`"):
        kr.embed(photos, Small(), on_error="raise")


def test_of_an_animation_the_first_frame_counts(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green")]
    (tmp_path / "x").mkdir()
    frames[0].save(tmp_path / "x" / "a.gif", save_all=True, append_images=frames[1:])
    (vector,) = kr.embed(tmp_path / "x", Small()).vectors
    assert np.allclose(vector[:3], [1.01, 0.01, 0.01], atol=0.01)


def test_links_out_of_the_folder_hidden_files_and_bombs_are_left_out(photos: Path, tmp_path: Path) -> None:
    draw(tmp_path / "secret.png", 9)
    (photos / "link.png").symlink_to(tmp_path / "secret.png")
    (photos / "inside.png").symlink_to(photos / "a.png")
    draw(photos / ".hidden.png", 5)
    found = kr.embed(photos, Small())
    assert "inside.png" in found.ids
    assert found.left_out == {"a link that leads out of the folder": 1}
    assert not {"link.png", ".hidden.png"} & {*found.ids, *found.skipped}
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(photos / "a.png", "a.png")
        archive.writestr("bomb.png", bytes(2**24))
        archive.writestr("../out.png", b"x")
    found = kr.embed(tmp_path / "bomb.zip", Small())
    assert found.ids == ["a.png"]
    assert found.left_out == {"unpacks to more than 100 times its size": 1, "a name that leads out of the zip": 1}


def test_texts_of_every_form(tmp_path: Path) -> None:
    texts = ["the first words", "wörter mit umlauten", "third"]
    (tmp_path / "t.txt").write_text("\n".join(texts) + "\n", "utf-8")
    found = kr.embed(tmp_path / "t.txt", Small())
    assert found.ids == ["0", "1", "2"]
    assert np.array_equal(found.vectors, np.stack([letters(text) for text in texts]))
    assert found.facts["content"] == "texts"
    (tmp_path / "t.csv").write_text("key,body\n" + "".join(f"k{n},{text}\n" for n, text in enumerate(texts)), "utf-8")
    table = kr.embed(tmp_path / "t.csv", Small(), column="body")
    assert table.ids == ["k0", "k1", "k2"]
    assert digest(table.vectors) == digest(found.vectors)
    assert digest(kr.embed(texts, Small()).vectors) == digest(found.vectors)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(texts[1], "utf-8")
    assert digest(kr.embed(tmp_path / "notes", Small()).vectors) == digest(found.vectors[1:2])
    pandas = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pandas.table({"id": ["x", "y", "z"], "text": texts}), tmp_path / "t.parquet")
    assert kr.embed(tmp_path / "t.parquet", Small()).ids == ["x", "y", "z"]


def test_texts_in_another_encoding_empty_ones_and_equal_ids(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("wörter\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin.txt is not text in UTF-8; save it again in that encoding"):
        kr.embed(tmp_path / "latin.txt", Small())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_bytes("wörter".encode("utf-16"))
    (tmp_path / "notes" / "b.txt").write_text("words")
    found = kr.embed(tmp_path / "notes", Small())
    assert found.ids == ["b.txt"]
    assert found.skipped == {"a.txt": "it is not UTF-8 text; save it in this encoding"}
    assert kr.embed(["words", "  "], Small()).skipped == {"1": "it is empty"}
    (tmp_path / "notes" / "empty.txt").write_text("")
    assert kr.embed(tmp_path / "notes", Small()).skipped["empty.txt"] == "it is empty"
    (tmp_path / "t.csv").write_text(f"id,text\na,one\nb,{'long ' * 40_000}\n")
    assert kr.embed(tmp_path / "t.csv", Small()).ids == ["a", "b"]
    (tmp_path / "t.csv").write_text("id,text\na,one\na,two\n")
    with pytest.raises(ValueError, match="the id 'a' occurs more than once"):
        kr.embed(tmp_path / "t.csv", Small())


def test_texts_that_look_like_paths(photos: Path) -> None:
    (photos / "words.txt").write_text("a.png is the name of a picture\n")
    assert kr.embed(photos / "words.txt", Small()).facts["content"] == "texts"
    (photos / "list.txt").write_text("a.png\n")
    assert kr.embed(photos / "list.txt", Small()).facts["content"] == "pictures"
    assert kr.embed(photos / "list.txt", Small(), content="texts").facts["content"] == "texts"
    gone = kr.embed(photos / "list.txt", Small(), content="pictures", names=["a.png"])
    assert gone.ids == ["a.png"]
    (photos / "list.txt").write_text("a.png\nb.jpg\nzebra.png\n")
    assert kr.embed(photos / "list.txt", Small()).skipped == {"zebra.png": "it does not exist"}
    (photos / "list.txt").write_text("a.png\na.png\n")
    with pytest.raises(ValueError, match=r"contains 'a.png' more than once"):
        kr.embed(photos / "list.txt", Small())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"source": "absent"}, "does not exist"),
    ({"source": "x.bin"}, "unknown suffix '.bin'; give a folder, a zip"),
    ({"source": "empty"}, r"contains no pictures \(.jpg, .* and no texts \(.txt, .md\); give another source"),
    ({"source": "photos", "content": "films"}, "content='films' is not allowed; give pictures or texts"),
    ({"source": "photos", "encoder": "zebra"}, "encoder='zebra' is not known; give one of efficientnet-lite"),
    ({"source": "photos", "encoder": "os:"}, "is not a function"),
    ({"source": "photos", "encoder": "os:zebra"}, "cannot be imported"),
    ({"source": "photos", "on_error": "stop"}, "on_error='stop' is not allowed; give skip or raise"),
    ({"source": "photos", "batch": 0}, "batch=0 is not allowed"),
    ({"source": "photos", "workers": 0}, "workers=0 is not allowed"),
    ({"source": "photos", "output": "f.txt"}, "give the name of a .npy file"),
    ({"source": "photos", "output": "absent/f.npy"}, "the folder .*absent does not exist"),
    ({"source": "photos", "encoder": Small(), "scales": (1,)}, "scales is for encoders given by name"),
    ({"source": "photos", "encoder": "encoders.fake_encoders:pixels", "scales": (0,)}, "give 1 to 16 factors"),
    (
        {"source": "photos", "encoder": "encoders.fake_encoders:pixels", "model": "x"},
        "model has no meaning for the encoder",
    ),
    ({"source": "photos", "encoder": Small(), "column": "x"}, "is a file of texts|are for tables|no columns|pictures"),
    ({"source": "words.csv", "encoder": Small(kinds=["pictures"])}, "words.csv is a file of texts; for pictures give"),
    ({"source": "words.csv", "encoder": Small(), "names": ["a"]}, "names selects among files"),
    ({"source": "photos", "encoder": Small(kinds=["pictures"]), "content": "texts"}, "not texts; choose another"),
    ({"source": "photos", "colour": 1}, "colour is not an option of an encoder; give one of model, weights"),
    (
        {"source": "photos", "encoder": "encoders.fake_encoders:pixels", "scales": "1,2"},
        "is not a sequence of numbers; give factors",
    ),
    ({"source": "photos", "encoder": ".small:pixels"}, "cannot be imported"),
    ({"source": "photos", "encoder": "encoders.fake_encoders:draw"}, "returned no vector for a grey image"),
    ({"source": [1, 2], "encoder": Small()}, "give only paths, images or texts"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_wrong_arguments_are_refused(case: int, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, sentence = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.bin").write_bytes(b"x")
    (tmp_path / "words.csv").write_text("id,text\na,one\n")
    if "column" in given:
        given = {**given, "encoder": Small(kinds=["pictures"])}
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        kr.embed(**{"encoder": Small(), **given})


def test_the_same_bits_whatever_the_threads(photos: Path) -> None:
    once = digest(kr.embed(photos, Small(), workers=1).vectors)
    assert once == digest(kr.embed(photos, Small(), workers=3).vectors)
    batched = Small()
    assert once == digest(kr.embed(photos, batched, batch=4).vectors)
    assert sorted(batched.calls) == [2, 4]


def test_interrupted_run_continues(photos: Path, tmp_path: Path) -> None:
    whole = digest(kr.embed(photos, Small()).vectors)

    def stop(label: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kr.embed(photos, Small(), tmp_path / "f.npy", workers=1, progress=stop)
    assert not (tmp_path / "f.npy").exists()
    small = Small()
    reports: list[tuple[int, int]] = []
    found = kr.embed(
        photos, small, tmp_path / "f.npy", progress=lambda label, done, total: reports.append((done, total))
    )
    assert digest(found.vectors) == whole
    assert sum(small.calls) == 3
    assert reports[-1] == (6, 6)
    assert not (tmp_path / "f.npy.part").exists()


def test_other_encoder_or_changed_image_is_encoded_again(photos: Path, tmp_path: Path) -> None:
    def stop(label: str, done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    for small in (Small(), Small("other")):
        with pytest.raises(KeyboardInterrupt):
            kr.embed(photos, small, tmp_path / "f.npy", progress=stop)
        assert sum(small.calls) == 6
    draw(photos / "a.png", 77, (50, 40))
    again = Small("other")
    found = kr.embed(photos, again, tmp_path / "f.npy")
    assert sum(again.calls) == 1
    with Image.open(photos / "a.png") as image:
        assert np.array_equal(found.vectors[0], pixels(image.convert("RGB")))


@pytest.mark.parametrize("cut", [("rows", 100), ("rows", 0), ("done.jsonl", 150), ("done.jsonl", 0)])
def test_incomplete_data_of_a_killed_process_is_truncated(cut: tuple[str, int], photos: Path, tmp_path: Path) -> None:
    whole = digest(kr.embed(photos, Small()).vectors)

    def stop(label: str, done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kr.embed(photos, Small(), tmp_path / "f.npy", progress=stop)
    name, size = cut
    os.truncate(tmp_path / "f.npy.part" / name, size)
    assert digest(kr.embed(photos, Small(), tmp_path / "f.npy").vectors) == whole


def test_a_killed_run_continues_with_the_same_bits(tmp_path: Path) -> None:
    """The command is killed with SIGKILL while it runs."""
    for seed in range(60):
        draw(tmp_path / "photos" / f"{seed:03}.png", seed)
    command = [
        sys.executable,
        "-m",
        "kinrank.cli",
        "embed",
        str(tmp_path / "photos"),
        "-o",
        str(tmp_path / "f.npy"),
        "--encoder",
        "encoders.fake_encoders:slowly",
        "--workers",
        "1",
    ]
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    slower = {**surroundings, "FAKE_ENCODER_SECONDS": "0.5"}  # half a minute until it would be done
    running = subprocess.Popen(command, env=slower, stderr=subprocess.PIPE)
    done = tmp_path / "f.npy.part" / "done.jsonl"
    deadline = time.monotonic() + 180
    while not (done.exists() and done.read_bytes().count(b"\n") > 5) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert running.stderr is not None
    running.stderr.close()
    before = done.read_bytes().count(b"\n")
    assert 5 < before < 60
    assert not (tmp_path / "f.npy").exists()
    ended = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    assert "60 x 192" in ended.stdout
    assert digest(np.load(tmp_path / "f.npy")) == digest(kr.embed(tmp_path / "photos", Small()).vectors)


def test_two_runs_into_one_file_do_not_mix(photos: Path, tmp_path: Path) -> None:
    def second(label: str, done: int, total: int) -> None:
        with pytest.raises(TimeoutError, match="is being changed by process"):
            kr.embed(photos, Small(), tmp_path / "f.npy")

    kr.embed(photos, Small(), tmp_path / "f.npy", progress=second)


def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path: Path) -> None:
    for seed in range(40):
        draw(tmp_path / "photos" / f"{seed}.png", seed, (640, 480))  # 0.9 MB each when decoded

    def peak(count: int) -> int:
        tracemalloc.start()
        kr.embed(tmp_path / "photos", Small(pause=0.002), names=[f"{seed}.png" for seed in range(count)], workers=1)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(5)
    assert peak(40) < peak(10) + 4_000_000  # at most four are decoded ahead; all would be 27 MB more


def test_unusable_vectors_are_skipped(photos: Path) -> None:
    class Odd(Small):
        def pictures(self, images: Any) -> Any:
            side = images[0].size[0]
            return np.full((len(images), 192), {7: np.nan, 9: 0.0}.get(side, 1.0), np.float32)

    draw(photos / "nan.png", 1, (7, 7))
    draw(photos / "zero.png", 1, (9, 9))
    found = kr.embed(photos, Odd())
    assert len(found.ids) == 6
    assert found.skipped["nan.png"] == "the encoder returned NaN or infinite numbers"
    assert found.skipped["zero.png"] == "the encoder returned only zeros"
    with pytest.raises(ValueError, match=r"none of the 2 items can be encoded: 'nan.png'.*; nothing was written"):
        kr.embed(photos, Odd(), names=["nan.png", "zero.png"])


@pytest.mark.parametrize("batch", [1, 4])
def test_items_that_the_encoder_cannot_handle_are_skipped(batch: int, photos: Path) -> None:
    class Choosy(Small):
        def pictures(self, images: Any) -> Any:
            if any(image.size == (7, 7) for image in images):
                raise InputError("it is too small for this network")
            return super().pictures(images)

    draw(photos / "tiny.png", 1, (7, 7))
    found = kr.embed(photos, Choosy(), batch=batch)
    assert found.skipped == {"tiny.png": "it is too small for this network"}
    assert len(found.ids) == 6


def test_image_on_which_the_encoder_fails_is_skipped(photos: Path) -> None:
    class Breaking(Small):
        def pictures(self, images: Any) -> Any:
            if images[0].size == (7, 7):
                raise RuntimeError("out of\nluck")
            return super().pictures(images)

    draw(photos / "tiny.png", 1, (7, 7))
    assert kr.embed(photos, Breaking()).skipped == {"tiny.png": "the encoder failed on it (RuntimeError: out of luck)"}


def test_inputs_are_never_overwritten(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "notes.embed.json").write_text('["one", "two"]')
    (tmp_path / "notes.names.txt").write_text("a.png\n")
    with pytest.raises(ValueError, match=r"notes.embed.json would overwrite an input"):
        kr.embed(tmp_path / "notes.embed.json", Small(), tmp_path / "notes.npy")
    with pytest.raises(ValueError, match=r"notes.names.txt would overwrite an input"):
        kr.embed(photos, Small(), tmp_path / "notes.npy", names=tmp_path / "notes.names.txt")
    assert (tmp_path / "notes.embed.json").read_text() == '["one", "two"]'


def test_unreadable_items_are_tried_again(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinrank.pictures import archives

    def forbidden(path: str, flags: int = 0) -> bytes:
        raise InputError(f"{archives.UNREADABLE} (Permission denied)")

    monkeypatch.setattr(archives, "read_bounded_file", forbidden)
    with pytest.raises(ValueError, match=r"none of the 6 items can be encoded: .*Permission denied"):
        kr.embed(photos, Small(), tmp_path / "f.npy")
    monkeypatch.undo()
    assert len(kr.embed(photos, Small(), tmp_path / "f.npy").ids) == 6


def test_checkpoint_of_another_folder_is_not_used(photos: Path, tmp_path: Path) -> None:
    def stop(label: str, done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kr.embed(photos, Small(), tmp_path / "f.npy", progress=stop)
    for path in photos.rglob("*.bmp"):
        other = tmp_path / "other" / path.relative_to(photos)
        draw(other, 99)
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        assert other.stat().st_size == path.stat().st_size
    small = Small()
    kr.embed(tmp_path / "other", small, tmp_path / "f.npy")
    assert sum(small.calls) == 1


def test_a_link_to_itself_and_a_strange_zip_are_left_out(photos: Path, tmp_path: Path) -> None:
    (photos / "loop.png").symlink_to(photos / "loop.png")
    assert kr.embed(photos, Small()).left_out == {"a broken link": 1}
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.write(photos / "a.png", "a.png")
        archive.writestr("nameless.png", b"x")
    content = (tmp_path / "p.zip").read_bytes()
    (tmp_path / "p.zip").write_bytes(content.replace(b"nameless.png", b"\0ameless.png"))
    assert kr.embed(tmp_path / "p.zip", Small()).ids == ["a.png"]


def test_a_list_with_a_missing_picture_stays_a_list_of_pictures(photos: Path) -> None:
    found = kr.embed([str(photos / "a.png"), str(photos / "zebra.png")], Small())
    assert found.skipped == {str(photos / "zebra.png"): "it does not exist"}
    (photos / "list.txt").write_text("\nzebra.png\na.png\n")
    assert kr.embed(photos / "list.txt", Small()).ids == ["a.png"]


def test_names_that_cannot_be_ids(photos: Path, tmp_path: Path) -> None:
    images = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    with pytest.raises(ValueError, match="the id 'a' occurs more than once"):
        kr.embed(images, Small(), names=["a", "a"])
    with pytest.raises(ValueError, match="there are 1 names for 2 items"):
        kr.embed(images, Small(), names=["a"])
    with pytest.raises(ValueError, match="' ' cannot be an id"):
        kr.embed(["one", "two"], Small(), names=["a", " "])


def test_failing_encoder_is_reported(photos: Path) -> None:
    class Wrong(Small):
        def pictures(self, images: Any) -> Any:
            return np.ones((len(images), 5), np.float32)

    with pytest.raises(ValueError, match=r"the model returned an array of shape \(1, 5\) for 1 inputs"):
        kr.embed(photos, Wrong())
