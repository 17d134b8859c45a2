"""optimizers.json and schedules.json: trajectories and states of optax, and values of its schedules.

Each case of `optimizers.json` begins with the parameters of its dtype and applies its `gradients`: `plain` are ten, one of
zeros and one with zeros, and `nan` has NaN and infinities. `after`
has the parameters after each step, and `states` the leaves of the state. The placeholders of `scale_by_factored_rms`, of
shape (1,), are left out. `params` are the arguments, with the names of optax. In f32, `radam` and `amsgrad` have `b2` 0.9:
with 0.999 the f32 of optax has lost most digits of the rectification, and five digits of the first corrections.

The decay of Adafactor is computed in the dtype of the case, because optax computes it in f32.

Each case of `schedules.json` has the values at the `counts` in f32 and f64. In f64 all schedules count in i64, because optax
computes in f32 where the count is an i32.
"""

import functools
import itertools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import dynamic_scale
from optax._src import factorized

from golden_cases import *  # noqa: F403 (the samplers and writers)

SHAPES = ((3, 2), (2,), (), (1, 2, 2))
STEPS = 10
LR = {"learning_rate": 0.01}


def decay_of_adafactor(step, exponent):
    """The decay 1 - t^-c in the default float type; optax computes it in f32."""
    return 1.0 - jnp.asarray(step + 1, float) ** (-exponent)


def parameters(dtype):
    rng = generator("optimizers", "parameters")
    return [any_float(rng, shape, dtype) for shape in SHAPES]


def gradients(dtype):
    """Gradients of different lengths, with zeros; step 4 and each third number of step 6 are zeros."""
    rng = generator("optimizers", "gradients")
    scales = (1.0, 0.0625, 2.0, 0.0, 0.25, 1.0, 4.0, 0.5, 1.0, 0.125)
    steps = []
    for step, scale in enumerate(scales):
        leaves = [np.asarray(scale * any_float(rng, shape, dtype), dtype) for shape in SHAPES]
        if step == 5:
            for leaf in leaves:
                leaf.reshape(-1)[::3] = 0
        steps.append(leaves)
    return steps


def gradients_with_nan(dtype):
    steps = gradients(dtype)
    steps[2][0][1, 0] = np.nan
    steps[5][1][0] = np.inf
    steps[6][3][...] = np.nan
    steps[7][2] = np.asarray(np.nan, dtype)
    return steps


def matrices(params):
    """The mask of the parameters with at least two axes."""
    return jax.tree.map(lambda p: p.ndim > 1, params)


def labels(params):
    return ["a" if p.ndim > 1 else "b" for p in params]


COSINE = {"schedule": "cosine", "decay_steps": 8}
WARMUP = {"schedule": "warmup_cosine", "warmup_steps": 3, "decay_steps": 9}


def wide(schedule):
    """The schedule with counts of the default integer type."""
    return lambda count: schedule(jnp.asarray(count, int))


def rate(value, schedule):
    if schedule == "cosine":
        return wide(optax.cosine_decay_schedule(value, 8))
    if schedule == "warmup_cosine":
        return wide(optax.warmup_cosine_decay_schedule(0.0, value, 3, 9))
    return value


def alias(name, **params):
    """A case of the optimizer with this name. `mask` means matrices only; `schedule` is that of the learning rate."""
    kwargs = dict(params)
    for key in ("mask", "weight_decay_mask"):
        if kwargs.get(key) == "matrices":
            kwargs[key] = matrices
    schedule = kwargs.pop("schedule", None)
    for key in ("warmup_steps", "decay_steps"):
        kwargs.pop(key, None)
    if "learning_rate" in kwargs and kwargs["learning_rate"] is not None:
        kwargs["learning_rate"] = rate(kwargs["learning_rate"], schedule)
    if kwargs.get("weight_decay") == "scheduled":
        kwargs["weight_decay"] = wide(optax.linear_schedule(0.1, 0.01, 5))

    def make():
        factored = functools.partial(factorized.scale_by_factored_rms, decay_rate_fn=decay_of_adafactor)
        with mock.patch.object(factorized, "scale_by_factored_rms", factored):
            return getattr(optax, name)(**kwargs)

    return name, params, make


