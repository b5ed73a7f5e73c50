"""The demo: its numbers are those of the rankings, its page stands alone, is well formed and honest."""

from __future__ import annotations

import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.datasets.turntable import turntable
from kinrank.report import svg
from kinrank.report.demo import chain, choose, embed, one_of_each_other, run_demo
from kinrank.report.html import DARK, LIGHT, coarse, document, picture, png, write_page
from reference.browser import seen_in
from reference.commands import good

OBJECTS, VIEWS = 8, 36
VOID = {"meta", "img", "br", "link", "hr", "input", "wbr"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    file = tmp_path_factory.mktemp("demo") / "new folder" / "demo.html"
    summary = run_demo(file, objects=OBJECTS, views=VIEWS)
    return summary, file.read_text(encoding="utf-8")


class Checker(HTMLParser):
    """Collects tags and complains about any that is not closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag


def decoded(data: bytes) -> NDArray[np.uint8]:
    """A slow decoder of the PNG files we write: filter 2 (up), 8 bits, grey or colour."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        (checksum,) = struct.unpack(">I", data[place + 8 + size : place + 12 + size])
        assert checksum == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + size
    width, height, bits, color, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert bits == 8
    depth = {0: 1, 2: 3}[color]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * depth)
    assert (lines[:, 0] == 2).all()
    rows = np.cumsum(lines[:, 1:], axis=0, dtype=np.uint64).astype(np.uint8)
    return rows.reshape((height, width, 3) if depth == 3 else (height, width))


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (1, 1), (64, 64, 3)])
def test_png_round_trips(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(decoded(png(image)), image)


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 2), np.uint8)])
def test_png_refuses_what_it_cannot_write(bad: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="image has shape"):
        png(bad)


def test_texts_are_escaped() -> None:
    tag = picture(np.zeros((2, 2), np.uint8), 'a "quoted" <toy> & more', mark='x" onload="y')
    assert Checker(tag).found[0][1]["alt"] == 'a "quoted" <toy> & more'
    assert "onload" not in Checker(tag).found[0][1]
    assert "<script>" not in document("<script>", "")
    drawn = svg.dumbbells(["<b>"], np.array([0.1]), np.array([0.2]), "<i>")
    assert "<b>" not in drawn
    assert "<i>" not in drawn


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "old")
    with pytest.raises(UnicodeEncodeError):
        write_page(page, "new \ud800")
    assert page.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert write_page(tmp_path, "folder").name == "index.html"


def test_embedding_is_centred_pixels() -> None:
    images = turntable(1, 2, 16).images
    vectors = embed(images)
    assert vectors.shape == (2, 8 * 8 * 3)
    np.testing.assert_allclose(vectors.mean(axis=1), 0, atol=1e-4)
    corner = images[1, :2, :2].mean(axis=(0, 1))
    np.testing.assert_allclose(vectors[1, :3] - vectors[1, 3:4], corner - embed_first(images[1]), atol=1e-3)


def embed_first(image: NDArray[np.uint8]) -> float:
    """The red of the second averaged pixel, by hand."""
    return float(image[:2, 2:4, 0].mean())


def test_chosen_queries_show_gains_and_losses_one_per_toy() -> None:
    labels = np.repeat(np.arange(12), 3)
    before = np.full(36, 0.5)
    after = before + np.linspace(0.4, -0.1, 36)
    chosen = choose(before, after, labels)
    queries = [query for query, _ in chosen]
    assert len(chosen) == 8
    assert len(set(labels[queries])) == 8
    assert queries[:5] == [0, 3, 6, 9, 12]
    assert queries[-2:] == [35, 32]  # the largest losses, one per toy
    for query, reason in chosen:
        assert ("losses" in reason) <= (after[query] < before[query])


def test_without_losses_the_worst_results_are_shown_even_of_the_toy_that_gained_most() -> None:
    labels = np.repeat(np.arange(12), 3)
    before, after = np.full(36, 0.2), np.full(36, 0.9)
    before[0], after[1] = 0.0, 0.3  # toy 0: the largest gain, and the worst result
    chosen = choose(before, after, labels)
    assert not any("losses" in reason for _, reason in chosen)
    assert (1, "among the worst results after re-ranking") in chosen


