//! Loops with small bodies, written as a user writes them: functions of a vector of parameters, which return a number.
//! `jax_loops.py` has the same functions.

use std::cell::Cell;

use pytree::control::{cond, fori_loop, scan, while_loop};
use pytree::ix;
use pytree::prelude::*;

use super::workload;

/// The parameters, which a case takes part by part, and the number of rounds of its loop.
pub struct Parts {
    all: Tensor,
    taken: Cell<usize>,
    rounds: usize,
}

impl Parts {
    fn take<const N: usize>(&self, shape: [usize; N]) -> Tensor {
        let first = self.taken.get();
        let end = first + shape.iter().product::<usize>();
        self.taken.set(end);
        self.all
            .index(ix![first as isize..end as isize])
            .reshape(shape)
    }

    fn inputs(&self, width: usize) -> Tensor {
        let count = self.rounds * width;
        Tensor::new([self.rounds, width], workload::uniform(11, count, 1.0))
    }

    /// Repeats a function of a tree.
    fn repeat<T: pytree::transform::Traceable>(&self, function: impl Fn(T) -> T, start: T) -> T {
        fori_loop(0, self.rounds as i32, |_, x| function(x), start)
    }
}

/// A loop: its name, the number of its parameters, whether it has a gradient, and a function of the parameters.
pub type Case = (&'static str, usize, bool, fn(&Parts) -> Tensor);

/// Returns a case as a function of a vector of parameters.
pub fn function(
    case: &Case,
    rounds: usize,
) -> impl Fn(&Tensor) -> Tensor + Copy + Send + Sync + 'static {
    let function = case.3;
    move |all| {
        let (all, taken) = (all.clone(), Cell::new(0));
        function(&Parts { all, taken, rounds })
    }
}

/// Returns the parameters of a case.
pub fn parameters(case: &Case) -> Tensor {
    Tensor::from(workload::uniform(10, case.1, 0.5))
}

fn rnn(p: &Parts, width: usize) -> Tensor {
    let w = p.take([width, width]) * (1.0 / width as f64).sqrt();
    let (u, b) = (p.take([8, width]), p.take([width]));
    let step = |h: Tensor, x: Tensor| {
        let h = (h.matmul(&w) + x.matmul(&u) + &b).tanh();
        (h.clone(), h.sum())
    };
    scan(step, Tensor::zeros(DType::F32, [width]), p.inputs(8))
        .1
        .mean()
}

fn gru(p: &Parts) -> Tensor {
    let (w, u, b) = (p.take([16, 48]), p.take([8, 48]), p.take([48]));
    let step = |h: Tensor, x: Tensor| {
        let (a, c) = (h.matmul(&w), x.matmul(&u) + &b);
        let gate = |k: isize, t: &Tensor| t.index(ix![16 * k..16 * (k + 1)]);
        let (r, z) = (
            (gate(0, &a) + gate(0, &c)).sigmoid(),
            (gate(1, &a) + gate(1, &c)).sigmoid(),
        );
        let n = (r * gate(2, &a) + gate(2, &c)).tanh();
        let h = (1.0 - &z) * n + z * h;
        (h.clone(), h.sum())
    };
    scan(step, Tensor::zeros(DType::F32, [16]), p.inputs(8))
        .1
        .mean()
}

fn lstm(p: &Parts) -> Tensor {
    let (w, u, b) = (p.take([32, 128]), p.take([8, 128]), p.take([128]));
    let step = |(h, c): (Tensor, Tensor), x: Tensor| {
        let a = h.matmul(&w) + x.matmul(&u) + &b;
        let gate = |k: isize| a.index(ix![32 * k..32 * (k + 1)]);
        let c = (gate(1) + 1.0).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
        let h = gate(3).sigmoid() * c.tanh();
        ((h.clone(), c), h.sum())
    };
    let zero = Tensor::zeros(DType::F32, [32]);
    scan(step, (zero.clone(), zero), p.inputs(8)).1.mean()
}

