# SPDX-License-Identifier: Apache-2.0
"""What changed between result files: python3 -m plots.compare A.json B.json... The points that A and each B have in
common, side by side, with the ratio of their times, its interval and a verdict by a statistical test. A folder in the
place of a file stands for all result files in it, repeated runs of one kind: then runs are compared, not the visits
inside one. Needs no package."""

import csv
import glob
import io
import json
import math
import os
import re
import sys
from dataclasses import dataclass
from statistics import median

from plots import difference, load, series, units
from plots.command import Parser, share, start, write
from plots.load import rows

TIMES = {"allreduce": "seconds", "collective": "seconds", "train": "step_seconds", "model": "step_seconds"}
SAME, FASTER, SLOWER = "no difference", "faster", "slower"
FAILED, UNTOLD = "failed", "cannot be told"
VERDICTS = (SLOWER, FAILED, FASTER, SAME, UNTOLD)
HEAD = ("bench", "point", "before", "after", "ratio", "interval", "verdict")


@dataclass
class Pair:
    """A point before and after."""

    before: load.Row
    after: load.Row
    name: str = ""
    found: difference.Difference | None = None  # None where the later one has no time
    verdict: str = UNTOLD

    @property
    def kind(self):
        """What it has in common with the points that differ in bytes only."""
        return json.dumps([self.before.bench, {**self.before.point, "bytes": None}], sort_keys=True)

    @property
    def seconds(self):
        return [row.metric(TIMES[row.bench]) if row.ok else None for row in (self.before, self.after)]

    @property
    def interval(self):
        known = self.found is not None and self.found.low is not None
        return (self.found.low, self.found.high) if known else (None, None)

    @property
    def ratio(self):
        return None if self.found is None else self.found.ratio


@dataclass
class Comparison:
    before: load.Run
    after: load.Run
    pairs: list
    lost: int  # points of the first run that the second one lacks
    new: int  # and the other way round
    least: float = difference.LEAST  # what a measured point has to differ by, in logarithms
    repeated: bool = False  # both are several runs
    by_turns: bool = True  # and those were taken by turns

    @property
    def title(self):
        return f"{self.before.path} and {self.after.path}"

    def notes(self):
        counts = [(verdict, sum(pair.verdict == verdict for pair in self.pairs)) for verdict in VERDICTS]
        found = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
        yield f"{units.counted(len(self.pairs), 'point')} in both{': ' + found if found else ''}."
        logs = [math.log(pair.ratio) for pair in self.pairs if pair.ratio]
        if logs:
            mean = math.exp(math.fsum(logs) / len(logs))
            yield f"On average {mean:.3f} times the time of before (geometric mean)."
        if self.lost or self.new:
            yield f"Not compared: {self.lost} only in the first, {self.new} only in the second."
        if load.mixed_machines([self.before, self.after]):
            yield "The two were taken on different machines."
        rough = sum(pair.before.oversubscribed or pair.after.oversubscribed for pair in self.pairs)
        if rough:
            yield f"{units.counted(rough, 'point')} oversubscribed: they time the scheduler."
        for run in (self.before, self.after):
            load_before, cores = busy(run)
            if load_before > cores / 2:
                yield f"{run.name} began on a busy machine (load {load_before:.1f} on {cores:.0f} cores)."
        if self.least > difference.LEAST:
            yield (
                "The machine was restless between the two: points that change together moved apart. What differs by"
                f" {share_of(self.least)} or less is called no difference; several runs of each by turns, in a folder"
                " each, can tell smaller ones."
            )
        if not self.by_turns:
            yield "The runs of the two were not taken by turns: the ratios hold what the machine did in between, too."
        yield difference.METHOD.format(what="runs" if self.repeated else "visits", least=share_of(self.least))


def share_of(logarithm):
    return units.percent(math.expm1(logarithm))


def busy(run):
    """The load before the run, and the cores that it could use."""
    machine = run.info.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    cpu = machine.get("cpu")
    cores = units.number(cpu.get("usable_cores")) if isinstance(cpu, dict) else None
    return units.number(machine.get("load")) or 0, cores or math.inf


def key(row):
    """What was tried. A field that is null says as little as one that is not there."""
    point = {name: value for name, value in row.point.items() if value is not None}
    return json.dumps([row.bench, row.nature, point], sort_keys=True)


def visits_of(row):
    samples = [units.number(sample) for sample in row.list("samples")]
    count = units.number(row.result.get("visits")) or 1
    return difference.visit_medians([sample for sample in samples if sample and sample > 0], int(max(count, 1)))