def before_sgd(name, transformation, **params):
    """A case of a transformation followed by gradient descent."""
    return f"{name}+sgd", {**params, **LR}, lambda: optax.chain(transformation(), optax.sgd(0.01))


def clip_by_leaf_norm(longest):
    names = [str(position) for position in range(len(SHAPES))]
    return optax.multi_transform({name: optax.clip_by_global_norm(longest) for name in names}, names)


def groups():
    return optax.multi_transform({"a": optax.adam(wide(optax.cosine_decay_schedule(0.02, 8))), "b": optax.sgd(0.1, momentum=0.9)}, labels)


def accumulated(use_grad_mean, dtype):
    steps = optax.MultiSteps(optax.adam(0.01), 3, use_grad_mean, accumulator_dtype=dtype)
    return steps.gradient_transformation()


def table(dtype):
    yield alias("sgd", **LR)
    yield alias("sgd", **LR, momentum=0.9)
    yield alias("sgd", **LR, momentum=0.9, nesterov=True)
    yield alias("sgd", **LR, **COSINE)
    yield alias("sgd", **LR, momentum=0.9, **WARMUP)
    yield alias("adam", **LR)
    yield alias("adam", **LR, b1=0.8, b2=0.95, eps=1e-6, eps_root=1e-5)
    yield alias("adam", **LR, **WARMUP)
    yield alias("nadam", **LR)
    yield alias("adamw", **LR, weight_decay=0.1)
    yield alias("adamw", **LR, weight_decay=0.1, mask="matrices")
    yield alias("adamw", **LR, weight_decay="scheduled")
    yield alias("nadamw", **LR, weight_decay=0.1)
    yield alias("adamax", **LR)
    yield alias("adamaxw", **LR, weight_decay=0.1)
    yield alias("amsgrad", **LR, b2=0.9)
    if dtype == np.float64:
        yield alias("amsgrad", **LR)
    yield alias("amsgrad", **LR, bias_correction_mu=False, bias_correction_nu=False, eps_root=1e-5)
    yield alias("adabelief", **LR)
    yield alias("adabelief", **LR, nesterov=True)
    yield alias("radam", **LR, b2=0.9)
    yield alias("radam", **LR, b2=0.9, nesterov=True)
    if dtype == np.float64:
        yield alias("radam", **LR, b2=0.999)
    yield alias("yogi", **LR)
    yield alias("novograd", **LR)
    yield alias("novograd", **LR, weight_decay=0.1)
    yield alias("rmsprop", **LR)
    yield alias("rmsprop", **LR, eps=1e-4, eps_in_sqrt=False, initial_scale=1.0)
    yield alias("rmsprop", **LR, momentum=0.9)
    yield alias("rmsprop", **LR, momentum=0.9, nesterov=True, bias_correction=True, eps=1e-4)
    yield alias("rmsprop", **LR, centered=True, eps=1e-3, initial_scale=1.0)
    yield alias("rmsprop", **LR, centered=True, eps=1e-3, initial_scale=1.0, momentum=0.9, bias_correction=True)
    yield alias("rmsprop", **LR, centered=True, eps=1e-2, eps_in_sqrt=False, initial_scale=1.0)
    yield alias("adagrad", **LR)
    yield alias("adagrad", **LR, initial_accumulator_value=0.0)
    yield alias("adadelta", learning_rate=1.0)
    yield alias("adadelta", learning_rate=0.5, rho=0.8, weight_decay=0.1, weight_decay_mask="matrices")
    yield alias("adafactor", **LR, min_dim_size_to_factor=2)
    yield alias("adafactor", **LR, factored=False)
    yield alias("adafactor", learning_rate=None, min_dim_size_to_factor=2, clipping_threshold=None)
    yield alias(
        "adafactor",
        **LR,
        min_dim_size_to_factor=2,
        momentum=0.9,
        dtype_momentum=np.dtype(dtype).name,
        weight_decay_rate=0.01,
        multiply_by_parameter_scale=False,
    )
    yield alias("lion", **LR, weight_decay=0.1)
    yield alias("lamb", **LR)
    yield alias("lamb", **LR, weight_decay=0.1, mask="matrices")
    yield alias("lars", **LR)
    yield alias("lars", learning_rate=1.0, weight_decay=0.1, momentum=0.8, nesterov=True)
    yield alias("sign_sgd", **LR)
    yield alias("signum", **LR)
    yield before_sgd("clip", lambda: optax.clip(0.5), max_delta=0.5)
    yield before_sgd("clip_by_block_rms", lambda: optax.clip_by_block_rms(0.5), threshold=0.5)
    yield before_sgd("clip_by_leaf_norm", lambda: clip_by_leaf_norm(0.5), max_norm=0.5)
    yield before_sgd("clip_by_global_norm", lambda: optax.clip_by_global_norm(1.0), max_norm=1.0)
    yield before_sgd("adaptive_grad_clip", lambda: optax.adaptive_grad_clip(0.1), clipping=0.1)
    yield before_sgd("centralize", optax.centralize)
    yield before_sgd("ema", lambda: optax.ema(0.9), decay=0.9)
    yield before_sgd("ema", lambda: optax.ema(0.9, debias=False), decay=0.9, debias=False)
    yield before_sgd("normalize_by_update_norm", optax.normalize_by_update_norm)
    yield before_sgd("masked_trace", lambda: optax.masked(optax.trace(0.9), matrices), decay=0.9)
    yield before_sgd("freeze", lambda: optax.masked(optax.set_to_zero(), matrices))
    yield "groups", {}, groups
    yield "accumulate", {"mean": True}, lambda: accumulated(True, dtype)
    yield "accumulate", {"mean": False}, lambda: accumulated(False, dtype)
    yield "zero_nans", {"gradients": "nan"}, lambda: optax.chain(optax.zero_nans(), optax.adam(0.01))
    finite = lambda: optax.apply_if_finite(optax.adam(0.01), 2)
    yield "apply_if_finite", {"gradients": "nan", "max_consecutive_errors": 2}, finite


