"""The functions of benches/operations.rs in JAX, in turn with ours: the microseconds of each, and the ratio.

Usage: python jax_operations.py [sin exp ...]; needs the packages of benches/comparison/requirements.txt. Starts `cargo bench
--bench operations`. For one thread, run it under `taskset -c 0`. Prints `differs` where the means of the results do.
"""

import json
import pathlib
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn, random

import measure

COUNT = 1_000_000
FUNCTIONS = {
    "acos": jnp.arccos, "acosh": jnp.arccosh, "asin": jnp.arcsin, "asinh": jnp.arcsinh, "atan": jnp.arctan,
    "atan2": jnp.arctan2, "atanh": jnp.arctanh, "celu": nn.celu, "clamp": lambda x: jnp.clip(x, -1, 1),
    "digamma": lax.digamma, "elu": nn.elu, "erf": lax.erf, "erf_inv": lax.erf_inv, "erfc": lax.erfc, "gelu": nn.gelu,
    "gelu_exact": lambda x: nn.gelu(x, approximate=False), "hard_sigmoid": nn.hard_sigmoid, "hard_silu": nn.hard_silu,
    "hard_tanh": nn.hard_tanh, "leaky_relu": nn.leaky_relu, "lgamma": lax.lgamma, "log_sigmoid": nn.log_sigmoid,
    "mish": nn.mish, "pow": jnp.power, "power3": lambda x: lax.integer_pow(x, 3), "power7": lambda x: lax.integer_pow(x, 7),
    "relu": nn.relu, "relu6": nn.relu6, "rsqrt": lax.rsqrt, "select": lambda x, y: jnp.where(x > 0, x, y), "selu": nn.selu,
    "sigmoid": nn.sigmoid, "silu": nn.silu, "soft_sign": nn.soft_sign, "softplus": nn.softplus, "squareplus": nn.squareplus,
}  # fmt: skip
DRAWS = {
    "uniform": lambda key, dtype: random.uniform(key, (COUNT,), dtype),
    "normal": lambda key, dtype: random.normal(key, (COUNT,), dtype),
    "gumbel": lambda key, dtype: random.gumbel(key, (COUNT,), dtype),
    "bernoulli": lambda key, _: random.bernoulli(key, np.float32(0.5), (COUNT,)),
    "gamma": lambda key, dtype: random.gamma(key, jnp.asarray(2, dtype), (COUNT,), dtype),
}
FOLDER = pathlib.Path(__file__).resolve().parent


def operands(intervals, dtype):
    """The operands of a case, computed in f32 as ours."""
    for stream, (low, high) in enumerate(intervals, 10):
        unit = measure.uniform(stream, (COUNT,), 1.0)
        low, high = np.float32(low), np.float32(high)
        yield jnp.asarray((unit + np.float32(1)) * ((high - low) / 2) + low, dtype)


def least_time(call):
    """Other work on the machine only adds to a time."""
    jax.block_until_ready(call())
    times = []
    for _ in range(measure.samples(30)):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append((time.perf_counter() - start) * 1e6)
    return min(times)


def peer(case):
    """The call of a case, or none if JAX does not have the function."""
    name, dtype = case["name"], {"f32": jnp.float32, "f64": jnp.float64}[case["dtype"]]
    if name.startswith("key."):
        draw = DRAWS[name.removeprefix("key.")]
        jitted = jax.jit(lambda key: draw(key, dtype))
        key = random.key(1)
        return lambda: draw(key, dtype) if case["op"] == "eager" else jitted(key)
    function = FUNCTIONS.get(name) or getattr(jnp, name, None)
    if function is None:
        return None
    x = list(operands(case["intervals"], dtype))
    if case["op"] == "forward":
        jitted = jax.jit(function)
    else:
        jitted = jax.jit(jax.grad(lambda *x: function(*x).sum(), tuple(range(len(x)))))
    return lambda: jitted(*x)


def main():
    jax.config.update("jax_enable_x64", True)
    command = ["cargo", "bench", "--quiet", "--bench", "operations", "--", "--turns", *sys.argv[1:]]
    ours = subprocess.Popen(command, cwd=FOLDER.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in ours.stdout:
        case = json.loads(line)
        call = peer(case)
        title = f"{case['name']:14} {case['dtype']} {case['op']:8} {case['us']:9.0f}"
        if call is None:
            print(title, flush=True)
        else:
            mean = sum(float(jnp.mean(part.astype(float))) for part in jax.tree.leaves(call()))
            least = least_time(call)
            differs = "" if np.isclose(mean, case["mean"], 1e-4, 1e-4) else f"  differs: {case['mean']} and {mean}"
            print(f"{title} {least:9.0f} {case['us'] / least:6.2f}{differs}", flush=True)
        ours.stdin.write("\n")
        ours.stdin.flush()


if __name__ == "__main__":
    main()
