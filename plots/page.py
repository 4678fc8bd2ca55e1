# SPDX-License-Identifier: Apache-2.0
"""What the page is made of: HTML in which every word from a file is escaped, and the figures and long tables that
page.js builds from data. An empty part is the empty string, and is left out."""

import html
import json

from plots import units

SHORT = 60  # rows of a table that stands in the page as it is


def escape(value):
    return html.escape(str(value), quote=True)


def embedded(data):
    """JSON for the inside of <script>, which no text in it can end."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def rounded(value):
    """Numbers with the six digits that a screen can show."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return value


def columns(rows):
    """Each column as its different cells and, for each row, which of them it has: most cells repeat many times."""
    found = []
    for place in range(max(map(len, rows))):
        cells = {}
        column = [json.dumps(row[place] if place < len(row) else "") for row in rows]
        found.append(
            {"row": [cells.setdefault(cell, len(cells)) for cell in column], "cells": list(map(json.loads, cells))}
        )
    return found


class Page:
    """Collects the figures and the long tables; gives the places they are built in."""

    def __init__(self):
        self.figures, self.tables = [], []

    def figure(self, traces, height=380, caption="", note="", **layout):
        """`traces` and `layout` as plotly.js takes them; every text in them is figure_text."""
        if not traces:
            return ""
        self.figures.append(rounded({"data": traces, "layout": {"height": height, **layout}}))
        title = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        place = f'<div class="figure" data-figure="{len(self.figures) - 1}" style="min-height:{height}px"></div>'
        return f"<figure>{title}{place}{noted(note)}</figure>"

    def table(self, head, body, name=""):
        """A cell is a text, or (mark, text) where it is marked "bad" or "mark". Where the head has one title only, the
        cells of a row are the words of a line."""
        body = [[list(map(str, cell)) if isinstance(cell, tuple) else str(cell) for cell in row] for row in body]
        if not body:
            return ""
        if len(body) > SHORT:
            self.tables.append({"head": head, "columns": columns(body), "name": name})
            return f'<div class="table" data-table="{len(self.tables) - 1}"></div>'

        def cell(value):
            mark, text = value if isinstance(value, list) else ("", value)
            return f'<td class="{mark}">{escape(text)}</td>' if mark else f"<td>{escape(text)}</td>"

        header = "".join(f"<th>{escape(title)}</th>" for title in head)
        body = [[" ".join(row)] for row in body] if len(head) == 1 else body
        lines = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in body)
        named = f' class="{name}"' if name else ""
        return f'<div class="scroll"><table{named}><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table></div>'


def noted(text):
    return f'<p class="note">{escape(text)}</p>' if text else ""


def grid(parts):
    parts = list(filter(None, parts))
    return f'<div class="grid">{"".join(parts)}</div>' if parts else ""


def folded(title, body):
    return f"<details><summary>{escape(title)}</summary>{body}</details>" if body else ""


def chosen(title, panels):
    """Panels [(name, html)] of which one is shown at a time; a single one is shown as it is."""
    panels = [panel for panel in panels if panel[1]]
    if len(panels) < 2:
        return "".join(f"<h3>{escape(name)}</h3>{body}" for name, body in panels)
    options = "".join(f'<option value="{index}">{escape(name)}</option>' for index, (name, _) in enumerate(panels))
    bodies = "".join(
        f'<div class="panel"{"" if index == 0 else " hidden"}>{body}</div>' for index, (_, body) in enumerate(panels)
    )
    return f'<div class="choice"><label>{escape(title)} <select>{options}</select></label>{bodies}</div>'


def command(text):
    return f'<div class="command"><pre>{escape(text)}</pre></div>' if text else ""


def section(place, title, body, lead=""):
    lead = f"<p>{escape(lead)}</p>" if lead else ""
    return f'<section id="{place}"><h2>{escape(title)}</h2>{lead}{body}</section>' if body else ""


def interval(row):
    low, high = row.metric("low"), row.metric("high")
    return units.NOTHING if low is None or high is None else f"{units.seconds(low)} to {units.seconds(high)}"
