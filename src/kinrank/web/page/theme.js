// Light or dark theme, stored by the browser and set before anything is drawn.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("kinrank-theme");
    } catch {
      return null; // storage can be blocked; the choice then lasts until the page is closed
    }
  };
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const chosen = kept();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const tell = () => button.setAttribute("aria-label", shown() === "dark" ? "Switch to light" : "Switch to dark");
    tell();
    dark.addEventListener("change", tell);
    button.addEventListener("click", () => {
      root.dataset.theme = shown() === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("kinrank-theme", root.dataset.theme);
      } catch {
        // see above
      }
      tell();
    });
  });
})();
