"""The calls of `benches/calls.rs` in JAX, for comparison: `python jax_calls.py`, with jax 0.10.2 on its CPU."""

import time

import jax
import jax.numpy as jnp
import numpy as np

ROUNDS, SAMPLE = 21, 0.02


def median(call):
    call()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SAMPLE or count < 3:
        call()
        count += 1
    samples = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        samples.append((time.perf_counter() - start) / count)
    return sorted(samples)[ROUNDS // 2]


def report(unit, name, value):
    print(f"{name:<44} {value:>10.2f} {unit}")


add = jax.jit(lambda x, y: x + y)
host = np.ones(4, np.float32)
x = jnp.asarray(host)
report("us", "call f32[4] + f32[4], not waited for", 1e6 * median(lambda: add(x, x)))
report("us", "call, and wait", 1e6 * median(lambda: add(x, x).block_until_ready()))
report("us", "call with a put and a read", 1e6 * median(lambda: np.asarray(add(jax.device_put(host), x))))
for count in [1 << 10, 1 << 18, 1 << 24]:
    host = np.ones(count, np.float32)
    size = 4 * count / 1e9
    put = median(lambda: jax.device_put(host, may_alias=False).block_until_ready())
    report("GB/s", f"put of {count * 4 // 1024} KiB", size / put)
product = jax.jit(lambda x: x @ x)
x = jnp.full((1024, 1024), 1e-3, jnp.float32)
report("us", "the product, waited for", 1e6 * median(lambda: product(x).block_until_ready()))
