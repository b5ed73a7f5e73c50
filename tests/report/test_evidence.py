"""Report: numbers equal those of the trials; the page is self-contained, well formed and reproducible."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank
from kinrank.display import Display
from kinrank.evaluation.relevance import Relevance
from kinrank.report.evidence import Evidence, ReportInput, RunOptions, evidence_page, gather, item_maps, plots
from kinrank.report.evidence.album import Album
from kinrank.report.evidence.gain_chains import SHOWN_RESULTS
from kinrank.report.html import encode_png
from kinrank.vector_input import sample_evenly
from reference.browser import seen_in
from report.test_demo import Checker

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
CLASSES, EACH = 5, 12


def rings(rng: np.random.Generator, width: int = 8) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return items of a few classes, each on a curve whose far end is reached by chains."""
    labels = np.repeat(np.arange(CLASSES), EACH)
    turned = np.tile(np.linspace(0, np.pi, EACH), CLASSES)
    rows = np.zeros((len(labels), width))
    for number, label in enumerate(labels):
        rows[number, label] = np.cos(turned[number])
        rows[number, (label + 1) % width] = np.sin(turned[number])
    return (rows + 0.05 * rng.standard_normal(rows.shape) + 0.3).astype(np.float32), labels


def small(number: int) -> tuple[bytes, str]:
    if number == 7:
        raise ValueError("it is damaged")
    return encode_png(np.full((4, 4), number, np.uint8)), "image/png"


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    vectors, labels = rings(np.random.default_rng(3))
    names = [f"{HOSTILE} {number}" for number in range(len(labels))]
    shown = Display.of(names=names, labels=[f"<b>{label}" for label in labels], draw=small)
    truth = kinrank.Truth.from_labels(labels)
    return gather(ReportInput(None, vectors, truth, ["mAP", "R@1"], shown), ["lpmt", "aqe"])


@pytest.fixture(scope="module")
def page(evidence: Evidence) -> str:
    return evidence_page(evidence)


def test_numbers_equal_those_of_compare_methods(evidence: Evidence) -> None:
    vectors, labels = rings(np.random.default_rng(3))
    truth = kinrank.Truth.from_labels(labels)
    trials = kinrank.compare(None, vectors, truth, methods=["lpmt", "aqe"], measures=["mAP", "R@1"])
    ours, theirs = evidence.trials.to_dict(), trials.to_dict()
    for found in (ours, theirs):
        for method in found["methods"]:
            del method["seconds_per_query"]
    assert ours == theirs
    change = evidence.values[1] - evidence.values[0]
    (gain,) = (trial.gains["mAP"] for trial in trials if trial.method == "lpmt")
    assert change.mean() == pytest.approx(gain.difference)
    assert int((change > 1e-12).sum()) == gain.better


def test_page_is_self_contained_and_well_formed(page: str) -> None:
    assert not re.search(r"https?://|url\(|@import|<link|<iframe", page)
    for tag, attributes in Checker(page).found:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith(("data:image/", "#", "data:"))
        assert not {name for name in attributes if name.startswith("on")} | {"srcset"} & set(attributes)
        assert tag != "img" or "alt" in attributes


def test_hostile_names_are_text(page: str) -> None:
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;/script&gt;" in page
    (summary,) = re.findall(
        r'<output>.*?</output><script type="application/json">(.*?)</script>', page, flags=re.DOTALL
    )
    assert json.loads(summary)["names"][0].startswith(HOSTILE)


def test_the_same_evidence_gives_the_same_page(evidence: Evidence, page: str) -> None:
    vectors, labels = rings(np.random.default_rng(3))
    truth = kinrank.Truth.from_labels(labels)
    again = gather(ReportInput(None, vectors, truth, ["mAP", "R@1"], evidence.items), ["lpmt", "aqe"])
    assert evidence_page(replace(again, trials=evidence.trials)) == page  # only times differ


