"""The looks of the report, on top of those of every page, and the script that tells of each query."""

STYLE = """
main, header > div { max-width: 1200px; }
nav.contents { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 18px 0 0; font-size: .92rem; }
a { color: var(--after); }
section { scroll-margin-top: 12px; }
.verdict { margin: 22px 0 6px; }
.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.panel { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px;
  margin: 14px 0; }
.panel svg.plot { display: block; width: 100%; max-width: 760px; margin: 0 auto; }
svg.plot text.name { fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 4px;
  stroke-linejoin: round; }
.key.before { background: var(--before); }
.key.after { background: var(--after); }
.key.soft { background: var(--soft); }
.changes { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 10px; }
.changes .scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right;
  font-size: .8rem; color: var(--soft); font-variant-numeric: tabular-nums; }
svg.bars { display: block; width: 100%; height: 230px; touch-action: pan-y; cursor: crosshair; }
svg.bars .cursor { stroke: var(--ink); stroke-width: 1.5; opacity: 0; }
svg.bars .cursor.on { opacity: 1; }
.changes input { grid-column: 2; width: 100%; margin: 8px 0 0; accent-color: var(--after); }
.changes output { grid-column: 1 / -1; display: block; min-height: 3.2em; margin-top: 6px; overflow-wrap: anywhere; }
.changes output b.up { color: var(--good); }
.changes output b.down { color: var(--bad); }
.changes output button { font: inherit; color: var(--after); background: none; border: 0; padding: 0 4px;
  text-decoration: underline; cursor: pointer; }
.pick img, .query img, ol.found img, ol.chain img { aspect-ratio: 1; object-fit: cover; }
.pick b { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.pick img, .pick .words { pointer-events: none; }
article { grid-template-columns: 150px minmax(0, 1fr); scroll-margin-top: 12px; }
.query img { width: 140px; height: 140px; }
.query p { overflow-wrap: anywhere; }
ol.found.ten { grid-template-columns: repeat(10, minmax(0, 1fr)); gap: 7px; }
ol.found.ten.texts { grid-template-columns: repeat(5, minmax(0, 1fr)); }
ol.found li { min-width: 0; }
img.junk { border: 3px dotted var(--guide); opacity: .65; }
.words { border: 3px solid var(--line); border-radius: 7px; padding: 5px 7px; font-size: .74rem; line-height: 1.35;
  text-align: left; color: var(--ink); background: var(--card); height: 100%; overflow: hidden; }
.words b { display: block; overflow-wrap: anywhere; font-weight: 600; }
.words span:not(.heard) { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 5; overflow: hidden;
  color: var(--soft); }
ol.found.ten li > .words { height: calc(100% - 1.4em); }
.words.short { text-align: center; display: grid; align-content: center; min-height: 46px; }
.words.right { border-color: var(--good); }
.words.wrong { border: 3px dashed var(--bad); }
.words.junk { border: 3px dotted var(--guide); opacity: .75; }
.words.asked { border-color: var(--ink); }
.query .words { height: auto; }
.query .words span:not(.heard) { -webkit-line-clamp: 10; }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 18px; }
.maps figure { margin: 0; min-width: 0; }
.maps figcaption { font-weight: 600; color: var(--ink); margin-bottom: 4px; }
.maps figure:only-child { max-width: 680px; }
svg.map { display: block; width: 100%; border: 1px solid var(--line); border-radius: 8px; }
.legend-box { border: 0; margin: 14px 0 0; padding: 0; min-width: 0; display: flex; flex-wrap: wrap; gap: 6px; }
.legend-box legend { float: left; width: 100%; color: var(--soft); font-size: .88rem; padding: 0 0 6px; }
.legend-box label { position: relative; display: inline-flex; align-items: center; gap: 6px; font-size: .8rem;
  border: 1px solid var(--line); border-radius: 99px; padding: 2px 10px; cursor: pointer; max-width: 100%; }
.legend-box label span:last-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.legend-box input { position: absolute; opacity: 0; inset: 0; width: 100%; height: 100%; margin: 0; cursor: pointer; }
.legend-box label:has(input:checked) { border-color: var(--after); box-shadow: inset 0 0 0 1px var(--after); }
.legend-box label:focus-within { outline: 3px solid var(--after); outline-offset: 2px; }
.swatch { flex: none; width: 11px; height: 11px; border-radius: 50%; background: var(--guide); }
.walk { margin: 14px 0; }
.walk h3 { font-weight: 600; overflow-wrap: anywhere; }
.walk p { margin-bottom: .2em; }
.walk ol.chain { margin-top: 8px; }
.walk.worse ol.chain { border-left: 4px solid var(--bad); }
ol.chain li > span:last-child { width: 96px; overflow-wrap: anywhere; line-height: 1.25; }
ol.chain img { width: 96px; height: 96px; margin-bottom: 4px; }
ol.chain li { align-items: flex-start; }
ol.chain .step { width: 58px; font-size: .74rem; padding-top: 22px; }
ol.chain .step small { display: block; }
ol.chain li.texts > span:last-child { width: 170px; }
ol.chain .words { height: auto; }
.played details:not([open]) ~ .transition .curves, .played details:not([open]) ~ .transition .legend .total,
.played details:not([open]) ~ .transition .legend .states,
.played details:not([open]) ~ .transition .said span:nth-of-type(n + 3) { display: none; }
.number .why { display: block; max-width: 34ch; margin-top: 2px; }
ul.notes { padding-left: 1.2em; }
details { margin: .4em 0 1em; }
summary { cursor: pointer; }
@media (max-width: 700px) {
  ol.found.ten { grid-template-columns: repeat(5, minmax(0, 1fr)); }
  ol.found.ten.texts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  article { grid-template-columns: minmax(0, 1fr); }
  .query { display: grid; grid-template-columns: 112px minmax(0, 1fr); gap: 14px; }
  .query img { width: 112px; height: 112px; }
  ol.chain li > span:last-child { width: 78px; }
  ol.chain img { width: 78px; height: 78px; }
  ol.chain .step { width: 50px; padding-top: 14px; }
  ol.chain li.texts > span:last-child { width: 140px; }
  svg.bars { height: 170px; }
  .panel { padding: 12px 10px; }
  .panel svg.plot text { font-size: 19px; }
}
"""

