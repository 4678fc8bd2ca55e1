# SPDX-License-Identifier: Apache-2.0
"""The main pictures as PNG, for a README or slides: python3 -m plots.figures RESULT.json... -o folder. Needs matplotlib
(Debian: python3-matplotlib)."""

import argparse
import os
import re
import sys

from plots import interpreter, load, series, style, units


def draw_lines(axes, panel):
    dashes = {"solid": "-", "dash": "--", "dot": ":"}
    for one in panel.series:
        if not one.points:
            continue
        xs, ys = [p[0] for p in one.points], [p[1] for p in one.points]
        if one.nature == "ideal":
            axes.plot(xs, ys, color="#8a8f98", linestyle=":", label="ideal")
            continue
        colour, marker = style.look(one.look)
        axes.plot(
            xs,
            ys,
            color=colour,
            marker=style.MATPLOTLIB_MARKERS.get(marker, "o"),
            linestyle=dashes[style.dash(one.nature)],
            markersize=5,
            label=one.name,
            fillstyle="full" if one.nature == "measured" else "none",
        )
        known = [p for p in one.points if p[2] is not None and p[3] is not None]
        axes.fill_between(
            [p[0] for p in known], [p[2] for p in known], [p[3] for p in known], color=colour, alpha=0.2, linewidth=0
        )


def over_bytes(axes, panel, label, show):
    from matplotlib.ticker import FuncFormatter, NullFormatter

    draw_lines(axes, panel)
    axes.set_xscale("log", base=4)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.size(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", rotation=30)
    axes.set(title=f"All-reduce, {panel.title}", xlabel="bytes", ylabel=label)


def over_devices(axes, panel):
    draw_lines(axes, panel)
    axes.set_xticks(sorted({point[0] for one in panel.series for point in one.points}))
    axes.set(
        title=f"Speed-up, {panel.title}",
        xlabel="devices",
        ylabel="images per second over those of one device",
        ylim=(0, None),
    )


def stacked(axes, title, bars):
    for index, bar in enumerate(bars):
        left = 0
        for phase, colour in style.PHASES.items():
            axes.barh(
                index,
                bar.parts[phase],
                left=left,
                color=colour,
                height=0.7,
                label=phase if index == 0 else None,
                hatch=None if bar.nature == "measured" else "//",
            )
            left += bar.parts[phase]
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: units.seconds(value))
    axes.set(title=f"The training step, {title}", xlabel="time of a step")


def pictures(runs):
    """(file name, what draws it on its axes, inches of height)"""
    for metric, label, show in (("busbw", "busbw", units.bandwidth), ("seconds", "time", units.seconds)):
        for panel in series.allreduce(runs, metric):
            if any(one.points for one in panel.series):
                yield (
                    f"allreduce {metric} {panel.title}",
                    lambda axes, p=panel, l=label, s=show: over_bytes(axes, p, l, s),
                    4.5,
                )
    for title, bars in series.steps(runs):
        yield f"step {title}", lambda axes, t=title, b=bars: stacked(axes, t, b), 1.6 + 0.4 * len(bars)
    for panel in series.speedups(runs):
        yield f"speedup {panel.title}", lambda axes, p=panel: over_devices(axes, p), 4.5


def main(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m plots.figures", description=__doc__)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER", help="where the pictures go (.)")
    options = parser.parse_args(arguments)
    interpreter.need("matplotlib", "python3-matplotlib", "plots.figures", arguments)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = load.load(options.results)
    written = []
    try:
        os.makedirs(options.output, exist_ok=True)
        for name, draw, height in pictures(runs):
            figure, axes = pyplot.subplots(figsize=(8, height))
            draw(axes)
            axes.grid(True, color="#dfe3e8", linewidth=0.7)
            axes.set_axisbelow(True)
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
            path = os.path.join(options.output, re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".png")
            figure.savefig(path, dpi=144, bbox_inches="tight")
            pyplot.close(figure)
            written.append(path)
    except OSError as error:
        sys.exit(f"plots.figures: --output={options.output}: {error.strerror}")
    print(*written, sep="\n")
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
