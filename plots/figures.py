# SPDX-License-Identifier: Apache-2.0
"""The main pictures as PNG and SVG, for a paper, slides or a README: python3 -m plots.figures RESULT.json...
--output=FOLDER. Needs matplotlib (Debian: python3-matplotlib)."""

import os
import re
import sys
from functools import partial

from plots import fabrics, interpreter, load, published, races, series, style, timelines, units
from plots.command import Parser, start

# Texts in an SVG stay text; "$" in a name is no formula; the same results give the same file.
SETTINGS = {"svg.fonttype": "none", "text.parse_math": False, "svg.hashsalt": "ringmark", "axes.axisbelow": True}
DASHES = {"solid": "-", "dash": "--", "dot": ":"}


def draw_line(axes, one, nth):
    """`nth` of those with the same colour: the later ones are paler and thinner."""
    xs, ys = [point[0] for point in one.points], [point[1] for point in one.points]
    if one.nature in style.REFERENCES:
        axes.plot(xs, ys, color=style.REFERENCES[one.nature], linestyle=":", label=one.name)
        return
    colour, marker = one.look if isinstance(one.look, tuple) else style.look(one.look)
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


def over_bytes(axes, panel, label, show, title):
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
    axes.set(title=title, xlabel="bytes of each rank's vector", ylabel=label)


def over_devices(axes, found, title, label):
    draw_lines(axes, found)
    axes.set_xticks(sorted({point[0] for one in found for point in one.points}))
    axes.set(title=title, xlabel="devices", ylabel=label, ylim=(0, None))


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


def winners(axes, maps):
    """A cell for each race and size, in the colour of the fastest algorithm."""
    sizes = sorted({size for one in maps for size in one.sizes})
    for line, one in enumerate(maps):
        for size in one.sizes:
            name, column = one.fastest(size)[0], sizes.index(size)
            axes.barh(line, 0.96, left=column - 0.48, height=0.9, color=style.pale(style.look(name)[0]))
            axes.text(column, line, name.replace("_", "\n"), ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(sizes)), list(map(units.size, sizes)), rotation=45)
    axes.set_yticks(range(len(maps)), [one.title for one in maps])
    axes.invert_yaxis()
    axes.set(title="The fastest algorithm", xlabel="bytes of each rank's vector")


def timeline(axes, name, spans, nature):
    lanes = list(dict.fromkeys(span.lane for span in spans))
    named = set()
    for span in spans:
        axes.barh(
            lanes.index(span.lane),
            span.end - span.begin,
            left=span.begin,
            height=0.7,
            color=style.work(span.kind),
            edgecolor="white",
            linewidth=0.5,
            hatch="" if nature == "measured" else "//",
            label=None if span.kind in named else span.kind,
        )
        named.add(span.kind)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: units.seconds(value) if value else "0")
    axes.set(title=f"One step, {name}", xlabel="since the step began")


def validation(axes, found):
    """The ratio of simulated and published times over bytes, a mark a machine."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for place, (name, group) in enumerate(series.grouped(found, lambda row: row.text("topology", "?")).items()):
        colour, marker = style.fabric(place)
        for hollow in (False, True):
            some = [row for row in group if published.doubtful(row) is hollow]
            axes.plot(
                [row.of_point("bytes") for row in some],
                [row.metric("ratio") for row in some],
                color=colour,
                linestyle="none",
                marker=style.MATPLOTLIB_MARKERS.get(marker, "o"),
                fillstyle="none" if hollow else "full",
                label=(f"{name} (doubtful)" if hollow else name) if some else None,
            )
    axes.set_xscale("log", base=4)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(style.RATIOS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.times(value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.size(value)))
    axes.set(title="The simulation against what others measured", xlabel="bytes", ylabel="simulated / published time")


def pictures(runs):
    """(file name, what draws it on its axes, inches of height)"""
    for bench, what in (("allreduce", "All-reduce"), ("collective", "Collectives")):
        for metric, label, show in (("busbw", "bus bandwidth", units.bandwidth), ("seconds", "time", units.seconds)):
            for panel in series.over_bytes(runs, metric, bench):
                if any(one.points for one in panel.series):
                    name = f"{bench} {'bandwidth' if metric == 'busbw' else 'time'} {panel.title}"
                    title = f"{what}, {panel.title}"
                    yield name, partial(over_bytes, panel=panel, label=label, show=show, title=title), 4.5
    maps = races.races(runs)
    if maps:
        yield "winners", partial(winners, maps=maps), 1.5 + 0.5 * len(maps)
    for panel in fabrics.over_bytes(fabrics.allreduce(runs)):
        title = f"Fabrics, {panel.title}"
        yield f"fabrics {panel.title}", partial(
            over_bytes, panel=panel, label="time, fastest algorithm", show=units.seconds, title=title
        ), 4.5
    for title, bars in series.steps(runs):
        yield f"step {title}", partial(stacked, title=title, bars=bars), 1.3 + 0.33 * len(bars)
    for name, spans, nature in timelines.steps_watched(runs):
        lanes = {span.lane for span in spans}
        yield f"timeline {name}", partial(timeline, name=name, spans=spans, nature=nature), 1.5 + 0.4 * len(lanes)
    for panel in series.speedups(runs):
        label = "images per second, over one device's"
        title = f"Speed-up, {panel.title}"
        yield f"speedup {panel.title}", partial(over_devices, found=panel.series, title=title, label=label), 4.5
        found, title = list(map(series.per_device, panel.series)), f"Efficiency, {panel.title}"
        yield f"efficiency {panel.title}", partial(
            over_devices, found=found, title=title, label="speed-up over devices"
        ), 4.5
    for metric, label in series.LEARNED.items():
        found = series.epochs(load.rows(runs, "train"), metric)
        if found and max(len(one.points) for one in found) > 1:
            yield label, partial(over_epochs, found=found, label=label), 4.5
    found = [row for row in published.compared(runs) if row.of_point("bytes")]
    if found:
        yield "published", partial(validation, found=found), 5.5


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
            if axes.get_legend_handles_labels()[1]:
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
    start(main)
