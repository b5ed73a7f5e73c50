// The reader's choice of light or dark -> an attribute of the page, set before anything is drawn.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("kinrank-theme");
    } catch {
      return null; // storage can be forbidden; the choice then lasts as long as the page
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
