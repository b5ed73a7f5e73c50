"""Texts and labels of items from every kind of file, in order or by id, and errors for what does not fit."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kinrank.files.text_columns import MAX_TEXT_CHARACTERS, Column, read_label_column, read_texts, shorten_text
from kinrank.files.vector_files import split_key

WORDS = ["first", "second, with a comma", ""]
IN_ORDER = {
    "x.txt": "first\nsecond, with a comma\n\n",
    "x.csv": 'text\nfirst\n"second, with a comma"\n""\n',
    "x.tsv": "number\ttext\n1\tfirst\n2\tsecond, with a comma\n3\t\n",
    "x.json": json.dumps(["first", "second, with a comma", None]),
    "x.jsonl": '"first"\n{}\n"second, with a comma"\n""\n'.replace("{}\n", ""),
}
BY_ID = {
    "x.csv": 'a,first\nb,"second, with a comma"\nc,\n',
    "y.csv": '\ufeffText,note,Id\r\nfirst,.,a\r\n"second, with a comma",.,b\r\n,.,c\r\n',
    "x.tsv": "a\tfirst\nb\tsecond, with a comma\nc\t\n",
    "x.json": json.dumps(dict(zip("abc", WORDS, strict=True))),
    "y.json": json.dumps([{"id": name, "text": word} for name, word in zip("abc", WORDS, strict=True)]),
    "x.jsonl": "\n".join(json.dumps({"id": n, "caption": w}) for n, w in zip("abc", WORDS, strict=True)),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_texts_in_the_order_of_the_items(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(IN_ORDER[name])
    found = read_texts(tmp_path / name)
    assert found == Column(WORDS, None)
    assert found.by_id(["7", "8", "9"], name, "text") == dict(zip("789", WORDS, strict=True))


@pytest.mark.parametrize("name", BY_ID)
def test_texts_by_id(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(BY_ID[name])
    assert read_texts(tmp_path / name).by_id(["c", "z"], name, "text") == dict(zip("abc", WORDS, strict=True))


def test_texts_in_a_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"id": [1, 2, 3], "x": [0.5, 0.5, 0.5], "text": ["a", None, "c"]}), path)
    assert read_texts(path) == Column(["a", "", "c"], ["1", "2", "3"])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="damaged"):
        read_texts(path)


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("word " * 1000)
    (text,) = read_texts(tmp_path / "x.txt").values
    assert len(text) == 5000
    assert len(shorten_text(text)) <= MAX_TEXT_CHARACTERS
    assert shorten_text(text).endswith("word…")


def test_a_cell_may_be_longer_than_the_csv_module_allows(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    (tmp_path / "x.csv").write_text(f'id,text\na,"{"x" * 200_000}"\n')
    assert len(read_texts(tmp_path / "x.csv").values[0]) == 200_000
    assert csv.field_size_limit() == before


def test_columns_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("Key,Title,Body\na,one,first words\nb,two,second words\n")
    assert read_texts(tmp_path / "x.csv", "Body", "Title") == Column(["first words", "second words"], ["one", "two"])
    assert read_texts(tmp_path / "x.csv", "Body") == Column(["first words", "second words"], ["a", "b"])
    (tmp_path / "x.jsonl").write_text('{"Key": 1, "Body": "first"}\n')
    assert read_texts(tmp_path / "x.jsonl", "Body", "Key") == Column(["first"], ["1"])
    with pytest.raises(ValueError, match="has no column 'Text'; it has key, title, body"):
        read_texts(tmp_path / "x.csv", "Text")
    (tmp_path / "x.txt").write_text("words\n")
    with pytest.raises(ValueError, match="has no columns; `column` and `id_column` are for"):
        read_texts(tmp_path / "x.txt", "text")


def test_labels_from_every_kind_of_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([3, 1]))
    np.savez(tmp_path / "x.npz", kind=np.array(["a", "b"]), other=np.arange(2))
    (tmp_path / "x.txt").write_text("cat\ndog\n")
    (tmp_path / "lines.csv").write_text("label\ncats, all of them\ndog\n")
    (tmp_path / "ids.csv").write_text("id,label\n7,cat\n8,dog\n")
    (tmp_path / "x.json").write_text("[1, 2]")
    assert read_label_column(tmp_path / "x.npy") == Column(["3", "1"], None)
    assert read_label_column(*split_key(f"{tmp_path}/x.npz:kind")) == Column(["a", "b"], None)
    assert read_label_column(tmp_path / "x.txt") == Column(["cat", "dog"], None)
    assert read_label_column(tmp_path / "lines.csv") == Column(["cats, all of them", "dog"], None)
    assert read_label_column(tmp_path / "ids.csv") == Column(["cat", "dog"], ["7", "8"])
    assert read_label_column(tmp_path / "x.json") == Column(["1", "2"], None)


REFUSED = [
    ("x.txt", b"\xff\xfe", "is not text"),
    ("x.csv", b"\xff\xfe", "is not text in UTF-8"),
    ("x.csv", b"a,b,c\n1,2,3\n", "has 3 columns and no heading; write id,text into its first line"),
    ("x.csv", b"id,one,two\n1,2,3\n", "name the one to read text"),
    ("x.csv", b"a,first\nb,second, and more\n", "row 2 has 3 cells, but the first row has 2"),
    ("x.json", b"{", "is not JSON"),
    ("x.json", b"[" * 100_000, "is not JSON"),
    ("x.json", b"3", "is not a list"),
    ("x.json", b"[[1]]", "which is neither a text nor a number"),
    ("x.json", b'[{"id": 1, "text": "a"}, {"id": 2}]', "entries without text or id"),
    ("x.jsonl", b"nonsense\n", "is not JSON"),
    ("x.pdf", b"%PDF", "unknown ending '.pdf'"),
    ("absent.txt", None, "does not exist"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_files_without_texts_are_refused(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_texts(tmp_path / name)


def test_counts_and_names_that_do_not_fit_are_a_sentence() -> None:
    with pytest.raises(ValueError, match="has 2 labels, but there are 3 items; give one for each"):
        Column(["a", "b"], None).by_id(["1", "2", "3"], "x.txt", "label")
    with pytest.raises(ValueError, match="contains an id twice"):
        Column(["a", "b"], ["1", "1"]).by_id(["1"], "x.csv", "text")
    with pytest.raises(ValueError, match=r"items such as 'b', none of which is in the gallery \(such as '1'\)"):
        Column(["a"], ["b"]).by_id(["1"], "x.csv", "text")
    assert Column([], None).by_id([], "x.txt", "text") == {}


def test_a_key_follows_an_existing_file(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"")
    (tmp_path / "odd:name").write_bytes(b"")
    assert split_key(f"{tmp_path}/x.npz:q") == (tmp_path / "x.npz", "q")
    assert split_key(f"{tmp_path}/odd:name") == (tmp_path / "odd:name", None)
    assert split_key(f"{tmp_path}/absent:q") == (tmp_path / "absent:q", None)
