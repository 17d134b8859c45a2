//! The gradient table: every primitive and every derived operation, differentiated in each way there is.
//!
//! A case is a function of tensors with a sampler inside its domain. Along one random direction its
//! derivatives of orders 1 and 2 are compared with finite differences, with each other in every order of
//! forward and reverse mode, and with themselves under `jit` and `vmap`. The last test reads the names of
//! the primitives from their sources and looks for each of them in what the table records.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pytree_transform::indexing::{Index, Step};
use pytree_transform::{Axes, DType, Tensor, grad, ix, jit, jvp, raw, vjp, vmap};

use DType::{F32, F64, I32, U32};

/// A function of the table.
struct Case {
    name: &'static str,
    operands: Vec<Operand>,
    function: fn(&[Tensor]) -> Tensor,
    precision: Precision,
}

/// What a function of the table is called with.
#[derive(Clone)]
struct Operand {
    domain: Domain,
    shape: Vec<usize>,
}

/// Where the elements of an operand come from. Those of floats are all different in a case, so that no
/// sample sits on a kink of `max` or `abs`.
#[derive(Clone, Copy)]
enum Domain {
    /// f64 in (-2, 2), and neither -1, 0 nor 1.
    Real,
    /// f64 in (0.4, 2.4).
    Positive,
    /// f64 in (-2.4, -0.4) and (0.4, 2.4).
    NonZero,
    /// f64 in (-0.8, 0.8).
    Unit,
    /// i32 from -1 to this number: with one index too low and one too high for an axis of that length.
    Index(i32),
    /// bool.
    Truth,
}
use Domain::{Index as Indices, NonZero, Positive, Real, Truth, Unit};

/// How exactly a case can be computed.
#[derive(Clone, Copy)]
enum Precision {
    /// f64 throughout: 1e-16 an operation.
    Double,
    /// Through f32: 6e-8 an operation.
    Single,
}

/// How far two figures may be apart, relative to the greatest of them and 1.
struct Tolerance {
    /// The step h of central differences.
    step: f64,
    /// Central differences are wrong by h²/6 · f''' (truncation) and ε/h · f (rounding).
    difference: f64,
    /// The same sum in another order is wrong by ε for each of its terms.
    order: f64,
}

impl Precision {
    fn tolerance(self) -> Tolerance {
        match self {
            // 2e-11 · f''' + 2e-11 · f; the domains keep f''' below 1e3 times the derivative beside it.
            Self::Double => Tolerance {
                step: 1e-5,
                difference: 1e-7,
                order: 1e-13,
            },
            // 1e-5 · f''' + 8e-6 · f; both are a few.
            Self::Single => Tolerance {
                step: 1.0 / 128.0,
                difference: 1e-4,
                order: 1e-6,
            },
        }
    }
}

fn case<const N: usize>(
    name: &'static str,
    operands: [(Domain, &[usize]); N],
    function: fn(&[Tensor]) -> Tensor,
) -> Case {
    let operands = operands
        .map(|(domain, shape)| Operand {
            domain,
            shape: shape.to_vec(),
        })
        .into();
    Case {
        name,
        operands,
        function,
        precision: Precision::Double,
    }
}

/// A case that goes through f32.
fn single<const N: usize>(
    name: &'static str,
    operands: [(Domain, &[usize]); N],
    function: fn(&[Tensor]) -> Tensor,
) -> Case {
    Case {
        precision: Precision::Single,
        ..case(name, operands, function)
    }
}

/// The table; one line a case where it fits.
fn table() -> Vec<Case> {
    let groups = [
        functions(),
        operators(),
        choices(),
        conversions(),
        reductions(),
        products(),
        shapes(),
        parts(),
        rest(),
    ];
    groups.into_iter().flatten().collect()
}

/// Functions of one tensor, element by element.
#[rustfmt::skip]
fn functions() -> Vec<Case> {
    vec![
        case("neg", [(Real, &[2, 3])], |x| -&x[0]),
        case("abs", [(Real, &[2, 3])], |x| x[0].abs()),
        case("sign", [(Real, &[2, 3])], |x| x[0].sign() * &x[0]),
        case("exp", [(Real, &[2, 3])], |x| x[0].exp()),
        case("exp of no axes", [(Real, &[])], |x| x[0].exp()),
        case("exp of no elements", [(Real, &[0, 3])], |x| x[0].exp()),
        case("log", [(Positive, &[2, 3])], |x| x[0].log()),
        case("sqrt", [(Positive, &[2, 3])], |x| x[0].sqrt()),
        case("sin", [(Real, &[2, 3])], |x| x[0].sin()),
        case("cos", [(Real, &[2, 3])], |x| x[0].cos()),
        case("tanh", [(Real, &[2, 3])], |x| x[0].tanh()),
        case("sigmoid", [(Real, &[2, 3])], |x| x[0].sigmoid()),
        case("erf_inv", [(Unit, &[2, 3])], |x| x[0].erf_inv()),
        case("powi -2", [(NonZero, &[2, 3])], |x| x[0].powi(-2)),
        case("powi -1", [(NonZero, &[2, 3])], |x| x[0].powi(-1)),
        case("powi 0", [(Real, &[2, 3])], |x| x[0].powi(0)),
        case("powi 1", [(Real, &[2, 3])], |x| x[0].powi(1)),
        case("powi 2", [(Real, &[2, 3])], |x| x[0].powi(2)),
        case("powi 5", [(Real, &[2, 3])], |x| x[0].powi(5)),
        case("square", [(Real, &[2, 3])], |x| x[0].square()),
        case("relu", [(Real, &[2, 3])], |x| x[0].relu()),
        case("clip", [(Real, &[2, 3])], |x| x[0].clip(-1.0, 1.0)),
        // A sign is constant around a sample, so stopping its gradient changes nothing.
        case("stop_gradient", [(Real, &[2, 3])], |x| x[0].sign().stop_gradient() * &x[0]),
    ]
}

