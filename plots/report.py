# SPDX-License-Identifier: Apache-2.0
"""One self-contained page out of result files: python3 -m plots.report RESULT.json... -o report.html. It needs no
network: plotly.js, from Debian's python3-plotly or pip's, is inside."""

import html
import os
import shutil
import subprocess
import sys

from plots import answers, interpreter, load, summary
from plots.command import Parser, start, write
from plots.page import Page, embedded, escape, section
from plots.sections import SECTIONS

LARGE = 5000000  # bytes of a plotly.js that was not minified; as Debian ships it, it is 8.6 MB


def beside(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as file:
        return file.read()


def render(runs, plotly):
    """The page. `plotly` is the text of plotly.js."""
    page = Page()
    bodies = [(place, title, make(runs, page)) for place, title, make in SECTIONS]
    contents = "".join(f'<a href="#{place}">{escape(title)}</a>' for place, title, body in bodies if body)
    said = "".join(f'<li><a href="#{place}">{escape(text)}</a></li>' for text, place in answers.answers(runs))
    names = ", ".join(run.name for run in runs)
    data = embedded({"figures": page.figures, "tables": page.tables})
    library = f'<script type="text/plain" id="library">{plotly}</script>' if page.figures else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Ringmark report</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{beside('page.css')}</style></head>\n<body>"
        f"<header><h1>Ringmark report</h1><p>From {html.escape(names)}.</p>"
        + (f'<ul class="answers">{said}</ul>' if said else "")
        + f"<nav>{contents}</nav></header>\n"
        + "\n".join(section(place, title, body) for place, title, body in bodies if body)
        + f'\n<script type="application/json" id="data">{data}</script>{library}'
        f"<script>{beside('page.js')}</script></body></html>\n"
    )


def minified(script):
    """By esbuild, where it is installed (Debian: esbuild) and needed. The notice at the head, which says whose it is and
    under what licence, stays."""
    if len(script) < LARGE or shutil.which("esbuild") is None:
        return script
    notice = script[: script.index("*/") + 2] + "\n" if script.startswith("/*") else ""
    command = ["esbuild", "--minify", "--loader=js", "--log-level=error"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    return notice + done.stdout if done.returncode == 0 and done.stdout else script


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

    write(options.output, render(runs, minified(get_plotlyjs())), "plots.report")
    return 0


if __name__ == "__main__":
    start(main)