fn cartpole(p: &Parts) -> Tensor {
    let w = p.take([4]);
    let step = |s: Tensor| {
        let [x, v, a, o] = [0, 1, 2, 3].map(|k| s.index(ix![k]));
        let force = (&s * &w).sum().tanh() * 10.0;
        let (sin, cos) = (a.sin(), a.cos());
        let t = (force + 0.05 * o.square() * &sin) / 1.1;
        let alpha = (9.8 * &sin - &cos * &t) / (0.5 * (4.0 / 3.0 - 0.1 * cos.square() / 1.1));
        let acceleration = t - 0.05 * &alpha * &cos / 1.1;
        let next = Tensor::stack(
            &[
                &x + 0.02 * &v,
                v + 0.02 * acceleration,
                &a + 0.02 * &o,
                o + 0.02 * alpha,
            ],
            0,
        );
        let done = x.abs().greater(2.4) | a.abs().greater(0.21);
        done.select(&next * 0.1, s * 0.0 + &next)
    };
    p.repeat(step, p.take([4]) * 0.1).sum()
}

fn runge_kutta(f: impl Fn(&Tensor) -> Tensor, y: Tensor, h: f64) -> Tensor {
    let k1 = f(&y);
    let k2 = f(&(&y + h / 2.0 * &k1));
    let k3 = f(&(&y + h / 2.0 * &k2));
    let k4 = f(&(&y + h * &k3));
    y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
}

fn pendulum(p: &Parts) -> Tensor {
    let (start, c) = (p.take([2]), p.take([]));
    let f = |y: &Tensor| {
        let (a, v) = (y.index(ix![0]), y.index(ix![1]));
        Tensor::stack(&[v.clone(), -9.8 * a.sin() - c.abs() * v], 0)
    };
    p.repeat(|y| runge_kutta(f, y, 0.01), start).sum()
}

fn lorenz(p: &Parts) -> Tensor {
    let (rho, start) = (p.take([]) + 20.0, p.take([3]) + 1.0);
    let step = |(x, y, z): (Tensor, Tensor, Tensor)| {
        let (dx, dy) = (10.0 * (&y - &x), &x * (&rho - &z) - &y);
        let dz = &x * &y - 8.0 / 3.0 * &z;
        (x + 0.001 * dx, y + 0.001 * dy, z + 0.001 * dz)
    };
    let [x, y, z] = [0, 1, 2].map(|k| start.index(ix![k]));
    let (x, y, z) = p.repeat(step, (x, y, z));
    x + y + z
}

fn kalman(p: &Parts, size: usize) -> Tensor {
    let f = Tensor::eye(DType::F32, size) * 0.9 + p.take([size, size]) * 0.1;
    let h = p.take([1, size]);
    let step = |(x, c): (Tensor, Tensor), z: Tensor| {
        let x = f.matmul(&x);
        let c = f.matmul(&c).matmul(&f.t()) + Tensor::eye(DType::F32, size) * 0.01;
        let e = z - h.matmul(&x);
        let s = h.matmul(&c).matmul(&h.t()) + 0.1;
        let k = c.matmul(&h.t()) / s;
        let x = x + k.matmul(&e);
        let c = &c - k.matmul(&h).matmul(&c);
        ((x, c), e.square().sum())
    };
    let start = (
        Tensor::zeros(DType::F32, [size]),
        Tensor::eye(DType::F32, size),
    );
    scan(step, start, p.inputs(1)).1.mean()
}

fn leapfrog(p: &Parts) -> Tensor {
    let (q, v, k) = (p.take([16]), p.take([16]), p.take([16]).abs());
    let force = |q: &Tensor| -&k * q - 0.1 * q.powi(3);
    let step = |(q, v): (Tensor, Tensor)| {
        let v = v + 0.005 * force(&q);
        let q = q + 0.01 * &v;
        let v = v + 0.005 * force(&q);
        (q, v)
    };
    let (q, v) = p.repeat(step, (q, v));
    (q.square() + v.square()).sum()
}

