(() => {
  const box = document.querySelector(".changes");
  if (!box) return;
  const content = JSON.parse(box.querySelector("script").textContent);
  const [drawn, slider, output] = ["svg", "input", "output"].map(name => box.querySelector(name));
  const cursor = drawn.querySelector(".cursor"), count = content.names.length;
  const percent = value => (100 * value).toFixed(1);
  slider.hidden = false;
  const show = place => {
    const change = content.after[place] - content.before[place], name = document.createElement("b");
    const by = document.createElement("b");
    name.textContent = content.names[place];
    by.textContent = (change < 0 ? "−" : "+") + percent(Math.abs(change));
    by.className = change > 0 ? "up" : change < 0 ? "down" : "";
    const values = `${percent(content.before[place])} → ${percent(content.after[place])}`;
    output.replaceChildren(name, `: ${content.measure} ${values} % (`, by,
      ` points), ${content.places[place]} of ${content.queries}`);
    const pick = document.getElementById("pick-" + content.rows[place]);
    if (pick) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "show its results";
      button.onclick = () => {
        pick.checked = true;
        document.getElementById("query-" + content.rows[place]).scrollIntoView();
        pick.focus({ preventScroll: true });
      };
      output.append(" ", button);
    }
    cursor.setAttribute("transform", `translate(${1000 * (place + 0.5) / count} 0)`);
    cursor.classList.add("on");
    slider.value = place;
    slider.setAttribute("aria-valuetext", output.textContent);
  };
  const point = event => {
    const frame = drawn.getBoundingClientRect();
    show(Math.max(0, Math.min(count - 1, Math.floor(count * (event.clientX - frame.left) / frame.width))));
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  drawn.addEventListener("pointermove", event => { if (event.pointerType === "mouse") point(event); });
  drawn.addEventListener("pointerdown", point);
})();