def trajectory(optimizer, params, steps):
    params = [jnp.asarray(p) for p in params]
    state = optimizer.init(params)
    placeholders = lambda leaf: getattr(leaf, "shape", None) == (1,)
    after, states = [], []
    for step in steps:
        updates, state = optimizer.update([jnp.asarray(g) for g in step], state, params)
        params = optax.apply_updates(params, updates)
        after.append(arrays(params))
        states.append([array(leaf) for leaf in jax.tree.leaves(state) if not placeholders(leaf)])
    return {"after": after, "states": states}


def averages(dtype):
    """`optax.incremental_update` of the parameters towards each of the gradients."""
    average = [jnp.asarray(p) for p in parameters(dtype)]
    steps = []
    for step in gradients(dtype):
        average = optax.incremental_update([jnp.asarray(g) for g in step], average, 0.1)
        steps.append(arrays(average))
    return steps


def loss_scales():
    """Scales and numbers of finite steps of Flax's `DynamicScale`, after steps with finite and other gradients."""
    finite = [True] * 5 + [False, True, True, False, False] + [True] * 8 + [False] * 4 + [True] * 4
    scale = dynamic_scale.DynamicScale(growth_interval=3, scale=8.0, minimum_scale=1.0)
    scales, counts = [], []
    for is_finite in finite:
        scale = scale.value_and_grad(lambda x: x * (1.0 if is_finite else jnp.inf))(1.0)[0]
        scales.append(float(scale.scale))
        counts.append(int(scale.fin_steps))
    return {"finite": finite, "scales": scales, "finite_steps": counts}


def make_optimizers():
    body = {"f32": {}, "f64": {}}
    cases = []
    for dtype in FLOATS:
        with precision(dtype):
            name = DTYPE_NAMES[np.dtype(dtype).name]
            body[name] = {
                "parameters": arrays(parameters(dtype)),
                "plain": [arrays(step) for step in gradients(dtype)],
                "nan": [arrays(step) for step in gradients_with_nan(dtype)],
                "averages": averages(dtype),
            }
            for case, params, make in table(dtype):
                steps = gradients_with_nan(dtype) if params.get("gradients") == "nan" else gradients(dtype)
                found = trajectory(make(), parameters(dtype), steps)
                cases.append({"name": case, "dtype": name, "params": params, **found})
    write("optimizers", {**body, "loss_scale": loss_scales(), "cases": cases})


