"""Prints the lines of training benchmarks as a table: python training_table.py results.jsonl

Each line of the file is a line of benches/training.rs or benches/jax_training.py, with the member `dtype`. If a program ran several
times, the table has the medians.
"""

import collections
import json
import statistics
import sys

OURS, JAX = "pytree-pjrt", "jax"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(path):
    values = collections.defaultdict(list)
    with open(path) as file:
        for line in map(json.loads, file):
            values[line["workload"], line["dtype"], line["peer"], line["op"]].append(line["median"])
    median = {key: statistics.median(numbers) for key, numbers in values.items()}
    cases = list(dict.fromkeys((workload, dtype) for workload, dtype, _, _ in values))
    heads = ["case", "dtype", "µs a step", "JAX", "ratio", "first step, ms", "JAX", "memory, MB", "JAX", "loss 20", "JAX", "host differs by"]
    rows = [heads, ["---", "---"] + ["---:"] * (len(heads) - 2)]
    for case in cases:
        pair = lambda operation: [median.get((*case, peer, operation)) for peer in (OURS, JAX)]
        shown = lambda operation: ["–" if value is None else number(value) for value in pair(operation)]
        ours, jax = pair("us_per_step")
        # The memory of the device, where both count it; otherwise that of the process.
        memory = "peak_mb" if None in pair("device_peak_mb") else "device_peak_mb"
        losses = ["–" if loss is None else f"{loss:.6f}" for loss in pair("loss_step20")]
        difference = median.get((*case, OURS, "loss_step20_differs_from_host_by"))
        ratio = "–" if ours is None or jax is None else f"{ours / jax:.2f}"
        differs = "–" if difference is None else f"{difference:.1e}"
        rows.append([*case, *shown("us_per_step"), ratio, *shown("first_step_ms"), *shown(memory), *losses, differs])
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(sys.argv[1])
