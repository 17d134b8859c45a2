"""The programs of benches/resnet.rs in JAX and optax, with the model written in jax.numpy and parameters from the same keys.

Usage: python jax_resnet.py [forward train]; needs the packages of benches/comparison/requirements.txt.
"""

import sys

import jax
import jax.numpy as jnp
import optax
from jax.nn import initializers

import measure
from jax_language import drawing


def create():
    """The parameters, and the mean and the variance of each normalisation: `{name: (scale, bias)}` and `{name: (mean, variance)}`."""
    drawn, parameters, statistics = drawing(jnp.float32), {}, {}

    def conv(name, norm, inputs, outputs, size):
        parameters[name] = drawn(initializers.lecun_normal(), size, size, inputs, outputs)
        parameters[norm] = drawn(initializers.ones, outputs), drawn(initializers.zeros, outputs)
        statistics[norm] = jnp.zeros(outputs), jnp.ones(outputs)

    conv("conv1", "bn1", 3, 64, 7)
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            inputs = outputs // 2 if stage and not block else outputs
            conv(f"{stage}.{block}.conv1", f"{stage}.{block}.bn1", inputs, outputs, 3)
            conv(f"{stage}.{block}.conv2", f"{stage}.{block}.bn2", outputs, outputs, 3)
            if inputs != outputs:
                conv(f"{stage}.{block}.conv", f"{stage}.{block}.bn", inputs, outputs, 1)
    parameters["fc"] = drawn(initializers.lecun_normal(), 512, 10), drawn(initializers.zeros, 10)
    return parameters, statistics


def forward(parameters, statistics, x, is_training):
    """The logits, and the new statistics."""
    found = {}

    def conv(name, norm, x, stride=1):
        weight = parameters[name]
        half = weight.shape[0] // 2
        numbers = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, weight, (stride, stride), [(half, half)] * 2, dimension_numbers=numbers)
        (scale, bias), (mean, variance) = parameters[norm], statistics[norm]
        if is_training:
            old = mean, variance
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            found[norm] = tuple(0.99 * before + 0.01 * now for before, now in zip(old, (mean, variance)))
        return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + bias

    x = jax.nn.relu(conv("conv1", "bn1", x, 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for stage in range(4):
        for block in range(2):
            name = f"{stage}.{block}"
            is_smaller = f"{name}.conv" in parameters
            y = jax.nn.relu(conv(f"{name}.conv1", f"{name}.bn1", x, 2 if is_smaller else 1))
            y = conv(f"{name}.conv2", f"{name}.bn2", y)
            x = jax.nn.relu(y + (conv(f"{name}.conv", f"{name}.bn", x, 2) if is_smaller else x))
    weight, bias = parameters["fc"]
    return x.mean((1, 2)) @ weight + bias, found


def forward_case(x, y):
    logit = jax.jit(lambda parameters, statistics, x: forward(parameters, statistics, x, False)[0].max())
    parameters, statistics = create()
    measure.measure_steps("K", "resnet-forward", "jax", lambda: logit(parameters, statistics, x), float)


def train(x, y):
    parameters, statistics = create()
    optimizer = optax.adam(1e-4)
    state = parameters, statistics, optimizer.init(parameters)

    def loss(parameters, statistics, x, y):
        logits, statistics = forward(parameters, statistics, x, True)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), statistics

    @jax.jit(donate_argnums=0)
    def step(state, x, y):
        parameters, statistics, moments = state
        (value, statistics), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, statistics, x, y)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(parameters, updates), statistics, moments), value

    def advance():
        nonlocal state
        state, value = step(state, x, y)
        return value

    measure.measure_steps("K", "resnet-train", "jax", advance, float)


CASES = {"forward": forward_case, "train": train}

if __name__ == "__main__":
    images = jnp.asarray(measure.uniform(10, (32, 32, 32, 3), 1.0)), jnp.asarray(measure.labels(20, 32, 10))
    for case in sys.argv[1:] or CASES:
        CASES[case](*images)
