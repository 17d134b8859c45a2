"""Writes docs/reference/performance.md from the results under target/compare."""

from . import figures, sections
from .rounds import cores_shown

HEAD = """\
# Performance

Written by `benches/compare`; do not edit it by hand. A cell has the median over the rounds, and in parentheses our figure divided by
that of the peer: below 1, ours takes less time. Quartiles follow if there were several rounds. [Where the time
goes](../explanation/where-time-goes.md) explains how to read the tables.
"""


def write(measured, before=""):
    """Returns the text of the document. `measured` has a section, the dictionary about its run, and its results, for each section.
    The other sections are those of the text `before`."""
    head, *parts = before.split("\n## ")
    texts = {part.split(".")[0]: "## " + part.rstrip("\n") for part in parts}
    limits = limits_of(measured)
    texts |= {section.name: "\n".join(_section(section, about, results, limits)) for section, about, results in measured}
    # Sections that were measured at different times can have different versions.
    settings = [line[2:] for line in head.splitlines() if line.startswith("- ")]
    settings += [line for _, about, _ in measured for line in about["setting"]]
    lines = [HEAD, *(f"- {line}" for line in dict.fromkeys(settings))]
    for section in sections.SECTIONS:
        if section.name in texts:
            lines += ["", texts[section.name]]
    return "\n".join(lines) + "\n"


def limits_of(measured):
    """Returns the largest rate of a product and of a copy that any program reached in section G, by operation and cores."""
    limits = {}
    for section, _, results in measured:
        if section.name != "G":
            continue
        for result in results:
            key = result["op"], result["cores"]
            limits[key] = max(limits.get(key, 0.0), result["min"])
    return limits


def number(value):
    """Returns a number with three digits, or all digits before the point."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ratio(value):
    """Returns a ratio, and its quartiles if they differ."""
    quartiles = f", {quotient(value.low)} to {quotient(value.high)}" if value.low != value.high else ""
    return quotient(value.median) + quartiles


def quotient(value):
    """Returns a ratio with two digits after the point, or two digits that are not zero."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def table(heads, rows):
    """Returns the lines of a table. All columns but the first are numbers."""
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def _section(section, about, results, limits):
    programs = [program.shown() for group in section.groups for program in group]
    measured = figures.Results(results)
    disagreements = measured.disagreements(section.checks, section.unchecked)
    kept = measured.without(disagreements)
    lines = [f"## {section.name}. {section.title}", ""]
    if section.note:
        lines += [section.note, ""]
    rate = " A larger figure is better, so a ratio above 1 is ours." if section.is_rate else ""
    lines += [f"`{_command(section, about)}`, {about['date']}; {_others(about)}.{rate}"]
    for operation, title in section.operations.items():
        lines += _table(kept, operation, title, max if section.is_rate else min)
    lines += _second_core(kept)
    if section.name == "C":
        lines += _shares(kept, limits)
    lines += _agreement(kept, section, disagreements)
    lines += _left_out(about)
    lines += ["", "Programs: " + ", ".join(f"`{program}`" for program in dict.fromkeys(programs)) + "."]
    return lines


def _command(section, about):
    cores = ",".join(map(str, about["cores"]))
    samples = about.get("samples")
    setting = f"BENCH_SAMPLES={samples} " if samples else ""
    return f"{setting}benches/compare --sections {section.name} --rounds {about['rounds']} --cores {cores}"


def _others(about):
    cores = about["cores_of_others"]
    if cores is None:
        return "the load of other processes is not known"
    return f"other processes used {cores:.2f} cores meanwhile"


def _table(results, operation, title, best):
    found = results.figures(operation)
    if not found:
        return []
    peers = results.peers([operation])
    # With one other library, its cell has the ratio.
    has_best = sum(peer not in (figures.OURS, "by hand") for peer in peers) > 1
    rows = []
    for figure in found:
        cells = [_cell(results, figure, peer) for peer in peers]
        cells += [_beside_best(results, figure, peers, best)] if has_best else []
        rows.append([f"{figure.workload}, {cores_shown(figure.cores)}", *cells])
    return ["", *table([title, *peers, *(["× the best peer"] if has_best else [])], rows)]


