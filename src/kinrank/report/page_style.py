"""The looks of the demo's page, on top of those of every page."""

STYLE = """
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 14px;
  margin: 22px 0 0; }
.number { border: 1px solid var(--line); border-top: 4px solid var(--before); border-radius: 10px;
  padding: 14px 18px; background: var(--card); }
.number.after { border-top-color: var(--after); }
.number.gain { border-top-color: var(--good); }
.number strong { display: block; font-size: 2.3rem; line-height: 1.15; letter-spacing: -.02em; }
.number dl { display: grid; grid-template-columns: auto 1fr; gap: 0 10px; margin: .5em 0 0;
  font-size: .88rem; }
.number dt { color: var(--soft); }
.number dd { margin: 0; white-space: nowrap; font-variant-numeric: tabular-nums; }
.picks { border: 0; margin: 0 0 18px; padding: 0; min-width: 0; display: grid; gap: 8px;
  grid-template-columns: repeat(auto-fill, minmax(82px, 1fr)); }
.picks legend { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.pick { position: relative; display: block; padding: 7px 2px; border: 2px solid var(--line); border-radius: 10px;
  background: var(--card); font-size: .78rem; line-height: 1.3; text-align: center; cursor: pointer; }
.pick:hover { border-color: var(--guide); }
.pick.worse { border-color: var(--bad); }
.pick input { position: absolute; opacity: 0; inset: 0; width: 100%; height: 100%; margin: 0; cursor: pointer; }
.pick img { display: block; width: 64px; height: 64px; margin: 0 auto 4px; border-radius: 6px; }
.pick b { display: block; }
.pick:has(input:checked) { border-color: var(--after); box-shadow: inset 0 0 0 1px var(--after); }
.pick:focus-within { outline: 3px solid var(--after); outline-offset: 2px; }
article { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px 8px;
  margin: 14px 0; display: grid; grid-template-columns: 120px minmax(0, 1fr); gap: 6px 20px; }
article.worse { border-left: 4px solid var(--bad); }
.query { font-size: .88rem; line-height: 1.4; }
.query img { width: 112px; height: 112px; border-radius: 8px; border: 3px solid var(--ink); flex: none; }
.query p { margin: .35em 0 0; }
.side { margin: 0 0 10px; }
.side figcaption { font-size: .86rem; display: flex; justify-content: space-between; gap: 1em; }
.side figcaption b { color: var(--ink); }
ol.found { list-style: none; margin: 4px 0 6px; padding: 0; display: grid; gap: 5px;
  grid-template-columns: repeat(12, minmax(0, 1fr)); }
ol.found li { text-align: center; font-size: .72rem; line-height: 1.3; color: var(--soft); }
ol.found img { display: block; width: 100%; height: auto; border-radius: 5px; }
img.right { border: 3px solid var(--good); }
img.wrong { border: 3px dashed var(--bad); }
img.asked { border: 3px solid var(--ink); }
svg.bar { display: block; width: 100%; height: 12px; }
ol.chain { list-style: none; margin: 14px 0; padding: 16px 18px; display: flex; flex-wrap: wrap;
  gap: 10px 4px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
ol.chain li { display: flex; align-items: center; gap: 4px; font-size: .78rem; text-align: center;
  color: var(--soft); }
ol.chain img { display: block; width: 70px; height: 70px; border-radius: 6px; }
ol.chain .step { width: 46px; line-height: 1.15; font-variant-numeric: tabular-nums; }
.plots { display: flex; flex-wrap: wrap; gap: 26px; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; padding: 16px 18px; }
.plots figure { margin: 0; flex: 1 1 300px; min-width: 0; }
svg.plot text { font-size: 12px; fill: var(--soft); }
.key { display: inline-block; width: .85em; height: .85em; border-radius: 3px; vertical-align: -.08em; }
.key.good { background: var(--good); }
.key.bad { background: var(--bad); }
@media (max-width: 700px) {
  .picks { display: flex; overflow-x: auto; scroll-snap-type: x proximity; padding: 4px 4px 10px; }
  .pick { flex: 0 0 88px; scroll-snap-align: start; }
  article { grid-template-columns: minmax(0, 1fr); }
  .query { display: flex; gap: 14px; }
  ol.found { grid-template-columns: repeat(6, minmax(0, 1fr)); }
  ol.chain { padding: 12px 8px; }
  ol.chain img { width: 58px; height: 58px; }
  ol.chain .step { width: 42px; font-size: .72rem; }
}
"""


def chosen_style(queries: list[int]) -> str:
    """Only the chosen query is shown, where the browser can tell; the others show all of them."""
    shown = ", ".join(f".chooser:has(#pick-{query}:checked) #query-{query}" for query in queries)
    return f"@supports selector(:has(*)) {{ .chooser article {{ display: none; }} {shown} {{ display: grid; }} }}\n"
