"""Demo: numbers equal those of the rankings; the page is self-contained, well formed and honest."""

from __future__ import annotations

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
from kinrank.evaluation import Trials
from kinrank.plots import DARK, LIGHT
from kinrank.report.demo import embed_pixels, run_demo
from kinrank.report.evidence.evidence_data import choose
from kinrank.report.html import document, encode_png, reduce_shades, write_page
from reference.browser import seen_in
from reference.commands import good

pytestmark = pytest.mark.slow

OBJECTS, VIEWS = 8, 36
VOID = {"meta", "img", "br", "link", "hr", "input", "wbr"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trials, str]:
    file = tmp_path_factory.mktemp("demo") / "new folder" / "demo.html"
    evidence = run_demo(file, objects=OBJECTS, views=VIEWS)
    return evidence.trials, file.read_text(encoding="utf-8")


class Checker(HTMLParser):
    """Parser that collects tags and reports unclosed ones."""

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
    """Decode PNG files with filter 2 (up), 8 bits, grey or colour."""
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
    np.testing.assert_array_equal(decoded(encode_png(image)), image)


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 2), np.uint8)])
def test_png_refuses_wrong_arrays(bad: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="image has shape"):
        encode_png(bad)


def test_titles_are_escaped() -> None:
    assert "<script>" not in document("<script>", "")


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "old")
    with pytest.raises(UnicodeEncodeError):
        write_page(page, "new \ud800")
    assert page.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert write_page(tmp_path, "folder").name == "index.html"


def test_embedding_is_centred_pixels() -> None:
    images = turntable(1, 2, 16).images
    vectors = embed_pixels(images)
    assert vectors.shape == (2, 8 * 8 * 3)
    np.testing.assert_allclose(vectors.mean(axis=1), 0, atol=1e-4)
    corner = images[1, :2, :2].mean(axis=(0, 1))
    np.testing.assert_allclose(vectors[1, :3] - vectors[1, 3:4], corner - embed_first(images[1]), atol=1e-3)


def embed_first(image: NDArray[np.uint8]) -> float:
    """Check the red of the second averaged pixel by hand."""
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


def test_summary_equals_the_scores_of_the_rankings(shown: tuple[Trials, str]) -> None:
    trials, text = shown
    assert (trials.items, trials.mode) == (OBJECTS * VIEWS, "joint")
    images, labels, _ = turntable(OBJECTS, VIEWS)
    for trial in trials:
        ranking = kinrank.rerank(None, embed_pixels(images), trial.method)
        scores = kinrank.evaluate(ranking, kinrank.Truth.from_labels(labels), ["mAP", "R@1"])
        for measure in ("mAP", "R@1"):
            found = trial.scores[measure]
            assert found.mean == pytest.approx(scores[measure].mean)
            assert found.low <= found.mean <= found.high
        assert f"{100 * scores['mAP'].mean:.1f}&thinsp;%" in text
        assert trial.seconds > 0


def test_lpmt_is_better_than_plain_distances(shown: tuple[Trials, str]) -> None:
    lpmt, plain = shown[0]
    assert (lpmt.method, plain.method) == ("lpmt", "none")
    assert lpmt.scores["mAP"].low > plain.scores["mAP"].high
    assert lpmt.gains["mAP"].low > 0


def test_page_is_self_contained(shown: tuple[Trials, str]) -> None:
    text = shown[1]
    assert not re.search(r"https?://|url\(|@import|<script src|<link|<iframe", text)
    for tag, attributes in Checker(text).found:
        if tag == "img":
            assert (attributes["src"] or "").startswith("data:image/png;base64,")
            assert "alt" in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert not {"onload", "onclick", "srcset"} & set(attributes)


def test_page_says_what_it_does_not_show(shown: tuple[Trials, str]) -> None:
    text = shown[1]
    assert "The set is ideal for this method" in text
    assert "<em>joint</em>" in text
    gain = shown[0][0].gains["mAP"]
    assert f"<dt>queries better, worse</dt><dd>{gain.better:,}, {gain.worse:,}</dd>" in text


def test_page_frames_agree_with_the_truth(shown: tuple[Trials, str]) -> None:
    """Check that an answer is framed as right exactly if its toy is that of the query."""
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


