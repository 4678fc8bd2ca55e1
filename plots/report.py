# SPDX-License-Identifier: Apache-2.0
"""One self-contained page out of result files: python3 -m plots.report RESULT.json... -o report.html. It needs no
network: plotly.js, from Debian's python3-plotly or pip's, is inside."""

import html
import sys

from plots import drawing, interpreter, load, page, summary
from plots.command import Parser, write

STYLE = """
:root { --paper:#fff; --ink:#1d2228; --soft:#5c6570; --rule:#dfe3e8; --card:#f7f8fa; --bad:#b3261e; --mark:#8a5200; }
@media (prefers-color-scheme: dark) {
  :root { --paper:#14171b; --ink:#e4e8ec; --soft:#9aa4af; --rule:#2d343c; --card:#1b2026;
  --bad:#ff8a80; --mark:#f0b35a; } }
:root { color-scheme: light dark; }
body { margin:0 auto; padding:2rem 1.25rem 4rem; max-width:72rem; background:var(--paper); color:var(--ink);
  font:16px/1.55 system-ui, sans-serif; }
h1 { font-size:1.7rem; margin:0 0 .2rem; } h2 { font-size:1.25rem; margin:2.6rem 0 .4rem; padding-top:.8rem;
  border-top:1px solid var(--rule); } h3 { font-size:1rem; margin:1rem 0 .3rem; }
section > p, header p, .note { color:var(--soft); margin:.2rem 0 .8rem; max-width:60rem; } .note { font-size:.9rem; }
.said { padding-left:1.1rem; max-width:60rem; } .said li { margin:.45rem 0; }
.grid { display:grid; gap:1rem; grid-template-columns:repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin:0; min-width:0; } figcaption { font-weight:600; } .figure { width:100%; }
.scroll { overflow-x:auto; } table { border-collapse:collapse; font-size:.88rem; margin:.5rem 0; }
th, td { text-align:left; padding:.25rem .8rem .25rem 0; border-bottom:1px solid var(--rule); vertical-align:top; }
th { color:var(--soft); font-weight:600; }
.numbers td:not(:first-child) { white-space:nowrap; font-variant-numeric:tabular-nums; }
.facts td { overflow-wrap:anywhere; } .facts td:first-child { color:var(--soft); } .facts thead { display:none; }
.bad { color:var(--bad); font-weight:600; } .mark { color:var(--mark); font-weight:600; }
details { margin:.6rem 0; } summary { cursor:pointer; color:var(--soft); }
pre { background:var(--card); padding:.6rem .8rem; overflow-x:auto; font-size:.85rem; border-radius:4px; }
select { font:inherit; background:var(--card); color:var(--ink); border:1px solid var(--rule);
  border-radius:4px; padding:.1rem .3rem; }
"""

SCRIPT = """
const figures = JSON.parse(document.getElementById('figures').textContent);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function draw(place) {
  const figure = figures[Number(place.dataset.figure)];
  const ink = colour('--ink'), rule = colour('--rule'), given = figure.layout;
  const axis = more => Object.assign({gridcolor: rule, linecolor: rule, zerolinecolor: rule, automargin: true}, more);
  const layout = Object.assign({}, given, {
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: {color: ink, size: 13, family: 'system-ui, sans-serif'},
    margin: Object.assign({t: 10, r: 10, b: 50, l: 60}, given.margin), showlegend: true,
    legend: {orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, traceorder: 'normal'},
    modebar: {bgcolor: 'rgba(0,0,0,0)', color: rule}, hoverlabel: {align: 'left'},
    xaxis: axis(given.xaxis), yaxis: axis(given.yaxis)});
  const buttons = {displaylogo: false, modeBarButtonsToRemove: ['lasso2d', 'select2d']};
  Plotly.react(place, figure.data, layout, {responsive: true, ...buttons});
}
const visible = () => [...document.querySelectorAll('.figure')].filter(place => !place.closest('[hidden]'));
for (const choice of document.querySelectorAll('.choice')) {
  const panels = [...choice.querySelectorAll('.panel')];
  choice.querySelector('select').addEventListener('change', event => {
    panels.forEach((panel, index) => { panel.hidden = index !== Number(event.target.value); });
    visible().filter(place => choice.contains(place)).forEach(draw);
  });
}
visible().forEach(draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => visible().forEach(draw));
"""


def render(runs, plotly):
    """The page. `plotly` is the text of plotly.js."""
    figures = drawing.Figures()
    sections = "".join(part(runs, figures) for part in page.SECTIONS)
    names = ", ".join(run.name for run in runs)
    library = f"<script>{plotly}</script>" if figures.all else ""
    scripts = (
        '<script type="application/json"'
        f' id="figures">{drawing.embedded(figures.all)}</script>{library}<script>{SCRIPT}</script>'
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Ringmark report</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n<body>'
        f"<header><h1>Ringmark report</h1><p>From {html.escape(names)}.</p></header>\n{sections}\n"
        f"{scripts if figures.all else ''}</body></html>\n"
    )


def main(arguments):
    parser = Parser("plots.report", __doc__)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="PAGE", help="where the page goes (report.html)"
    )
    parser.add_argument("--summary", action="store_true", help="print what the results say, and write no page")
    options = parser.parse_args(arguments)
    if options.summary:
        return summary.main(options.results)
    interpreter.need("plotly", "python3-plotly", "plots.report", arguments)
    runs = load.load(options.results)
    if not runs:
        sys.exit("plots.report: no result file could be read; no page written")
    from plotly.offline import get_plotlyjs  # only here, so that the words need no package

    write(options.output, render(runs, get_plotlyjs()), "plots.report")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
