# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them. Whatever is not a finite number comes out as "n/a", so that a null never looks like
0."""

import math

NOTHING = "n/a"


def number(value):
    """The value as a float, or None: null, text, true, NaN and infinity are no numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def digits(value, places=3):
    """Three significant digits without an exponent, whole numbers whole: 0.0123, 4.57, 128, 2."""
    value = number(value)
    if value is None:
        return NOTHING
    if math.isclose(value, round(value), rel_tol=1e-12) and abs(value) < 1e6:
        return str(round(value))
    after = max(0, places - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(after, 9)}f}"


def scaled(value, steps, unit):
    """`steps`: (factor, prefix), the largest first."""
    value = number(value)
    if value is None:
        return NOTHING
    for factor, prefix in steps:
        if abs(value) >= factor * 0.9995:
            return f"{digits(value / factor)} {prefix}{unit}"
    factor, prefix = steps[-1]
    return f"{digits(value / factor)} {prefix}{unit}"


DECIMAL = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")]
BINARY = [(2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"), (1, "")]


def seconds(value):
    return scaled(value, [(1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")], "s")


def size(value):
    """Bytes in binary units, exactly where they come out even: 64 KiB."""
    value = number(value)
    if value is None:
        return NOTHING
    for factor, prefix in BINARY:
        if value >= factor:
            whole = value / factor
            return f"{int(whole)} {prefix}B" if whole == int(whole) else f"{digits(whole)} {prefix}B"
    return f"{digits(value)} B"


def bandwidth(value):
    """1 GB is 1e9 bytes."""
    return scaled(value, DECIMAL, "B/s")


def rate(value, what="images"):
    value = number(value)
    return NOTHING if value is None else f"{value:,.0f} {what}/s" if value >= 100 else f"{digits(value)} {what}/s"


def percent(value):
    value = number(value)
    return NOTHING if value is None else f"{100 * value:.0f}%" if abs(value) >= 0.0995 else f"{100 * value:.1f}%"


def times(value):
    value = number(value)
    return NOTHING if value is None else f"{value:.2f}"


def counted(count, singular, plural=None):
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