/// Functions of two tensors, element by element.
#[rustfmt::skip]
fn operators() -> Vec<Case> {
    vec![
        case("add", [(Real, &[2, 3]), (Real, &[2, 3])], |x| &x[0] + &x[1]),
        case("add a row", [(Real, &[2, 3]), (Real, &[3])], |x| &x[0] + &x[1]),
        case("add of the same", [(Real, &[3])], |x| &x[0] + &x[0]),
        case("sub", [(Real, &[2, 3]), (Real, &[2, 3])], |x| &x[0] - &x[1]),
        case("sub a column", [(Real, &[2, 3]), (Real, &[2, 1])], |x| &x[0] - &x[1]),
        case("sub from a number", [(Real, &[3])], |x| 1.0 - &x[0]),
        case("mul", [(Real, &[2, 3]), (Real, &[2, 3])], |x| &x[0] * &x[1]),
        case("mul of a column and a row", [(Real, &[2, 1]), (Real, &[1, 3])], |x| &x[0] * &x[1]),
        case("mul by no axes", [(Real, &[]), (Real, &[2, 3])], |x| &x[0] * &x[1]),
        case("mul of the same", [(Real, &[2, 3])], |x| &x[0] * &x[0]),
        case("mul of no elements", [(Real, &[0, 3]), (Real, &[3])], |x| &x[0] * &x[1]),
        case("div", [(Real, &[2, 3]), (NonZero, &[2, 3])], |x| &x[0] / &x[1]),
        case("div by a row", [(Real, &[2, 3]), (NonZero, &[3])], |x| &x[0] / &x[1]),
        case("div of a number", [(NonZero, &[3])], |x| 2.0 / &x[0]),
        case("maximum", [(Real, &[2, 3]), (Real, &[2, 3])], |x| x[0].maximum(&x[1])),
        case("maximum with a number", [(Real, &[2, 3])], |x| x[0].maximum(0.0)),
        case("maximum of equals", [(Real, &[2, 3])], |x| x[0].maximum(&x[0])),
        case("minimum", [(Real, &[2, 3]), (Real, &[2, 3])], |x| x[0].minimum(&x[1])),
        case("minimum with a row", [(Real, &[2, 3]), (Real, &[3])], |x| x[0].minimum(&x[1])),
        case("minimum of equals", [(Real, &[2, 3])], |x| x[0].minimum(&x[0])),
    ]
}

/// A choice between two tensors by what `condition` says of them.
fn choose(x: &[Tensor], condition: &Tensor) -> Tensor {
    condition.select(&x[0].sin(), &x[1].square())
}

/// Comparisons, logic and `select`.
#[rustfmt::skip]
fn choices() -> Vec<Case> {
    const PAIR: [(Domain, &[usize]); 2] = [(Real, &[2, 3]), (Real, &[2, 3])];
    vec![
        case("select", [(Real, &[2, 3]), (Real, &[2, 3]), (Truth, &[2, 3])], |x| x[2].select(&x[0], &x[1])),
        case("select by a row", [(Real, &[2, 3]), (Real, &[2, 1]), (Truth, &[3])], |x| x[2].select(&x[0], &x[1])),
        case("select of the same", [(Real, &[3]), (Truth, &[3])], |x| x[1].select(&x[0], &x[0])),
        case("equal", PAIR, |x| choose(x, &x[0].equal(&x[1]))),
        case("not_equal", PAIR, |x| choose(x, &x[0].not_equal(&x[1]))),
        case("less", PAIR, |x| choose(x, &x[0].less(&x[1]))),
        case("less_equal", PAIR, |x| choose(x, &x[0].less_equal(&x[1]))),
        case("greater", PAIR, |x| choose(x, &x[0].greater(&x[1]))),
        case("greater_equal", PAIR, |x| choose(x, &x[0].greater_equal(0.0))),
        case("and", PAIR, |x| choose(x, &(x[0].greater(0.0) & x[1].greater(0.0)))),
        case("or", PAIR, |x| choose(x, &(x[0].greater(0.0) | x[1].greater(0.0)))),
        case("not", PAIR, |x| choose(x, &!x[0].greater(0.0))),
        case("xor", PAIR, |x| choose(x, &x[0].greater(0.0).bit_xor(x[1].greater(0.0)))),
    ]
}

