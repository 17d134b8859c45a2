"""The training steps C1 to C4 in JAX and optax, on the data of benches/training.rs.

Usage: python jax_training.py [C1 C2 C3 C4]; needs the packages of tests/golden/requirements.txt. Prints the
lines that `cargo bench --bench training` prints.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

CASES = {
    "C1": ((64, 128, 128, 10), 64),
    "C2": ((784, 512, 512, 10), 128),
    "C3": ((784, 2048, 2048, 10), 256),
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


BATCH, TOKENS, WIDTH, HEADS, HIDDEN, CLASSES = 8, 64, 256, 4, 1024, 256


def transformer():
    """The parameters of case C4."""
    norm = lambda: (jnp.ones(WIDTH), jnp.zeros(WIDTH))
    layer = lambda number, inputs, outputs: tuple(map(jnp.asarray, linear(number, inputs, outputs)))
    blocks = [
        {
            "norm1": norm(),
            "qkv": layer(4 * b, WIDTH, 3 * WIDTH),
            "proj": layer(4 * b + 1, WIDTH, WIDTH),
            "norm2": norm(),
            "fc": layer(4 * b + 2, WIDTH, HIDDEN),
            "out": layer(4 * b + 3, HIDDEN, WIDTH),
        }
        for b in range(2)
    ]
    return {"blocks": blocks, "norm": norm(), "head": layer(8, WIDTH, CLASSES)}


def transformer_logits(parameters, x):
    affine = lambda p, x: x @ p[0] + p[1]

    def normalised(p, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * p[0] + p[1]

    each = WIDTH // HEADS
    seen = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
    for block in parameters["blocks"]:
        qkv = jnp.split(affine(block["qkv"], normalised(block["norm1"], x)), 3, axis=-1)
        q, k, v = (part.reshape(BATCH, TOKENS, HEADS, each).transpose(0, 2, 1, 3) for part in qkv)
        scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / each**0.5, -1e9)
        mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
        x = x + affine(block["proj"], mixed.reshape(BATCH, TOKENS, WIDTH))
        inner = jax.nn.gelu(affine(block["fc"], normalised(block["norm2"], x)), approximate=True)
        x = x + affine(block["out"], inner)
    return affine(parameters["head"], normalised(parameters["norm"], x)).reshape(BATCH * TOKENS, CLASSES)


def mlp_logits(parameters, x):
    for weight, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = parameters[-1]
    return x @ weight + bias


def run(name):
    if name == "C4":
        parameters, logits, shape, labels, classes = transformer(), transformer_logits, (BATCH, TOKENS, WIDTH), BATCH * TOKENS, CLASSES
    else:
        sizes, labels = CASES[name]
        parameters = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)]
        logits, shape, classes = mlp_logits, (labels, sizes[0]), 10
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)
    batches = [
        (jnp.asarray(uniform(10 + k, shape, 1.0)), jnp.asarray((words(20 + k, labels) % np.uint64(classes)).astype(np.int32)))
        for k in range(4)
    ]

    def loss(parameters, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(logits(parameters, x), y).mean()

    @jax.jit
    def step(parameters, state, x, y):
        value, gradient = jax.value_and_grad(loss)(parameters, x, y)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    def report(operation, unit, median, least):
        print(json.dumps({"section": "C", "workload": name, "op": operation, "peer": "jax", "unit": unit, "median": median, "min": least}))

    count, losses = 0, []
    for count in range(20):
        parameters, state, value = step(parameters, state, *batches[count % 4])
        losses.append(float(value))
    report("loss_step1", "", losses[0], losses[0])
    report("loss_step20", "", losses[19], losses[19])
    times = []
    inner = {"C1": 300, "C2": 20, "C3": 2, "C4": 2}[name]
    for _ in range(20):
        start = time.perf_counter()
        for count in range(inner):
            parameters, state, value = step(parameters, state, *batches[count % 4])
        value.block_until_ready()
        times.append((time.perf_counter() - start) * 1e6 / inner)
    report("us_per_step", "us", sorted(times)[10], min(times))


if __name__ == "__main__":
    for case in sys.argv[1:] or [*CASES, "C4"]:
        run(case)
