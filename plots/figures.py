# SPDX-License-Identifier: Apache-2.0
"""The main pictures as PNG and SVG, for a paper, slides or a README: python3 -m plots.figures RESULT.json...
--output=FOLDER. Needs matplotlib (Debian: python3-matplotlib)."""

import os
import re
import sys

from plots import interpreter, load, series, style, units
from plots.command import Parser

# Texts in an SVG stay text; "$" in a name is no formula; the same results give the same file.
SETTINGS = {"svg.fonttype": "none", "text.parse_math": False, "svg.hashsalt": "ringmark", "axes.axisbelow": True}
DASHES = {"solid": "-", "dash": "--", "dot": ":"}


def draw_line(axes, one, nth):
    """`nth` of those with the same colour: the later ones are paler and thinner."""
    xs, ys = [point[0] for point in one.points], [point[1] for point in one.points]
    if one.nature in style.REFERENCES:
        axes.plot(xs, ys, color=style.REFERENCES[one.nature], linestyle=":", label=one.name)
        return
    colour, marker = style.look(one.look)
    axes.plot(
        xs,
        ys,
        color=colour,
        alpha=max(0.4, 1 - 0.35 * nth),
        linewidth=2 if nth == 0 else 1.2,
        marker=style.MATPLOTLIB_MARKERS.get(marker, "o"),
        markersize=6 if len(xs) < 50 else 0,
        fillstyle="full" if one.nature == "measured" else "none",
        linestyle=DASHES[style.dash(one.nature)],
        label=one.name,
    )
    known = [point for point in one.points if point[2] is not None and point[3] is not None]
    lows, highs = [point[2] for point in known], [point[3] for point in known]
    axes.fill_between([point[0] for point in known], lows, highs, color=colour, alpha=0.13, linewidth=0)


def draw_lines(axes, panel_series):
    seen = {}
    for one in panel_series:
        if one.points:
            nth = seen[one.look] = seen.get(one.look, -1) + 1
            draw_line(axes, one, nth)


def over_bytes(axes, panel, label, show):
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    draw_lines(axes, panel.series)
    sizes = sorted({point[0] for one in panel.series for point in one.points})
    values = [point[1] for one in panel.series for point in one.points]
    axes.set_xscale("log", base=4)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes if len(sizes) <= 9 else sizes[:: -(-len(sizes) // 9)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(values) < 300 * min(values) else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.size(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    axes.set(title=f"All-reduce, {panel.title}", xlabel="bytes of each rank's vector", ylabel=label)


def over_devices(axes, panel):
    draw_lines(axes, panel.series)
    axes.set_xticks(sorted({point[0] for one in panel.series for point in one.points}))
    label = "images per second, over one device's"
    axes.set(title=f"Speed-up, {panel.title}", xlabel="devices", ylabel=label, ylim=(0, None))


def over_epochs(axes, found, label):
    from matplotlib.ticker import MaxNLocator

    draw_lines(axes, found)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(title=f"{label.capitalize()} over training", xlabel="epoch", ylabel=label)


def stacked(axes, title, bars):
    for phase, colour in style.PHASES.items():
        lengths = [bar.parts[phase] for bar in bars]
        if not any(lengths):
            continue
        before = list(style.PHASES)[: list(style.PHASES).index(phase)]
        starts = [sum(bar.parts[one] for one in before) for bar in bars]
        drawn = axes.barh(range(len(bars)), lengths, left=starts, color=colour, height=0.7, label=phase)
        for rectangle, bar in zip(drawn, bars):
            if bar.nature != "measured":
                rectangle.set_hatch("//")
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: units.seconds(value) if value else "0")
    axes.set(title=f"The training step, {title}", xlabel="time of a step")


def pictures(runs):
    """(file name, what draws it on its axes, inches of height)"""
    for metric, label, show in (("busbw", "bus bandwidth", units.bandwidth), ("seconds", "time", units.seconds)):
        for panel in series.over_bytes(runs, metric):
            if any(one.points for one in panel.series):
                name = f"allreduce {'bandwidth' if metric == 'busbw' else 'time'} {panel.title}"
                yield name, lambda axes, p=panel, l=label, s=show: over_bytes(axes, p, l, s), 4.5
    for title, bars in series.steps(runs):
        yield f"step {title}", lambda axes, t=title, b=bars: stacked(axes, t, b), 1.3 + 0.33 * len(bars)
    for panel in series.speedups(runs):
        yield f"speedup {panel.title}", lambda axes, p=panel: over_devices(axes, p), 4.5
    for metric, label in series.LEARNED.items():
        found = series.epochs(load.rows(runs, "train"), metric)
        if found and max(len(one.points) for one in found) > 1:
            yield label, lambda axes, f=found, l=label: over_epochs(axes, f, l), 4.5


def file_names(names):
    """One for each, of letters and digits only, none twice."""
    taken = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:100]
        taken[plain] = taken.get(plain, 0) + 1
        yield plain if taken[plain] == 1 else f"{plain}-{taken[plain]}"


def draw(folder, chosen):
    """Writes each of `chosen` (as pictures() gives them) as PNG and as SVG; gives the paths."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    written = []
    with matplotlib.rc_context(SETTINGS):
        for name, (_, on, height) in zip(file_names([name for name, _, _ in chosen]), chosen):
            figure, axes = pyplot.subplots(figsize=(8, height))
            on(axes)
            axes.grid(True, color="#dfe3e8", linewidth=0.7)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
            for kind, more in (("png", {"dpi": 144}), ("svg", {"metadata": {"Date": None}})):
                written.append(os.path.join(folder, f"{name}.{kind}"))
                figure.savefig(written[-1], bbox_inches="tight", **more)
            pyplot.close(figure)
    return written


def main(arguments):
    parser = Parser("plots.figures", __doc__)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER", help="where the pictures go (.)")
    options = parser.parse_args(arguments)
    interpreter.need("matplotlib", "python3-matplotlib", "plots.figures", arguments)
    chosen = list(pictures(load.load(options.results)))
    if not chosen:
        sys.exit("plots.figures: nothing to draw: no timed all-reduce or training step in these files")
    try:
        os.makedirs(options.output, exist_ok=True)
        print(*draw(options.output, chosen), sep="\n")
    except OSError as error:
        sys.exit(f"plots.figures: --output={options.output}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