/// Changes of the element type, and integers on the way.
#[rustfmt::skip]
fn conversions() -> Vec<Case> {
    vec![
        single("convert to f32", [(Real, &[2, 3])], |x| x[0].convert(F32).convert(F64)),
        single("f32 functions", [(Real, &[2, 3]), (Real, &[3])], |x| {
            (x[0].convert(F32).sin() * x[1].convert(F32) + 0.5_f32).convert(F64)
        }),
        case("convert from bool", [(Real, &[3]), (Truth, &[3])], |x| x[1].convert(F64) * &x[0]),
        case("convert from i32", [(Real, &[3]), (Indices(4), &[3])], |x| x[1].convert(F64) * &x[0]),
        case("convert to i32", [(Real, &[3])], |x| x[0].convert(I32).convert(F64) * &x[0]),
        case("shift_left", [(Real, &[3]), (Indices(4), &[3])], |x| x[1].shift_left(2).convert(F64) * &x[0]),
        case("shift_right", [(Real, &[3]), (Indices(4), &[3])], |x| x[1].abs().shift_right(1).convert(F64) * &x[0]),
    ]
}

/// Sums, means, maxima.
#[rustfmt::skip]
fn reductions() -> Vec<Case> {
    vec![
        case("sum", [(Real, &[2, 3])], |x| x[0].sum()),
        case("sum of the first axis", [(Real, &[2, 3, 2])], |x| x[0].sum_axes([0])),
        case("sum of the middle axis", [(Real, &[2, 3, 2])], |x| x[0].sum_axes([1])),
        case("sum of the outer axes", [(Real, &[2, 3, 2])], |x| x[0].sum_axes([-1, 0])),
        case("sum of no axes", [(Real, &[2, 3])], |x| x[0].sum_axes([])),
        case("sum of no elements", [(Real, &[2, 0])], |x| x[0].sum_axes([1])),
        case("sum_keep", [(Real, &[2, 3])], |x| &x[0] * x[0].sum_keep([1])),
        case("max", [(Real, &[2, 3])], |x| x[0].max()),
        case("max of the first axis", [(Real, &[2, 3])], |x| x[0].max_axes([0])),
        case("max of the outer axes", [(Real, &[2, 3, 2])], |x| x[0].max_axes([0, 2])),
        case("max of equals", [(Real, &[2, 3])], |x| Tensor::stack(&[x[0].clone(), x[0].clone()], 1).max_axes([1])),
        case("max_keep", [(Real, &[2, 3])], |x| &x[0] - x[0].max_keep([-1])),
        case("mean", [(Real, &[2, 3])], |x| x[0].mean()),
        case("mean of an axis", [(Real, &[2, 3])], |x| x[0].mean_axes([1])),
        case("mean_keep", [(Real, &[2, 3])], |x| &x[0] * x[0].mean_keep([0])),
        case("variance", [(Real, &[2, 3])], |x| x[0].variance_axes([0])),
        case("variance of all", [(Real, &[2, 3])], |x| x[0].variance_axes([0, 1])),
        case("softmax", [(Real, &[2, 3])], |x| {
            let shifted = (&x[0] - x[0].max_keep([-1])).exp();
            &shifted / shifted.sum_keep([-1])
        }),
    ]
}

fn matmul(x: &[Tensor]) -> Tensor {
    x[0].matmul(&x[1])
}

/// Products of matrices, in each combination of ranks.
#[rustfmt::skip]
fn products() -> Vec<Case> {
    vec![
        case("matmul 1 × 1", [(Real, &[3]), (Real, &[3])], matmul),
        case("matmul 1 × 2", [(Real, &[3]), (Real, &[3, 2])], matmul),
        case("matmul 2 × 1", [(Real, &[2, 3]), (Real, &[3])], matmul),
        case("matmul 2 × 2", [(Real, &[2, 3]), (Real, &[3, 4])], matmul),
        case("matmul 1 × 3", [(Real, &[3]), (Real, &[2, 3, 2])], matmul),
        case("matmul 3 × 1", [(Real, &[2, 2, 3]), (Real, &[3])], matmul),
        case("matmul 2 × 3", [(Real, &[2, 3]), (Real, &[2, 3, 2])], matmul),
        case("matmul 3 × 2", [(Real, &[2, 2, 3]), (Real, &[3, 2])], matmul),
        case("matmul 3 × 3", [(Real, &[2, 2, 3]), (Real, &[2, 3, 2])], matmul),
        case("matmul 3 × 3, one repeated", [(Real, &[1, 2, 3]), (Real, &[2, 3, 2])], matmul),
        case("matmul 4 × 3, both repeated", [(Real, &[2, 1, 2, 3]), (Real, &[3, 3, 2])], matmul),
        case("matmul 2 × 2 of no depth", [(Real, &[2, 0]), (Real, &[0, 3])], matmul),
        case("matmul 2 × 2 of no rows", [(Real, &[0, 2]), (Real, &[2, 3])], matmul),
        case("matmul of the same", [(Real, &[2, 3])], |x| x[0].matmul(&x[0].t())),
    ]
}

/// The same elements along other axes.
#[rustfmt::skip]
fn shapes() -> Vec<Case> {
    vec![
        case("t", [(Real, &[2, 3])], |x| x[0].t()),
        case("transpose", [(Real, &[2, 3, 4])], |x| x[0].transpose([2, 0, 1])),
        case("move_axis", [(Real, &[2, 3, 4])], |x| x[0].move_axis(0, -1)),
        case("reshape", [(Real, &[2, 6])], |x| x[0].reshape([3, 4])),
        case("reshape to no axes", [(Real, &[1, 1])], |x| x[0].reshape([])),
        case("flatten", [(Real, &[2, 3])], |x| x[0].flatten()),
        case("expand_dims", [(Real, &[2, 3])], |x| x[0].expand_dims(1)),
        case("squeeze", [(Real, &[2, 1, 3])], |x| x[0].squeeze(1)),
        case("broadcast no axes", [(Real, &[])], |x| x[0].broadcast_to([2, 3])),
        case("broadcast a row", [(Real, &[3])], |x| x[0].broadcast_to([2, 3])),
        case("broadcast a column", [(Real, &[2, 1])], |x| x[0].broadcast_to([2, 3])),
        case("broadcast a middle axis", [(Real, &[2, 1, 3])], |x| x[0].broadcast_to([2, 2, 2, 3])),
        case("broadcast to no elements", [(Real, &[3])], |x| x[0].broadcast_to([0, 3])),
        case("reverse", [(Real, &[2, 3])], |x| x[0].reverse([0, -1])),
    ]
}

