# SPDX-License-Identifier: Apache-2.0
"""What result files say, as plain text: python3 -m plots.summary RESULT.json... Needs no package."""

import sys
import textwrap

from plots import headline, load
from plots.command import Parser, start


def main(arguments):
    parser = Parser("plots.summary", __doc__)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    runs = load.load(parser.parse_args(arguments).results)
    if not runs:
        sys.exit("plots.summary: no result file could be read")
    for sentence in headline.sentences(runs):
        print(
            textwrap.fill(
                load.one_line(sentence),
                100,
                initial_indent="- ",
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    return 0


if __name__ == "__main__":
    start(main)