def test_a_chain_leads_to_a_view_that_moved_up(shown: tuple[Trials, str]) -> None:
    text = shown[1]
    chains = text[text.index('<section id="chains">') :]
    ranks = r"rank ([\d,]+) before, rank ([\d,]+) after"
    first = re.search(rf'<div class="walk"><p><b>(.+?) at .*?Right: <b>(.+?) at .*?{ranks}', chains)
    assert first is not None
    assert first[1] == first[2]
    assert int(first[4].replace(",", "")) < int(first[3].replace(",", ""))
    assert chains.count('alt="step ') >= 2


def test_page_opens_with_the_product_and_what_it_is(shown: tuple[Trials, str]) -> None:
    text = shown[1]
    header = text[text.index("<header>") : text.index("</header>")]
    words = " ".join(re.sub(r"<[^>]+>", " ", header).split())
    assert words.startswith("kinrank re-ranks the results of a vector search: ")
    assert header.index("kinrank") < header.index("<h1>")
    assert "kinrank" in text[text.index("<title>") : text.index("</title>")]


def test_page_ends_with_commands_for_your_data_that_exist(shown: tuple[Trials, str], tmp_path: Path) -> None:
    text = shown[1]
    end = text[text.rindex("<section") :]
    assert "On your data" in end
    commands = re.findall(r"^(?:<pre[^>]*><code>)?(kinrank [^<\n]+)", end, flags=re.MULTILINE)
    assert {command.split()[1] for command in commands} == {"rerank", "compare", "report", "build", "search"}
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
def test_contrast_in_light_and_dark_mode(colors: dict[str, str]) -> None:
    """Check WCAG AA: 4.5 for text, 3 for graphics."""
    for ground in ("paper", "card"):
        for name, least in {"ink": 4.5, "soft": 4.5, "good": 4.5, "bad": 4.5, "after": 4.5, "before": 3.0}.items():
            light, dark = sorted((luminance(colors[name]), luminance(colors[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, (name, ground)


def test_all_colours_have_a_dark_variant(shown: tuple[Trials, str]) -> None:
    text = shown[1]
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@media (prefers-color-scheme: dark)" in style
    assert all(f"--{name}: {color};" in style for name, color in DARK.items())
    drawn = re.sub(r"base64,[^\"]+", "", text[text.index("</style>") :])
    assert not re.search(r'(?:fill|stroke|color)="#', drawn)  # plots use the page's colours
    assert set(LIGHT) == set(DARK)


def test_several_queries_can_be_chosen(shown: tuple[Trials, str]) -> None:
    text = shown[1]
    tags = Checker(text).found
    buttons = [attributes for tag, attributes in tags if tag == "input" and attributes.get("name") == "query"]
    assert len(buttons) >= OBJECTS
    assert {button["type"] for button in buttons} == {"radio"}
    assert ["checked" in button for button in buttons] == [True] + [False] * (len(buttons) - 1)
    articles = [attributes["id"] for tag, attributes in tags if tag == "article"]
    assert articles == [str(button["id"]).replace("pick-", "query-") for button in buttons]
    for button in buttons:
        number = str(button["id"]).removeprefix("pick-")
        assert f".chooser:has(#pick-{number}:checked) #query-{number}" in text
    assert len(text) < OBJECTS * 220_000  # 24 toys: less than 5 MB


def test_fewer_shades_differ_little() -> None:
    image = np.arange(256, dtype=np.uint8)[None, :]
    assert len(np.unique(reduce_shades(image))) == 16
    assert np.abs(reduce_shades(image).astype(int) - image).max() <= 9
    assert (reduce_shades(image)[0, 0], reduce_shades(image)[0, -1]) == (0, 255)


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
def test_in_a_browser(shown: tuple[Trials, str], tmp_path: Path, width: int, dark: bool) -> None:
    found = seen_in(shown[1], LOOK, tmp_path, width, dark)
    assert found["first"] == [found["ids"][0].replace("pick", "query")]
    assert found["second"] == [found["ids"][3].replace("pick", "query")]
    assert found["reached"]
    assert found["page"] <= found["window"] == width
    paper = (DARK if dark else LIGHT)["paper"]
    assert found["ground"] == f"rgb({', '.join(str(int(paper[place : place + 2], 16)) for place in (1, 3, 5))})"