/// What the transposition of `function`, a linear one of a tensor of this shape, makes of a cotangent.
fn transposed(function: impl Fn(&Tensor) -> Tensor, shape: &[usize], cotangent: &Tensor) -> Tensor {
    vjp(|x: &Tensor| function(x), &Tensor::zeros(F64, shape))
        .1
        .call(cotangent)
}

/// Parts of tensors, and tensors put together.
#[rustfmt::skip]
fn parts() -> Vec<Case> {
    vec![
        case("take at an index", [(Real, &[3, 2]), (Indices(3), &[])], |x| x[0].take(&x[1], 0)),
        case("take of the first axis", [(Real, &[3, 2]), (Indices(3), &[4])], |x| x[0].take(&x[1], 0)),
        case("take of the last axis", [(Real, &[2, 3]), (Indices(3), &[4])], |x| x[0].take(&x[1], -1)),
        case("take of the middle axis", [(Real, &[2, 3, 2]), (Indices(3), &[2])], |x| x[0].take(&x[1], 1)),
        case("take of one axis alone", [(Real, &[3]), (Indices(3), &[2, 2])], |x| x[0].take(&x[1], 0)),
        case("take with a matrix", [(Real, &[2, 3]), (Indices(3), &[2, 2])], |x| x[0].take(&x[1], 1)),
        case("take of nothing", [(Real, &[2, 3]), (Indices(3), &[0])], |x| x[0].take(&x[1], 1)),
        case("scatter_add", [(Real, &[4, 2]), (Indices(3), &[4])], |x| {
            transposed(|whole| whole.take(&x[1], 0), &[3, 2], &x[0])
        }),
        case("scatter_add with a matrix", [(Real, &[2, 2, 2]), (Indices(3), &[2, 2])], |x| {
            transposed(|whole| whole.take(&x[1], 1), &[2, 3], &x[0])
        }),
        case("index", [(Real, &[3, 4])], |x| x[0].index(ix![1.., ..2])),
        case("index at positions", [(Real, &[3, 4])], |x| x[0].index(ix![-1, 2])),
        case("index in steps", [(Real, &[5, 4])], |x| x[0].index(ix![Step(.., 2), Step(1..4, 2)])),
        case("index backwards", [(Real, &[5, 3])], |x| x[0].index(ix![Step(.., -2), Step(.., -1)])),
        case("index with other axes", [(Real, &[2, 3])], |x| x[0].index(ix![Index::NewAxis, Index::Ellipsis, 1])),
        case("index of nothing", [(Real, &[2, 3])], |x| x[0].index(ix![2.., ..])),
        case("pad", [(Real, &[2, 3])], |x| x[0].pad(0.5, [(1, 2, 0), (0, 1, 0)])),
        case("pad between", [(Real, &[2, 3])], |x| x[0].pad(0.0, [(0, 0, 2), (1, 0, 1)])),
        case("pad less than nothing", [(Real, &[4, 3])], |x| x[0].pad(0.5, [(-1, 1, 0), (1, -2, 1)])),
        case("pad with a tensor", [(Real, &[2, 2]), (Real, &[])], |x| x[0].pad(&x[1], [(1, 0, 1), (0, 2, 0)])),
        case("pad nothing", [(Real, &[0]), (Real, &[])], |x| x[0].pad(&x[1], [(1, 1, 3)])),
        case("concatenate", [(Real, &[1, 3]), (Real, &[2, 3])], |x| Tensor::concatenate(x, 0)),
        case("concatenate three", [(Real, &[2, 1]), (Real, &[2, 0]), (Real, &[2, 3])], |x| Tensor::concatenate(x, -1)),
        case("concatenate the same", [(Real, &[2, 2])], |x| Tensor::concatenate(&[x[0].clone(), x[0].clone()], 1)),
        case("stack", [(Real, &[2, 3]), (Real, &[2, 3])], |x| Tensor::stack(x, 1)),
    ]
}

