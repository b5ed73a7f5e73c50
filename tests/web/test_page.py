"""The page in a real browser: results, comparison and explanations by mouse and keyboard, on a phone, in the dark."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the page is served by fastapi; install it with: pip install '.[web]'")

import kinrank
from kinrank.web.settings import Files, Settings
from kinrank.web.startup.service_setup import prepare_toys
from web.chromium import Page, figure, serious, waiting_for
from web.small_service import listening, prepare_settings, settings_in, vectors

pytestmark = pytest.mark.slow

TAB, ENTER, ESCAPE, DOWN, RIGHT, SPACE = "\ue004", "\ue007", "\ue00c", "\ue015", "\ue014", " "
TARGETS = """
const kinds = "button, select, a:not(.skip), [role=option], input[type=range], label:has(input)";
const seen = (one) => one.checkVisibility({visibilityProperty: true}) && !one.closest("[inert]");
const size = (one) => [one.outerHTML.slice(0, 90), one.offsetWidth, one.offsetHeight];
return [...document.querySelectorAll(kinds)].filter(seen).map(size).filter(([, x, y]) => x && (x < 24 || y < 24));
"""
SURVIVE = r"""
const done = arguments[0];
(async () => {
  const {address, stateOf, EMPTY, same} = await import("./page/state.js");
  const {vectorIn} = await import("./page/npy.js");
  const ids = [0, -7, "7", "none", "", '"', "a&b=c#d?", "<b>", "日本 ✓", 2n ** 63n];
  const view = (id) => ({...EMPTY, query: {item: id}, right: [id], open: id, parameters: {rho: null, x: 0.25}});
  const lost = ids.filter((id) => !same(stateOf(address(view(id))), view(id))).map(String);
  const files = [["a.json", '{"vector": [1, 2.5]}'], ["b.txt", "1\n2\n\n3\n"], ["c.npy", "nothing"], ["d.csv", "a,b\n"],
    ["e.png", ""], ["f.json", "[0, 0]"], ["g.csv", "1,1e99"]];
  const said = ([name, text]) => vectorIn(new File([text], name)).then(String, (error) => error.message);
  done([lost, await Promise.all(files.map(said))]);
})().catch((error) => done([[String(error)], []]));
"""
HOSTILE = '<img src=x onerror="window.owned=1">'


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Service with some toys of `kinrank serve`, some of which are also queries."""
    folder = tmp_path_factory.mktemp("toys")
    served = prepare_toys(folder, None, None, objects=8, views=36)
    manifold = kinrank.Manifold.load(served.manifold)
    asking = list(range(4, len(manifold), 36))
    np.save(folder / "queries.npy", manifold.snapshot.vectors[asking])
    (folder / "names.txt").write_text("".join(f"{manifold.ids[one]}\n" for one in asking))
    (folder / "labels.txt").write_text("".join(f"{manifold.ids[one].split('_')[0]}\n" for one in asking))
    files = replace(
        served.files,
        queries=str(folder / "queries.npy"),
        query_names=str(folder / "names.txt"),
        query_labels=str(folder / "labels.txt"),
    )
    settings = Settings(str(served.manifold), title=served.title, files=files, encoder=served.encoder)
    with listening(replace(settings, scratch=str(folder))) as address:
        yield address


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Service with sixty items with names and short vectors, but without pictures."""
    with listening(settings_in(tmp_path_factory.mktemp("plain"))) as address:
        yield address


@pytest.fixture(scope="session")
def oxford(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("oxford")
    with listening(prepare_settings(shared_dir / "data", set_name="roxford5k", scratch=folder)) as address:
        yield address


@contextlib.contextmanager
def changed(page: Page, side: str = "after") -> Iterator[None]:
    """Check that the code in this block makes the page show another list."""
    before = page.ranked(side)
    yield
    assert waiting_for(lambda: page.ranked(side) != before)


def test_it_loads_without_a_complaint_or_a_request_elsewhere(page: Page, small: str) -> None:
    page.looks(moving=True).open(small)
    page.click("#see-why")
    page.explained()
    page.until("document.querySelectorAll('.ribbon').length && document.querySelectorAll('.map .point').length > 5")
    time.sleep(1.0)
    urls = page.requested_urls()
    assert len(urls) > 20
    assert [address for address in urls if not address.startswith((f"{small}/", "data:", "blob:"))] == []
    assert page.complaints() == []
    assert page.js("return document.querySelectorAll('[style*=url], script:not([src]), style').length") == 0


def test_a_query_shows_before_and_after(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&view=compare")
    assert len(page.ranked("before")) == len(page.ranked("after")) == 20
    assert page.ranked("before") != page.ranked("after")
    assert page.text(".head.before .score").endswith("of 20 right")
    assert int(page.text(".head.after .score strong")) >= int(page.text(".head.before .score strong"))
    assert "online" in page.text("#search-facts")
    assert page.text("#search-facts").count(" ms") == 2
    rows, lines = page.all(".column .row"), page.all(".lines .line:not(.label)")
    assert len(rows) == 40
    assert len(lines) == len(set(page.ranked("before")) | set(page.ranked("after")))
    assert page.js("return document.querySelectorAll('.row.right .sign, .row.wrong .sign').length") == 40
    beyond = page.all(".line.label")
    assert beyond
    assert all(any(letter.isdigit() for letter in one.text) for one in beyond if one.text)


def test_a_picture_in_the_grid_is_a_query(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&view=compare")
    with changed(page, "before"):
        page.click('.cell[aria-posinset="5"]')
    assert "query=4" in page.driver.current_url
    page.click("input[name=kind][value=items]")
    page.until("document.querySelector('.count').textContent === '288 pictures'")
    page.find("#words").send_keys("tree_1")
    page.until("document.querySelector('.count').textContent.endsWith('found')")
    page.until("document.querySelector('#option-0[data-ready]')")
    with changed(page, "before"):
        page.click("#option-0")
    assert "item=tree_1" in page.driver.current_url
    page.find("#words").send_keys("nobody has this")
    page.until("document.querySelector('#panel-query .empty:not([hidden])')?.textContent.includes('nobody has this')")
    page.js("const one = document.querySelector('#words'); one.value = ''; one.dispatchEvent(new Event('input'))")
    page.until("document.querySelector('.count').textContent === '288 pictures'")
    with changed(page, "before"):
        page.click("#random")


def test_a_click_opens_the_chain(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&view=compare")
    assert page.js("return document.querySelector('#why').hidden")
    page.click(".column.after .row:nth-child(15) .result")
    page.explained()
    chosen = page.ranked()[14]
    assert chosen in page.text("#why-title")
    assert f"open={chosen}" in page.driver.current_url
    assert page.text("#why .words")
    assert page.all(".routes .end .picture")
    assert page.all(".straight")
    steps = page.all(".step")
    assert steps
    assert page.all(".ribbon")
    assert page.all(".map-chain")
    assert page.js("return document.querySelector('.why-details').open") is False
    assert all(one.text.endswith("%") for one in page.all(".price")), "one unit for all steps"
    if len(steps) > 1:
        message = page.text(".flow-part h3")
        page.click(f'.step[data-step="{0 if steps[0].get_attribute("aria-checked") == "false" else 1}"]')
        assert page.text(".flow-part h3") != message
    place = page.js("return document.querySelector('.point.result').getAttribute('transform')")
    page.js("document.querySelector('input[name=map-time][value=before]').click()")
    page.until("document.querySelector('.point.result').getAttribute('transform') !== arguments[0]", place)
    page.click("#close-why")
    page.until("document.querySelector('#why').hidden")


def test_without_an_address_the_page_shows_the_results_of_an_example(page: Page, small: str) -> None:
    page.looks().open(small)
    assert "query=" in page.driver.current_url
    assert page.js("return document.querySelector('#why').hidden"), "results first"
    assert page.all(".columns") == []
    assert "are right; with plain search" in page.text(".lead")
    page.click("#see-why")
    page.explained()
    assert page.all(".shot.selected")
    assert "open=" in page.driver.current_url
    assert len(page.all(".step")) > 1
    page.click("#see-compare")
    page.until("document.querySelectorAll('.column.after .row').length === 20")
    assert page.all(".row.selected")
    assert "view=compare" in page.driver.current_url
    page.driver.back()
    page.until("document.querySelectorAll('.shelf .shot').length === 20")


def test_the_size_of_the_pictures_is_remembered(page: Page, small: str) -> None:
    wide = "return document.querySelector('.shot:not([hidden]) .thumb').offsetWidth"
    page.looks().open(f"{small}/?query=2")
    before = page.js(wide)
    page.find("#size").send_keys(*[RIGHT] * 12)
    assert page.js(wide) > before + 40
    after = page.js(wide)
    page.open(f"{small}/?query=2")
    assert page.js(wide) == after
    page.js("localStorage.clear()")


def test_a_picture_is_shown_large(page: Page, small: str) -> None:
    loaded = "document.querySelector('#lightbox img')?.naturalWidth"
    page.looks().open(f"{small}/?query=2")
    ids = page.js("return [...document.querySelectorAll('.shot:not([hidden])')].map((one) => one.dataset.id)")
    page.click(".shot:not([hidden]) .result")
    page.until(loaded)
    assert page.text("#lightbox-title") == ids[0]
    assert serious(page) == []
    page.keys(RIGHT, RIGHT)
    assert page.text("#lightbox-title") == ids[2]
    page.keys("o")
    page.until("document.querySelector('#lightbox img').src.endsWith('size=0')")
    page.until(loaded)
    assert page.js("return document.querySelector('#lightbox a').href").endswith(f"{ids[2]}?size=0")
    page.keys("r", SPACE)
    page.until("!document.querySelector('#lightbox').open")
    page.until("document.activeElement.closest('.shot')?.dataset.id === arguments[0]", ids[2])
    assert page.js("return document.querySelector('.shot.marked-right').dataset.id") == ids[2]
    page.keys(SPACE)
    page.until("document.querySelector('#lightbox').open")
    page.click("#lightbox-why")
    page.explained()
    assert ids[2] in page.text("#why-title")
    page.click("#enlarge")
    assert page.text("#lightbox-title") == ids[2]
    page.keys(ESCAPE)
    page.until("!document.querySelector('#lightbox').open")
    assert page.focused("#enlarge")
    page.click(f'.shot[data-id="{ids[1]}"] .result')  # the explanation follows
    page.until("document.querySelector('#why-title').textContent.includes(arguments[0])", ids[1])
    page.click("#close-why")
    with changed(page):
        page.click(".shot:not([hidden]) .result")
        page.click("#lightbox-ask")
    assert f"item={ids[0]}" in page.driver.current_url


def test_the_grid_by_keys(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2")
    page.js("document.querySelector('.shot .result').focus()")
    shown = page.js("return [...document.querySelectorAll('.shot:not([hidden])')].map((one) => one.dataset.id)")
    columns = page.js("return getComputedStyle(document.querySelector('.shelf')).gridTemplateColumns.split(' ').length")
    here = "return document.activeElement.closest('.shot').dataset.id"
    page.keys(RIGHT)
    assert page.js(here) == shown[1]
    page.keys(DOWN)
    assert page.js(here) == shown[min(1 + columns, len(shown) - 1)]
    page.keys("e")
    page.explained()
    page.keys(ESCAPE)
    page.until("document.querySelector('#why').hidden")
    assert page.js(here) == shown[min(1 + columns, len(shown) - 1)], "the focus returns"
    with changed(page):
        page.keys("s")


def test_another_result_scrolls_the_explanation_to_its_top(page: Page, small: str) -> None:
    page.looks(1440, 500).open(f"{small}/?query=2&view=compare&open=tree_200")
    page.explained()
    page.js("const why = document.querySelector('#why'); why.scrollTop = why.scrollHeight")
    assert page.js("return document.querySelector('#why').scrollTop") > 0
    page.click(".column.after .row:nth-child(2) .result")
    page.until("document.querySelector('#why').scrollTop === 0")


def test_near_duplicates_are_stacked(page: Page, tmp_path: Path) -> None:
    rows = np.repeat(vectors(30), 2, axis=0)  # every item twice
    folder = tmp_path / "twice.manifold"
    kinrank.Manifold.build(rows, ids=[f"item_{number:02d}" for number in range(60)]).save(folder)
    (tmp_path / "scratch").mkdir()
    with listening(Settings(str(folder), scratch=str(tmp_path / "scratch"))) as address:
        page.looks().open(f"{address}/?item=item_10")
        assert len(page.all(".shot")) == 20
        hidden = page.all(".shot[hidden]")
        assert len(hidden) >= 8
        assert f"{len(hidden)} near-duplicates are stacked" in page.text(".stacks")
        page.click(".stack")
        assert len(page.all(".shot[hidden]")) == len(hidden) - 1
        assert page.js("return document.querySelector('.stack').getAttribute('aria-expanded')") == "true"
        page.click("#stacks")
        assert page.all(".shot[hidden]") == []


def test_folders_are_browsed_and_names_keep_their_end(page: Page, tmp_path: Path) -> None:
    long = "holidays/a very long name of a photo that has no room at all in a small card 0042.jpg"
    usual = "holidays/canon_003228.jpg"
    ids = [long, usual, *(f"{'home' if number % 3 else 'home/cats'}/{number:02d}.jpg" for number in range(58))]
    with listening(settings_in(tmp_path, ids)) as address:
        page.looks().open(f"{address}/?item={quote(ids[2])}&k=59")
        page.until("document.querySelectorAll('#folder option').length === 4")
        assert [one.text.strip() for one in page.all("#folder option")] == [
            "All folders",
            "holidays (2)",
            "home (58)",
            "cats (20)",
        ]
        page.js("const one = document.querySelector('#folder'); one.value = 'home/cats'")
        page.js("document.querySelector('#folder').dispatchEvent(new Event('change'))")
        page.until("document.querySelector('.count').textContent === '20 items'")
        shot = f'.shot[data-id="{long}"]'
        assert page.text(f"{shot} .folder") == "holidays/"
        assert page.text(f"{shot} .base > :last-child") == " 0042.jpg"
        assert page.text(f'.shot[data-id="{usual}"] .base > :last-child') == "03228.jpg"
        start = page.find(f"{shot} .start")
        assert page.js("return arguments[0].scrollWidth > arguments[0].clientWidth", start), "the middle is cut"
        page.find("#words").send_keys("a dog on a beach")
        page.until("document.querySelector('#panel-query .empty').textContent.includes('--encoder')")


def test_new_items_are_announced(page: Page, tmp_path: Path) -> None:
    with listening(settings_in(tmp_path)) as address:
        page.looks().open(f"{address}/?item=item_010")
        rows = np.concatenate([vectors()[10:11] + np.float32(0.001) * number for number in (1, 2, 3)])
        kinrank.Client(address).add(rows, ids=["new_1", "new_2", "new_3"])
        page.until("document.querySelector('.news:not([hidden])')?.textContent.includes('3 new items')")
        assert page.text("#facts") == "63 items"
        assert "new_1" not in page.ranked()
        with changed(page):
            page.click("#update")
        assert {"new_1", "new_2", "new_3"} <= set(page.ranked())
        assert page.all(".news:not([hidden])") == []


def test_a_slow_search_shows_a_spinner(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2")
    page.js("""
        const real = fetch;
        window.fetch = (url, ...more) => String(url).includes("view/rank")
          ? new Promise((done) => { window.answer = () => done(real(url, ...more)); }) : real(url, ...more);
    """)
    page.click("#tab-settings")
    page.js("const one = document.querySelector('#method'); one.value = 'aqe'; one.dispatchEvent(new Event('change'))")
    page.until("document.querySelector('#busy:not([hidden])')?.textContent.includes('compiled')")
    assert "compiled" in page.text("#live")
    page.js("window.answer()")
    page.until("document.querySelector('#busy').hidden")


def test_a_slider_changes_the_result(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&view=compare")
    page.click("#tab-settings")
    page.click("#all-parameters summary")
    page.click("#p-theta-measured")  # no longer set by `answers`
    page.until("!document.querySelector('#p-theta').disabled")
    with changed(page):
        page.find("#p-theta").send_keys(*[RIGHT] * 30)
        page.until("document.querySelector('#search-facts').textContent.includes('candidates')")
    page.until("document.querySelector('.head.after h2').textContent.includes('theta=')")
    assert "p.theta=" in page.driver.current_url
    assert page.focused("#p-theta")
    page.click("#p-theta-reset")
    page.until("document.querySelector('#search-facts').textContent.includes('online')")
    page.find("#own-k").send_keys(*[RIGHT] * 3)
    page.until("document.querySelectorAll('.column.after .row').length > 20")
    page.js("const one = document.querySelector('#method'); one.value = 'aqe'; one.dispatchEvent(new Event('change'))")
    page.until("document.querySelector('.head.after h2').textContent.includes('AQE')")
    assert page.js("return document.querySelectorAll('[data-parameter]').length") >= 3
    assert "method=aqe" in page.driver.current_url


def test_keys_alone_are_enough(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&view=compare")
    page.keys(TAB)
    assert page.focused(".skip")
    page.keys(ENTER)
    for _ in range(8):
        page.keys(TAB)
        if page.focused(".result"):
            break
    assert page.focused(".column.after .row:first-child .result")
    page.keys(DOWN, DOWN, ENTER)
    page.explained()
    page.until("document.activeElement.id === 'why-title'")
    assert page.ranked()[2] in page.text("#why-title")
    for _ in range(12):
        page.keys(TAB)
        if page.focused(".step"):
            break
    assert page.focused(".step")
    page.keys(ESCAPE)
    page.until("document.querySelector('#why').hidden")
    assert page.focused(".column.after .row:nth-child(3) .result")
    page.keys("r")
    assert page.js("return document.querySelector('.column.after .marked-right').dataset.rank") == "3"
    page.find("#words").send_keys(DOWN)
    with changed(page, "before"):
        page.keys(RIGHT, RIGHT, RIGHT, ENTER)
    page.js("document.querySelector('#tab-query').focus()")
    page.keys(RIGHT)
    assert page.js("return document.querySelector('#panel-query').hidden") is True


def test_a_phone_is_wide_enough(page: Page, small: str) -> None:
    page.looks(360, 740).open(f"{small}/?query=2")
    assert page.js("return document.scrollingElement.scrollWidth") <= 360
    assert _small_targets(page) == []
    page.click("#change")
    page.until("document.querySelector('#rail.open #option-3[data-ready]')")
    page.until("document.querySelector('#rail').getBoundingClientRect().left === 0")
    assert _small_targets(page) == []
    with changed(page):
        page.click("#option-3")
    page.until("!document.querySelector('#rail.open')")
    page.click(".shot:not([hidden]) .result")
    page.until("document.querySelector('#lightbox img')?.naturalWidth")
    assert page.js("return document.scrollingElement.scrollWidth") <= 360
    assert _small_targets(page) == []
    page.click("#lightbox-why")
    page.explained()
    page.until("document.querySelector('#why').getBoundingClientRect().left === 0")
    assert page.js("return document.querySelector('#why').scrollWidth") <= 360
    for tool in page.all(".why-head button"):
        assert page.js("return arguments[0].getBoundingClientRect().right", tool) <= 360
    assert page.js("return document.querySelector('#lists').inert")
    assert _small_targets(page) == []
    page.driver.back()
    page.until("document.querySelector('#why').hidden && !document.querySelector('#lists').inert")
    page.looks(390, 844).open(f"{small}/?query=2&view=compare")
    assert page.js("return document.scrollingElement.scrollWidth") <= 390
    assert page.all(".lines text") == [], "ranks of both sides would overlap"
    assert _small_targets(page) == []


def _small_targets(page: Page) -> list[Any]:
    """Return touchable elements that are too small for a finger, with their size."""
    return list(page.js(TARGETS))


def test_dark_is_dark(page: Page, small: str) -> None:
    color = "return getComputedStyle(document.body).backgroundColor"
    page.looks(dark=True).open(f"{small}/?query=2")
    assert page.js(color) == "rgb(15, 20, 26)"
    page.click("#theme")
    assert page.js(color) == "rgb(246, 248, 250)"
    page.open(f"{small}/?query=2")
    assert page.js(color) == "rgb(246, 248, 250)", "the choice is remembered"
    page.js("localStorage.clear()")
    page.looks(dark=False).open(f"{small}/?query=2")
    assert page.js(color) == "rgb(246, 248, 250)"


def test_back_and_forward(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&view=compare")
    first = page.ranked("before")
    with changed(page, "before"):
        page.click('.cell[aria-posinset="6"]')
    second = page.ranked("before")
    page.click(".column.after .row:nth-child(3) .result")
    page.explained()
    page.driver.back()
    page.until("document.querySelector('#why').hidden")
    assert page.ranked("before") == second
    page.driver.back()
    assert waiting_for(lambda: page.ranked("before") == first)
    page.driver.forward()
    assert waiting_for(lambda: page.ranked("before") == second)


def test_the_address_reproduces_the_view(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?item=tree_100&k=12&p.theta=0.15&candidates=150&right=&open=tree_200&view=compare")
    page.explained()
    seen = page.ranked("before"), page.ranked(), page.text("#why-title"), page.text("#why .words"), page.text(".note")
    address = page.driver.current_url
    assert len(seen[1]) == 12
    assert "tree_200" in seen[2]
    assert "theta=0.15" in page.text(".head.after h2")
    page.open(address)
    page.explained()
    assert seen == (
        page.ranked("before"),
        page.ranked(),
        page.text("#why-title"),
        page.text("#why .words"),
        page.text(".note"),
    )
    assert page.js("return document.querySelector('#own-candidates').closest('.control').hidden") is False


def test_a_file_with_a_vector_is_a_query(page: Page, plain: str, tmp_path: Path) -> None:
    rows = vectors(seed=3)
    np.save(tmp_path / "one.npy", rows[7])
    np.save(tmp_path / "rows.npy", np.asfortranarray(rows[7:12].astype(np.float16)))
    (tmp_path / "list.json").write_text(json.dumps(rows[7].tolist()))
    (tmp_path / "line.csv").write_text("a,b,c,d,e,f,g,h\n" + ",".join(map(str, rows[7].tolist())) + "\n")
    np.save(tmp_path / "other.npy", np.ones(5, np.float32))
    page.looks().open(f"{plain}/?item=item_030")
    answers = []
    for name in ("one.npy", "rows.npy", "list.json", "line.csv"):
        page.find("#vector-file").send_keys(str(tmp_path / name))
        page.until("document.querySelector('.about h1').textContent.includes(arguments[0])", name)
        answers.append(page.ranked())
    assert all(one == answers[0] for one in answers)
    assert answers[0][0] in ("item_006", "item_007", "item_008")
    assert "upload=" in page.driver.current_url
    assert len(page.driver.current_url) < len(plain) + 30, "links are short"
    page.open(page.driver.current_url)
    assert page.ranked() == answers[0]
    page.find("#vector-file").send_keys(str(tmp_path / "other.npy"))
    page.until("document.querySelector('#toast:not([hidden])')?.textContent.includes('5 numbers')")
    page.js("""
        const files = new DataTransfer();
        files.items.add(new File(["[1, 0, 0, 0, 0, 0, 0, 0]"], "dropped.json"));
        dispatchEvent(new DragEvent("drop", {dataTransfer: files, cancelable: true}));
    """)
    page.until("document.querySelector('.about h1').textContent.includes('dropped.json')")
    assert page.ranked()[0] in ("item_059", "item_000", "item_001")


def test_a_long_vector_has_a_short_link(page: Page, small: str, tmp_path: Path) -> None:
    np.save(tmp_path / "long.npy", np.random.default_rng(0).normal(size=3072))
    page.looks().open(f"{small}/?query=1")
    with changed(page):
        page.find("#vector-file").send_keys(str(tmp_path / "long.npy"))
    found = page.ranked()
    page.driver.refresh()
    page.until("document.querySelector('.shot')")
    assert page.ranked() == found
    page.click("#copy-link")
    page.until("document.querySelector('#toast').textContent.includes('copied')")
    for lost in ("vector=kept", "upload=nothinghere"):
        page.open(f"{small}/?{lost}", "document.querySelector('.problem')")
        assert "no longer valid" in page.text(".problem")


def test_where_nothing_is_kept_the_browser_keeps_long_vectors(page: Page, tmp_path: Path) -> None:
    np.save(tmp_path / "long.npy", np.random.default_rng(0).normal(size=8))
    with listening(settings_in(tmp_path, scratch="")) as address:
        page.looks().open(f"{address}/?item=item_001")
        with changed(page):
            page.find("#vector-file").send_keys(str(tmp_path / "long.npy"))
        found = page.ranked()
        assert "vector=" in page.driver.current_url
        page.driver.refresh()
        page.until("document.querySelector('.shot')")
        assert page.ranked() == found


def test_marks_search_again(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2")
    ids = page.ranked()
    for place, kind in ((3, "right"), (6, "wrong")):
        page.js("document.querySelector(arguments[0]).click()", f".shot:nth-child({place}) .mark.{kind}")
    assert "1 right, 1 wrong" in page.text(".marks-bar")
    page.until("location.search.includes('marks=')")
    page.driver.refresh()
    page.until("document.querySelectorAll('.mark-chip').length === 2")  # marks survive a reload
    page.open(f"{small}/?query=2")
    for place, kind in ((3, "right"), (6, "wrong")):
        page.js("document.querySelector(arguments[0]).click()", f".shot:nth-child({place}) .mark.{kind}")
    page.until("location.search.includes('marks=')")
    with changed(page):
        page.click("#again")
    assert not {ids[2], ids[5]} & set(page.ranked())
    assert page.js("return document.querySelector('.shot').dataset.id") == ids[2], "it stays on top"
    assert page.js("return getComputedStyle(document.querySelector('.shot.pinned .badge')).display") != "none"
    assert len(page.driver.current_url) < len(small) + 40, "links are short"
    page.open(page.driver.current_url)
    assert len(page.all(".mark-chip")) == 2
    assert ids[2] not in page.ranked()
    assert page.js("return document.querySelector('.shot.pinned').dataset.id") == ids[2]
    with changed(page):
        page.click("#clear-marks")
    assert page.ranked() == ids
    assert "marks=" not in page.driver.current_url
    page.open(f"{small}/?query=2&method=aqe&open=tree_200")
    page.explained()
    assert page.all(".shot .mark.right") == []
    assert "prepared method only" in page.text("#why")


def test_a_missing_token_is_requested(page: Page, tmp_path: Path) -> None:
    with listening(settings_in(tmp_path, read_tokens=("secret-of-many-letters",))) as address:
        page.looks().open(f"{address}/?item=item_003", "document.querySelector('#token[open]')")
        page.find("#token-field").send_keys("wrong-token", ENTER)
        page.until("document.querySelector('#token-problem').textContent.includes('not valid')")
        page.find("#token-field").clear()
        page.find("#token-field").send_keys("secret-of-many-letters", ENTER)
        page.until("document.querySelectorAll('.shot').length")
        assert page.js("return document.cookie") == ""
    page.driver.delete_all_cookies()


def test_hostile_names_do_nothing(page: Page, tmp_path: Path) -> None:
    ids = [f"{HOSTILE}{number}" for number in range(60)]
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"<script>window.owned=2</script> {HOSTILE} {number}\n" for number in range(60)))
    (tmp_path / "labels.txt").write_text(f"{HOSTILE}\n" * 60)
    settings = settings_in(
        tmp_path, ids, title=HOSTILE, files=Files(texts=str(texts), labels=str(tmp_path / "labels.txt"))
    )
    with listening(settings) as address:
        page.looks().open(f"{address}/?item={quote(ids[3])}&open={quote(ids[20])}&level={quote(HOSTILE)}", "")
        page.until("document.querySelector('.problem, .shot')")
        page.open(f"{address}/?item={quote(ids[3])}&right={quote(ids[5])}&open={quote(ids[20])}")
        page.explained()
        page.click("#tab-settings")
        page.click("#copy-python")
        page.until("document.querySelector('#box[open]')")
        assert page.js("return window.owned ?? null") is None
        assert page.js("return document.querySelectorAll('img[src=x], main script, #why script').length") == 0
        assert HOSTILE in page.text("#why-title")
        assert page.text("#title") == HOSTILE
        assert page.complaints() == []


def test_items_with_nothing_to_show_have_their_neighbours(page: Page, plain: str) -> None:
    page.looks().open(f"{plain}/?item=item_010&open=item_014")
    page.explained()
    page.until("document.querySelectorAll('.neighbours li').length > 3")
    assert "item_010" in page.text(".about h1")
    assert page.all(".cell.names")
    page.click(".neighbours li:first-child button")
    page.until("!document.querySelector('#why-title').textContent.includes('item_014')")


def test_two_hundred_thousand_items(page: Page, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(200_000, 4)).astype(np.float32)
    folder = tmp_path / "large.manifold"
    kinrank.Manifold.build(rows, "aqe", ids=[f"item_{number:06d}" for number in range(200_000)]).save(folder)
    with listening(Settings(str(folder), scratch=str(tmp_path))) as address:
        page.looks().open(f"{address}/?item=item_000100&open=item_000300")
        page.explained()
        assert "LPMT" in page.text("#why") or "chain" in page.text("#why")
        page.until("document.querySelector('.count').textContent === '200,000 items'")
        page.js("const grid = document.querySelector('.grid'); grid.scrollTop = grid.scrollHeight")
        page.until("document.querySelector('#option-199999[data-ready]')")
        page.js("const grid = document.querySelector('.grid'); grid.scrollTop = grid.scrollHeight / 2")
        page.until(
            "[...document.querySelectorAll('.cell[data-ready]')].some((one) => Math.abs(one.id.slice(7) - 1e5) < 50)"
        )
        page.find("#words").send_keys("item_1234")
        page.until("document.querySelector('.count').textContent === '100 found'")
        assert page.js("return document.querySelectorAll('*').length") < 2500


def test_offline_shows_an_error_and_recovers(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&open=none")
    with page.offline():
        page.click('.cell[aria-posinset="4"]')
        page.until("document.querySelector('.problem')?.textContent.includes('does not answer')")
    page.js("document.querySelector('#try-again')?.click()")
    page.until("document.querySelectorAll('.shot').length")
    page.open(f"{small}/?item=nobody", "document.querySelector('.problem')")
    assert "nobody" in page.text(".problem")
    assert page.all(".problem button")


def test_ids_and_vectors_survive_the_address(page: Page, small: str) -> None:
    page.looks().open(f"{small}/?query=2&open=none")
    lost, output = page.driver.execute_async_script(SURVIVE)
    assert lost == []
    assert output[:2] == ["1,2.5", "1,2,3"]
    assert all(words.endswith(".") and " " in words for words in output[2:])


def test_results_are_downloaded_and_lines_shown(page: Page, small: str, tmp_path: Path) -> None:
    page.looks().open(f"{small}/?query=2&open=none")
    page.click("#tab-settings")
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    for name in ("JSON", "CSV"):
        page.click("#save")
        page.js(
            "[...document.querySelectorAll('#box button')].find((one) => one.textContent === arguments[0]).click()",
            name,
        )
    assert waiting_for(lambda: (tmp_path / "kinrank.json").exists() and (tmp_path / "kinrank.csv").exists())
    assert [one["id"] for one in json.loads((tmp_path / "kinrank.json").read_text())["after"]] == page.ranked()
    assert len((tmp_path / "kinrank.csv").read_text().splitlines()) == 41
    page.click("#copy-python")
    page.until("document.querySelector('#box pre')?.textContent.includes('kinrank')")
    page.keys(ESCAPE)
    page.until("!document.querySelector('#box').open")


STATES = "light, dark, compare, phone, phone and chain, texts, settings, picker on phone, results, marks"


@pytest.mark.parametrize("state", STATES.split(", "))
def test_axe_finds_no_serious_problems(page: Page, small: str, plain: str, state: str) -> None:
    phone = "phone" in state
    page.looks(*((360, 740) if phone else (1440, 900)), dark=state == "dark")
    is_explained = state in ("light", "dark", "compare", "phone and chain", "settings", "texts")
    address = f"{plain}/?item=item_003" if state == "texts" else f"{small}/?query=2"
    address += "&view=compare" if state == "compare" else ""
    address += "&right=tree_200" if state == "marks" else ""
    page.open(address + (f"&open={'item_007' if state == 'texts' else 'tree_200'}" if is_explained else ""))
    if is_explained:
        page.explained()
        page.click(".why-details summary")
    if state == "settings":
        page.click("#tab-settings")
        page.click("#all-parameters summary")
    if state.startswith("picker"):
        page.click("#change")
        page.until("document.querySelector('#rail').getBoundingClientRect().left === 0")
    assert serious(page) == []


def test_screenshots(page: Page, oxford: str, small: str) -> None:
    page.looks().open(oxford)
    time.sleep(1.0)
    page.shot("page-desktop.png")
    page.click("#see-why")
    page.explained()
    time.sleep(1.0)
    page.shot("page-why.png")
    page.looks(dark=True)
    page.shot("page-dark.png")
    page.looks().open(small)  # pictures in the repository are our own
    page.click("#see-why")
    page.explained()
    page.click("#see-compare")
    page.until("document.querySelectorAll('.column.after .row').length")
    time.sleep(1.0)
    figure(page, "serve-page.png")
    page.looks(1440, 1500).open(f"{small}/?item=chair_140&open=chair_040")
    page.explained()
    time.sleep(1.0)
    page.shot("page-chain.png")
    page.looks(390, 844).open(f"{oxford}/?query=0")
    time.sleep(1.0)
    page.shot("page-phone.png")
    page.open(f"{oxford}/?query=0&view=compare")
    time.sleep(1.0)
    page.shot("page-phone-compare.png")
    page.looks().open(f"{oxford}/?query=0")
    page.click(".shot .result")
    time.sleep(1.0)
    page.shot("page-lightbox.png")
    page.keys(ESCAPE)
    assert page.complaints() == []