# ---------------------------------------------------------------------------
# schedules.json
# ---------------------------------------------------------------------------


def schedules():
    yield "constant", {}, optax.constant_schedule(0.3)
    yield "linear", {}, optax.linear_schedule(0.3, 0.01, 20)
    yield "linear", {"begin": 7}, optax.linear_schedule(0.0, 0.3, 20, 7)
    for power in (0.5, 2.0, 3.0):
        schedule = optax.polynomial_schedule(0.3, 0.01, power, 20, 5)
        yield "polynomial", {"power": power, "begin": 5}, schedule
    for staircase, end, begin in itertools.product((False, True), (None, 0.05), (0, 6)):
        schedule = optax.exponential_decay(0.3, 8, 0.6, begin, staircase, end)
        yield "exponential", {"rate": 0.6, "staircase": staircase, "end": end, "begin": begin}, schedule
    schedule = optax.exponential_decay(0.01, 8, 1.5, 0, False, 0.05)
    yield "growth", {}, schedule
    yield "cosine", {}, optax.cosine_decay_schedule(0.3, 30)
    yield "cosine", {"alpha": 0.1, "exponent": 2.0}, optax.cosine_decay_schedule(0.3, 30, 0.1, 2.0)
    yield "warmup_cosine", {}, optax.warmup_cosine_decay_schedule(0.0, 0.3, 10, 30)
    schedule = optax.warmup_cosine_decay_schedule(0.1, 0.3, 10, 30, 0.05, 1.5)
    yield "warmup_cosine", {"init": 0.1, "end": 0.05, "exponent": 1.5}, schedule
    yield "piecewise_constant", {}, optax.piecewise_constant_schedule(0.3, {10: 0.5, 20: 0.1, 25: 3.0})
    for form in ("linear", "cosine"):
        schedule = optax.piecewise_interpolate_schedule(form, 0.3, {10: 0.5, 20: 0.1, 25: 3.0})
        yield f"piecewise_{form}", {}, schedule
    yield "linear_one_cycle", {}, optax.linear_onecycle_schedule(30, 0.3)
    yield "linear_one_cycle_with", {}, optax.linear_onecycle_schedule(30, 0.3, 0.2, 0.6, 10.0, 100.0)
    yield "cosine_one_cycle", {}, optax.cosine_onecycle_schedule(30, 0.3)
    yield "cosine_one_cycle_with", {}, optax.cosine_onecycle_schedule(30, 0.3, 0.5, 10.0, 100.0)
    cycles = [
        {"init_value": 0.01, "peak_value": 0.3, "warmup_steps": 2, "decay_steps": 10, "end_value": 0.02},
        {"init_value": 0.02, "peak_value": 0.2, "warmup_steps": 3, "decay_steps": 15, "end_value": 0.0},
        {"init_value": 0.0, "peak_value": 0.1, "warmup_steps": 0, "decay_steps": 8, "end_value": 0.0},
    ]
    yield "sgdr", {}, optax.sgdr_schedule(cycles)
    parts = [optax.linear_schedule(0.0, 0.3, 10), optax.constant_schedule(0.3), optax.exponential_decay(0.3, 5, 0.5)]
    yield "joined", {}, optax.join_schedules(parts, [10, 20])


def make_schedules():
    counts = [*range(40), 100, 1000, 10**6]
    cases = []
    for position, (name, params, _) in enumerate(schedules()):
        case = {"name": name, "params": params}
        for dtype in FLOATS:
            with precision(dtype):
                schedule = list(schedules())[position][2]
                values = [jnp.asarray(schedule(jnp.asarray(count, int)), dtype) for count in counts]
                case[DTYPE_NAMES[np.dtype(dtype).name]] = array(np.stack(values))
        cases.append(case)
    write("schedules", {"counts": counts, "cases": cases})
