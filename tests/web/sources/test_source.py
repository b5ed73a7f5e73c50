"""What the command line was given becomes Settings: toys, prepared galleries, vectors, published sets, stores."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.datasets.benchmark import BENCHMARKS, load
from kinrank.web.settings import Limits, Settings
from kinrank.web.shown.collection import Collection
from kinrank.web.sources.source import settings_for
from kinrank.web.sources.toys import toys

pytest.importorskip("PIL.Image")


def opened(settings: Settings) -> tuple[kinrank.Manifold, Collection]:
    """As a worker does it, from JSON."""
    settings = Settings.from_json(settings.to_json())
    manifold = kinrank.Manifold.load(settings.manifold)
    return manifold, Collection.open(settings.files, manifold.ids, None)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def rows(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((60, 8)).astype(np.float32)


@pytest.fixture
def vectors(tmp_path: Path, rows: np.ndarray) -> Path:
    np.save(tmp_path / "g.npy", rows)
    np.savez(tmp_path / "both.npz", q=rows[:7], d=rows, label=np.arange(60) // 6)
    np.save(tmp_path / "narrow.npy", rows[:3, :5])
    (tmp_path / "names.txt").write_text("".join(f"item {number}\n" for number in range(60)))
    (tmp_path / "labels.txt").write_text("".join(f"kind {number // 6}\n" for number in range(60)))
    return tmp_path


def test_nothing_given_shows_toys(scratch: Path) -> None:
    stages = set()
    served = toys(scratch, None, lambda label, *_: stages.add(label), objects=3, views=12)
    settings = Settings(manifold=str(served.manifold), title=served.title, files=served.files)
    manifold, collection = opened(settings)
    assert len(manifold) == 36
    assert manifold.ids.tolist()[:2] == ["house_000", "house_030"]
    card = collection.card("mug_330")
    assert (card["label"], card["picture"]) == ("mug", "pictures/item/mug_330")
    content, media = collection.picture("mug_330", 192) or (b"", "")
    assert media == "image/jpeg"
    assert len(content) > 1000
    assert collection.levels == ["class"]
    assert {"draw", "pictures"} <= stages
    assert not served.writable
    before = Path(str(served.files.images)).read_bytes()
    toys(scratch, None, None, objects=3, views=12)
    assert Path(str(served.files.images)).read_bytes() == before, "the same pictures, so that thumbnails are found"


def test_a_prepared_gallery_is_served_as_it_is(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    folder = vectors / "gallery.manifold"
    kinrank.Manifold.build(rows).save(folder)
    seal = (folder / "manifest.json").read_bytes()
    settings = settings_for(
        folder, labels=vectors / "labels.txt", queries=f"{vectors}/both.npz:q", scratch=scratch, port=77,
        limits=Limits(k=5), read_tokens=("secret12",),
    )  # fmt: skip
    assert settings.writable
    assert (settings.port, settings.limits.k, settings.read_tokens) == (77, 5, ("secret12",))
    assert (folder / "manifest.json").read_bytes() == seal
    manifold, collection = opened(settings)
    assert collection.card(59)["label"] == "kind 9"
    manifold.remove([0, 1])
    manifold.add(rows[:1] + 1)
    late = Collection.open(settings.files, manifold.ids, None)  # a worker that was started again
    assert late.card(59)["label"] == "kind 9"
    assert late.card(60)["label"] is None
    assert settings_for(str(folder), scratch=scratch).files.ids is None


def test_names_say_whose_labels_these_are(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    folder = vectors / "gallery.manifold"
    kinrank.Manifold.build(rows[5:], ids=[f"item {number}" for number in range(5, 60)]).save(folder)
    with pytest.raises(ValueError, match=r"labels\.txt has 60 labels but there are 55 items"):
        settings_for(folder, labels=vectors / "labels.txt", scratch=scratch)
    settings = settings_for(folder, labels=vectors / "labels.txt", ids=vectors / "names.txt", scratch=scratch)
    assert opened(settings)[1].card("item 59")["label"] == "kind 9"


def test_a_file_of_vectors_is_prepared(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    settings = settings_for(
        vectors / "g.npy", ids=vectors / "names.txt", labels=vectors / "labels.txt", method=kinrank.LPMT(k1=12),
        scratch=scratch,
    )  # fmt: skip
    assert not settings.writable
    assert settings.title == "g.npy"
    manifold, collection = opened(settings)
    assert manifold.ids.tolist()[3] == "item 3"
    assert manifold.method == kinrank.LPMT(k1=12)
    assert collection.card("item 7") == {
        "id": "item 7", "name": "item 7", "label": "kind 1", "text": None, "picture": None,
    }  # fmt: skip


@pytest.mark.parametrize("how", ["behind", "apart"])
def test_one_array_of_several(how: str, vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    path = f"{vectors}/both.npz"
    with pytest.raises(ValueError, match=r"several 2-d arrays; pass key= with one of: .*, as FILE:KEY"):
        settings_for(path, scratch=scratch)
    source, key = (f"{path}:d", None) if how == "behind" else (path, "d")
    settings = settings_for(source, gallery_key=key, labels=f"{path}:label", scratch=scratch)
    manifold, collection = opened(settings)
    assert len(manifold) == 60
    assert collection.card(59)["label"] == "9"


def test_an_id_column_names_the_items(tmp_path: Path, scratch: Path) -> None:
    lines = [f"row{number},{np.cos(number):.4f},{np.sin(number):.4f}" for number in range(30)]
    (tmp_path / "g.csv").write_text("\n".join(["name,x,y", *lines]))
    settings = settings_for(tmp_path / "g.csv", id_column="name", scratch=scratch)
    manifold, _ = opened(settings)
    assert manifold.ids.tolist()[:2] == ["row0", "row1"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("absent", {}, "absent is not there; give a folder of pictures, a file of texts, a folder that `kinrank build`"),
    ("empty", {}, "is a folder that cannot be served: it holds no pictures or texts; give"),
    ("empty:roxford5k", {}, "is a folder that cannot be served"),
    ("g.bin", {}, "unknown ending '.bin'"),
    ("g.npy", {"keep": "x"}, "keep= is for pictures or texts, and this is a file of vectors; leave it out"),
    ("g.npy", {"content": "texts"}, "content= is for pictures or texts"),
    ("made", {"column": "x"}, "column= is for pictures or texts"),
    ("g.npy", {"set_name": "orl"}, "set_name= is for a published set, and this is a file of vectors; leave it out"),
    ("made", {"gallery_key": "x"}, "gallery_key= is for a file of vectors, and this is a prepared gallery"),
    ("made", {"method": kinrank.LPMT()}, "method= is for"),
    ("g.npy", {"queries": "narrow.npy"}, "vectors of 5 numbers but the gallery of 8"),
    ("g.npy", {"images": "absent"}, "absent is not there"),
    ("g.npy", {"ids": "names.txt", "id_column": "x"}, "ids= and id_column= both name the rows"),
]


@pytest.mark.parametrize(("source", "given", "said"), WRONG)
def test_what_cannot_be_served_is_a_sentence(
    source: str, given: dict[str, Any], said: str, vectors: Path, rows: np.ndarray, scratch: Path
) -> None:
    (vectors / "empty").mkdir()
    (vectors / "g.bin").write_bytes(b"x")
    kinrank.Manifold.build(rows).save(vectors / "made")
    files = ("queries", "images", "ids")
    given = {name: vectors / value if name in files else value for name, value in given.items()}
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        settings_for(vectors / source, scratch=scratch, **given)


def test_roxford_is_the_showcase(shared_dir: Path, scratch: Path) -> None:
    data = shared_dir / "data"
    told: list[str] = []
    settings = settings_for(data, scratch=scratch, tell=told.append)
    assert len(told) == 1
    assert told[0].startswith("roxford5k is shown; also there: caltech101, ")
    assert not settings.writable
    manifold, collection = opened(settings)
    benchmark = load("roxford5k", data)
    truth = benchmark.truths["hard"]
    assert manifold.ids.tolist() == truth.item_ids.tolist()
    np.testing.assert_allclose(collection.queries, benchmark.queries)
    assert collection.levels == ["easy", "medium", "hard"]
    found = manifold.search(collection.queries, k=20)
    for query in (0, 35, 69):
        verdicts = collection.verdicts(("query", query), "hard", found.ids[query].tolist())
        places = found.indices[query]
        assert [verdict is True for verdict in verdicts] == np.isin(places, truth.positives[query]).tolist()
        assert [verdict is None for verdict in verdicts] == np.isin(places, truth.junk[query]).tolist()
    assert collection.query_card(0)["picture"] == "pictures/query/0"
    assert len(collection.picture("all_souls_000002", 192)[0]) > 1000


CHEAP = ("orl", "cranfield", "esc50")


@pytest.mark.parametrize("name", CHEAP)
def test_published_sets_bring_their_truth(name: str, shared_dir: Path, scratch: Path) -> None:
    data = shared_dir / "data"
    settings = settings_for(f"{data}:{name}" if name != "orl" else data / name, scratch=scratch)
    assert BENCHMARKS[name].about.startswith(settings.title + ":")
    manifold, collection = opened(settings)
    benchmark = load(name, data)
    ((level, truth),) = benchmark.truths.items()
    assert collection.levels == [level]
    everybody = manifold.ids.tolist()
    kind = "query" if benchmark.queries is not None else "item"
    for number in (0, 17, 42):
        asked = (kind, number if kind == "query" else everybody[number])
        verdicts = np.array(collection.verdicts(asked, level, everybody), object)
        right = truth.positives[number]
        assert np.flatnonzero(verdicts == True).tolist() == right[right < len(everybody)].tolist()  # noqa: E712
    assert collection.has["pictures"] == (name == "orl")
    if name == "orl":
        assert collection.picture(17, 96) is not None


def test_persons_of_ones_own_camera_are_neither_right_nor_wrong(shared_dir: Path, scratch: Path) -> None:
    benchmark = load("market1501", shared_dir / "data")
    from kinrank.web.sources.published import _files

    collection = Collection.open(
        _files(shared_dir / "data", benchmark, scratch, None), np.arange(len(benchmark.gallery)), None
    )
    assert collection.levels == ["person", "class"]
    found = np.array(collection.verdicts(("query", 5), "person", list(range(len(benchmark.gallery)))), object)
    assert np.flatnonzero(found == None).tolist() == benchmark.truths["person"].junk[5].tolist()  # noqa: E711


def test_queries_that_are_pixels_have_pictures(shared_dir: Path, scratch: Path) -> None:
    benchmark = load("omniglot", shared_dir / "data")
    from kinrank.web.sources.published import _files

    files = _files(shared_dir / "data", benchmark, scratch, None)
    collection = Collection.open(files, np.arange(len(benchmark.gallery)), None)
    assert collection.query_card(967)["picture"] == "pictures/query/967"
    assert collection.query_picture(967, 96) is not None
    assert collection.query_picture(967, 96) != collection.picture(967, 96)


def test_a_set_that_is_not_there(shared_dir: Path, scratch: Path) -> None:
    with pytest.raises(ValueError, match=r"set_name='nothing' is not in .*; the sets that are there whole: roxford5k,"):
        settings_for(shared_dir / "data", set_name="nothing", scratch=scratch)


def test_a_gallery_over_a_store(tmp_path: Path, rows: np.ndarray, scratch: Path) -> None:
    pytest.importorskip("apsw")
    pytest.importorskip("sqlite_vec")
    connection = sqlite3.connect(tmp_path / "items.db")
    connection.execute("create table items (id text primary key, embedding blob)")
    connection.executemany(
        "insert into items values (?, ?)", [(f"item {number}", row.tobytes()) for number, row in enumerate(rows)]
    )
    connection.commit()
    connection.close()
    url = f"sqlite://{tmp_path}/items.db?table=items&vector=embedding&key=id"
    (tmp_path / "labels.csv").write_text("id,label\nitem 3,three\n")
    folder = tmp_path / "over.manifold"
    for _ in range(2):  # built, then found
        settings = settings_for(folder, store=url, labels=tmp_path / "labels.csv", scratch=scratch)
        assert (folder / "manifest.json").is_file()
        assert settings.store == url
        assert not settings.writable
    with pytest.raises(ValueError, match="is prepared already"):
        settings_for(folder, store=url, method=kinrank.LPMT(), scratch=scratch)
    manifold = kinrank.Manifold.load(folder, store=kinrank.open_store(url))
    assert Collection.open(settings.files, manifold.ids, None).card("item 3")["label"] == "three"
    alone = settings_for(None, store=url, scratch=scratch)
    assert Path(alone.manifold).parent == scratch
