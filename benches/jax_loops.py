"""The loops of benches/loops.rs in JAX: the nanoseconds of a round, forward and with the gradient of the parameters.

Usage: python jax_loops.py [gru16 kalman2 ...]; needs the packages of benches/comparison/requirements.txt.
"""

import sys

import jax
import jax.numpy as jnp
from jax import lax

import measure

ROUNDS = 1000


def inputs(width):
    return jnp.asarray(measure.uniform(11, (ROUNDS, width), 1.0))


def repeat(function, start):
    return lax.fori_loop(0, ROUNDS, lambda _, x: function(x), start)


def parts(p, *shapes):
    """Cuts a vector into arrays."""
    found, first = [], 0
    for shape in shapes:
        count = 1
        for length in shape:
            count *= length
        found.append(p[first : first + count].reshape(shape))
        first += count
    return found


def rnn(width):
    def run(p):
        w, u, b = parts(p, (width, width), (8, width), (width,))
        w = w * (1 / width) ** 0.5

        def step(h, x):
            h = jnp.tanh(h @ w + x @ u + b)
            return h, h.sum()

        return lax.scan(step, jnp.zeros(width), inputs(8))[1].mean()

    return run


def gru(p):
    w, u, b = parts(p, (16, 48), (8, 48), (48,))

    def step(h, x):
        a, c = jnp.split(h @ w, 3), jnp.split(x @ u + b, 3)
        r, z = jax.nn.sigmoid(a[0] + c[0]), jax.nn.sigmoid(a[1] + c[1])
        n = jnp.tanh(r * a[2] + c[2])
        h = (1 - z) * n + z * h
        return h, h.sum()

    return lax.scan(step, jnp.zeros(16), inputs(8))[1].mean()


def lstm(p):
    w, u, b = parts(p, (32, 128), (8, 128), (128,))

    def step(carry, x):
        h, c = carry
        a = jnp.split(h @ w + x @ u + b, 4)
        c = jax.nn.sigmoid(a[1] + 1) * c + jax.nn.sigmoid(a[0]) * jnp.tanh(a[2])
        h = jax.nn.sigmoid(a[3]) * jnp.tanh(c)
        return (h, c), h.sum()

    return lax.scan(step, (jnp.zeros(32), jnp.zeros(32)), inputs(8))[1].mean()


def cartpole(p):
    w, start = parts(p, (4,), (4,))

    def step(s):
        x, v, a, o = s
        force = jnp.tanh((s * w).sum()) * 10
        sin, cos = jnp.sin(a), jnp.cos(a)
        t = (force + 0.05 * o**2 * sin) / 1.1
        alpha = (9.8 * sin - cos * t) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        acceleration = t - 0.05 * alpha * cos / 1.1
        following = jnp.stack([x + 0.02 * v, v + 0.02 * acceleration, a + 0.02 * o, o + 0.02 * alpha])
        done = (abs(x) > 2.4) | (abs(a) > 0.21)
        return jnp.where(done, following * 0.1, s * 0.0 + following)

    return repeat(step, start * 0.1).sum()


def runge_kutta(f, y, h):
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def pendulum(p):
    start, c = parts(p, (2,), ())

    def f(y):
        a, v = y
        return jnp.stack([v, -9.8 * jnp.sin(a) - abs(c) * v])

    return repeat(lambda y: runge_kutta(f, y, 0.01), start).sum()


def lorenz(p):
    rho, start = parts(p, (), (3,))
    rho, start = rho + 20, start + 1

    def step(s):
        x, y, z = s
        dx, dy, dz = 10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z
        return x + 0.001 * dx, y + 0.001 * dy, z + 0.001 * dz

    return sum(repeat(step, tuple(start)))


def kalman(size):
    def run(p):
        f, h = parts(p, (size, size), (1, size))
        f = jnp.eye(size) * 0.9 + f * 0.1

        def step(carry, z):
            x, c = carry
            x = f @ x
            c = f @ c @ f.T + jnp.eye(size) * 0.01
            e = z - h @ x
            s = h @ c @ h.T + 0.1
            k = c @ h.T / s
            return (x + k @ e, c - k @ h @ c), (e**2).sum()

        return lax.scan(step, (jnp.zeros(size), jnp.eye(size)), inputs(1))[1].mean()

    return run