def test_summary_is_what_the_rankings_score(shown: tuple[dict[str, Any], str]) -> None:
    summary, text = shown
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["items"], summary["objects"], summary["views"]) == (OBJECTS * VIEWS, OBJECTS, VIEWS)
    assert summary["mode"] == "joint"
    images, labels, _ = turntable(OBJECTS, VIEWS)
    for name, found in summary["methods"].items():
        ranking = kinrank.rerank(None, embed(images), name)
        scores = kinrank.evaluate(ranking, kinrank.Truth.from_labels(labels), ["mAP", "R@1"])
        for measure in ("mAP", "R@1"):
            assert found[measure]["mean"] == pytest.approx(scores[measure].mean)
            assert found[measure]["low"] <= found[measure]["mean"] <= found[measure]["high"]
            assert f"{100 * scores[measure].mean:.1f}&thinsp;%" in text
        assert found["seconds"] > 0


def test_lpmt_is_better_than_plain_distances(shown: tuple[dict[str, Any], str]) -> None:
    methods = shown[0]["methods"]
    assert methods["lpmt"]["mAP"]["low"] > methods["none"]["mAP"]["high"]
    assert shown[0]["difference"]["low"] > 0


def test_page_needs_nothing_but_itself(shown: tuple[dict[str, Any], str]) -> None:
    text = shown[1]
    assert not re.search(r"https?://|url\(|@import|<script|<link|<iframe", text)
    for tag, attributes in Checker(text).found:
        if tag == "img":
            assert (attributes["src"] or "").startswith("data:image/png;base64,")
            assert attributes["alt"]
        assert not {"onload", "onclick", "href", "srcset"} & set(attributes)


def test_page_says_what_it_does_not_show(shown: tuple[dict[str, Any], str]) -> None:
    text = shown[1]
    assert "made to be followed" in text
    assert "<em>joint</em>" in text
    assert f"<dt>queries worse</dt><dd>{shown[0]['difference']['worse']}</dd>" in text


def test_page_frames_agree_with_the_truth(shown: tuple[dict[str, Any], str]) -> None:
    """Every framed answer says its toy; it is right exactly where that is the toy of its query."""
    query, seen = "", {"right": 0, "wrong": 0}
    for tag, attributes in Checker(shown[1]).found:
        alt = attributes.get("alt") or ""
        if tag == "img" and alt.startswith("query: "):
            query = alt.removeprefix("query: ").split(" at ")[0]
        elif tag == "img" and alt.startswith("rank "):
            toy = alt.split(": ")[1].split(" at ")[0]
            mark = attributes["class"] or ""
            assert (mark == "right") == (toy == query)
            seen[mark] += 1
    assert seen["right"] > 20
    assert seen["wrong"] > 5


def test_chain_walks_from_the_query_to_the_far_side(shown: tuple[dict[str, Any], str]) -> None:
    walk = shown[0]["chain"]
    images, labels, angles = turntable(OBJECTS, VIEWS)
    first, last = walk["items"][0], walk["items"][-1]
    assert labels[first] == labels[last]
    assert abs(angles[first] - angles[last]) == 180
    assert len(walk["costs"]) == len(walk["items"]) - 1 >= 2
    found = chain(embed(images), first, last)
    assert found.total == pytest.approx(sum(walk["costs"]), rel=1e-4)


def test_page_opens_with_the_product_and_what_it_is(shown: tuple[dict[str, Any], str]) -> None:
    text = shown[1]
    header = text[text.index("<header>") : text.index("</header>")]
    words = " ".join(re.sub(r"<[^>]+>", " ", header).split())
    assert words.startswith("kinrank re-ranks what a vector search found: ")
    assert header.index("kinrank") < header.index("<h1>")
    assert "kinrank" in text[text.index("<title>") : text.index("</title>")]


