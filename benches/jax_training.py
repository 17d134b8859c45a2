"""The training steps C1 to C3 in JAX and optax, on the data of benches/training.rs.

Usage: python jax_training.py [C1 C2 C3]; needs the packages of tests/golden/requirements.txt. Prints the
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


def run(name):
    sizes, batch = CASES[name]
    parameters = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)]
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)
    batches = [
        (jnp.asarray(uniform(10 + k, (batch, sizes[0]), 1.0)), jnp.asarray((words(20 + k, batch) % 10).astype(np.int32)))
        for k in range(4)
    ]

    def loss(parameters, x, y):
        for weight, bias in parameters[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        weight, bias = parameters[-1]
        return optax.softmax_cross_entropy_with_integer_labels(x @ weight + bias, y).mean()

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
    inner = {"C1": 300, "C2": 20, "C3": 2}[name]
    for _ in range(20):
        start = time.perf_counter()
        for count in range(inner):
            parameters, state, value = step(parameters, state, *batches[count % 4])
        value.block_until_ready()
        times.append((time.perf_counter() - start) * 1e6 / inner)
    report("us_per_step", "us", sorted(times)[10], min(times))


for case in sys.argv[1:] or CASES:
    run(case)