def difference_of(pair, least):
    """By their samples. What was computed has none, and no chance either: it differs as its times do."""
    before, after = pair.seconds
    visits = visits_of(pair.before), visits_of(pair.after)
    if pair.before.measured and all(visits):
        return difference.difference(*visits, least)
    ratio = after / before
    if pair.before.measured:
        return difference.Difference(ratio)
    return difference.Difference(ratio, ratio, ratio, 0.0 if abs(math.log(ratio)) > difference.LEAST else 1.0)


def judge(pairs, repeated):
    """Sets the differences and the verdicts, all points together; gives what a measured point has to differ by. Between
    repeated runs the test sees for itself what the machine does from run to run."""

    def differences(least):
        for pair in pairs:
            pair.found = difference_of(pair, least) if all(pair.seconds) else None

    differences(difference.LEAST)
    timed = [pair for pair in pairs if pair.found and pair.before.measured]
    groups = series.grouped(timed, lambda pair: pair.kind).values()
    unrest = 0 if repeated else difference.unrest([[pair.found for pair in group] for group in groups])
    least = max(difference.LEAST, difference.UNRESTS * unrest)
    if least > difference.LEAST:
        differences(least)
    differ = difference.found([pair.found.chance if pair.found else None for pair in pairs])
    for pair, told in zip(pairs, differ):
        if not pair.after.ok:
            pair.verdict = FAILED
        elif pair.found is not None and pair.found.chance is not None:
            changed = SLOWER if pair.found.ratio > 1 else FASTER
            pair.verdict = changed if told else SAME
    return least


def together(runs):
    """Repeated runs as one whose visits are the runs: a sample of a point is the median of a run. A point that failed in
    one of them is failed."""
    first, rows_of = runs[0], {}
    for row in rows(runs):
        if row.bench in TIMES:
            rows_of.setdefault(key(row), []).append(row)
    results = []
    for some in rows_of.values():
        bad = next((row for row in some if not row.ok), None)
        seconds = [row.metric(TIMES[row.bench]) for row in some]
        if bad is not None or not all(seconds):
            results.append((bad or some[0]).result)
            continue
        metrics = {**some[0].metrics, TIMES[some[0].bench]: median(seconds)}
        over = any(row.oversubscribed for row in some)
        more = {"samples": seconds, "visits": len(some), "metrics": metrics, "oversubscribed": over}
        results.append({**some[0].result, **more})
    return load.Run(os.path.dirname(first.path) if len(runs) > 1 else first.path, first.info, results)


def in_turns(*sides):
    """Whether the runs of neither side were all before those of the other."""
    spans = [[str(run.info.get("started")) for run in side] for side in sides]
    return min(spans[0]) < max(spans[1]) and min(spans[1]) < max(spans[0])


def compare(before, after):
    """Of two lists of runs."""
    repeated = len(before) > 1 or len(after) > 1
    by_turns = not repeated or in_turns(before, after)
    before, after = map(together, (before, after)) if repeated else (before[0], after[0])
    earlier, later = ({key(row): row for row in rows([run]) if row.bench in TIMES} for run in (before, after))
    pairs = [Pair(row, later[name]) for name, row in earlier.items() if name in later]
    pairs = [pair for pair in pairs if pair.seconds[0]]
    for bench in TIMES:
        some = [pair for pair in pairs if pair.before.bench == bench]
        names = series.told_apart([pair.before for pair in some], ("bytes",))
        for pair, name in zip(some, names):
            size = pair.before.of_point("bytes")
            pair.name = name if size is None else f"{name} · {units.size(size)}"
    least = judge(pairs, repeated)
    lost, new = len(earlier.keys() - later.keys()), len(later.keys() - earlier.keys())
    return Comparison(before, after, pairs, lost, new, least, repeated, by_turns)


def cells(pair):
    low, high = pair.interval
    return [
        pair.before.bench,
        pair.name,
        *map(units.seconds, pair.seconds),
        units.NOTHING if pair.ratio is None else f"{pair.ratio:.3f}",
        units.NOTHING if low is None else f"{low:.3f} to {high:.3f}",
        pair.verdict,
    ]


def as_text(comparison):
    table = [list(map(load.one_line, line)) for line in (HEAD, *map(cells, comparison.pairs))]
    widths = [max(map(len, column)) for column in zip(*table)]
    right = (2, 3, 4)
    yield f"# {load.one_line(comparison.title)}"
    for line in table if comparison.pairs else []:
        padded = [(cell.rjust if at in right else cell.ljust)(widths[at]) for at, cell in enumerate(line)]
        yield "  ".join(padded).rstrip()
    for note in comparison.notes():
        yield f"# {note}"