def leapfrog(p):
    q, v, k = parts(p, (16,), (16,), (16,))
    k = abs(k)

    def force(q):
        return -k * q - 0.1 * q**3

    def step(s):
        q, v = s
        v = v + 0.005 * force(q)
        q = q + 0.01 * v
        return q, v + 0.005 * force(q)

    q, v = repeat(step, (q, v))
    return (q**2 + v**2).sum()


def metropolis(p):
    def energy(x):
        return ((x**2 - 1) ** 2).sum()

    def step(x, key):
        first, second = jax.random.split(key)
        moved = x + (jax.random.uniform(first, (4,)) - 0.5)
        x = jnp.where(jax.random.uniform(second) < jnp.exp(energy(x) - energy(moved)), moved, x)
        return x, x.sum()

    return lax.scan(step, p, jax.random.split(jax.random.key(0), ROUNDS))[1].mean()


def newton(p):
    a = abs(p) + 1

    def body(s):
        i, x = s
        return i + 1, x - 0.05 * (x**3 - a) / (3 * x**2)

    def more(s):
        i, x = s
        return (i < ROUNDS) & (abs(x**3 - a).max() >= 0)

    return lax.while_loop(more, body, (0, a))[1].sum()


def horner(p):
    return lax.scan(lambda y, c: (y * p + c, 0.0), jnp.zeros(16), inputs(1))[0].sum()


def collatz(p):
    def body(s):
        i, n = s
        return i + 1, jnp.where(n == 1, 27, jnp.where(lax.rem(n, 2) == 0, lax.div(n, 2), 3 * n + 1))

    i, n = lax.while_loop(lambda s: s[0] < ROUNDS, body, (0, p[0].astype(jnp.int32) + 27))
    return (i + n).astype(jnp.float32)


def sorting(p):
    def step(x):
        a, b = x.reshape(8, 2).T
        return jnp.roll(jnp.stack([jnp.minimum(a, b), jnp.maximum(a, b)], 1).reshape(16), 1) * 0.999

    x = repeat(step, p)
    return x[0] * 2 + x.sum()


def scan16(p):
    def step(x, y):
        x = x * 0.9 + y
        return x, x.sum()

    return lax.scan(step, p, inputs(16))[1].mean()


def while16(p):
    return lax.while_loop(lambda s: s[0] < ROUNDS, lambda s: (s[0] + 1, s[1] * 0.99 + 0.01), (0, p))[1].sum()


def bisection(p):
    def step(s):
        low, high = s
        middle = (low + high) / 2
        is_below = middle**3 + middle < p
        return jnp.where(is_below, middle, low), jnp.where(is_below, high, middle)

    return repeat(step, (jnp.full(16, -2.0), jnp.full(16, 2.0)))[0].sum()


def average(p):
    rate = jax.nn.sigmoid(p)

    def step(m, x):
        m = rate * m + (1 - rate) * x
        return m, m

    return lax.scan(step, jnp.zeros(8), inputs(8))[1].mean()


def power(p):
    a, start = parts(p, (16, 16), (16,))

    def step(x):
        x = a @ x
        return x / jnp.sqrt((x**2).sum())

    return abs(repeat(step, start)).sum()


def viterbi(p):
    (t,) = parts(p, (8, 8))

    def step(d, x):
        scores = d[:, None] + t
        best = scores.max(0) + x
        return best - best.max(), scores.argmax(0).sum()

    d, best = lax.scan(step, jnp.zeros(8), inputs(8))
    return d.sum() + best.astype(jnp.float32).mean()


def forward(p):
    (t,) = parts(p, (8, 8))

    def step(d, x):
        scores = d[:, None] + t
        most = lax.stop_gradient(scores.max(0, keepdims=True))
        d = jnp.log(jnp.exp(scores - most).sum(0)) + most.reshape(8) + x
        total = lax.stop_gradient(d.max())
        return d - total, total

    return lax.scan(step, jnp.zeros(8), inputs(8))[0].sum()


def automaton(_):
    start = (jnp.arange(64) % 5 == 0).astype(jnp.int32)
    return repeat(lambda x: jnp.roll(x, 1) ^ (x | jnp.roll(x, -1)), start).sum().astype(jnp.float32)


def sgd(p):
    def step(w, x):
        value, gradient = jax.value_and_grad(lambda w: ((x * w).sum() - (x * p).sum()) ** 2)(w)
        return w - 0.05 * gradient, value

    return lax.scan(step, jnp.zeros(8), inputs(8))[1].mean()


