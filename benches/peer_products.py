"""The products of benches/limits.rs in NumPy, JAX or torch: `python benches/peer_products.py numpy|jax|torch`.

Prints the lines that `cargo bench --bench limits -- product` prints.
"""

import sys

import numpy as np

from measure import microseconds, report, samples, uniform

PRODUCTS = [(512, 512, 512), (2048, 2048, 2048), (64, 128, 128), (128, 784, 512), (256, 2048, 2048)]


def product(peer, left, right):
    """Returns a function that multiplies. The result is preallocated where the library allows it."""
    if peer == "numpy":
        out = np.empty((left.shape[0], right.shape[1]), np.float32)
        return lambda: np.matmul(left, right, out=out)
    if peer == "jax":
        import jax

        left, right, multiply = jax.device_put(left), jax.device_put(right), jax.jit(lambda left, right: left @ right)
        return lambda: multiply(left, right).block_until_ready()
    import torch

    left, right = torch.from_numpy(left), torch.from_numpy(right)
    out = torch.empty(left.shape[0], right.shape[1])
    return lambda: torch.matmul(left, right, out=out)


peer = sys.argv[1]
for rows, inner, columns in PRODUCTS:
    left, right = uniform(1, (rows, inner), 1.0), uniform(2, (inner, columns), 1.0)
    times = microseconds(product(peer, left, right), samples(20), 0.02)
    rates = [2e-3 * rows * inner * columns / time for time in times]
    report("G", f"{rows}x{inner}x{columns}", "product", peer, "GFLOP/s", rates[len(rates) // 2], max(rates))
