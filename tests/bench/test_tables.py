"""Tables: declared columns, and the same table as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import pytest

from kinrank.tables import align_columns, render_csv
from kinrank_bench.tables import Column, Table, fill, mark_best, render_latex, render_markdown, render_text

COLUMNS = (
    Column("method", "{method}", left=True),
    Column("mAP", "{mean:.1p} ({low:+.1p})"),
    Column("memory", "{sizes[peak]:bytes}", missing="?"),
    Column("twice", lambda row: f"{2 * row['mean']:g}"),
)


def test_columns_take_their_texts_from_rows() -> None:
    rows = [
        {"method": "lpmt", "mean": 0.5, "low": -0.25, "sizes": {"peak": 1500}},
        {"method": "none", "mean": 0.25, "low": None, "sizes": {}},
        {"error": "too large"},
    ]
    table = Table.from_rows("scores", COLUMNS, rows, ["a note"])
    assert table.head == ["method", "mAP", "memory", "twice"]
    assert table.rows == [["lpmt", "50.0 (-25.0)", "1.5 KB", "1"], ["none", "-", "?", "0.5"], ["too large", "", "", ""]]
    assert render_text(table).splitlines() == [
        "scores",
        "method              mAP  memory  twice",
        "lpmt       50.0 (-25.0)  1.5 KB      1",
        "none                  -       ?    0.5",
        "too large",
        "a note",
    ]


def test_a_missing_value_is_an_error_without_a_replacement() -> None:
    assert fill("{a:.2f}", {"a": 1}) == "1.00"
    assert fill("{a}", {"a": None}, missing="none") == "none"
    with pytest.raises(LookupError):
        fill("{b}", {"a": 1})


def test_text_marks_the_best() -> None:
    table = Table("", ["a", "b"], [["x", mark_best("1")], ["y", "0"]])
    assert render_text(table) == "a    b\nx  1 *\ny    0"
    assert align_columns([["a", "b"], ["xx", 1]], right=[1]) == "a   b\nxx  1"


def test_latex_escapes_special_characters() -> None:
    text = render_latex([Table(r"\input{x} #1 $ ~ ^ <>", ["a-1", "b"], [["k-reciprocal", mark_best("_")]])])
    assert r"\textbackslash{}input\{x\} \#1 \$ \textasciitilde{} \textasciicircum{} \textless{}\textgreater{}" in text
    assert r"k-reciprocal & \textbf{\_} \\" in text
    assert r"\begin{tabular}{lr}" in text


def test_markdown_escapes_its_signs() -> None:
    assert render_markdown([Table("t", ["a", "b"], [["x|y", "**"]])]).splitlines()[2:] == [
        "| a | b |",
        "|---|---:|",
        "| x\\|y | \\*\\* |",
    ]


def test_csv_quotes_and_leaves_out() -> None:
    assert render_csv(["a", "b"], [["x,\n", None]]) == 'a,b\n"x,\n",\n'