def _beside_best(results, figure, peers, best):
    """Returns our figure divided by that of the best library. A handwritten walk is none."""
    medians = {peer: results.spread(figure, peer) for peer in peers if peer not in (figures.OURS, "by hand")}
    medians = {peer: found.median for peer, found in medians.items() if found}
    found = results.ratio(figure, best(medians, key=medians.get)) if medians else None
    return quotient(found.median) if found else "–"


def _cell(results, figure, peer):
    found = results.spread(figure, peer)
    if found is None:
        return "–"
    if peer == figures.OURS:
        return number(found.median) + (f" [{number(found.low)} to {number(found.high)}]" if found.low != found.high else "")
    beside = results.ratio(figure, peer)
    return number(found.median) + (f" ({ratio(beside)})" if beside else "")


def _second_core(results):
    """Returns a table of the speed of training steps on two cores, divided by that on one core."""
    peers, rows = results.peers(["us_per_step"]), []
    for two in results.figures("us_per_step"):
        one = two._replace(cores=1)
        if two.cores != 2:
            continue
        spreads = [(results.spread(one, peer), results.spread(two, peer)) for peer in peers]
        cells = [f"{alone.median / both.median:.2f}" if alone and both else "–" for alone, both in spreads]
        rows.append([two.workload, *cells])
    return ["", *table(["time on one core / time on two", *peers], rows)] if rows else []


def _shares(results, limits):
    """Returns a table of the share of the machine's limits that our training steps reach."""
    rows = []
    for figure in results.figures("us_per_step"):
        flops, traffic = sections.flops(figure.workload), sections.adam_bytes(figure.workload)
        found = results.spread(figure, figures.OURS)
        peak, bandwidth = (limits.get((operation, figure.cores)) for operation in ("product", "copy"))
        if None in (flops, found, peak, bandwidth):
            continue
        seconds = found.median * 1e-6
        # The time of the products alone, and of Adam alone, if both ran at the limit.
        products, adam = flops / (peak * 1e9), traffic / (bandwidth * 1e9)
        shares = [f"{100 * part / seconds:.0f} %" for part in (products, adam, products + adam)]
        rows.append([f"{figure.workload}, {cores_shown(figure.cores)}", number(flops / 1e6), number(traffic / 1e6), *shares])
    if not rows:
        return []
    text = "How much of a step the machine would need at its limits of section G: the products at the largest rate of a product, and the memory of "
    text += "Adam at the rate of a copy. Caches hold the parameters of C1 and C2, so they need less time for Adam."
    heads = ["share of a step", "products, Mflop", "Adam, MB", "products", "Adam", "both"]
    return ["", text, "", *table(heads, rows)]


def _agreement(results, section, disagreements):
    """Returns the values on which the programs agree, and those on which they don't."""
    lines = []
    values = []
    for operation in section.checks:
        for figure in results.figures(operation):
            found = results.spread(figure, figures.OURS)
            if found and figure.cores == min(it.cores for it in results.figures(operation)):
                values.append(f"{figure.workload} {operation.replace('_', ' ')} {found.median:.6g}")
    if values:
        tolerances = ", ".join(f"{operation.replace('_', ' ')} {tolerance:g}" for operation, tolerance in section.checks.items())
        lines += ["", f"All programs in the tables agree on these values ({tolerances} of the value): " + "; ".join(values) + "."]
    for it in disagreements:
        operation = it.figure.operation.replace("_", " ")
        lines += ["", f"**{it.peer} is left out of {it.figure.workload} on {cores_shown(it.figure.cores)}**: its {operation} is {it.theirs:.7g}, ours is {it.ours:.7g}."]
    return lines


def _left_out(about):
    return [line for program, reason in about["left_out"].items() for line in ("", f"Left out: `{program}`: {reason}")]