SCRIPT = """
(() => {
  const box = document.querySelector(".changes");
  if (!box) return;
  const told = JSON.parse(box.querySelector("script").textContent);
  const [drawn, slider, said] = ["svg", "input", "output"].map(name => box.querySelector(name));
  const cursor = drawn.querySelector(".cursor"), count = told.names.length;
  const percent = value => (100 * value).toFixed(1);
  slider.hidden = false;
  const show = place => {
    const change = told.after[place] - told.before[place], name = document.createElement("b");
    const by = document.createElement("b");
    name.textContent = told.names[place];
    by.textContent = (change < 0 ? "−" : "+") + percent(Math.abs(change));
    by.className = change > 0 ? "up" : change < 0 ? "down" : "";
    said.replaceChildren(name, `: ${told.measure} ${percent(told.before[place])} → ${percent(told.after[place])} % (`,
      by, ` points), ${told.places[place]} of ${told.queries}`);
    const pick = document.getElementById("pick-" + told.rows[place]);
    if (pick) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "show its results";
      button.onclick = () => {
        pick.checked = true;
        document.getElementById("query-" + told.rows[place]).scrollIntoView();
        pick.focus({ preventScroll: true });
      };
      said.append(" ", button);
    }
    cursor.setAttribute("transform", `translate(${1000 * (place + 0.5) / count} 0)`);
    cursor.classList.add("on");
    slider.value = place;
    slider.setAttribute("aria-valuetext", said.textContent);
  };
  const point = event => {
    const frame = drawn.getBoundingClientRect();
    show(Math.max(0, Math.min(count - 1, Math.floor(count * (event.clientX - frame.left) / frame.width))));
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  drawn.addEventListener("pointermove", event => { if (event.pointerType === "mouse") point(event); });
  drawn.addEventListener("pointerdown", point);
})();
"""


def highlight_style(groups: list[int]) -> str:
    """The group that was picked in the legend stands out on all maps, where the browser can tell."""
    rules = [
        f".landscape:has(#group-{group}:checked) .map path:not(.g{group}) {{ stroke-opacity: .07; }}"
        for group in groups
    ]
    return "\n".join(rules) + "\n"
