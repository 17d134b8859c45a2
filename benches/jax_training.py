"""The training steps of benches/training.rs in JAX and optax, on the same data.

Usage: python jax_training.py [--bf16] [--devices N] [C1 C2 C3 C4 mlp4096 transformer1024]; needs the packages of
tests/golden/requirements.txt. Prints the lines that `cargo bench --bench training` prints. Without names, the cases C1 to
C4 run. `--bf16` converts parameters and inputs to bfloat16. With `--devices`, `jax.shard_map` divides each batch among N
devices.
"""

import json
import resource
import sys
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend import backend
from jax.sharding import NamedSharding, PartitionSpec as P

CASES = {
    "C1": ((64, 128, 128, 10), 64),
    "C2": ((784, 512, 512, 10), 128),
    "C3": ((784, 2048, 2048, 10), 256),
    "mlp4096": ((4096, 4096, 4096, 10), 4096),
}


class Sizes(NamedTuple):
    """The lengths of the axes of a transformer and of its input."""

    batch: int
    tokens: int
    width: int
    heads: int
    hidden: int
    classes: int
    blocks: int


TRANSFORMERS = {
    "C4": Sizes(8, 64, 256, 4, 1024, 256, 2),
    "transformer1024": Sizes(8, 512, 1024, 16, 4096, 256, 12),
}


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


def linear(layer, inputs, outputs):
    bound = np.float32(1 / np.sqrt(np.float64(inputs)))
    return uniform(100 + 2 * layer, (inputs, outputs), bound), uniform(101 + 2 * layer, (outputs,), bound)


def transformer(sizes):
    """The parameters of a transformer."""
    width, hidden = sizes.width, sizes.hidden
    norm = lambda: (jnp.ones(width), jnp.zeros(width))
    layer = lambda number, inputs, outputs: tuple(map(jnp.asarray, linear(number, inputs, outputs)))
    blocks = [
        {
            "norm1": norm(),
            "qkv": layer(4 * b, width, 3 * width),
            "proj": layer(4 * b + 1, width, width),
            "norm2": norm(),
            "fc": layer(4 * b + 2, width, hidden),
            "out": layer(4 * b + 3, hidden, width),
        }
        for b in range(sizes.blocks)
    ]
    return {"blocks": blocks, "norm": norm(), "head": layer(4 * sizes.blocks, width, sizes.classes)}


def transformer_logits(sizes, parameters, x):
    affine = lambda p, x: x @ p[0] + p[1]

    def normalised(p, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * p[0] + p[1]

    # A device of a mesh has a part of the batch.
    batch, tokens, width, heads = x.shape[0], sizes.tokens, sizes.width, sizes.heads
    each = width // heads
    seen = jnp.tril(jnp.ones((tokens, tokens), bool))
    for block in parameters["blocks"]:
        qkv = jnp.split(affine(block["qkv"], normalised(block["norm1"], x)), 3, axis=-1)
        q, k, v = (part.reshape(batch, tokens, heads, each).transpose(0, 2, 1, 3) for part in qkv)
        scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / each**0.5, -1e9)
        mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
        x = x + affine(block["proj"], mixed.reshape(batch, tokens, width))
        inner = jax.nn.gelu(affine(block["fc"], normalised(block["norm2"], x)), approximate=True)
        x = x + affine(block["out"], inner)
    return affine(parameters["head"], normalised(parameters["norm"], x)).reshape(batch * tokens, sizes.classes)


def mlp_logits(parameters, x):
    for weight, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = parameters[-1]
    return x @ weight + bias


def run(name, dtype, devices):
    if name in TRANSFORMERS:
        sizes = TRANSFORMERS[name]
        parameters, labels, classes = transformer(sizes), sizes.batch * sizes.tokens, sizes.classes
        logits, shape = partial(transformer_logits, sizes), (sizes.batch, sizes.tokens, sizes.width)
    else:
        sizes, labels = CASES[name]
        parameters = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)]
        logits, shape, classes = mlp_logits, (labels, sizes[0]), 10
    parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)
    batches = [
        (jnp.asarray(uniform(10 + k, shape, 1.0), dtype), jnp.asarray((words(20 + k, labels) % np.uint64(classes)).astype(np.int32)))
        for k in range(4)
    ]

    def loss(parameters, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(logits(parameters, x), y).mean()

    def step(parameters, state, x, y):
        value, gradient = jax.value_and_grad(loss)(parameters, x, y)
        if devices > 1:
            value, gradient = jax.lax.pmean((value, gradient), "data")
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    if devices > 1:
        mesh = jax.make_mesh((devices,), ("data",))
        whole, part = P(), P("data")
        # The gradient of one part is the gradient of the loss of this part, as in `spmd`, without an implicit sum.
        step = jax.shard_map(
            step, mesh=mesh, in_specs=(whole, whole, part, part), out_specs=whole, check_vma=False
        )
        parameters, state = jax.device_put((parameters, state), NamedSharding(mesh, whole))
        batches = jax.device_put(batches, NamedSharding(mesh, part))
    step = jax.jit(step, donate_argnums=(0, 1))

    def report(operation, unit, median, least):
        print(json.dumps({"section": "C", "workload": name, "op": operation, "peer": "jax", "unit": unit, "median": median, "min": least}))

    count = 0

    def advance():
        nonlocal parameters, state, count
        parameters, state, value = step(parameters, state, *batches[count % 4])
        count += 1
        return value

    start = time.perf_counter()
    first = float(advance())
    first_step = (time.perf_counter() - start) * 1e3
    twentieth = float([advance() for _ in range(19)][-1])
    report("loss_step1", "", first, first)
    report("loss_step20", "", twentieth, twentieth)
    report("first_step_ms", "ms", first_step, first_step)
    start, warm = time.perf_counter(), 0
    while time.perf_counter() - start < 0.3 or warm < 3:
        advance().block_until_ready()
        warm += 1
    inner = max(1, int(0.05 / ((time.perf_counter() - start) / warm)))
    processor = time.process_time()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        [advance() for _ in range(inner)][-1].block_until_ready()
        times.append((time.perf_counter() - start) * 1e6 / inner)
    report("us_per_step", "us", sorted(times)[10], min(times))
    processor = (time.process_time() - processor) * 1e6 / (20 * inner)
    report("processor_us_per_step", "us", processor, processor)
    # Linux reports the peak in KiB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report("peak_mb", "MB", peak, peak)
    device = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in device:
        peak = device["peak_bytes_in_use"] / 2**20
        report("device_peak_mb", "MB", peak, peak)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    dtype = jnp.bfloat16 if "--bf16" in arguments else jnp.float32
    devices = 1
    if "--devices" in arguments:
        at = arguments.index("--devices")
        devices = int(arguments[at + 1])
        del arguments[at : at + 2]
        if jax.default_backend() == "cpu":
            backend.clear_backends()
            jax.config.update("jax_num_cpu_devices", devices)
    for case in [it for it in arguments if not it.startswith("--")] or ["C1", "C2", "C3", "C4"]:
        run(case, dtype, devices)