def as_markdown(comparison):
    def plain(cell):
        """Whatever Markdown or HTML could read as more than a letter is written by its number."""
        return re.sub(r"[^\w .,:;%/·µ-]", lambda found: f"&#{ord(found[0])};", load.one_line(cell))

    yield f"### {plain(comparison.title)}\n"
    if comparison.pairs:
        yield f"| {' | '.join(HEAD)} |"
        yield "|---|---|---:|---:|---:|---|---|"
    for pair in comparison.pairs:
        *line, verdict = map(plain, cells(pair))
        yield f"| {' | '.join(line)} | {verdict if verdict == SAME else f'**{verdict}**'} |"
    yield ""
    yield from (f"- {plain(note)}" for note in comparison.notes())


def as_csv(comparisons):
    """Seconds and plain ratios, one line for each point of each comparison. A text that a spreadsheet would take for a
    formula gets an apostrophe before it."""

    def safe(text):
        text = load.one_line(text)
        return "'" + text if text[:1] in ("=", "+", "-", "@") else text

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    head = ["first", "second", "bench", "point", "before_seconds", "after_seconds", "ratio", "low", "high", "chance"]
    writer.writerow([*head, "verdict"])
    for one in comparisons:
        for pair in one.pairs:
            numbers = [*pair.seconds, pair.ratio, *pair.interval, pair.found.chance if pair.found else None]
            words = map(safe, (one.before.path, one.after.path, pair.before.bench, pair.name))
            writer.writerow([*words, *("" if number is None else repr(number) for number in numbers), pair.verdict])
    return file.getvalue()


def parse(arguments):
    parser = Parser("plots.compare", __doc__)
    parser.add_argument("before", metavar="A.json", help="the results to compare with; or a folder of repeated runs")
    parser.add_argument("after", nargs="+", metavar="B.json", help="the results to compare; or a folder of such runs")
    parser.add_argument("--markdown", metavar="FILE", help="write it as Markdown too, for a pull request")
    parser.add_argument("--csv", metavar="FILE", help="write it as comma-separated values too, for a spreadsheet")
    parser.add_argument(
        "--fail-if-slower",
        type=share,
        metavar="5%",
        help="exit with 1 when a point is slower by more than that, or failed",
    )
    return parser.parse_args(arguments)


def runs_of(path):
    """The runs of a file, or of all files in a folder."""
    if not os.path.isdir(path):
        return load.load([path])
    files = sorted(glob.glob(os.path.join(glob.escape(path), "*.json")))
    if not files:
        print(f"plots.compare: {load.one_line(path)}: holds no .json file", file=sys.stderr)
    return load.load(files)


def main(arguments):
    options = parse(arguments)
    read = {path: runs_of(path) for path in dict.fromkeys([options.before, *options.after])}
    if not read[options.before]:
        sys.exit("plots.compare: there is nothing to compare with")
    comparisons = [compare(read[options.before], read[path]) for path in options.after if read[path]]
    print("\n".join(line for one in comparisons for line in as_text(one)))
    if options.markdown:
        text = "".join(line + "\n" for one in comparisons for line in as_markdown(one))
        write(options.markdown, text, "plots.compare", "--markdown")
    if options.csv:
        write(options.csv, as_csv(comparisons), "plots.compare", "--csv")
    status = 0 if all(read.values()) else 1
    for one in comparisons:
        if not one.pairs:
            print(f"plots.compare: {load.one_line(one.title)} have no point in common", file=sys.stderr)
            status = 1
        if options.fail_if_slower is None:
            continue
        if one.least > math.log1p(options.fail_if_slower):
            said = f"the machine was too restless to tell {units.percent(options.fail_if_slower)}"
            print(
                f"plots.compare: {load.one_line(one.title)}: {said}, only above {share_of(one.least)}", file=sys.stderr
            )
        slower = [pair for pair in one.pairs if pair.verdict == SLOWER and pair.ratio > 1 + options.fail_if_slower]
        failed = [pair for pair in one.pairs if pair.verdict == FAILED]
        for pair in slower + failed:
            what = "failed" if pair in failed else f"{units.percent(pair.ratio - 1)} slower"
            print(f"plots.compare: {load.one_line(pair.before.bench + ' ' + pair.name)}: {what}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    start(main)
