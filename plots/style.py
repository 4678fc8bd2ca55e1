# SPDX-License-Identifier: Apache-2.0
"""One look everywhere: an algorithm has the same colour and marker in every picture. Colours differ in lightness as
well as hue and stand at 3:1 or better on white and on near black; markers repeat what they say for those who see
none."""

import zlib

ALGORITHMS = {
    "ring": ("#2f7fd0", "circle"),
    "tree": ("#c77700", "square"),
    "parameter_server": ("#d0487a", "diamond"),
    "double_tree": ("#8d7a1f", "triangle-up"),
    "recursive_doubling": ("#1a9988", "triangle-down"),
    "halving_doubling": ("#8f6bd0", "pentagon"),
    "one_shot": ("#c4543b", "star"),
    "hierarchical": ("#5e8a2f", "hexagon"),
    "torus": ("#a0654a", "cross"),
    "bidirectional_ring": ("#3f8fa8", "bowtie"),
    "two_shot": ("#b8558f", "star-square"),
    "leader": ("#7f74c9", "hexagram"),
    "direct": ("#b0703a", "diamond-wide"),
    "dissemination": ("#6f8f4a", "diamond-tall"),
    "nccl": ("#4f8f3a", "x"),
    "mpi_native": ("#7b7f8c", "star-diamond"),
    "gloo": ("#9a5fb0", "hourglass"),
}
OTHERS = ["#3f8fa8", "#b0703a", "#7f74c9", "#6f8f4a", "#b8558f", "#80808a"]
MARKERS = ["bowtie", "star-square", "hexagram", "cross", "x", "pentagon"]

PHASES = {
    "compute": "#5b86b8",
    "hidden communication": "#9d7fa6",  # behind computing
    "exposed communication": "#d65f2e",
    "update": "#2f9c86",
    "load": "#8a8f98",
}
PASSES = {"forward": "#5b86b8", "backward": "#8f6bd0"}

# What a device does, in the timeline of a step.
WORK = {
    "forward": "#5b86b8",
    "backward": "#8f6bd0",
    "all_reduce": "#d65f2e",
    "update": "#2f9c86",
    "load": "#8a8f98",
    "copy": "#c79a2f",
}
SCALES = {"Blues": [[0, "#e3edf8"], [1, "#5f9bd8"]], "Oranges": [[0, "#fbead9"], [1, "#e08a45"]]}

# Fabrics and machines side by side, in their order.
FABRICS = ["#3b9a57", "#b0573a", "#7f74c9", "#3f8fa8", "#a8842c"]
FABRIC_MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star"]

# Ticks of what is near 1.
RATIOS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10)

# Lines that no run made: what others are held against.
REFERENCES = {"ideal": "#8a8f98", "bound": "#8a8f98"}

# The same for matplotlib, which has other names.
MATPLOTLIB_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "pentagon": "p",
    "star": "*",
    "hexagon": "h",
    "cross": "P",
    "x": "X",
}


def look(name):
    """Colour and marker. A name not listed above gets the same ones each time."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    pick = zlib.crc32(name.encode("utf-8", "replace")) % len(OTHERS)
    return OTHERS[pick], MARKERS[pick]


def fabric(place):
    """Colour and marker; the first 35 differ."""
    return FABRICS[place % len(FABRICS)], FABRIC_MARKERS[place % len(FABRIC_MARKERS)]


def pale(colour):
    """As a ground for dark words."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(0.6 * part + 0.4 * 255):02x}" for part in parts)


def work(kind):
    return WORK.get(kind, look(kind)[0])


def between(share):
    """From grey over blue to red, for the load of a link: 0 to 1."""
    stops = [(0x9A, 0xA4, 0xAF), (0x2F, 0x7F, 0xD0), (0xD0, 0x3A, 0x2F)]
    place = min(max(share, 0), 1) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(stops[low], stops[low + 1]))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def dash(nature):
    """Only what was measured has a solid line."""
    return {"measured": "solid", "simulated": "dash"}.get(nature, "dot")