fn metropolis(p: &Parts) -> Tensor {
    let energy = |x: &Tensor| (x.square() - 1.0).square().sum();
    let step = |x: Tensor, key: Key| {
        let keys = key.split(2);
        let moved = &x + (keys[0].uniform(DType::F32, [4]) - 0.5);
        let chance = (energy(&x) - energy(&moved)).exp();
        let x = keys[1]
            .uniform(DType::F32, [])
            .less(chance)
            .select(moved, x);
        (x.clone(), x.sum())
    };
    scan(step, p.take([4]), Key::new(0).split_stacked(p.rounds))
        .1
        .mean()
}

fn newton(p: &Parts) -> Tensor {
    let a = p.take([16]).abs() + 1.0;
    let body =
        |(i, x): (Tensor, Tensor)| (i + 1, &x - 0.05 * (x.powi(3) - &a) / (3.0 * x.square()));
    let more = |(i, x): &(Tensor, Tensor)| {
        let error = (x.powi(3) - &a).abs().max();
        i.less(p.rounds as i32) & error.greater_equal(0.0)
    };
    while_loop(more, body, (Tensor::from(0), a.clone())).1.sum()
}

fn horner(p: &Parts) -> Tensor {
    let x = p.take([16]);
    let step = |y: Tensor, c: Tensor| (y * &x + c, Tensor::from(0.0_f32));
    scan(step, Tensor::zeros(DType::F32, [16]), p.inputs(1))
        .0
        .sum()
}

fn collatz(p: &Parts) -> Tensor {
    let start = p.take([]).convert(DType::I32) + 27;
    let body = |(i, n): (Tensor, Tensor)| {
        let next = n.rem(2).equal(0).select(&n / 2, 3 * &n + 1);
        (i + 1, n.equal(1).select(Tensor::from(27_i32), next))
    };
    let more = |(i, _): &(Tensor, Tensor)| i.less(p.rounds as i32);
    let (i, n) = while_loop(more, body, (Tensor::from(0), start));
    (i + n).convert(DType::F32)
}

fn sorting_network(p: &Parts) -> Tensor {
    let step = |x: Tensor| {
        let pairs = x.reshape([8, 2]);
        let (a, b) = (pairs.index(ix![.., 0]), pairs.index(ix![.., 1]));
        Tensor::stack(&[a.minimum(&b), a.maximum(&b)], 1)
            .reshape([16])
            .roll(1, 0)
            * 0.999
    };
    let x = p.repeat(step, p.take([16]));
    x.index(ix![0]) * 2.0 + x.sum()
}

fn scan16(p: &Parts) -> Tensor {
    let step = |x: Tensor, y: Tensor| {
        let x = x * 0.9 + y;
        (x.clone(), x.sum())
    };
    scan(step, p.take([16]), p.inputs(16)).1.mean()
}

fn while16(p: &Parts) -> Tensor {
    let body = |(i, x): (Tensor, Tensor)| (i + 1, x * 0.99 + 0.01);
    let more = |(i, _): &(Tensor, Tensor)| i.less(p.rounds as i32);
    while_loop(more, body, (Tensor::from(0), p.take([16])))
        .1
        .sum()
}

fn bisection(p: &Parts) -> Tensor {
    let a = p.take([16]);
    let step = |(low, high): (Tensor, Tensor)| {
        let middle = (&low + &high) / 2.0;
        let is_below = (middle.powi(3) + &middle).less(&a);
        (
            is_below.select(&middle, &low),
            is_below.select(&high, &middle),
        )
    };
    let start = (
        Tensor::full(DType::F32, [16], -2.0),
        Tensor::full(DType::F32, [16], 2.0),
    );
    p.repeat(step, start).0.sum()
}