def test_frames_agree_with_the_truth(evidence: Evidence, page: str) -> None:
    query, seen = -1, {"right": 0, "wrong": 0}
    for tag, attributes in Checker(page[page.index('id="results"') - 30 : page.index('id="maps"') - 9]).found:
        alt = attributes.get("alt") or ""
        if tag == "article":
            query = int((attributes["id"] or "").removeprefix("query-"))
        elif tag == "img" and alt.startswith("rank "):
            assert (attributes["class"] == "right") == (int(alt.split()[-1]) // EACH == query // EACH)
            seen[str(attributes["class"])] += 1
    assert seen["right"] > 20
    assert len(evidence.chosen) == 10


def test_broken_pictures_have_a_placeholder_and_a_note(evidence: Evidence, page: str) -> None:
    assert "pictures could not be read" in page or not any(
        7 in order[query][:SHOWN_RESULTS] for order in (evidence.before, evidence.after) for query, _ in evidence.chosen
    )
    album = Album()
    card = album.card(evidence.items, 7, "right", "rank 1, right")
    assert card.startswith('<div class="words short right"')
    assert "it is damaged" in album.notes[0]


def test_the_size_of_all_pictures_is_limited() -> None:
    large = Display.of(draw=lambda number: (bytes(3 * 2**18), "image/jpeg"))
    album = Album()
    cards = [album.card(large, number, "right") for number in range(12)]
    assert sum(map(len, cards)) < 8 * 2**20
    assert sum(card.startswith("<img") for card in cards) == 6
    assert album.notes == ["6 pictures were left out, to keep this file small."]
    svg = Display.of(draw=lambda number: (b"<svg/>", "image/svg+xml"))
    assert album.card(svg, 0, "right").startswith("<div")


def test_chains_lead_from_the_query_to_the_item_that_moved(evidence: Evidence) -> None:
    assert evidence.gains
    for walk in [*evidence.gains, *evidence.losses]:
        chain = walk.chain
        assert chain.links[0][:2] == ("query", walk.query)
        assert chain.links[-1][:2] == ("item", walk.item)
        assert len(chain.costs) == len(chain.moved) == len(chain.links) - 1
        assert evidence.before[walk.query].tolist().index(walk.item) + 1 == chain.rank_before
        assert evidence.after[walk.query].tolist().index(walk.item) + 1 == chain.rank_after
        assert chain.rank_after is not None
        assert chain.rank_before is not None
        assert chain.rank_after < chain.rank_before
    assert all(walk.mark == "right" for walk in evidence.gains)
    assert all(walk.mark == "wrong" for walk in evidence.losses)
    assert evidence.step is not None
    assert evidence.step.stage.moved > 0


def test_another_method_that_is_better_is_named(evidence: Evidence) -> None:
    names = [trial.method for trial in evidence.trials if trial.method != "none"]
    gain = evidence.trials[0].gains["mAP"].difference
    assert f"shown because its chains can be displayed; best here: {names[0]}, {100 * gain:+.2f}" in evidence_page(
        replace(evidence, name=names[1])
    )
    assert "best here" not in evidence_page(replace(evidence, name=names[0]))


def test_moves_and_the_direct_share_are_explained(evidence: Evidence, page: str) -> None:
    first = f"{evidence.gains[0].chain.moved[0]:.0%}"
    assert f"“moves {first}”: {first} of the neighbourhood is exchanged in this step" in page
    vectors, _ = rings(np.random.default_rng(3))
    walk = evidence.gains[0]
    summary = kinrank.explain(None, vectors, query=walk.query, item=walk.item)
    assert walk.direct == pytest.approx((1 - kinrank.LPMT().answer_values.theta) * summary.direct)
    assert f"{walk.direct:.0%} of the final distance comes from comparing neighbourhoods directly" in page


@pytest.mark.parametrize("mode", ["candidates", "online"])
def test_other_modes(mode: str) -> None:
    vectors, labels = rings(np.random.default_rng(5))
    asks = np.arange(len(labels)) % 4 == 0
    truth = kinrank.Truth.from_labels(labels[asks], labels[~asks])
    options = RunOptions(candidates=20) if mode == "candidates" else RunOptions(online=True)
    found = gather(ReportInput(vectors[asks], vectors[~asks], truth), ["lpmt", "ecn"], options)
    assert found.trials.mode == ("candidates 20" if mode == "candidates" else "online")
    assert found.before.shape == found.after.shape == (15, 45)  # everything is ranked, in every mode
    if mode == "candidates":
        plain = kinrank.evaluate(kinrank.rerank(vectors[asks], vectors[~asks], "none"), truth)["mAP"].mean
        assert {trial.method: trial.scores["mAP"].mean for trial in found.trials}["none"] == plain
    assert ("ecn" in found.trials.refused) == (mode == "online")
    assert [one.title for one in found.maps] == ["features"] + ["states of lpmt"] * (mode == "online")
    for walk in found.gains:
        assert walk.chain.links[0][:2] == ("query", walk.query)
        assert walk.chain.links[-1][:2] == ("item", walk.item)
        assert len(walk.chain.moved) == len(walk.chain.costs)
    text = evidence_page(found)
    assert f"<em>{found.trials.mode}</em>" in text
    assert ("a small graph per query, over its 20 nearest items" in text) == (mode == "candidates")
    Checker(text)


def test_without_chains_or_scikit_learn_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_maps, "TSNE_MODULE", "no_such_package")
    vectors, labels = rings(np.random.default_rng(5))
    text = evidence_page(gather(ReportInput(None, vectors, kinrank.Truth.from_labels(labels)), ["aqe"]))
    assert "add lpmt to the methods" in text
    assert "pip install &#x27;.[tsne]&#x27;" in text
    assert "principal components" in text


