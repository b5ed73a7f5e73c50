"""Pictures from folders and zips: no other file is reached, and broken pictures give an error message."""

from __future__ import annotations

import io
import os
import struct
import sys
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.display.thumbnails import THUMBNAIL_SIZES, Pictures, ThumbnailCache
from kinrank.pictures import archives
from kinrank.pictures.images import MAX_PIXELS

Image = pytest.importorskip("PIL.Image")

OUTSIDE = [
    "../secret",
    "../secret.jpg",
    "sub/../../secret.jpg",
    "/etc/passwd",
    "%2e%2e/secret.jpg",
    "%2e%2e%2fsecret",
    "..\\secret.jpg",
    "a\0.jpg",
    "\0",
    "",
    ".",
    "..",
    "~/x.jpg",
    "file:///etc/passwd",
    "a.jpg/",
    "sub//x.jpg",
]


def drawn(width: int, height: int, colour: Any = (200, 30, 30), mode: str = "RGB") -> Any:
    image = Image.new(mode, (width, height), colour)
    image.paste(colour if mode != "RGB" else (30, 30, 200), (0, 0, width // 2, height // 2))
    return image


def encoded(image: Any, kind: str = "JPEG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def decoded(content: bytes) -> Any:
    return Image.open(io.BytesIO(content)).convert("RGB")


def png_that_claims(width: int, height: int) -> bytes:
    """Return a PNG with a header of this size and almost no data."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(1000)))]
    chunks = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with pictures, some in subfolders, and other files that must not be served."""
    inside = tmp_path / "photos"
    (inside / "sub" / "deep").mkdir(parents=True)
    for name in ("a.jpg", "sub/x.jpg", "sub/deep/y.PNG", "sub/a.jpg"):
        (inside / name).write_bytes(encoded(drawn(40, 30), "PNG" if name.endswith("PNG") else "JPEG"))
    (inside / ".hidden.jpg").write_bytes(encoded(drawn(4, 4)))
    (inside / ".git").mkdir()
    (inside / ".git" / "z.jpg").write_bytes(encoded(drawn(4, 4)))
    (inside / "notes.txt").write_text("not a picture")
    (tmp_path / "secret.jpg").write_bytes(encoded(drawn(4, 4)))
    return inside


def zipped(path: Path, entries: dict[str, bytes], **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def test_hidden_files_of_a_folder_are_skipped(folder: Path) -> None:
    pictures = Pictures.open(folder, None)
    assert pictures.names == ["a.jpg", "sub/a.jpg", "sub/deep/y.PNG", "sub/x.jpg"]
    assert pictures.skipped == {}
    assert pictures.find("a") == pictures.find("a.jpg") == "a.jpg"
    assert pictures.find("sub/a") == "sub/a.jpg"
    assert pictures.find("x") == pictures.find("x.jpg") == pictures.find("sub/x") == "sub/x.jpg"
    assert pictures.find("y") == "sub/deep/y.PNG"
    assert pictures.find("z") is None


def test_an_ambiguous_base_name_matches_no_picture(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "x.jpg").write_bytes(encoded(drawn(4, 4)))
    pictures = Pictures.open(folder, None)
    assert pictures.find("x") is None
    assert pictures.find("other/x") == "other/x.jpg"


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_outside_is_reached(name: str, folder: Path, tmp_path: Path) -> None:
    archive = zipped(tmp_path / "p.zip", {"a.jpg": encoded(drawn(4, 4)), "sub/x.jpg": encoded(drawn(4, 4))})
    for path in (folder, archive):
        pictures = Pictures.open(path, tmp_path / "cache")
        assert pictures.find(name) is None
        with pytest.raises(ValueError, match="there is no picture"):
            pictures.thumbnail(name, 96)


def test_links_stay_inside(folder: Path, tmp_path: Path) -> None:
    (folder / "out.jpg").symlink_to(tmp_path / "secret.jpg")
    (folder / "up.jpg").symlink_to("../secret.jpg")
    (folder / "gone.jpg").symlink_to("nowhere.jpg")
    (folder / "in.jpg").symlink_to("sub/x.jpg")
    (folder / "round").symlink_to(folder)
    os.mkfifo(folder / "pipe.jpg")
    (folder / "later.jpg").write_bytes(encoded(drawn(4, 4)))
    pictures = Pictures.open(folder, None)
    assert pictures.names == ["a.jpg", "in.jpg", "later.jpg", "sub/a.jpg", "sub/deep/y.PNG", "sub/x.jpg"]
    assert sum(pictures.skipped.values()) == 4
    assert pictures.thumbnail("in.jpg", 96)[1] == "image/jpeg"
    (folder / "later.jpg").unlink()
    (folder / "later.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(ValueError, match=r"later\.jpg.* a link that leads out of the folder"):
        pictures.thumbnail("later.jpg", 96)
    (folder / "a.jpg").unlink()
    with pytest.raises(ValueError, match=r"a\.jpg.* no longer exists"):
        pictures.thumbnail("a.jpg", 96)
    os.mkfifo(folder / "a.jpg")
    with pytest.raises(ValueError, match="not a regular file"):
        pictures.thumbnail("a.jpg", 96)


def test_misleading_zip_entries(tmp_path: Path) -> None:
    good = encoded(drawn(8, 8))
    names = ["../up.jpg", "/root.jpg", "a/../../b.jpg", "C:/win.jpg", "back\\slash.jpg", "__MACOSX/._x.jpg", "x.svg"]
    path = zipped(tmp_path / "p.zip", dict.fromkeys(["ok.jpg", "12:30.jpg", *names], good))
    pictures = Pictures.open(path, None)
    assert pictures.names == ["12:30.jpg", "ok.jpg"]
    assert pictures.skipped == {"a name that leads out of the zip": 5}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["p.zip"]


def test_bombs_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = encoded(drawn(8, 8))
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ok.jpg", good)
        archive.writestr("zeros.jpg", bytes(2**22))  # four megabytes from four kilobytes
        archive.writestr("other.jpg", good, zipfile.ZIP_BZIP2)
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 2**21)
    monkeypatch.setattr(archives, "MAX_COMPRESSION_RATIO", 10**6)
    assert Pictures.open(path, None).skipped == {"larger than 2 MB": 1, "compressed by another method than deflate": 1}
    monkeypatch.undo()
    assert "unpacks to more than 100 times its size" in Pictures.open(path, None).skipped
    with pytest.raises(ValueError, match="has 3 entries, more than 2"):
        archives.open_archive(path, most=2)


def altered(path: Path, name: str, at: int, value: int, size: int = 4) -> None:
    """Write a number into the central directory of a zip, at an entry."""
    content = bytearray(path.read_bytes())
    start = content.rindex(name.encode()) - 46
    assert content[start : start + 4] == b"PK\x01\x02"
    content[start + at : start + at + size] = value.to_bytes(size, "little")
    path.write_bytes(content)


def test_declared_sizes_in_a_zip_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.zip"
    noise = np.random.default_rng(1).integers(0, 255, (100, 100, 3), np.uint8)
    entries = {"a.jpg": encoded(Image.fromarray(noise)), "b.jpg": encoded(Image.fromarray(noise))}
    zipped(path, entries, compression=zipfile.ZIP_DEFLATED)
    altered(path, "a.jpg", 24, 100)  # unpacks to more than declared
    altered(path, "b.jpg", 24, 10**6)  # and to less than declared
    pictures = Pictures.open(path, None)
    assert pictures.names == ["a.jpg", "b.jpg"]
    for name in pictures.names:
        with pytest.raises(ValueError, match=rf"the picture '{name}' cannot be shown: it (cannot be unpacked|unpacks)"):
            pictures.thumbnail(name, 96)
    altered(path, "a.jpg", 8, 1, 2)  # declared as encrypted
    assert Pictures.open(path, None).skipped == {"encrypted": 1}


def test_invalid_archives_have_an_error_message(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ValueError, match="neither a folder nor a zip"):
        Pictures.open(tmp_path / "x.zip", None)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Pictures.open(tmp_path / "absent.zip", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="contains no readable picture"):
        Pictures.open(tmp_path / "empty", None)


BROKEN = {
    "empty": (b"", "it is empty"),
    "text": (b"hello, this is no picture at all", "it is not one of JPEG, PNG"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "it is not one of"),
    "half": (encoded(drawn(300, 300))[:2000], "it is damaged"),
    "head": (png_that_claims(100, 100), "it is damaged"),
    "huge": (png_that_claims(9000, 9000), f"at most {MAX_PIXELS} are decoded"),
    "bomb": (png_that_claims(60000, 60000), f"more than {MAX_PIXELS} pixels"),
    "icon": (encoded(drawn(16, 16), "ICO"), "it is not one of"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_picture_has_an_error_message_each_time(kind: str, tmp_path: Path) -> None:
    content, message = BROKEN[kind]
    path = zipped(tmp_path / "p.zip", {"x.jpg": content, "ok.jpg": encoded(drawn(8, 8))})
    pictures = Pictures.open(path, tmp_path / "cache")
    for _ in range(2):  # the second time from memory
        with pytest.raises(ValueError, match=rf"the picture 'x.jpg' cannot be shown: .*{message}"):
            pictures.thumbnail("x.jpg", 192)
    assert pictures.thumbnail("ok.jpg", 192)[1] == "image/jpeg"


MODES = {
    "grey": (drawn(300, 200, 77, "L"), "PNG"),
    "bits": (drawn(300, 200, 1, "1"), "PNG"),
    "palette": (drawn(300, 200).convert("P"), "GIF"),
    "sixteen": (Image.fromarray(np.arange(60000, dtype=np.uint16).reshape(200, 300)), "PNG"),
    "floats": (Image.fromarray(np.linspace(-1, 1, 60000, dtype=np.float32).reshape(200, 300)), "TIFF"),
    "press": (drawn(300, 200).convert("CMYK"), "JPEG"),
    "windows": (drawn(300, 200), "BMP"),
    "web": (drawn(300, 200), "WEBP"),
    "tiff": (drawn(300, 200).convert("LAB"), "TIFF"),
    "clear": (drawn(300, 200, (0, 0, 0, 0), "RGBA"), "PNG"),
    "clear grey": (drawn(300, 200, (0, 0), "LA"), "PNG"),
}


@pytest.mark.parametrize("kind", MODES)
def test_every_mode_becomes_a_small_picture(kind: str, tmp_path: Path) -> None:
    image, kind_of_file = MODES[kind]
    (tmp_path / "x.tif").write_bytes(encoded(image, kind_of_file))  # the content counts, not the name
    pictures = Pictures.open(tmp_path, None)
    content, media = pictures.thumbnail("x.tif", 96)
    small = decoded(content)
    assert media == "image/jpeg"
    assert small.size == (96, 64)
    if kind.startswith("clear"):
        assert min(small.getpixel((90, 60))) > 250, "transparent parts are white"
    if kind in ("sixteen", "floats"):
        assert small.getpixel((0, 0))[0] < 10 < 245 < small.getpixel((95, 63))[0]


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_picture_is_turned_as_its_exif_says(tmp_path: Path) -> None:
    image = drawn(300, 200)
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "x.jpg").write_bytes(encoded(image, exif=exif))
    (tmp_path / "small.jpg").write_bytes(encoded(image.resize((60, 40)), exif=exif))
    (tmp_path / "odd.jpg").write_bytes(encoded(image.resize((60, 40)), exif=b"Exif\0\0II*\0\xff\xff\xff\xff"))
    pictures = Pictures.open(tmp_path, None)
    turned = decoded(pictures.thumbnail("x.jpg", 96)[0])
    assert turned.size == (64, 96)
    assert turned.getpixel((60, 10))[2] > 150 > turned.getpixel((5, 10))[2], "its corner is on the right now"
    assert decoded(pictures.thumbnail("small.jpg", 96)[0]).size == (40, 60)
    assert decoded(pictures.thumbnail("odd.jpg", 96)[0]).size == (60, 40)


def test_the_first_frame_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (200, 100), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    for kind in ("GIF", "WEBP", "TIFF", "PNG"):
        (tmp_path / f"{kind}.png").write_bytes(encoded(frames[0], kind, save_all=True, append_images=frames[1:]))
    pictures = Pictures.open(tmp_path, None)
    for name in pictures.names:
        red, green, _ = decoded(pictures.thumbnail(name, 96)[0]).getpixel((10, 10))
        assert red > 200 > 60 > green, name


def test_small_jpegs_are_unchanged_and_small_drawings_stay_sharp(tmp_path: Path) -> None:
    content = encoded(drawn(100, 80))
    (tmp_path / "x.jpg").write_bytes(content)
    (tmp_path / "long.jpg").write_bytes(content + bytes(2**20))
    (tmp_path / "drawing.png").write_bytes(encoded(drawn(32, 32), "PNG"))
    pictures = Pictures.open(tmp_path, None)
    assert pictures.thumbnail("x.jpg", 192) == (content, "image/jpeg")
    assert decoded(pictures.thumbnail("x.jpg", 96)[0]).size == (96, 77)
    assert len(pictures.thumbnail("long.jpg", 192)[0]) < 10_000
    sharp, media = pictures.thumbnail("drawing.png", 192)
    assert media == "image/png"
    assert decoded(sharp).getpixel((31, 0)) == (200, 30, 30)
    with pytest.raises(ValueError, match="size=100 is not allowed; give 96, 192, 384, 1024, or 0 for the file itself"):
        pictures.thumbnail("x.jpg", 100)


def test_thumbnails_are_made_once_and_follow_changes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    first = Pictures.open(folder, cache)
    made = {size: first.thumbnail("a.jpg", size) for size in THUMBNAIL_SIZES}
    second = Pictures.open(folder, cache)
    monkeypatch.setattr(archives.FolderArchive, "read", lambda *_: pytest.fail("it was read again"))
    assert {size: second.thumbnail("a.jpg", size) for size in THUMBNAIL_SIZES} == made
    monkeypatch.undo()
    (folder / "a.jpg").write_bytes(encoded(drawn(50, 20)))
    assert decoded(second.thumbnail("a.jpg", 96)[0]).size == (50, 20)


def test_a_copy_of_a_zip_finds_the_same_thumbnails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"a.jpg": encoded(drawn(40, 30))}
    made = Pictures.open(zipped(tmp_path / "one.zip", entries), tmp_path / "cache").thumbnail("a.jpg", 96)
    other = Pictures.open(zipped(tmp_path / "two.zip", entries), tmp_path / "cache")
    monkeypatch.setattr(archives.ZipArchive, "read", lambda *_: pytest.fail("it was read again"))
    assert other.thumbnail("a.jpg", 96) == made


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    cache = ThumbnailCache(tmp_path, max_bytes=1000)
    for number in range(20):
        cache.put(f"picture {number}", 96, bytes(100), "image/jpeg")
    kept = [number for number in range(20) if cache.get(f"picture {number}", 96) is not None]
    assert kept == list(range(10))
    for age, path in enumerate(sorted(tmp_path.glob("*/*.jpg"))):
        os.utime(path, (age, age))
    (tmp_path / "mine.txt").write_text("not a thumbnail")
    again = ThumbnailCache(tmp_path, max_bytes=1000)  # the older half is deleted
    assert len(list(tmp_path.glob("*/*.jpg"))) == 5
    assert (tmp_path / "mine.txt").exists()
    again.put("another", 96, b"x", "image/png")
    assert again.get("another", 96) == (b"x", "image/png")
    assert again.get("another", 192) is None


def test_thumbnails_work_without_a_writable_cache(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    pictures = Pictures.open(folder, tmp_path / "file")
    assert pictures.thumbnail("a.jpg", 96)[1] == pictures.thumbnail("a.jpg", 96)[1] == "image/jpeg"


def test_many_threads_read_one_zip(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    colours = {f"{number}.png": tuple(random.integers(0, 255, 3).tolist()) for number in range(40)}
    entries = {name: encoded(Image.new("RGB", (20, 20), colour), "PNG") for name, colour in colours.items()}
    path = zipped(tmp_path / "p.zip", entries, compression=zipfile.ZIP_DEFLATED)
    pictures = Pictures.open(path, tmp_path / "cache")
    names = list(colours) * 10
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda name: pictures.thumbnail(name, 96)[0], names))
    for name, content in zip(names, found, strict=True):
        assert decoded(content).getpixel((3, 3)) == colours[name]


def test_without_pillow_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[web\]'"):
        Pictures.open(folder, None)
