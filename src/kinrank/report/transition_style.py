"""The looks of a transition that plays, and the script that plays it."""

STYLE = """
.transition { margin: 14px 0; padding: 16px 18px; background: var(--card); color: var(--ink);
  border: 1px solid var(--line); border-radius: 10px; }
.transition figcaption { margin-bottom: 10px; color: var(--soft); font-size: .92rem; }
.transition figcaption b { color: var(--ink); }
.transition .ways { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 4fr) minmax(0, 5fr);
  grid-template-rows: 100%; }
.transition ul { list-style: none; margin: 0; padding: 0; display: grid; grid-auto-rows: 1fr; align-items: center; }
.transition li { display: flex; align-items: center; gap: 10px; min-width: 0; min-height: 60px; }
.transition img { width: 52px; height: 52px; object-fit: cover; border-radius: 6px; flex: none; }
.transition .item { flex: 1; min-width: 0; line-height: 1.25; }
.transition .name { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden;
  overflow-wrap: anywhere; font-size: .84rem; line-height: 1.15; }
.transition .mass { display: block; position: relative; height: 9px; margin: 3px 0 2px; background: var(--grid);
  border-radius: 3px; }
.transition .mass i { position: absolute; inset: 0 auto 0 0; background: var(--after); border-radius: 3px; }
.transition .mass em { position: absolute; top: -2px; bottom: -2px; border-left: 2px solid var(--ink); }
.transition small { display: block; font-size: .74rem; color: var(--soft); font-variant-numeric: tabular-nums;
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.transition small .now { color: var(--ink); font-weight: 600; display: inline-block; min-width: 3.4em; }
.transition svg { display: block; width: 100%; }
.transition .links { height: 100%; padding: 0 6px; }
.transition .links path { fill: none; stroke: var(--grid); }
.transition .links .gone { stroke: var(--after); stroke-opacity: .5; }
.transition .told { display: flex; align-items: center; gap: 6px 18px; margin: 12px 0 8px; }
.transition button { font: inherit; min-width: 5.6em; padding: 6px 14px; color: var(--ink); background: var(--paper);
  border: 1px solid var(--guide); border-radius: 8px; cursor: pointer; }
.transition input { display: block; width: 100%; height: 28px; margin: 0; accent-color: var(--after); }
.transition [hidden] { display: none; }
.transition .said { display: flex; flex-wrap: wrap; gap: 2px 20px; max-width: none; margin: 0; font-size: .88rem;
  color: var(--soft); font-variant-numeric: tabular-nums; }
.transition .said b { color: var(--ink); display: inline-block; min-width: 3.6em; }
.transition .curves { height: 84px; border-bottom: 1px solid var(--line); }
.transition .curves * { fill: none; vector-effect: non-scaling-stroke; stroke-width: 2; }
.transition .curves .zero { stroke: var(--grid); stroke-width: 1; }
.transition .curves .total { stroke: var(--after); }
.transition .curves .states { stroke: var(--good); stroke-dasharray: 5 4; }
.transition .curves .cursor { stroke: var(--ink); stroke-width: 1; }
.transition .legend { display: flex; flex-wrap: wrap; gap: 2px 20px; margin: 4px 0 0; font-size: .8rem;
  color: var(--soft); }
.transition .legend span::before { content: ""; display: inline-block; width: 22px; margin-right: 7px;
  vertical-align: .25em; border-top: 2px solid var(--after); }
.transition .legend .states::before { border-top: 2px dashed var(--good); }
.transition .legend .before::before { width: 0; height: 13px; border: 0; border-left: 2px solid var(--ink);
  vertical-align: -.15em; }
@media (max-width: 560px) {
  .transition { padding: 12px 10px; }
  .transition .ways { grid-template-columns: minmax(0, 6fr) minmax(0, 3fr) minmax(0, 6fr); }
  .transition li { gap: 6px; }
  .transition img { width: 36px; height: 36px; }
  .transition small span + span { display: none; }
  .transition .name { font-size: .78rem; }
  .transition .told { flex-direction: column; align-items: start; }
}
@media print { .transition button, .transition input, .transition .cursor { display: none; } }
"""

SCRIPT = """(() => {
const figure = document.currentScript.previousElementSibling;
const data = JSON.parse(figure.querySelector("script").textContent);
const all = name => [...figure.querySelectorAll(name)];
const bars = all(".mass i"), masses = all(".now"), paths = all(".gone"), words = all(".said b");
const cursor = figure.querySelector(".cursor"), slider = figure.querySelector("input");
const button = figure.querySelector("button");
const percent = x => (100 * x).toFixed(1) + "%", signed = x => (x < 0 ? "-" : "+") + Math.abs(x).toFixed(3);
const written = [percent, x => x.toPrecision(3), x => x.toFixed(3), signed, signed];
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let frame = 0, began = 0;
function show(at) {
  let right = data.at.findIndex(x => x >= at);
  right = right < 0 ? data.at.length - 1 : Math.max(right, 1);
  const left = right - 1, share = Math.min(1, (at - data.at[left]) / (data.at[right] - data.at[left]));
  const between = (rows, k) => rows[left][k] + share * (rows[right][k] - rows[left][k]);
  bars.forEach((bar, k) => {
    const mass = between(data.masses, k);
    bar.style.width = 100 * mass / data.top + "%";
    masses[k].textContent = percent(mass);
  });
  paths.forEach((path, k) => {
    const gone = between(data.gone, k);
    path.style.visibility = gone > 0 ? "visible" : "hidden";
    path.style.strokeDashoffset = 1 - gone;
  });
  words.forEach((word, k) => word.textContent = written[k](between(data.said, k)));
  cursor.setAttribute("transform", `translate(${100 * at} 0)`);
  slider.value = at;
  slider.setAttribute("aria-valuetext", `${percent(at)}, entropy produced ${between(data.said, 2).toFixed(3)}`);
}
function stop() {
  cancelAnimationFrame(frame);
  frame = 0;
  button.textContent = "Play";
}
function play(now) {
  const at = Math.min(1, (now - began) / (1300 * data.steps));
  show(calm.matches ? Math.floor(at * data.steps) / data.steps : at);
  if (at < 1) frame = requestAnimationFrame(play);
  else stop();
}
button.addEventListener("click", () => {
  if (frame) return stop();
  const from = slider.value < 1 ? Number(slider.value) : 0;
  began = performance.now() - from * 1300 * data.steps;
  button.textContent = "Pause";
  frame = requestAnimationFrame(play);
});
slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
slider.addEventListener("keydown", event => {
  const step = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
  if (!step) return;
  event.preventDefault();
  stop();
  const places = Number(slider.value) * data.steps;
  const next = step > 0 ? Math.floor(places + 1.001) : Math.ceil(places - 1.001);
  show(Math.min(1, Math.max(0, next / data.steps)));
});
button.hidden = slider.hidden = false;
})();"""
