"""Settings from command line arguments: toys, prepared galleries, vectors, published sets, stores."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.web.collection import Collection
from kinrank.web.settings import Limits, Settings
from kinrank.web.startup.service_setup import prepare_toys
from kinrank_bench.datasets.benchmark import BENCHMARKS, load
from web.small_service import prepare_settings

pytestmark = pytest.mark.slow

pytest.importorskip("PIL.Image")


def opened(settings: Settings) -> tuple[kinrank.Manifold, Collection]:
    """Open the service from JSON, as a worker does."""
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
    served = prepare_toys(scratch, None, lambda label, *_: stages.add(label), objects=3, views=12)
    settings = Settings(manifold=str(served.manifold), title=served.title, files=served.files)
    manifold, collection = opened(settings)
    assert len(manifold) == 36
    assert manifold.ids.tolist()[:2] == ["house_000", "house_030"]
    card = collection.card("mug_330")
    assert (card["label"], card["picture"]) == ("mug", "pictures/item/mug_330")
    content, media = collection.picture("mug_330", 192) or (b"", "")
    assert media == "image/jpeg"
    assert len(content) > 1000
    assert collection.relevance.levels == ["class"]
    assert {"draw", "pictures"} <= stages
    assert not served.writable
    before = Path(str(served.files.images)).read_bytes()
    prepare_toys(scratch, None, None, objects=3, views=12)
    assert Path(str(served.files.images)).read_bytes() == before, "the same pictures, so that thumbnails are found"


def test_a_prepared_gallery_is_served_as_it_is(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    folder = vectors / "gallery.manifold"
    kinrank.Manifold.build(rows).save(folder)
    seal = (folder / "manifest.json").read_bytes()
    settings = prepare_settings(
        folder,
        labels=vectors / "labels.txt",
        queries=f"{vectors}/both.npz:q",
        scratch=scratch,
        port=77,
        limits=Limits(k=5),
        read_tokens=("secret12",),
    )
    assert settings.writable
    assert (settings.port, settings.limits.k, settings.read_tokens) == (77, 5, ("secret12",))
    assert (folder / "manifest.json").read_bytes() == seal
    manifold, collection = opened(settings)
    assert collection.card(59)["label"] == "kind 9"
    manifold.remove([0, 1])
    manifold.add(rows[:1] + 1)
    late = Collection.open(settings.files, manifold.ids, None)  # a restarted worker
    assert late.card(59)["label"] == "kind 9"
    assert late.card(60)["label"] is None
    assert prepare_settings(str(folder), scratch=scratch).files.ids is None


def test_labels_are_matched_by_id(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    folder = vectors / "gallery.manifold"
    kinrank.Manifold.build(rows[5:], ids=[f"item {number}" for number in range(5, 60)]).save(folder)
    with pytest.raises(ValueError, match=r"labels\.txt has 60 labels, but there are 55 items"):
        prepare_settings(folder, labels=vectors / "labels.txt", scratch=scratch)
    settings = prepare_settings(folder, labels=vectors / "labels.txt", ids=vectors / "names.txt", scratch=scratch)
    assert opened(settings)[1].card("item 59")["label"] == "kind 9"


def test_a_file_of_vectors_is_prepared(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    settings = prepare_settings(
        vectors / "g.npy",
        ids=vectors / "names.txt",
        labels=vectors / "labels.txt",
        method=kinrank.LPMT(k1=12),
        scratch=scratch,
    )
    assert not settings.writable
    assert settings.title == "g.npy"
    manifold, collection = opened(settings)
    assert manifold.ids.tolist()[3] == "item 3"
    assert manifold.method == kinrank.LPMT(k1=12)
    assert collection.card("item 7") == {
        "id": "item 7",
        "name": "item 7",
        "label": "kind 1",
        "text": None,
        "picture": None,
    }


def test_one_array_of_several(vectors: Path, rows: np.ndarray, scratch: Path) -> None:
    path = f"{vectors}/both.npz"
    with pytest.raises(ValueError, match=r"several 2-d arrays; choose one with FILE:KEY: "):
        prepare_settings(path, scratch=scratch)
    settings = prepare_settings(f"{path}:d", labels=f"{path}:label", scratch=scratch)
    manifold, collection = opened(settings)
    assert len(manifold) == 60
    assert collection.card(59)["label"] == "9"


def test_an_id_column_names_the_items(tmp_path: Path, scratch: Path) -> None:
    lines = [f"row{number},{np.cos(number):.4f},{np.sin(number):.4f}" for number in range(30)]
    (tmp_path / "g.csv").write_text("\n".join(["name,x,y", *lines]))
    settings = prepare_settings(tmp_path / "g.csv", id_column="name", scratch=scratch)
    manifold, _ = opened(settings)
    assert manifold.ids.tolist()[:2] == ["row0", "row1"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "absent",
        {},
        "absent does not exist; give a folder of pictures, a file of texts, a folder written by `kinrank build`",
    ),
    ("empty", {}, "empty cannot be served: it contains no pictures or texts; give"),
    ("empty:roxford5k", {}, "empty cannot be served"),
    ("g.bin", {}, "unknown ending '.bin'"),
    ("g.npy", {"keep": "x"}, "keep is for pictures or texts, but this is a file of vectors; leave it out"),
    ("g.npy", {"content": "texts"}, "content is for pictures or texts"),
    ("made", {"column": "x"}, "column is for pictures or texts"),
    ("g.npy", {"set_name": "orl"}, "set_name is for a published set, but this is a file of vectors; leave it out"),
    ("made", {"method": kinrank.LPMT()}, "method is for"),
    ("g.npy", {"queries": "narrow.npy"}, "queries have 5 numbers per vector, but the gallery has 8"),
    ("g.npy", {"images": "absent"}, "absent does not exist"),
    ("g.npy", {"ids": "names.txt", "id_column": "x"}, "`ids` and `id_column` both name the rows"),
]


@pytest.mark.parametrize(("source", "given", "message"), WRONG)
def test_invalid_sources_have_an_error_message(
    source: str, given: dict[str, Any], message: str, vectors: Path, rows: np.ndarray, scratch: Path
) -> None:
    (vectors / "empty").mkdir()
    (vectors / "g.bin").write_bytes(b"x")
    kinrank.Manifold.build(rows).save(vectors / "made")
    files = ("queries", "images", "ids")
    given = {name: vectors / value if name in files else value for name, value in given.items()}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepare_settings(vectors / source, scratch=scratch, **given)


def test_roxford_is_the_showcase(shared_dir: Path, scratch: Path) -> None:
    data = shared_dir / "data"
    reports: list[str] = []
    settings = prepare_settings(data, scratch=scratch, tell=reports.append)
    assert len(reports) == 1
    assert reports[0].startswith("roxford5k is shown; also available: caltech101, ")
    assert not settings.writable
    manifold, collection = opened(settings)
    benchmark = load("roxford5k", data)
    truth = benchmark.truths["hard"]
    assert manifold.ids.tolist() == truth.item_ids.tolist()
    np.testing.assert_allclose(collection.queries, benchmark.queries)
    assert collection.relevance.levels == ["easy", "medium", "hard"]
    found = manifold.search(collection.queries, k=20)
    for query in (0, 35, 69):
        verdicts = collection.relevance.judge(("query", query), "hard", found.ids[query].tolist())
        places = found.indices[query]
        assert [verdict is True for verdict in verdicts] == np.isin(places, truth.positives[query]).tolist()
        assert [verdict is None for verdict in verdicts] == np.isin(places, truth.junk[query]).tolist()
    assert collection.query_card(0)["picture"] == "pictures/query/0"
    assert len(collection.picture("all_souls_000002", 192)[0]) > 1000


CHEAP = ("orl", "cranfield", "esc50", "scifact")


@pytest.mark.parametrize("name", CHEAP)
def test_published_sets_bring_their_truth(name: str, shared_dir: Path, scratch: Path) -> None:
    data = shared_dir / "data"
    settings = prepare_settings(f"{data}:{name}" if name != "orl" else data / name, scratch=scratch)
    assert BENCHMARKS[name].about.startswith(settings.title + ":")
    manifold, collection = opened(settings)
    benchmark = load(name, data)
    ((level, truth),) = benchmark.truths.items()
    assert collection.relevance.levels == [level]
    everybody = manifold.ids.tolist()
    kind = "query" if benchmark.queries is not None else "item"
    for number in (0, 17, 42):
        query = (kind, number if kind == "query" else everybody[number])
        verdicts = np.array(collection.relevance.judge(query, level, everybody), object)
        right = truth.positives[number]
        assert np.flatnonzero(verdicts == True).tolist() == right[right < len(everybody)].tolist()  # noqa: E712
    assert collection.has["pictures"] == (name == "orl")
    if name == "orl":
        assert collection.picture(17, 96) is not None


def test_persons_of_the_same_camera_are_neither_right_nor_wrong(shared_dir: Path, scratch: Path) -> None:
    benchmark = load("market1501", shared_dir / "data")
    from kinrank_bench.datasets.set_display import _write_files

    collection = Collection.open(
        _write_files(shared_dir / "data", benchmark, scratch, None), np.arange(len(benchmark.gallery)), None
    )
    assert collection.relevance.levels == ["person", "class"]
    found = np.array(collection.relevance.judge(("query", 5), "person", list(range(len(benchmark.gallery)))), object)
    assert np.flatnonzero(found == None).tolist() == benchmark.truths["person"].junk[5].tolist()  # noqa: E711


def test_queries_that_are_pixels_have_pictures(shared_dir: Path, scratch: Path) -> None:
    benchmark = load("omniglot", shared_dir / "data")
    from kinrank_bench.datasets.set_display import _write_files

    files = _write_files(shared_dir / "data", benchmark, scratch, None)
    collection = Collection.open(files, np.arange(len(benchmark.gallery)), None)
    assert collection.query_card(967)["picture"] == "pictures/query/967"
    assert collection.query_picture(967, 96) is not None
    assert collection.query_picture(967, 96) != collection.picture(967, 96)


def test_a_missing_set(shared_dir: Path, scratch: Path) -> None:
    with pytest.raises(ValueError, match=r"set_name='nothing' is not in .*; complete sets there: roxford5k,"):
        prepare_settings(shared_dir / "data", set_name="nothing", scratch=scratch)


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
    for _ in range(2):  # first built, then reused
        settings = prepare_settings(folder, store=url, labels=tmp_path / "labels.csv", scratch=scratch)
        assert (folder / "manifest.json").is_file()
        assert settings.store == url
        assert not settings.writable
    with pytest.raises(ValueError, match="is prepared already"):
        prepare_settings(folder, store=url, method=kinrank.LPMT(), scratch=scratch)
    manifold = kinrank.Manifold.load(folder, store=kinrank.open_store(url))
    assert Collection.open(settings.files, manifold.ids, None).card("item 3")["label"] == "three"
    alone = prepare_settings(None, store=url, scratch=scratch)
    assert Path(alone.manifold).parent == scratch