def run_report(vectors: NDArray[np.float32], truth: kinrank.Truth, methods: list[str], **given: Any) -> Evidence:
    content = {name: given.pop(name) for name in ("measures", "items") if name in given}
    return gather(ReportInput(None, vectors, truth, **content), methods, RunOptions(**given))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["none"]}, "give at least one that re-ranks"),
        ({"methods": ["egt"], "max_memory": 1}, "max_memory"),
        ({"candidates": 5, "online": True}, "cannot be combined"),
        ({"online": True}, "queries outside the gallery"),
        ({"measures": []}, "measures is empty"),
        ({"items": Display.of(names=["a"])}, "there are 1 names but 60 items"),
        ({"truth": kinrank.Truth.from_lists([[]] * 60, gallery_size=60)}, "no query has a right answer"),
        ({"truth": kinrank.Truth.from_lists([[1]] * 9, gallery_size=60)}, "60 queries but the truth has 9"),
    ],
)
def test_wrong_input(change: dict[str, Any], message: str) -> None:
    vectors, labels = rings(np.random.default_rng(5))
    given = {"truth": kinrank.Truth.from_labels(labels), "methods": ["aqe"]} | change
    with pytest.raises((ValueError, MemoryError), match=message):
        run_report(vectors, **given)


def test_truth_by_id_matches_rows_by_number() -> None:
    truth = kinrank.Truth.from_qrels({"2": {"5": 1, "7": 1, "900": 1}, "0": {"1": 1}})
    judged = Relevance({"truth": truth}, 3, 8)
    assert judged.right(2).tolist() == [5, 7]
    assert judged.right(1).tolist() == []
    assert judged.judge(("query", 0), None, [1, 2]) == [True, False]
    scores = kinrank.evaluate([[1, 2], [0, 3], [7, 5]], truth)
    values = judged.per_row(scores["mAP"])
    assert values[0] == 1.0
    assert np.isnan(values[1])
    assert values[2] == pytest.approx(2 / 3)


def test_queries_with_the_same_relevant_items_share_a_colour() -> None:
    lists = [[0, 1, 2, 3], [1, 2, 3], [3, 5, 6, 7], [8]]
    truth = kinrank.Truth.from_lists(lists, gallery_size=10)
    asked = Display.of("query", names=["church_01", "church_02", "tower_7", "bridge"])
    judged = Relevance({"truth": truth}, 4, 10)
    found = item_maps.group_items(Display(), asked, judged, 4, 10)
    names = {found.names[group] for group in found.of[found.of >= 0]}
    assert names == {"church", "tower_7", "bridge"}
    assert found.names[found.of[3]] == "church"  # right for two queries of that group, and one of the other
    assert found.of[[4, 9]].tolist() == [-1, -1]
    assert len(set(item_maps.group_queries(asked, judged, 4, 10).tolist())) == 3


def test_maps_show_all_items_within_the_frame(rng: np.random.Generator) -> None:
    same = item_maps.compute_maps({"a": item_maps.reduce_vectors(np.ones((15, 3)))}, True)[0].points
    assert np.isfinite(same).all()
    rows = rng.standard_normal((30, 4))
    for tsne in (False, True):
        points = item_maps.compute_maps({"a": item_maps.reduce_vectors(rows)}, tsne)[0].points
        assert points.shape == (30, 2)
        assert points.min() >= -1e-9
        assert points.max() <= 1 + 1e-9
    assert len(sample_evenly(5063, item_maps.MAX_MAP_ITEMS)) == item_maps.MAX_MAP_ITEMS


def test_lpmt_is_shown_whatever_its_parameters_are() -> None:
    vectors, labels = rings(np.random.default_rng(5))
    method = kinrank.LPMT(k1=9)
    truth = kinrank.Truth.from_labels(labels)
    found = gather(ReportInput(None, vectors, truth), [method, kinrank.LPMT(k1=2, k2=1, kappa=0.0), "aqe"])
    assert found.name in (repr(method), repr(kinrank.LPMT(k1=2, k2=1, kappa=0.0)))
    assert found.gains or found.losses or not found.values.any()
    assert found.maps[1].title == f"states of {found.name}"