/// Constants, operations without derivative beside ones with, and calls.
#[rustfmt::skip]
fn rest() -> Vec<Case> {
    vec![
        case("full", [(Real, &[2, 3])], |x| &x[0] * Tensor::full(F64, [2, 3], 0.3)),
        case("arange", [(Real, &[2, 3])], |x| &x[0] * Tensor::arange(F64, 3)),
        case("iota", [(Real, &[2, 3])], |x| &x[0] * Tensor::iota(F64, [2, 3], 0)),
        case("eye", [(Real, &[3, 3])], |x| &x[0] * Tensor::eye(F64, 3)),
        case("ones_like", [(Real, &[3])], |x| &x[0] / (Tensor::ones_like(&x[0]) + 1.0)),
        case("one_hot", [(Real, &[3, 4]), (Indices(4), &[3])], |x| &x[0] * x[1].one_hot(4, F64)),
        case("argmax", [(Real, &[2, 3])], |x| x[0].argmax(1).one_hot(3, F64) * x[0].sin()),
        case("argsort", [(Real, &[2, 3])], |x| raw::argsort(&x[0], 1).convert(F64) * x[0].sin()),
        case("sort", [(Real, &[4])], |x| x[0].take(&raw::argsort(&x[0], 0), 0)),
        case("threefry2x32", [(Real, &[3]), (Indices(9), &[3]), (Indices(9), &[3])], |x| {
            let (key, count) = (x[1].convert(U32), x[2].convert(U32));
            let (first, second) = raw::threefry2x32(&key, &count, &count, &key);
            (first.bit_xor(second).convert(F64) / 2_f64.powi(32)) * &x[0]
        }),
        case("jit", [(Real, &[2, 3]), (Real, &[3])], |x| {
            let inner = jit(|(x, y): (Tensor, Tensor)| (x.sin() * y).sum_axes([0]));
            inner((x[0].clone(), x[1].clone())) * &x[1]
        }),
        case("jit that captures", [(Real, &[2, 3]), (Real, &[3])], |x| {
            let captured = x[1].exp();
            jit(move |x: Tensor| x.square() * &captured)(x[0].clone())
        }),
        case("vmap", [(Real, &[2, 3]), (Real, &[3])], |x| {
            vmap(|(x, y): (Tensor, Tensor)| x.matmul(&y)).in_axes((0, None))((x[0].clone(), x[1].clone()))
        }),
        case("grad", [(Real, &[3])], |x| grad(|x: &Tensor| (x.exp() * x.sin()).sum())(&x[0])),
    ]
}

/// Random numbers (Steele et al., "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// Numbers in [-1, 1) with the shape of a tensor.
    fn like(&mut self, tensor: &Tensor) -> Tensor {
        Tensor::new(
            tensor.shape(),
            (0..tensor.len())
                .map(|_| 2.0 * self.unit() - 1.0)
                .collect::<Vec<f64>>(),
        )
    }
}

impl Case {
    /// Operands inside the domain.
    fn sample(&self, random: &mut Random) -> Vec<Tensor> {
        let length = |operand: &Operand| operand.shape.iter().product::<usize>();
        // Every element has a cell of its own, and no kink of a function is inside of one.
        let cells = self
            .operands
            .iter()
            .map(length)
            .sum::<usize>()
            .next_multiple_of(4);
        let mut order: Vec<usize> = (0..cells).collect();
        (1..cells).for_each(|last| order.swap(last, random.below(last + 1)));
        let mut order = order.into_iter();
        let mut place = |random: &mut Random| {
            (order.next().unwrap() as f64 + 0.3 + 0.4 * random.unit()) / cells as f64
        };
        let mut tensors = Vec::new();
        for operand in &self.operands {
            let mut floats = |of_place: fn(f64) -> f64| {
                let elements: Vec<f64> = (0..length(operand))
                    .map(|_| of_place(place(random)))
                    .collect();
                Tensor::new(&operand.shape, elements)
            };
            tensors.push(match operand.domain {
                Real => floats(|p| 4.0 * p - 2.0),
                Positive => floats(|p| 2.0 * p + 0.4),
                NonZero => floats(|p| {
                    if p < 0.5 {
                        4.0 * p - 2.4
                    } else {
                        4.0 * p - 1.6
                    }
                }),
                Unit => floats(|p| 1.6 * p - 0.8),
                Indices(length_of_axis) => {
                    let count = length_of_axis as usize + 2;
                    let elements = (0..length(operand)).map(|_| random.below(count) as i32 - 1);
                    Tensor::new(&operand.shape, elements.collect::<Vec<i32>>())
                }
                Truth => {
                    let elements = (0..length(operand)).map(|_| random.below(2) == 1);
                    Tensor::new(&operand.shape, elements.collect::<Vec<bool>>())
                }
            });
        }
        tensors
    }
}

/// A function of the table, or the same function compiled.
type Function<'f> = &'f (dyn Fn(&[Tensor]) -> Tensor + Send + Sync);

/// The operands that have derivatives.
fn floats(operands: &[Tensor]) -> Vec<Tensor> {
    operands
        .iter()
        .filter(|operand| operand.dtype().is_float())
        .cloned()
        .collect()
}

/// The operands with other floats.
fn with_floats(operands: &[Tensor], floats: &[Tensor]) -> Vec<Tensor> {
    let mut floats = floats.iter();
    let other = |operand: &Tensor| {
        if operand.dtype().is_float() {
            floats.next().unwrap()
        } else {
            operand
        }
        .clone()
    };
    operands.iter().map(other).collect()
}

/// J u, by forward mode.
fn pushed(f: Function<'_>, operands: &[Tensor], direction: &Vec<Tensor>) -> Tensor {
    jvp(
        |x: &Vec<Tensor>| f(&with_floats(operands, x)),
        &floats(operands),
        direction,
    )
    .1
}

/// Jᵀ v, by reverse mode.
fn pulled(f: Function<'_>, operands: &[Tensor], weights: &Tensor) -> Vec<Tensor> {
    let (_, pullback) = vjp(
        |x: &Vec<Tensor>| f(&with_floats(operands, x)),
        &floats(operands),
    );
    pullback.call(weights).leaves().to_vec()
}