fn average(p: &Parts) -> Tensor {
    let rate = p.take([8]).sigmoid();
    let step = |m: Tensor, x: Tensor| {
        let m = &rate * m + (1.0 - &rate) * x;
        (m.clone(), m)
    };
    scan(step, Tensor::zeros(DType::F32, [8]), p.inputs(8))
        .1
        .mean()
}

fn power_iteration(p: &Parts) -> Tensor {
    let (a, start) = (p.take([16, 16]), p.take([16]));
    let step = |x: Tensor| {
        let x = a.matmul(&x);
        &x / x.square().sum().sqrt()
    };
    p.repeat(step, start).abs().sum()
}

fn viterbi(p: &Parts) -> Tensor {
    let t = p.take([8, 8]);
    let step = |d: Tensor, x: Tensor| {
        let scores = d.expand_dims([1]) + &t;
        let best = scores.max_axes([0]) + x;
        (&best - best.max(), scores.argmax(0).sum())
    };
    let (d, best) = scan(step, Tensor::zeros(DType::F32, [8]), p.inputs(8));
    d.sum() + best.convert(DType::F32).mean()
}

fn forward_algorithm(p: &Parts) -> Tensor {
    let t = p.take([8, 8]);
    let step = |d: Tensor, x: Tensor| {
        let scores = d.expand_dims([1]) + &t;
        let most = scores.max_keep([0]).stop_gradient();
        let d = (&scores - &most).exp().sum_axes([0]).log() + most.reshape([8]) + x;
        let total = d.max().stop_gradient();
        (d - &total, total)
    };
    let (d, _) = scan(step, Tensor::zeros(DType::F32, [8]), p.inputs(8));
    d.sum()
}

fn automaton(p: &Parts) -> Tensor {
    let start = Tensor::arange(DType::I32, 64)
        .rem(5)
        .equal(0)
        .convert(DType::I32);
    let step = |x: Tensor| x.roll(1, 0).bit_xor(&x | x.roll(-1, 0));
    p.repeat(step, start).sum().convert(DType::F32)
}

fn sgd_step(p: &Parts) -> Tensor {
    let target = p.take([8]);
    let step = |w: Tensor, x: Tensor| {
        let loss = |w: &Tensor| ((&x * w).sum() - (&x * &target).sum()).square();
        let (loss, gradient) = value_and_grad(loss)(&w);
        (w - 0.05 * gradient, loss)
    };
    scan(step, Tensor::zeros(DType::F32, [8]), p.inputs(8))
        .1
        .mean()
}

fn adam_step(p: &Parts) -> Tensor {
    let target = p.take([16]);
    let step = |(i, w, m, v): (Tensor, Tensor, Tensor, Tensor)| {
        let i = i + 1.0;
        let g = 2.0 * (&w - &target);
        let m = 0.9 * m + 0.1 * &g;
        let v = 0.999 * v + 0.001 * g.square();
        let (a, b) = (
            1.0 - (&i * 0.9_f32.ln()).exp(),
            1.0 - (&i * 0.999_f32.ln()).exp(),
        );
        let w = w - 0.01 * (&m / a) / ((&v / b).sqrt() + 1e-8);
        (i, w, m, v)
    };
    let zero = Tensor::zeros(DType::F32, [16]);
    let start = (Tensor::from(0.0_f32), zero.clone(), zero.clone(), zero);
    p.repeat(step, start).1.sum()
}

fn ring_buffer(p: &Parts) -> Tensor {
    let step = |(i, buffer): (Tensor, Tensor), x: Tensor| {
        let at = i.rem(64);
        let old = buffer.take(&at, 0);
        let buffer = buffer.dynamic_update_slice(&(x + 0.5 * &old).reshape([1]), &[at]);
        ((i + 1, buffer), old)
    };
    let x = p.inputs(1).reshape([p.rounds]);
    let ((_, buffer), old) = scan(step, (Tensor::from(0), p.take([64])), x);
    buffer.sum() + old.mean()
}

