"""Prints the lines of training benchmarks as a table: python training_table.py results.jsonl [CARD]

Each line of the file is a line of benches/training.rs, benches/language.rs or their counterparts in JAX, with the member `dtype`. If a
program ran several times, the table has the medians, and the median of the ratios. For GPT-2 on a card in `PEAKS`, the table
also has the share of the card's peak: of its products for a training step, and of its memory bandwidth for a token.
"""

import collections
import json
import statistics
import sys

OURS, JAX = "pytree-pjrt", "jax"
# The operations and the bytes per second, from the data sheets: dense products of bf16, and the memory.
PEAKS = {"H100": (989e12, 3.35e12), "H200": (989e12, 4.8e12)}


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(path, card=""):
    peak = next((peak for name, peak in PEAKS.items() if name in card), None)
    values = collections.defaultdict(list)
    with open(path) as file:
        for line in map(json.loads, file):
            values[line["workload"], line["dtype"], line["peer"], line["op"]].append(line["median"])
    median = {key: statistics.median(numbers) for key, numbers in values.items()}
    cases = list(dict.fromkeys((workload, dtype) for workload, dtype, _, _ in values))
    heads = ["case", "dtype", "µs a step", "JAX", "ratio", "of the peak", "JAX", "first step, ms", "JAX", "memory, MB", "JAX", "result", "JAX", "host differs by"]
    rows = [heads, ["---", "---"] + ["---:"] * (len(heads) - 2)]
    for case in cases:
        pair = lambda operation: [median.get((*case, peer, operation)) for peer in (OURS, JAX)]
        shown = lambda operation: ["–" if value is None else number(value) for value in pair(operation)]
        times = [values[*case, peer, "us_per_step"] for peer in (OURS, JAX)]
        ratios = [ours / jax for ours, jax in zip(*times)]
        work = [median.get((*case, JAX, operation)) for operation in ("flops_of_products", "bytes_of_weights")]
        least = [amount / rate * 1e6 for amount, rate in zip(work, peak or ()) if amount and case[1] == "bf16"]
        share = lambda time: f"{least[0] / time:.1%}" if least and time else "–"
        # The memory of the device, where both count it; otherwise that of the process.
        memory = "peak_mb" if None in pair("device_peak_mb") else "device_peak_mb"
        results = pair("loss_step20") if (*case, JAX, "loss_step20") in median else pair("result_step5")
        results = ["–" if result is None else f"{result:.6f}" for result in results]
        difference = median.get((*case, OURS, "loss_step20_differs_from_host_by"))
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "–"
        differs = "–" if difference is None else f"{difference:.1e}"
        rows.append([case[0].removesuffix(f"-{case[1]}"), case[1], *shown("us_per_step"), ratio, *map(share, pair("us_per_step")), *shown("first_step_ms"), *shown(memory), *results, differs])
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