def test_threads_are_as_before_when_maps_are_drawn(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    pools = pytest.importorskip("threadpoolctl")
    begun, both, ended = (threading.Event() for _ in range(3))

    class Overlapping:
        """Let the map of 20 items start first and end while that of 30 is being drawn."""

        def __init__(self, init: NDArray[np.float32], **_: Any) -> None:
            self.first = len(init) == 20
            assert self.first or begun.wait(60)

        def fit_transform(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
            (begun if self.first else both).set()
            assert (both if self.first else ended).wait(60)
            if self.first:
                threading.Timer(0.1, ended.set).start()
            return rows[:, :2]

    def threads() -> list[tuple[str, int]]:
        return sorted((pool["filepath"], pool["num_threads"]) for pool in pools.threadpool_info())

    monkeypatch.setitem(sys.modules, "overlapping", types.SimpleNamespace(TSNE=Overlapping))
    monkeypatch.setattr(item_maps, "TSNE_MODULE", "overlapping")
    before = threads()
    drawn = item_maps.compute_maps({str(size): rng.standard_normal((size, 4)) for size in (20, 30)}, True)
    assert threads() == before
    assert [one.title for one in drawn] == ["20", "30"]


def test_long_names_are_cut_as_texts_are() -> None:
    long = Display.of(names=["x" * 500], texts=["y" * 500], labels=["z" * 500])
    assert long.name(0) == "x" * 99 + "…"
    assert long.texts[0] == "y" * 239 + "…"
    judged = Relevance({"truth": kinrank.Truth.from_lists([[0]], gallery_size=1)}, 1, 1)
    assert item_maps.group_items(long, long, judged, 1, 1).names == ["z" * 99 + "…"]


def test_many_queries_share_bars(evidence: Evidence) -> None:
    change = np.sort(np.random.default_rng(2).standard_normal(12_345))[::-1]
    bars, places = plots.bin_changes(change)
    assert len(bars) == len(places) == plots.BINS
    parts = np.split(change, np.linspace(0, len(change), plots.BINS + 1).astype(int)[1:-1])
    np.testing.assert_allclose(bars, [part.mean() for part in parts])
    assert all(change[place] in part for place, part in zip(places, parts, strict=True))
    few, all_places = plots.bin_changes(change[:5000])
    assert few is not None
    assert all_places.tolist() == list(range(5000))
    many = replace(
        evidence,
        values=np.tile(evidence.values, 200),
        query_display=Display.of(names=[f"{number} {'long ' * 60}" for number in range(12_000)]),
    )
    text = evidence_page(many)
    assert "Each bar is the mean of about 12 queries" in text
    (summary,) = re.findall(
        r'<output>.*?</output><script type="application/json">(.*?)</script>', text, flags=re.DOTALL
    )
    assert len(json.loads(summary)["names"]) == plots.BINS
    assert len(text) < 10 * 2**20


LOOK = """
const box = document.querySelector(".changes"), slider = box.querySelector("input");
slider.value = 3;
slider.dispatchEvent(new Event("input"));
const message = box.querySelector("output").textContent;
const drawn = box.querySelector("svg"), frame = drawn.getBoundingClientRect();
drawn.dispatchEvent(new PointerEvent("pointerdown", {clientX: frame.right - 1, clientY: frame.top + 5}));
const last = box.querySelector("output").textContent, button = box.querySelector("output button");
if (button) button.click();
const shown = [...document.querySelectorAll("article")].filter(one => getComputedStyle(one).display !== "none");
return {message, last, shown: shown.map(one => one.id), scripts: document.querySelectorAll("img[onerror]").length,
  checked: document.querySelector("[name=query]:checked").id,
  page: document.documentElement.scrollWidth, window: window.innerWidth, alerts: typeof window.alerted};
"""


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1400, False)])
def test_the_page_in_a_browser(page: str, evidence: Evidence, tmp_path: Any, width: int, dark: bool) -> None:
    found = seen_in(page, LOOK, tmp_path, width, dark)
    assert found["page"] <= found["window"] == width
    assert found["message"].startswith(HOSTILE)
    assert "4 of 60" in found["message"]
    assert "60 of 60" in found["last"]
    assert found["shown"] == [found["checked"].replace("pick", "query")]
    assert found["scripts"] == 0


def test_pixels_survive_as_data(evidence: Evidence, page: str) -> None:
    query = evidence.chosen[0][0]
    assert base64.b64encode(small(query)[0]).decode() in page
