"""Makes the rows of benches/results from what the programs printed, and docs/reference/performance.md from these rows.

A row has the medians of one figure over the rounds, by program, and our median divided by that of each peer in the same rounds.
"""

import re

from . import figures, sections

HEAD = """\
# Performance

`benches/compare` measures pytree and other libraries in turn on the same machine, and writes this page. A ratio is our time divided by
that of the fastest other library whose results agree with ours: below 1, ours takes less time. It is the median over the rounds. The
times are on one core, and the last ratio is on two. A build has two cores.

| | pytree | fastest other | ratio | on two cores | commit |
|---|---:|---:|---:|---:|---|
"""

TAIL = """
The files of `benches/results` have all figures: the other libraries and workloads, memory, first calls, quartiles, and the commit, the
date, the machine and the versions. `benches/README.md` lists the sections and their programs. [Where the time
goes](../explanation/where-time-goes.md) explains the figures.

"""

# The rows of the page: a section, an operation, a workload, and what they are.
SHOWN = [
    ("A", "flatten to handles", "A3", "flatten, per leaf"),
    ("A", "unflatten", "A3", "unflatten, per leaf"),
    ("B", "identity", "A2", "compiled call, 148 leaves"),
    ("C", "us_per_step", "C1", "C1: MLP 64-128-128-10"),
    ("C", "us_per_step", "C2", "C2: MLP 784-512-512-10"),
    ("C", "us_per_step", "C3", "C3: MLP 784-2048-2048-10"),
    ("C", "us_per_step", "C4", "C4: transformer"),
    ("H1", "us_per_step", "H1", "H1: convolutions"),
    ("H2", "us_per_step", "H2", "H2: small GPT"),
    ("H3", "us_per_step", "H3", "H3: GRU"),
    ("H4", "us_per_step", "H4", "H4: meta-learning"),
    ("F", "us_per_call", "per-example grads C1 b64", "per-example gradients"),
    ("H7", "first_call_ms", "H7-1000", "first call, 1,000 equations"),
    ("K", "us_per_step", "gpt2-token", "GPT-2, token"),
    ("K", "us_per_step", "gpt2-token-bf16", "GPT-2, token, bf16"),
    ("K", "us_per_step", "gpt2-train", "GPT-2, training step"),
    ("K", "us_per_step", "llama-token", "Llama, token"),
    ("K", "us_per_step", "minilm", "MiniLM, 32 sentences"),
    ("K", "us_per_step", "resnet-train", "ResNet-18, training step"),
    ("L", "us_per_step", "lstm", "LSTM, training step"),
    ("L", "us_per_step", "decoder", "decoder of 1,024 tokens, training step"),
    ("L", "us_per_step", "table", "table of categories, training step"),
    ("L", "us_per_step", "rows_adam", "table of 1,000,000 rows, training step"),
    ("V", "gradient", "conv3x3", "convolution with its gradient"),
    ("W", "forward", "scan16", "loop of 16 numbers, a round"),
    ("W", "forward", "gru16", "GRU of 16 numbers, a round"),
    ("D", "seconds", "digits", "digits, whole program"),
    ("E", "clean build, s", "digits", "build of digits"),
    ("E", "rebuild, s", "digits", "rebuild of digits"),
]


def rows(section, commit, results):
    """Returns a row for each figure, and why peers are left out: their values differ from ours."""
    measured = figures.Results(results)
    disagreements = measured.disagreements(section.checks, section.unchecked)
    kept = measured.without(disagreements)
    found = [_row(kept, commit, title, figure) for operation, title in section.operations.items() for figure in kept.figures(operation)]
    left_out = {
        f"{it.peer}, {it.figure.workload}, cores {it.figure.cores}": f"its {it.figure.operation} is {it.theirs:.7g}, ours is {it.ours:.7g}"
        for it in disagreements
    }
    return found, left_out


def _row(results, commit, title, figure):
    spreads = {peer: results.spread(figure, peer) for peer in results.peers([figure.operation])}
    ratios = {peer: results.ratio(figure, peer) for peer in spreads if peer != figures.OURS}
    row = {"commit": commit, "figure": title, "workload": figure.workload, "cores": figure.cores}
    row["medians"] = {peer: _digits(spread.median) for peer, spread in spreads.items() if spread}
    if (ours := spreads.get(figures.OURS)) and ours.low != ours.high:
        row["quartiles"] = [_digits(ours.low), _digits(ours.high)]
    if ratios := {peer: ratio for peer, ratio in ratios.items() if ratio}:
        row["ratios"] = {peer: _digits(ratio.median) for peer, ratio in ratios.items()}
        spread = {peer: [_digits(it.low), _digits(it.high)] for peer, it in ratios.items() if it.low != it.high}
        row |= {"quartiles_of_ratios": spread} if spread else {}
    return row


def _digits(value):
    """Returns a number with four digits."""
    return float(f"{value:.4g}")


def page(measured):
    """Returns the text of the page. `measured` has the dictionary about the run and the rows of each section, by its name."""
    text, known = HEAD, {section.name: section for section in sections.SECTIONS}
    shown = {}
    for name, operation, workload, label in SHOWN:
        about, found = measured.get(name, ({}, []))
        title = known[name].operations[operation]
        lines = {row["cores"]: row for row in found if (row["figure"], row["workload"]) == (title, workload)}
        if lines:
            one, two = lines[min(lines)], lines.get(2)
            unit = re.search(r", (ns|µs|ms|s)\b", title)[1]
            times = [_time(one["medians"][figures.OURS], unit), _fastest_time(one, unit)]
            cells = [label, *times, _ratio(one), _ratio(two), one["commit"]]
            text += f"| {' | '.join(cells)} |\n"
            shown[name] = about
    return text + TAIL + "\n".join(_machines(shown)) + "\n"


def _machines(runs):
    """Returns a line for each machine: the dates, and how many cores other processes kept busy, with the sections where it was a lot."""
    for machine in dict.fromkeys(about["setting"][0] for about in runs.values()):
        here = {name: about for name, about in runs.items() if about["setting"][0] == machine}
        dates = sorted({about["date"] for about in here.values()})
        others = {name: about["cores_of_others"] or 0 for name, about in here.items()}
        loud = {name: load for name, load in others.items() if load > 0.1}
        most = max((load for name, load in others.items() if name not in loud), default=0)
        loads = [f"at most {most:.2f} cores", *(f"{load:.2f} in section {name}" for name, load in loud.items())]
        yield f"Machine: {machine}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; other processes used {', '.join(loads)}."


def _fastest(row):
    """Returns the fastest other library in a row. A handwritten walk is none."""
    others = {peer: median for peer, median in row["medians"].items() if peer not in (figures.OURS, "by hand")}
    return min(others, key=others.get, default=None)


def _fastest_time(row, unit):
    peer = _fastest(row)
    return f"{peer} {_time(row['medians'][peer], unit)}" if peer else "–"


def _ratio(row):
    """Returns our time divided by that of the fastest other library, with two digits."""
    value = row and row.get("ratios", {}).get(_fastest(row))
    return "–" if not value else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _time(value, unit):
    """Returns a time with three digits, in the unit in which it is shortest."""
    units = ["ns", "µs", "ms", "s"]
    while value >= 1000 and unit != "s":
        value, unit = value / 1000, units[units.index(unit) + 1]
    return f"{value:.3g} {unit}"