def adam(p):
    def step(s):
        i, w, m, v = s
        i = i + 1
        g = 2 * (w - p)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        a, b = 1 - jnp.exp(i * jnp.log(0.9)), 1 - jnp.exp(i * jnp.log(0.999))
        return i, w - 0.01 * (m / a) / (jnp.sqrt(v / b) + 1e-8), m, v

    zero = jnp.zeros(16)
    return repeat(step, (0.0, zero, zero, zero))[1].sum()


def ring(p):
    def step(s, x):
        i, buffer = s
        at = lax.rem(i, 64)
        old = buffer[at]
        return (i + 1, lax.dynamic_update_slice(buffer, (x + 0.5 * old).reshape(1), (at,))), old

    (_, buffer), old = lax.scan(step, (0, p), inputs(1).reshape(ROUNDS))
    return buffer.sum() + old.mean()


def table(p):
    return repeat(lambda s: (lax.rem(5 * s[0] + 1, 16384), s[1] * 0.9 + p[s[0]]), (0, 0.0))[1]


def buffer(p):
    def step(s):
        i, x = s
        old = lax.dynamic_slice(x, (i,), (4,))
        return lax.rem(5 * i + 1, 16384), lax.dynamic_update_slice(x, old * 0.5 + 1, (i,))

    return repeat(step, (0, p))[1].sum()


def bf16(p):
    return repeat(lambda x: jnp.tanh(x * 1.5 + 0.25), p.astype(jnp.bfloat16)).astype(jnp.float32).sum()


def i32(_):
    def step(x):
        x = x ^ lax.shift_left(x, 5)
        x = x ^ lax.shift_right_logical(x, 7)
        return x ^ lax.shift_left(x, 13)

    return lax.rem(repeat(step, jnp.arange(16, dtype=jnp.int32) + 1), 1000).sum().astype(jnp.float32)


def nested(p):
    def inner(x):
        return lax.fori_loop(0, 10, lambda _, x: jnp.sin(x + 0.1 * p), x)

    return lax.fori_loop(0, ROUNDS // 10, lambda _, x: inner(x) * 0.9, p).sum()


def bouncing(p):
    def step(s):
        h, v = s
        v = v - 0.0098
        h = h + 0.01 * v
        return lax.cond((h < 0) & (v < 0), lambda s: (-s[0], -0.9 * s[1]), lambda s: s, (h, v))

    return sum(repeat(step, (abs(p[0]) + 1, p[1])))


# The number of parameters of each case, whether it has a gradient, and its function.
CASES = {
    "elman8": (136, True, rnn(8)), "gru16": (1200, True, gru), "lstm32": (5248, True, lstm), "rnn64": (4672, True, rnn(64)),
    "cartpole": (8, True, cartpole), "pendulum": (3, True, pendulum), "lorenz": (4, True, lorenz), "kalman2": (6, True, kalman(2)),
    "kalman4": (20, True, kalman(4)), "leapfrog": (48, True, leapfrog), "metropolis": (4, False, metropolis),
    "newton": (16, False, newton), "horner": (16, True, horner), "collatz": (1, False, collatz), "sorting": (16, True, sorting),
    "scan16": (16, True, scan16), "while16": (16, False, while16), "bisection": (16, False, bisection), "average": (8, True, average),
    "power": (272, True, power), "viterbi": (64, True, viterbi), "forward": (64, True, forward), "automaton": (1, False, automaton),
    "sgd": (8, True, sgd), "adam": (16, True, adam), "ring": (64, True, ring), "table": (16384, False, table),
    "buffer": (16384, False, buffer), "bf16": (16, False, bf16), "i32": (1, False, i32), "nested": (8, True, nested),
    "bouncing": (2, True, bouncing),
}  # fmt: skip


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        count, has_gradient, function = CASES[name]
        w = jnp.asarray(measure.uniform(10, (count,), 0.5))
        calls = {"forward": jax.jit(function)}
        measure.report("W", name, "result", "jax", "", float(calls["forward"](w)))
        if has_gradient:
            calls["reverse"] = jax.jit(jax.grad(function))
            measure.report("W", name, "gradient", "jax", "", float(abs(calls["reverse"](w)).sum()))
        for operation, call in calls.items():
            times = measure.microseconds(lambda: call(w).block_until_ready(), measure.samples(21))
            measure.report("W", name, operation, "jax", "ns", times[len(times) // 2] * 1e3 / ROUNDS)
