"""Timing, the data and the lines of results, shared by the programs of the peers. Needs NumPy only.

A result is a line with a JSON object, as those of the programs in Rust.
"""

import gc
import json
import os
import pathlib
import resource
import time
from typing import NamedTuple

import numpy as np

LEARNING_RATE = 1e-3
MLPS = {
    "C1": ((64, 128, 128, 10), 64),
    "C2": ((784, 512, 512, 10), 128),
    "C3": ((784, 2048, 2048, 10), 256),
    "mlp4096": ((4096, 4096, 4096, 10), 4096),
}


def report(section, workload, operation, peer, unit, median, least=None):
    least = median if least is None else least
    line = {"section": section, "workload": workload, "op": operation, "peer": peer, "unit": unit, "median": median, "min": least}
    print(json.dumps(line), flush=True)


def samples(default):
    """The number of samples of an operation."""
    return int(os.environ.get("BENCH_SAMPLES", default))


def microseconds(call, count, seconds=4e-3):
    """The sorted times of a call in `count` samples that take about `seconds` each. The garbage collector does not run meanwhile."""
    call()
    start, inner = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or inner < 3:
        call()
        inner += 1
    times = []
    for _ in range(count):
        gc.disable()
        start = time.perf_counter()
        for _ in range(inner):
            call()
        times.append((time.perf_counter() - start) * 1e6 / inner)
        gc.enable()
    return sorted(times)


def measure_steps(section, workload, peer, advance, number):
    """Measures a training run, each step of which returns its loss: `advance` starts a step, and `number` waits for its loss."""

    def result(operation, unit, median, least=None):
        report(section, workload, operation, peer, unit, median, least)

    start = time.perf_counter()
    first = number(advance())
    first_step = (time.perf_counter() - start) * 1e3
    twentieth = number([advance() for _ in range(19)][-1])
    result("loss_step1", "", first)
    result("loss_step20", "", twentieth)
    result("first_step_ms", "ms", first_step)
    start, warm = time.perf_counter(), 0
    while time.perf_counter() - start < 0.3 or warm < 3:
        number(advance())
        warm += 1
    inner = max(1, int(0.05 / ((time.perf_counter() - start) / warm)))
    processor, times = time.process_time(), []
    for _ in range(samples(20)):
        start = time.perf_counter()
        # The last step depends on all others, so its loss is read when all of them have run.
        for _ in range(inner):
            loss = advance()
        number(loss)
        times.append((time.perf_counter() - start) * 1e6 / inner)
    result("us_per_step", "us", sorted(times)[len(times) // 2], min(times))
    result("processor_us_per_step", "us", (time.process_time() - processor) * 1e6 / (len(times) * inner))
    result("peak_mb", "MB", peak_memory())


def measure_calls(workload, peer, most, advance, number):
    """Measures at most so many calls of a program of section K: `advance` starts a call, and `number` waits for its result."""

    def result(operation, unit, median, least=None):
        report("K", workload, operation, peer, unit, median, least)

    start = time.perf_counter()
    result("result_step1", "", number(advance()))
    result("first_step_ms", "ms", (time.perf_counter() - start) * 1e3)
    number(advance())
    start = time.perf_counter()
    result("result_step5", "", number([advance() for _ in range(3)][-1]))
    each = (time.perf_counter() - start) / 3
    count = samples(10 if each < 0.5 else 3)
    inner = max(1, min(int(0.1 / each), (most - 5) // count))
    times = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(inner):
            last = advance()
        number(last)
        times.append((time.perf_counter() - start) * 1e6 / inner)
    result("us_per_step", "us", sorted(times)[count // 2], min(times))
    result("peak_mb", "MB", peak_memory())


def report_cold_start(workload, peer, result):
    """Reports the milliseconds since the start of the process, which `compare` writes to `BENCH_START`, and a number that it computed."""
    report("K", workload, "cold_start_ms", peer, "ms", (time.time() - float(os.environ["BENCH_START"])) * 1e3)
    report("K", workload, "result_step1", peer, "", result)
    report("K", workload, "peak_mb", peer, "MB", peak_memory())


def peak_memory():
    """The most memory the process has held, in MB. Linux reports KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def words(stream, count):
    """The scrambled counters of a stream."""
    with np.errstate(over="ignore"):
        z = ((np.uint64(stream) << np.uint64(32)) + np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(stream, shape, bound):
    unit = (words(stream, int(np.prod(shape))) >> np.uint64(40)).astype(np.float32) / np.float32(16777216)
    return ((np.float32(2) * unit - np.float32(1)) * np.float32(bound)).reshape(shape)


def labels(stream, count, classes):
    return (words(stream, count) % np.uint64(classes)).astype(np.int32)


def permutation(stream, count):
    return np.argsort(words(stream, count), kind="stable")


def linear(layer, inputs, outputs):
    """The weight, `[inputs, outputs]`, and the bias of a linear layer."""
    bound = np.float32(1 / np.sqrt(np.float64(inputs)))
    return uniform(100 + 2 * layer, (inputs, outputs), bound), uniform(101 + 2 * layer, (outputs,), bound)


class Transformer(NamedTuple):
    """The lengths of the axes of a transformer and of its input."""

    batch: int
    tokens: int
    width: int
    heads: int
    hidden: int
    classes: int
    blocks: int


TRANSFORMERS = {
    "C4": Transformer(8, 64, 256, 4, 1024, 256, 2),
    "transformer1024": Transformer(8, 512, 1024, 16, 4096, 256, 12),
}


def batches(case):
    """Four batches of inputs and labels."""
    if case in TRANSFORMERS:
        sizes = TRANSFORMERS[case]
        shape, rows, classes = (sizes.batch, sizes.tokens, sizes.width), sizes.batch * sizes.tokens, sizes.classes
    else:
        widths, rows = MLPS[case]
        shape, classes = (rows, widths[0]), widths[-1]
    return [(uniform(10 + k, shape, 1.0), labels(20 + k, rows, classes)) for k in range(4)]


def linears(case):
    """The weight and the bias of each linear layer, by name. An MLP has the layers `0`, `1` and `2`."""
    if case not in TRANSFORMERS:
        widths = MLPS[case][0]
        return {str(k): linear(k, widths[k], widths[k + 1]) for k in range(3)}
    sizes = TRANSFORMERS[case]
    found = {}
    for b in range(sizes.blocks):
        shapes = {
            "qkv": (sizes.width, 3 * sizes.width),
            "proj": (sizes.width, sizes.width),
            "fc": (sizes.width, sizes.hidden),
            "out": (sizes.hidden, sizes.width),
        }
        found |= {f"{b}_{name}": linear(4 * b + k, *shape) for k, (name, shape) in enumerate(shapes.items())}
    return found | {"head": linear(4 * sizes.blocks, sizes.width, sizes.classes)}


def norms(case):
    """The names of the norm layers."""
    blocks = TRANSFORMERS[case].blocks if case in TRANSFORMERS else 0
    return [f"{b}_{name}" for b in range(blocks) for name in ("norm1", "norm2")] + ["norm"] * (blocks > 0)


def digits():
    """The scanned digits in the order of `digits --workload-d`: images of 64 pixels from 0 to 1, digits, and the number to train on."""
    path = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data" / "digits.csv"
    table = np.loadtxt(path, np.int32, delimiter=",")[permutation(900, 1797)]
    return table[:, :64].astype(np.float32) / np.float32(16), table[:, 64], 1437


def digits_batches(count):
    """The indices of each batch of the digits example."""
    for epoch in range(30):
        order = permutation(1000 + epoch, count)
        for start in range(0, count - 63, 64):
            yield order[start : start + 64]
