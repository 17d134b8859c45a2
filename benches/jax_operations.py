"""The operations of benches/operations.rs in JAX, in turn with ours: the microseconds of each, and the median of the ratios.

Usage: python jax_operations.py [--rounds=3] [--forward] [sin sum.rows key f32 ...]; needs the packages of benches/comparison/requirements.txt.
Starts `cargo bench --bench operations`. For one thread, run it under `taskset -c 0`. On a virtual machine, two cores may share one for half a
minute, so several rounds are compared: each time is the least, and the ratio is the median of those of the rounds. Prints `differs`
where the means of the results do.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn, random

import measure

SIDE = 1000
COUNT = SIDE * SIDE
NARROW = COUNT // 8
DTYPES = {"f32": jnp.float32, "f64": jnp.float64, "bf16": jnp.bfloat16, "i32": jnp.int32, "bool": jnp.bool}
FUNCTIONS = {
    "acos": jnp.arccos, "acosh": jnp.arccosh, "asin": jnp.arcsin, "asinh": jnp.arcsinh, "atan": jnp.arctan,
    "atan2": jnp.arctan2, "atanh": jnp.arctanh, "bit_xor": jnp.bitwise_xor, "celu": nn.celu, "clamp": lambda x: jnp.clip(x, -1, 1),
    "converted_sum": lambda i, x: i.astype(x.dtype) * x + 1,
    "digamma": lax.digamma, "elu": nn.elu, "erf": lax.erf, "erf_inv": lax.erf_inv, "erfc": lax.erfc, "gelu": nn.gelu,
    "gelu_exact": lambda x: nn.gelu(x, approximate=False), "hard_sigmoid": nn.hard_sigmoid, "hard_silu": nn.hard_silu,
    "hard_tanh": nn.hard_tanh, "hash": lambda x: ((x ^ lax.shift_right_logical(x, np.int32(15))) * 73_244_475) ^ 12_345,
    "leaky_relu": nn.leaky_relu, "lgamma": lax.lgamma, "log_sigmoid": nn.log_sigmoid,
    "masked_sum": lambda i, x: i.astype(x.dtype) * x + 1, "mish": nn.mish, "one_hot": lambda x: nn.one_hot(x[0], SIDE),
    "outer": lambda x: jnp.outer(x[0], x[1]), "polynomial": lambda x: (x * 3 + 1) * x - 7, "population_count": lax.population_count,
    "pow": jnp.power, "powf": lambda x: jnp.power(x, 2.5), "power3": lambda x: lax.integer_pow(x, 3), "power7": lambda x: lax.integer_pow(x, 7),
    "relu": nn.relu, "relu6": nn.relu6, "rem": lax.rem, "rsqrt": lax.rsqrt,
    "scatter_add": lambda x, y, i: x.ravel().at[i.ravel()].add(y.ravel()),
    "scatter_set": lambda x, y, i: x.ravel().at[i.ravel()].set(y.ravel()),
    "scatter_add_rows": lambda x, y, i: narrow(x).at[numbers(i)].add(narrow(y)),
    "scatter_set_rows": lambda x, y, i: narrow(x).at[numbers(i)].set(narrow(y)),
    "segment_sum": lambda x, i: jax.ops.segment_sum(x, i[0], SIDE),
    "segment_sum_numbers": lambda x, i: jax.ops.segment_sum(x.ravel(), i.ravel(), COUNT),
    "segment_sum_rows": lambda x, i: jax.ops.segment_sum(narrow(x), numbers(i), NARROW),
    "select": lambda x, y: jnp.where(x > 0, x, y), "selu": nn.selu, "shift_left": lax.shift_left, "shift_right": lax.shift_right_logical,
    "sigmoid": nn.sigmoid, "silu": nn.silu, "soft_sign": nn.soft_sign, "softplus": nn.softplus, "squareplus": nn.squareplus,
    "take_rows": lambda x, i: narrow(x)[numbers(i)],
    "take_numbers": lambda x, i: x.ravel()[i.ravel()],
    "to_bf16": lambda x: x.astype(jnp.bfloat16), "to_bool": lambda x: x.astype(bool), "to_f32": lambda x: x.astype(jnp.float32),
    "to_f64": lambda x: x.astype(jnp.float64), "to_i32": lambda x: x.astype(jnp.int32), "to_i64": lambda x: x.astype(jnp.int64),
    "to_u8": lambda x: x.astype(jnp.uint8), "top_k": lambda x: lax.top_k(x, 10)[0], "top_k_of_all": lambda x: lax.top_k(x.ravel(), 100)[0],
    "transpose": lambda x: x.T, "update_slice": lambda x, y: x.at[100:900, 100:900].set(y[100:900, 100:900]),
}  # fmt: skip
ALONG_AXIS = {
    "broadcast_add": lambda x, axis: x + jnp.expand_dims(x[0], 1 - axis), "concatenate": lambda x, y, axis: jnp.concatenate([x, y], axis),
    "cumlogsumexp": lambda x, axis: lax.cumlogsumexp(x, axis), "cummax": lambda x, axis: lax.cummax(x, axis),
    "log_softmax": nn.log_softmax, "logsumexp": nn.logsumexp, "norm": jnp.linalg.norm,
    "pad": lambda x, axis: jnp.pad(x, [(0, 0), (3, 5)] if axis == 1 else [(3, 5), (0, 0)]),
    "repeat": lambda x, axis: jnp.repeat(x, 2, axis), "reverse": jnp.flip, "roll": lambda x, axis: jnp.roll(x, 3, axis),
    "slice": lambda x, axis: x[:, 3:900] if axis == 1 else x[3:900], "softmax": nn.softmax,
    "stack": lambda x, y, axis: jnp.stack([x, y], axis), "standardize": nn.standardize,
    "take": lambda x, i, axis: jnp.take(x, i[0], axis), "variance": jnp.var,
}  # fmt: skip
FACTORIZATIONS = {
    "cho_solve": lambda x, y: jax.scipy.linalg.cho_solve((regular(x), True), y),
    "cho_solve_vector": lambda x, y: jax.scipy.linalg.cho_solve((regular(x), True), y[..., :1]),
    "cholesky": lambda x, _: jnp.linalg.cholesky(regular(x)), "eigh": lambda x, _: squares(*jnp.linalg.eigh(x)[::-1]),
    "qr": lambda x, _: sum(jnp.linalg.qr(x)), "slogdet": lambda x, _: jnp.linalg.slogdet(regular(x))[1],
    "solve": lambda x, y: jnp.linalg.solve(regular(x), y), "solve_vector": lambda x, y: jnp.linalg.solve(regular(x), y[..., :1]),
    "svd": lambda x, _: squares(*(part := jnp.linalg.svd(x, False))[::2], part[1]),
    "triangular_solve": lambda x, y: jax.scipy.linalg.solve_triangular(regular(x), y, lower=True),
}  # fmt: skip
DRAWS = {
    "bits": lambda key, _: random.bits(key, (COUNT,)),
    "uniform": lambda key, dtype: random.uniform(key, (COUNT,), dtype),
    "normal": lambda key, dtype: random.normal(key, (COUNT,), dtype),
    "truncated_normal": lambda key, dtype: random.truncated_normal(key, -2.0, 2.0, (COUNT,), dtype),
    "gumbel": lambda key, dtype: random.gumbel(key, (COUNT,), dtype),
    "exponential": lambda key, dtype: random.exponential(key, (COUNT,), dtype),
    "laplace": lambda key, dtype: random.laplace(key, (COUNT,), dtype),
    "logistic": lambda key, dtype: random.logistic(key, (COUNT,), dtype),
    "rademacher": lambda key, dtype: random.rademacher(key, (COUNT,), dtype),
    "bernoulli": lambda key, _: random.bernoulli(key, np.float32(0.5), (COUNT,)),
    "randint": lambda key, _: random.randint(key, (COUNT,), 0, 1000, jnp.int32),
    "permutation": lambda key, _: random.permutation(key, COUNT),
    "categorical": lambda key, dtype: random.categorical(key, jnp.zeros(SIDE, dtype), shape=(SIDE,)),
    "gamma": lambda key, dtype: random.gamma(key, jnp.asarray(2, dtype), (COUNT,), dtype),
    "beta": lambda key, dtype: random.beta(key, jnp.asarray(2, dtype), jnp.asarray(2, dtype), (COUNT,), dtype),
    "poisson": lambda key, dtype: random.poisson(key, jnp.asarray(4, dtype), (COUNT,)),
}
FOLDER = pathlib.Path(__file__).resolve().parent


def narrow(x):
    return x.reshape(NARROW, 8)


def numbers(x):
    return x.ravel()[:NARROW]


def regular(x):
    return x + jnp.eye(x.shape[-1], dtype=x.dtype) * x.shape[-1]


def squares(*parts):
    """The sum of squares of vectors, whose signs are arbitrary, and of values, which are last."""
    return sum(part * part for part in parts[:-1]) + parts[-1][..., None, :]


def operands(case):
    """The operands of a case, computed in f32 as ours."""
    for stream, (low, high, dtype) in enumerate(case["operands"], 10):
        unit = measure.uniform(stream, (SIDE, SIDE), 1.0)
        low, high = np.float32(low), np.float32(high)
        number = (unit + np.float32(1)) * ((high - low) / 2) + low
        dtype = dtype or case["dtype"]
        yield jnp.asarray(np.floor(number) if dtype == "bool" else number).astype(DTYPES[dtype])


def least_time(call):
    """Other work on the machine only adds to a time."""
    jax.block_until_ready(call())
    times, begin = [], time.perf_counter()
    for sample in range(measure.samples(30)):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append((time.perf_counter() - start) * 1e6)
        if sample >= 2 and time.perf_counter() - begin > 0.5:
            break
    return min(times)


def function_of(name):
    """The function of a case, or none if JAX does not have it."""
    name, _, along = name.partition(".")
    if not along:
        return FUNCTIONS.get(name) or getattr(jnp, name, None)
    function = ALONG_AXIS.get(name) or getattr(jnp, name, None)
    if along.isdigit():
        matrices = (lambda x: x.ravel()[: 16 * SIDE].reshape(SIDE, 4, 4)) if along == "4" else (lambda x: x[: int(along), : int(along)])
        return lambda *x: FACTORIZATIONS[name](*map(matrices, x))
    axis = 1 if along == "rows" else 0
    return function and (lambda *x: function(*x, axis=axis))


def peer(case):
    """The call of a case, or none if JAX does not have the function."""
    name, dtype = case["name"], DTYPES[case["dtype"]]
    if name.startswith("key."):
        draw = DRAWS[name.removeprefix("key.")]
        jitted = jax.jit(lambda key: draw(key, dtype))
        key = random.key(1)
        return lambda: draw(key, dtype) if case["op"] == "eager" else jitted(key)
    function = function_of(name)
    if function is None:
        return None
    x = list(operands(case))
    forward = jax.jit(function)
    if case["op"] == "forward":
        return lambda: forward(*x)
    floats = tuple(place for place, it in enumerate(x) if jnp.issubdtype(it.dtype, jnp.floating))
    gradient = jax.jit(lambda y, *x: jax.grad(lambda *x: (function(*x) * y).sum(), floats)(*x))
    y = forward(*x)
    return lambda: gradient(y, *x)


def turns():
    """Each case as text, the microseconds of ours and of JAX (or none), and what differs."""
    chosen = [argument for argument in sys.argv[1:] if not argument.startswith("--rounds=")]
    command = ["cargo", "bench", "--quiet", "--bench", "operations", "--features", "linalg", "--", "--turns", *chosen]
    ours = subprocess.Popen(command, cwd=FOLDER.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in ours.stdout:
        case = json.loads(line)
        call, least, differs = peer(case), None, ""
        if call is not None:
            mean = sum(float(jnp.mean(part.astype(float))) for part in jax.tree.leaves(call()))
            least = least_time(call)
            tolerance = 1e-2 if case["dtype"] == "bf16" else 1e-4
            if not np.isclose(mean, case["mean"], tolerance, tolerance):
                differs = f"  differs: {case['mean']} and {mean}"
        yield f"{case['name']:23} {case['dtype']:4} {case['op']:8}", case["us"], least, differs
        ours.stdin.write("\n")
        ours.stdin.flush()


def main():
    jax.config.update("jax_enable_x64", True)
    rounds = next((int(argument.split("=")[1]) for argument in sys.argv if argument.startswith("--rounds=")), 1)
    best, ratios = {}, {}
    for last in [False] * (rounds - 1) + [True]:
        for title, ours, theirs, differs in turns():
            if theirs:
                ratios.setdefault(title, []).append(ours / theirs)
            before = best.get(title, (ours, theirs))
            ours = min(ours, before[0])
            theirs = theirs and min(theirs, before[1])
            best[title] = ours, theirs
            if last:
                beside = f"{theirs:9.0f} {statistics.median(ratios[title]):6.2f}{differs}" if theirs else ""
                print(f"{title} {ours:9.0f} {beside}", flush=True)


if __name__ == "__main__":
    main()