/// The sum of sin(f) with weights: a loss whose second derivatives are not those of a linear function even
/// where f is linear.
fn loss(f: Function<'_>, operands: &[Tensor], weights: &Tensor) -> Tensor {
    (f(operands).sin() * weights).sum()
}

/// The gradient of the loss.
fn slope(f: Function<'_>, operands: &[Tensor], weights: &Tensor) -> Vec<Tensor> {
    let of_floats = grad(|x: &Vec<Tensor>| loss(f, &with_floats(operands, x), weights));
    of_floats(&floats(operands)).leaves().to_vec()
}

/// H u, forward over reverse.
fn curvature(
    f: Function<'_>,
    operands: &[Tensor],
    direction: &Vec<Tensor>,
    weights: &Tensor,
) -> Vec<Tensor> {
    jvp(
        |x: &Vec<Tensor>| slope(f, &with_floats(operands, x), weights),
        &floats(operands),
        direction,
    )
    .1
}

fn inner(left: &[Tensor], right: &[Tensor]) -> Tensor {
    left.iter()
        .zip(right)
        .fold(Tensor::from(0.0_f64), |sum, (left, right)| {
            sum + (left * right).sum()
        })
}

/// Operands moved along a direction.
fn moved(operands: &[Tensor], direction: &[Tensor], by: f64) -> Vec<Tensor> {
    let there: Vec<Tensor> = floats(operands)
        .iter()
        .zip(direction)
        .map(|(x, u)| x + u * by)
        .collect();
    with_floats(operands, &there)
}

/// The central difference of tensors along a direction.
fn difference(
    f: impl Fn(&[Tensor]) -> Vec<Tensor>,
    operands: &[Tensor],
    direction: &[Tensor],
    step: f64,
) -> Vec<Tensor> {
    let (after, before) = (
        f(&moved(operands, direction, step)),
        f(&moved(operands, direction, -step)),
    );
    after
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) / (2.0 * step))
        .collect()
}

fn assert_close(what: &str, found: &[Tensor], expected: &[Tensor], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.info(), expected.info(), "{what}");
        let expected = expected.to_vec::<f64>();
        let bound = tolerance * expected.iter().fold(1.0_f64, |bound, x| bound.max(x.abs()));
        for (found, expected) in found.to_vec::<f64>().iter().zip(expected) {
            assert!(
                (found - expected).abs() <= bound,
                "{what}: found {found}, expected {expected} ± {bound}"
            );
        }
    }
}

/// What a claim about a case is tested with.
struct Sample {
    operands: Vec<Tensor>,
    direction: Vec<Tensor>,
    weights: Tensor,
    tolerance: Tolerance,
}

/// Tests a claim for each case, and then names all cases for which it does not hold.
fn over_the_table(claim: impl Fn(&Case, Sample)) {
    let mut wrong = Vec::new();
    for (seed, case) in table().iter().enumerate() {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut random = Random(seed as u64);
            let operands = case.sample(&mut random);
            let direction = floats(&operands).iter().map(|x| random.like(x)).collect();
            let weights = random.like(&(case.function)(&operands));
            claim(
                case,
                Sample {
                    operands,
                    direction,
                    weights,
                    tolerance: case.precision.tolerance(),
                },
            );
        }));
        if outcome.is_err() {
            wrong.push(case.name);
        }
    }
    assert!(wrong.is_empty(), "it does not hold for {wrong:?}");
}

#[test]
fn forward_mode_agrees_with_finite_differences() {
    over_the_table(
        |case,
         Sample {
             operands,
             direction,
             tolerance,
             ..
         }| {
            let tangent = pushed(&case.function, &operands, &direction);
            let expected = difference(
                |x| vec![(case.function)(x)],
                &operands,
                &direction,
                tolerance.step,
            );
            assert_close(case.name, &[tangent], &expected, tolerance.difference);
        },
    );
}

#[test]
fn forward_mode_keeps_the_value() {
    over_the_table(
        |case,
         Sample {
             operands,
             direction,
             ..
         }| {
            let of_floats = |x: &Vec<Tensor>| (case.function)(&with_floats(&operands, x));
            assert_eq!(
                jvp(of_floats, &floats(&operands), &direction).0,
                (case.function)(&operands)
            );
        },
    );
}

#[test]
fn reverse_mode_is_the_transpose_of_forward_mode() {
    over_the_table(
        |case,
         Sample {
             operands,
             direction,
             weights,
             tolerance,
         }| {
            let forward = inner(
                std::slice::from_ref(&weights),
                &[pushed(&case.function, &operands, &direction)],
            );
            let backward = inner(&pulled(&case.function, &operands, &weights), &direction);
            assert_close(case.name, &[backward], &[forward], tolerance.order);
        },
    );
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    over_the_table(
        |case,
         Sample {
             operands,
             direction,
             weights,
             tolerance,
         }| {
            let found = curvature(&case.function, &operands, &direction, &weights);
            let slope_at = |x: &[Tensor]| slope(&case.function, x, &weights);
            let expected = difference(slope_at, &operands, &direction, tolerance.step);
            assert_close(case.name, &found, &expected, tolerance.difference);
        },
    );
}