def test_page_ends_with_commands_for_your_data_that_exist(shown: tuple[dict[str, Any], str], tmp_path: Path) -> None:
    text = shown[1]
    end = text[text.rindex("<section") :]
    assert "On your data" in end
    commands = re.findall(r"^(?:<pre[^>]*><code>)?(kinrank [^<\n]+)", end, flags=re.MULTILINE)
    assert {command.split()[1] for command in commands} == {"rerank", "compare", "build", "search"}
    for command in commands:
        _, verb, *words = command.split()
        help_text = good(tmp_path, verb, "--help")
        for flag in (word for word in words if word.startswith("-")):
            assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help_text), f"{command}: {flag}"


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_is_enough_by_day_and_by_night(colors: dict[str, str]) -> None:
    """WCAG AA: 4.5 for text, 3 for what only has to be seen."""
    for ground in ("paper", "card"):
        for name, least in {"ink": 4.5, "soft": 4.5, "good": 4.5, "bad": 4.5, "after": 4.5, "before": 3.0}.items():
            light, dark = sorted((luminance(colors[name]), luminance(colors[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, (name, ground)


def test_page_has_colours_for_the_dark_and_none_beside_them(shown: tuple[dict[str, Any], str]) -> None:
    text = shown[1]
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@media (prefers-color-scheme: dark)" in style
    assert all(f"--{name}: {color};" in style for name, color in DARK.items())
    drawn = re.sub(r"base64,[^\"]+", "", text[text.index("</style>") :])
    assert not re.search(r'(?:fill|stroke|color)="?#', drawn)  # plots change with the rest
    assert set(LIGHT) == set(DARK)


def test_a_query_of_every_toy_can_be_chosen(shown: tuple[dict[str, Any], str]) -> None:
    text = shown[1]
    tags = Checker(text).found
    buttons = [attributes for tag, attributes in tags if tag == "input"]
    assert len(buttons) == OBJECTS
    assert {button["type"] for button in buttons} == {"radio"}
    assert {button["name"] for button in buttons} == {"query"}
    assert ["checked" in button for button in buttons] == [True] + [False] * (OBJECTS - 1)
    articles = [attributes["id"] for tag, attributes in tags if tag == "article"]
    assert articles == [str(button["id"]).replace("pick-", "query-") for button in buttons]
    for button in buttons:
        number = str(button["id"]).removeprefix("pick-")
        assert f".chooser:has(#pick-{number}:checked) #query-{number}" in text
    assert len(text) < OBJECTS * 220_000  # 24 toys: less than 5 MB


def test_the_other_queries_are_the_middle_ones_of_their_toys() -> None:
    labels = np.repeat([3, 1, 7], 5)
    before = np.zeros(15)
    after = np.concatenate([np.arange(5), [9, 1, 5, 7, 3], np.arange(5)]) / 10
    assert one_of_each_other(before, after, labels, [0]) == [
        (7, "the middle one of its toy's gains"),
        (12, "the middle one of its toy's gains"),
    ]


def test_coarse_pictures_differ_little() -> None:
    image = np.arange(256, dtype=np.uint8)[None, :]
    assert len(np.unique(coarse(image))) == 16
    assert np.abs(coarse(image).astype(int) - image).max() <= 9
    assert (coarse(image)[0, 0], coarse(image)[0, -1]) == (0, 255)


LOOK = """
const picks = [...document.querySelectorAll(".pick input")], seen = () => [...document.querySelectorAll("article")]
  .filter(article => getComputedStyle(article).display !== "none").map(article => article.id);
const first = seen();
picks[3].focus();
const reached = document.activeElement === picks[3];
picks[3].click();
return {first, second: seen(), ids: picks.map(pick => pick.id), reached,
  page: document.documentElement.scrollWidth, window: window.innerWidth,
  ground: getComputedStyle(document.body).backgroundColor};
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_in_a_browser(shown: tuple[dict[str, Any], str], tmp_path: Path, width: int, dark: bool) -> None:
    found = seen_in(shown[1], LOOK, tmp_path, width, dark)
    assert found["first"] == [found["ids"][0].replace("pick", "query")]
    assert found["second"] == [found["ids"][3].replace("pick", "query")]
    assert found["reached"]
    assert found["page"] <= found["window"] == width
    paper = (DARK if dark else LIGHT)["paper"]
    assert found["ground"] == f"rgb({', '.join(str(int(paper[place : place + 2], 16)) for place in (1, 3, 5))})"