fn table(p: &Parts) -> Tensor {
    let table = p.take([16384]);
    let step =
        |(i, sum): (Tensor, Tensor)| ((5 * &i + 1).rem(16384), sum * 0.9 + table.take(&i, 0));
    p.repeat(step, (Tensor::from(0), Tensor::from(0.0_f32))).1
}

fn large_buffer(p: &Parts) -> Tensor {
    let step = |(i, x): (Tensor, Tensor)| {
        let old = x.dynamic_slice(std::slice::from_ref(&i), [4]);
        let x = x.dynamic_update_slice(&(old * 0.5 + 1.0), std::slice::from_ref(&i));
        ((5 * i + 1).rem(16384), x)
    };
    p.repeat(step, (Tensor::from(0), p.take([16384]))).1.sum()
}

fn halves(p: &Parts) -> Tensor {
    let x = p.take([16]).convert(DType::BF16);
    p.repeat(|x: Tensor| (x * 1.5 + 0.25).tanh(), x)
        .convert(DType::F32)
        .sum()
}

fn integers(p: &Parts) -> Tensor {
    let step = |x: Tensor| {
        let x = x.bit_xor(x.shift_left(5));
        let x = x.bit_xor(x.shift_right(7));
        x.bit_xor(x.shift_left(13))
    };
    let x = p.repeat(step, Tensor::arange(DType::I32, 16) + 1);
    x.rem(1000).sum().convert(DType::F32)
}

fn nested(p: &Parts) -> Tensor {
    let a = p.take([8]);
    let inner = |x: Tensor| fori_loop(0, 10, |_, x: Tensor| (&x + 0.1 * &a).sin(), x);
    fori_loop(0, (p.rounds / 10) as i32, |_, x| inner(x) * 0.9, a.clone()).sum()
}

fn bouncing(p: &Parts) -> Tensor {
    let start = p.take([2]);
    let step = |(h, v): (Tensor, Tensor)| {
        let v = v - 0.0098;
        let h = h + 0.01 * &v;
        let is_below = h.less(0.0) & v.less(0.0);
        cond(
            &is_below,
            |(h, v): (Tensor, Tensor)| (-h, -0.9 * v),
            |x: (Tensor, Tensor)| x,
            (h, v),
        )
    };
    let (h, v) = p.repeat(step, (start.index(ix![0]).abs() + 1.0, start.index(ix![1])));
    h + v
}

/// The loops.
pub const CASES: &[Case] = &[
    ("elman8", 136, true, |p| rnn(p, 8)),
    ("gru16", 1200, true, gru),
    ("lstm32", 5248, true, lstm),
    ("rnn64", 4672, true, |p| rnn(p, 64)),
    ("cartpole", 8, true, cartpole),
    ("pendulum", 3, true, pendulum),
    ("lorenz", 4, true, lorenz),
    ("kalman2", 6, true, |p| kalman(p, 2)),
    ("kalman4", 20, true, |p| kalman(p, 4)),
    ("leapfrog", 48, true, leapfrog),
    ("metropolis", 4, false, metropolis),
    ("newton", 16, false, newton),
    ("horner", 16, true, horner),
    ("collatz", 1, false, collatz),
    ("sorting", 16, true, sorting_network),
    ("scan16", 16, true, scan16),
    ("while16", 16, false, while16),
    ("bisection", 16, false, bisection),
    ("average", 8, true, average),
    ("power", 272, true, power_iteration),
    ("viterbi", 64, true, viterbi),
    ("forward", 64, true, forward_algorithm),
    ("automaton", 1, false, automaton),
    ("sgd", 8, true, sgd_step),
    ("adam", 16, true, adam_step),
    ("ring", 64, true, ring_buffer),
    ("table", 16384, false, table),
    ("buffer", 16384, false, large_buffer),
    ("bf16", 16, false, halves),
    ("i32", 1, false, integers),
    ("nested", 8, true, nested),
    ("bouncing", 2, true, bouncing),
];