#[test]
fn second_derivatives_agree_in_every_order_of_modes() {
    over_the_table(
        |case,
         Sample {
             operands,
             direction,
             weights,
             tolerance,
         }| {
            let (f, x): (Function<'_>, _) = (&case.function, floats(&operands));
            let expected = curvature(f, &operands, &direction, &weights);
            let close = |what: &str, found: &[Tensor], expected: &[Tensor]| {
                assert_close(
                    &format!("{}, {what}", case.name),
                    found,
                    expected,
                    tolerance.order,
                );
            };
            let along = |x: &Vec<Tensor>| {
                inner(&slope(f, &with_floats(&operands, x), &weights), &direction)
            };
            close("reverse over reverse", grad(along)(&x).leaves(), &expected);
            let forward = |x: &Vec<Tensor>| {
                let loss_at = |x: &Vec<Tensor>| loss(f, &with_floats(&operands, x), &weights);
                jvp(loss_at, x, &direction).1
            };
            close(
                "reverse over forward",
                grad(forward)(&x).leaves(),
                &expected,
            );
            let twice = jvp(forward, &x, &direction).1;
            close(
                "forward over forward",
                &[twice],
                &[inner(&expected, &direction)],
            );
        },
    );
}

#[test]
fn jit_changes_no_value_and_no_derivative() {
    over_the_table(
        |case,
         Sample {
             operands,
             direction,
             weights,
             tolerance,
         }| {
            let function = case.function;
            let compiled = jit(move |x: Vec<Tensor>| function(&x));
            let inside: Function<'_> = &|x: &[Tensor]| compiled(x.to_vec());
            let all = |f: Function<'_>, x: &[Tensor], direction: &Vec<Tensor>, weights: &Tensor| {
                let mut results = vec![f(x), pushed(f, x, direction)];
                results.extend(pulled(f, x, weights));
                results.extend(slope(f, x, weights));
                results.extend(curvature(f, x, direction, weights));
                results
            };
            let expected = all(&function, &operands, &direction, &weights);
            let close = |what: &str, found: &[Tensor]| {
                assert_close(
                    &format!("{}, jit {what}", case.name),
                    found,
                    &expected,
                    tolerance.order,
                );
            };
            close("inside", &all(inside, &operands, &direction, &weights));
            let argument = (operands, direction, weights);
            let outside = jit(move |(x, u, v): (Vec<Tensor>, Vec<Tensor>, Tensor)| {
                all(&function, &x, &u, &v)
            });
            close("outside", &outside(argument.clone()));
            let both = jit(move |(x, u, v): (Vec<Tensor>, Vec<Tensor>, Tensor)| {
                let inner = jit(move |x: Vec<Tensor>| function(&x));
                all(&|x: &[Tensor]| inner(x.to_vec()), &x, &u, &v)
            });
            close("inside and outside", &both(argument));
        },
    );
}

/// The number of examples of a batch.
const BATCH: usize = 3;

/// Every way to map at least one operand: not, over the first axis, or over the last.
fn choices_of_axes(operands: &[Tensor]) -> Vec<Vec<Option<isize>>> {
    let mut choices = vec![Vec::new()];
    for operand in operands {
        let options: &[Option<isize>] = if operand.rank() == 0 {
            &[None, Some(0)]
        } else {
            &[None, Some(0), Some(-1)]
        };
        choices = choices
            .iter()
            .flat_map(|choice| {
                options
                    .iter()
                    .map(move |&option| [&choice[..], &[option]].concat())
            })
            .collect::<Vec<_>>();
    }
    choices.retain(|choice| choice.iter().any(Option::is_some));
    choices
}

/// `vmap` of a function of up to three tensors with an axis for each.
fn mapped<'f>(
    f: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'f,
    axes: &[Option<isize>],
    operands: &[Tensor],
) -> Vec<Tensor> {
    let axes = Axes::Tuple(axes.iter().map(|&axis| Axes::All(axis)).collect());
    match operands {
        [x] => vmap(move |(x,): (Tensor,)| f(&[x])).in_axes(axes)((x.clone(),)),
        [x, y] => {
            vmap(move |(x, y): (Tensor, Tensor)| f(&[x, y])).in_axes(axes)((x.clone(), y.clone()))
        }
        [x, y, z] => {
            let function = move |(x, y, z): (Tensor, Tensor, Tensor)| f(&[x, y, z]);
            vmap(function).in_axes(axes)((x.clone(), y.clone(), z.clone()))
        }
        _ => panic!("{} operands", operands.len()),
    }
}

/// Asserts that `vmap` of a function is the stack of its results for the examples, whatever is mapped over
/// whichever axis.
fn assert_maps(
    case: &Case,
    examples: &[Vec<Tensor>],
    tolerance: &Tolerance,
    f: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync,
) {
    for axes in choices_of_axes(&examples[0]) {
        let pick = |example: &[Tensor]| -> Vec<Tensor> {
            let choose = |(position, axis): (usize, &Option<isize>)| match axis {
                Some(_) => example[position].clone(),
                None => examples[0][position].clone(),
            };
            axes.iter().enumerate().map(choose).collect()
        };
        let results: Vec<Vec<Tensor>> = examples.iter().map(|example| f(&pick(example))).collect();
        let column = |position: usize| {
            results
                .iter()
                .map(|result| result[position].clone())
                .collect::<Vec<_>>()
        };
        let expected: Vec<Tensor> = (0..results[0].len())
            .map(|position| Tensor::stack(&column(position), 0))
            .collect();
        let batch: Vec<Tensor> = axes
            .iter()
            .enumerate()
            .map(|(position, axis)| match axis {
                Some(axis) => Tensor::stack(
                    &examples
                        .iter()
                        .map(|example| example[position].clone())
                        .collect::<Vec<_>>(),
                    *axis,
                ),
                None => examples[0][position].clone(),
            })
            .collect();
        assert_close(
            &format!("{}, mapped over {axes:?}", case.name),
            &mapped(&f, &axes, &batch),
            &expected,
            tolerance.order,
        );
    }
}

