(() => {
const figure = document.currentScript.previousElementSibling;
const data = JSON.parse(figure.querySelector("script").textContent);
const all = name => [...figure.querySelectorAll(name)];
const bars = all(".mass i"), masses = all(".now"), paths = all(".gone"), words = all(".values b");
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
  words.forEach((word, k) => word.textContent = written[k](between(data.values, k)));
  cursor.setAttribute("transform", `translate(${100 * at} 0)`);
  slider.value = at;
  slider.setAttribute("aria-valuetext", `${percent(at)}, entropy produced ${between(data.values, 2).toFixed(3)}`);
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
})();