/// Examples of a case beside its sample.
fn examples(case: &Case, sample: &Sample) -> Vec<Vec<Tensor>> {
    let others = (1..BATCH).map(|seed| case.sample(&mut Random(1000 + seed as u64)));
    std::iter::once(sample.operands.clone())
        .chain(others)
        .collect()
}

#[test]
fn vmap_is_the_stack_of_the_examples() {
    over_the_table(|case, sample| {
        assert_maps(case, &examples(case, &sample), &sample.tolerance, |x| {
            vec![(case.function)(x)]
        });
    });
}

#[test]
fn vmap_of_derivatives_is_the_stack_of_the_examples() {
    over_the_table(|case, sample| {
        let (
            examples,
            Sample {
                direction,
                weights,
                tolerance,
                ..
            },
        ) = (examples(case, &sample), &sample);
        assert_maps(case, &examples, tolerance, |x| {
            vec![pushed(&case.function, x, direction)]
        });
        assert_maps(case, &examples, tolerance, |x| {
            pulled(&case.function, x, weights)
        });
    });
}

#[test]
fn vmap_of_second_derivatives_is_the_stack_of_the_examples() {
    over_the_table(|case, sample| {
        let (
            examples,
            Sample {
                direction,
                weights,
                tolerance,
                ..
            },
        ) = (examples(case, &sample), &sample);
        assert_maps(case, &examples, tolerance, |x| {
            curvature(&case.function, x, direction, weights)
        });
    });
}

#[test]
fn vmap_and_jit_go_together() {
    over_the_table(|case, sample| {
        let (examples, tolerance, function) =
            (examples(case, &sample), &sample.tolerance, case.function);
        let compiled = jit(move |x: Vec<Tensor>| function(&x));
        assert_maps(case, &examples, tolerance, |x| vec![compiled(x.to_vec())]);
        let weights = sample.weights.clone();
        let compiled = jit(move |x: Vec<Tensor>| slope(&function, &x, &weights));
        assert_maps(case, &examples, tolerance, |x| compiled(x.to_vec()));
    });
}

#[test]
fn differentiating_a_batch_is_the_stack_of_the_derivatives() {
    over_the_table(|case, sample| {
        let examples = examples(case, &sample);
        let batch: Vec<Tensor> = (0..examples[0].len())
            .map(|position| {
                Tensor::stack(
                    &examples
                        .iter()
                        .map(|x| x[position].clone())
                        .collect::<Vec<_>>(),
                    0,
                )
            })
            .collect();
        let weights = Tensor::stack(&vec![sample.weights.clone(); BATCH], 0);
        let whole: Function<'_> = &|x: &[Tensor]| {
            mapped(|x| vec![(case.function)(x)], &vec![Some(0); x.len()], x).swap_remove(0)
        };
        let each: Vec<Vec<Tensor>> = examples
            .iter()
            .map(|x| slope(&case.function, x, &sample.weights))
            .collect();
        let expected: Vec<Tensor> = (0..each[0].len())
            .map(|position| {
                Tensor::stack(
                    &each.iter().map(|x| x[position].clone()).collect::<Vec<_>>(),
                    0,
                )
            })
            .collect();
        assert_close(
            case.name,
            &slope(whole, &batch, &weights),
            &expected,
            sample.tolerance.order,
        );
    });
}

#[test]
fn what_stop_gradient_hides_is_a_constant() {
    let x = Tensor::from([1.5_f64, -0.5]);
    let f = |x: &Tensor| (x.square().stop_gradient() * x).sum();
    assert_eq!(grad(f)(&x), x.square());
    assert_eq!(jvp(f, &x, &x).1, x.powi(3).sum());
    assert_eq!(
        grad(jit(|x: Tensor| (x.square().stop_gradient() * x).sum()))(&x),
        x.square()
    );
    assert_eq!(
        grad(|x: &Tensor| grad(f)(x).sum())(&x),
        Tensor::zeros_like(&x)
    );
}

/// The names of all primitives: the strings in their methods `name`.
fn names_in_the_sources() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/primitives");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for method in source.split("fn name(&self) -> &'static str {").skip(1) {
            let body = method.split("\n    }\n").next().unwrap();
            names.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_table_holds_every_primitive() {
    let names = names_in_the_sources();
    assert!(
        names.len() >= 40 && names.contains("dot_general"),
        "{names:?}"
    );
    let mut missing = names;
    for (seed, case) in table().iter().enumerate() {
        let function = case.function;
        let jaxpr =
            jit(move |x: Vec<Tensor>| function(&x)).jaxpr(&case.sample(&mut Random(seed as u64)));
        missing.retain(|name| {
            !jaxpr.contains(&format!("= {name} ")) && !jaxpr.contains(&format!("= {name}["))
        });
    }
    assert!(missing.is_empty(), "no case of the table has {missing:?}");
}
