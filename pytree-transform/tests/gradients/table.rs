//! The cases: functions of tensors, and the domains of their operands.

use pytree_transform::convolution::{Convolution, Padding};
use pytree_transform::device::shard;
use pytree_transform::indexing::{Index, Step};
use pytree_transform::pooling::Pooling;
use pytree_transform::{DType, Reversed, Tensor, einsum, extend, grad, ix, jit, jvp, vjp, vmap};

use crate::gradients::case::{Case, case};
use crate::gradients::sample::Domain::{
    self, Index as Indices, NonZero, Positive, Real, Truth, Unit,
};
use crate::gradients::sample::Precision;

use DType::{F32, F64, I32, U32};

/// Returns a case that computes through f32.
fn single<const N: usize>(
    name: &'static str,
    operands: [(Domain, &'static [usize]); N],
    function: fn(&[Tensor]) -> Tensor,
) -> Case {
    let precision = Precision::Single;
    Case {
        precision,
        ..case(name, operands, function)
    }
}

/// Returns the table, with one line per case where it fits.
pub fn table() -> Vec<Case> {
    let mut table = Vec::new();
    table.extend(functions());
    table.extend(operators());
    table.extend(choices());
    table.extend(conversions());
    table.extend(reductions());
    table.extend(products());
    table.extend(shapes());
    table.extend(parts());
    table.extend(more_reductions());
    table.extend(updates());
    table.extend(sliding());
    table.extend(rest());
    table.extend(crate::gradients::collectives::collectives());
    table.extend(crate::gradients::control::control());
    table
}

/// Elementwise functions of one tensor.
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
        case("erf", [(Real, &[2, 3])], |x| x[0].erf()),
        case("erfc", [(Real, &[2, 3])], |x| x[0].erfc()),
        case("exp2", [(Real, &[2, 3])], |x| x[0].exp2()),
        case("expm1", [(Real, &[2, 3])], |x| x[0].expm1()),
        case("log1p", [(Positive, &[2, 3])], |x| x[0].log1p()),
        case("rsqrt", [(Positive, &[2, 3])], |x| x[0].rsqrt()),
        case("cbrt", [(NonZero, &[2, 3])], |x| x[0].cbrt()),
        case("tan", [(Unit, &[2, 3])], |x| x[0].tan()),
        case("asin", [(Unit, &[2, 3])], |x| x[0].asin()),
        case("acos", [(Unit, &[2, 3])], |x| x[0].acos()),
        case("atan", [(Real, &[2, 3])], |x| x[0].atan()),
        case("sinh", [(Real, &[2, 3])], |x| x[0].sinh()),
        case("cosh", [(Real, &[2, 3])], |x| x[0].cosh()),
        case("asinh", [(Real, &[2, 3])], |x| x[0].asinh()),
        case("acosh", [(Positive, &[2, 3])], |x| (&x[0] + 1.0).acosh()),
        case("atanh", [(Unit, &[2, 3])], |x| x[0].atanh()),
        case("floor", [(Real, &[2, 3])], |x| x[0].floor() * &x[0]),
        case("ceil", [(Real, &[2, 3])], |x| x[0].ceil() * &x[0]),
        // The samples avoid the kinks, which are at whole numbers and halves.
        case("round", [(Real, &[2, 3])], |x| (&x[0] * 0.2).round() * &x[0]),
        case("round_half_away", [(Real, &[2, 3])], |x| (&x[0] * 0.2).round_half_away() * &x[0]),
        case("trunc", [(Real, &[2, 3])], |x| x[0].trunc() * &x[0]),
        case("log2", [(Positive, &[2, 3])], |x| x[0].log2()),
        case("nan_to_num", [(Real, &[2, 3])], |x| x[0].nan_to_num() * x[0].isfinite().convert(F64)),
        case("variance_with", [(Real, &[2, 3])], |x| x[0].variance_with([1], 1)),
        case("standard_deviation_with", [(Real, &[2, 3])], |x| x[0].standard_deviation_with([1], 1)),
        case("powi -2", [(NonZero, &[2, 3])], |x| x[0].powi(-2)),
        case("powi -1", [(NonZero, &[2, 3])], |x| x[0].powi(-1)),
        case("powi 0", [(Real, &[2, 3])], |x| x[0].powi(0)),
        case("powi 1", [(Real, &[2, 3])], |x| x[0].powi(1)),
        case("powi 2", [(Real, &[2, 3])], |x| x[0].powi(2)),
        case("powi 5", [(Real, &[2, 3])], |x| x[0].powi(5)),
        case("square", [(Real, &[2, 3])], |x| x[0].square()),
        case("relu", [(Real, &[2, 3])], |x| x[0].relu()),
        case("clip", [(Real, &[2, 3])], |x| x[0].clip(-1.0, 1.0)),
        case("clamp", [(Real, &[2, 3])], |x| x[0].clamp(-1.0, 1.0)),
        // A sign is constant around a sample, so stopping its gradient changes nothing.
        case("stop_gradient", [(Real, &[2, 3])], |x| x[0].sign().stop_gradient() * &x[0]),
    ]
}

/// Elementwise functions of two tensors.
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
        case("clamp by tensors", [(Real, &[2, 3]), (Real, &[3]), (Real, &[])], |x| x[0].clamp(&x[1], &x[2])),
        case("pow", [(Positive, &[2, 3]), (Real, &[3])], |x| x[0].pow(&x[1])),
        case("atan2", [(NonZero, &[2, 3]), (NonZero, &[2, 3])], |x| x[0].atan2(&x[1])),
        case("logaddexp", [(Real, &[2, 3]), (Real, &[2, 1])], |x| x[0].logaddexp(&x[1])),
        case("logaddexp of equals", [(Real, &[2, 3])], |x| x[0].logaddexp(&x[0])),
        case("hypot", [(NonZero, &[2, 3]), (NonZero, &[3])], |x| x[0].hypot(&x[1])),
        // The quotients are below 1, away from whole numbers.
        case("rem", [(Unit, &[2, 3]), (Positive, &[3])], |x| x[0].rem(&x[1] + 1.0)),
        case("rem by less", [(Positive, &[2, 3])], |x| (&x[0] + 5.0).rem(&x[0] * 0.1 + 2.5)),
        case("remainder", [(Unit, &[2, 3]), (Positive, &[3])], |x| x[0].remainder(&x[1] + 1.0)),
    ]
}

/// Selects between two tensors by `condition`.
fn choose(x: &[Tensor], condition: &Tensor) -> Tensor {
    condition.select(x[0].sin(), x[1].square())
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

/// Conversions between dtypes, and computations through integers.
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
        case("shift_right_arithmetic", [(Real, &[3]), (Indices(4), &[3])], |x| {
            x[1].shift_right_arithmetic(1).convert(F64) * &x[0]
        }),
        case("population_count", [(Real, &[3]), (Indices(4), &[3])], |x| x[1].population_count().convert(F64) * &x[0]),
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

/// Matrix products, in each combination of ranks.
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
        case("reshape to no axes", [(Real, &[1, 1])], |x| x[0].reshape(())),
        case("flatten", [(Real, &[2, 3])], |x| x[0].flatten()),
        case("expand_dims", [(Real, &[2, 3])], |x| x[0].expand_dims(1)),
        case("expand_dims of two axes", [(Real, &[2, 3])], |x| x[0].expand_dims([0, -1])),
        case("squeeze of two axes", [(Real, &[1, 2, 1])], |x| x[0].squeeze([-1, 0])),
        case("squeeze", [(Real, &[2, 1, 3])], |x| x[0].squeeze(1)),
        case("broadcast no axes", [(Real, &[])], |x| x[0].broadcast_to([2, 3])),
        case("broadcast a row", [(Real, &[3])], |x| x[0].broadcast_to([2, 3])),
        case("broadcast a column", [(Real, &[2, 1])], |x| x[0].broadcast_to([2, 3])),
        case("broadcast a middle axis", [(Real, &[2, 1, 3])], |x| x[0].broadcast_to([2, 2, 2, 3])),
        case("broadcast to no elements", [(Real, &[3])], |x| x[0].broadcast_to([0, 3])),
        case("reverse", [(Real, &[2, 3])], |x| x[0].reverse([0, -1])),
        case("shard", [(Real, &[2, 3])], |x| {
            shard(&x[0], (None, "model")) * 2.0
        }),
    ]
}

/// Transposes `function`, which is linear in a tensor of this shape, and applies the result to a cotangent.
fn transposed(function: impl Fn(&Tensor) -> Tensor, shape: &[usize], cotangent: &Tensor) -> Tensor {
    vjp(|x: &Tensor| function(x), &Tensor::zeros(F64, shape))
        .1
        .call(cotangent)
}

/// Slices, updates and concatenations.
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

/// Products, minima, logic, and cumulative reductions.
#[rustfmt::skip]
fn more_reductions() -> Vec<Case> {
    vec![
        case("min", [(Real, &[2, 3])], |x| x[0].min()),
        case("min of an axis", [(Real, &[2, 3])], |x| x[0].min_axes([0])),
        case("argmin", [(Real, &[2, 3])], |x| x[0].argmin(1).one_hot(3, F64) * x[0].sin()),
        case("prod", [(Real, &[2, 3])], |x| x[0].prod()),
        case("prod of the outer axes", [(Real, &[2, 3, 2])], |x| x[0].prod_axes([0, 2])),
        case("prod with a zero", [(Real, &[3]), (Truth, &[3])], |x| (x[1].convert(F64) * &x[0]).prod()),
        case("prod of nothing", [(Real, &[2, 0])], |x| x[0].prod_axes([1])),
        case("all", [(Real, &[2, 3])], |x| &x[0] * x[0].greater(-1.0).all_keep([1]).convert(F64)),
        case("any", [(Real, &[2, 3])], |x| &x[0] * x[0].greater(1.0).any_keep([1]).convert(F64)),
        case("cumsum", [(Real, &[2, 3])], |x| x[0].cumsum(1)),
        case("cumsum reversed", [(Real, &[2, 3])], |x| x[0].cumsum(Reversed(0))),
        case("cumprod", [(Real, &[2, 5])], |x| x[0].cumprod(1)),
        case("cumprod reversed", [(Real, &[3, 2])], |x| x[0].cumprod(Reversed(0))),
        case("cummax", [(Real, &[2, 5])], |x| x[0].cummax(1)),
        case("cummin", [(Real, &[2, 4])], |x| x[0].cummin(Reversed(1))),
        case("cumlogsumexp", [(Real, &[2, 4])], |x| x[0].cumlogsumexp(1)),
        case("norm", [(Real, &[2, 3])], |x| x[0].norm_axes([1])),
        case("logsumexp", [(Real, &[2, 3])], |x| x[0].logsumexp_keep([0])),
        case("variance_keep", [(Real, &[2, 3])], |x| x[0].variance_keep([1])),
        case("median of three", [(Real, &[2, 3])], |x| x[0].median_axes([1])),
        case("median of six", [(Real, &[2, 3])], |x| x[0].median()),
        case("sort along an axis", [(Real, &[2, 4])], |x| x[0].sort(1)),
        case("top_k", [(Real, &[2, 4])], |x| x[0].top_k(2).0),
        case("take_along_axis", [(Real, &[2, 4]), (Indices(4), &[2, 3])], |x| x[0].take_along_axis(&x[1], 1)),
        case("take_along_axis of the first axis", [(Real, &[4, 2]), (Indices(4), &[3, 1])], |x| x[0].take_along_axis(&x[1], 0)),
    ]
}

/// Updates of parts, and slices that start at a tensor.
#[rustfmt::skip]
fn updates() -> Vec<Case> {
    vec![
        case("at set", [(Real, &[3, 4]), (Real, &[2])], |x| x[0].at(ix![1.., 1]).set(&x[1])),
        case("at add", [(Real, &[5]), (Real, &[3])], |x| x[0].at(ix![Step(.., -2)]).add(&x[1])),
        case("at multiply", [(Real, &[3, 2]), (Real, &[2])], |x| x[0].at(ix![..2]).multiply(&x[1])),
        case("at max", [(Real, &[3, 2]), (Real, &[2])], |x| x[0].at(ix![..2]).max(&x[1])),
        case("at_indices set", [(Real, &[3, 2]), (Indices(3), &[4]), (Real, &[4, 2])], |x| x[0].at_indices(&x[1], 0).set(&x[2])),
        case("at_indices add", [(Real, &[2, 3]), (Indices(3), &[4]), (Real, &[2, 4])], |x| x[0].at_indices(&x[1], 1).add(&x[2])),
        case("at_indices multiply", [(Real, &[3]), (Indices(3), &[4]), (Real, &[4])], |x| x[0].at_indices(&x[1], 0).multiply(&x[2])),
        case("at_indices min", [(Real, &[3, 2]), (Indices(3), &[4]), (Real, &[4, 2])], |x| x[0].at_indices(&x[1], 0).min(&x[2])),
        case("at_indices max", [(Real, &[3]), (Indices(3), &[2, 2]), (Real, &[2, 2])], |x| x[0].at_indices(&x[1], 0).max(&x[2])),
        case("dynamic_slice", [(Real, &[3, 4]), (Indices(3), &[])], |x| x[0].dynamic_slice(&[x[1].clone(), x[1].clone()], [2, 2])),
        case("dynamic_update_slice", [(Real, &[3, 4]), (Real, &[2, 2]), (Indices(3), &[])], |x| {
            x[0].dynamic_update_slice(&x[1], &[x[2].clone(), x[2].clone()])
        }),
        case("diagonal", [(Real, &[3, 2, 4])], |x| x[0].diagonal(1, 0, 2)),
        case("diag", [(Real, &[3])], |x| x[0].diag(-1)),
        case("tril", [(Real, &[2, 3, 3])], |x| x[0].tril(0)),
        case("roll", [(Real, &[2, 4])], |x| x[0].roll(-1, 1)),
        case("tile", [(Real, &[2, 3])], |x| x[0].tile([2, 1, 2])),
        case("repeat", [(Real, &[2, 3])], |x| x[0].repeat(2, 0)),
    ]
}

/// Windows, and products over any axes.
#[rustfmt::skip]
fn sliding() -> Vec<Case> {
    vec![
        case("convolution", [(Real, &[1, 5, 2]), (Real, &[3, 2, 2])], |x| {
            Convolution::new([2], Padding::Same).apply(&x[0], &x[1])
        }),
        case("convolution in groups", [(Real, &[1, 3, 3, 2]), (Real, &[2, 2, 1, 2])], |x| {
            Convolution::new([1, 1], Padding::Valid).feature_groups(2).apply(&x[0], &x[1])
        }),
        case("transposed convolution", [(Real, &[1, 3, 1]), (Real, &[3, 1, 2])], |x| {
            Convolution::new([2], Padding::Same).apply_transposed(&x[0], &x[1])
        }),
        case("max pooling", [(Real, &[1, 4, 4, 1])], |x| Pooling::new([2, 2]).strides([2, 2]).max(&x[0])),
        case("convolution with dilations", [(Real, &[1, 4, 2]), (Real, &[2, 1, 2])], |x| {
            let padding = Padding::Explicit(vec![(2, -1)]);
            Convolution::new([2], padding).input_dilation([3]).kernel_dilation([2]).feature_groups(2).apply(&x[0], &x[1])
        }),
        case("convolution in batch groups", [(Real, &[2, 3, 1]), (Real, &[2, 1, 2])], |x| {
            Convolution::new([1], Padding::Same).batch_groups(2).apply(&x[0], &x[1])
        }),
        case("min pooling with padding", [(Real, &[1, 5, 1])], |x| Pooling::new([3]).padding(Padding::Same).min(&x[0])),
        case("gradient of max pooling", [(Real, &[1, 4, 1]), (Real, &[1, 3, 1])], |x| {
            grad(|y: &Tensor| (Pooling::new([2]).max(y) * &x[1]).sum())(&x[0])
        }),
        case("tangent of min pooling", [(Real, &[1, 4, 1]), (Real, &[1, 4, 1])], |x| {
            jvp(|y: &Tensor| Pooling::new([2]).min(y), &x[0], &x[1]).1
        }),
        case("transposed sum pooling", [(Real, &[3, 2])], |x| {
            transposed(|whole| Pooling::new([2]).sum(whole), &[4, 2], &x[0])
        }),
        case("average pooling", [(Real, &[1, 5, 2])], |x| Pooling::new([3]).padding(Padding::Same).average(&x[0])),
        case("einsum of three", [(Real, &[2, 3]), (Real, &[3, 2]), (Real, &[2])], |x| einsum("ij,jk,k->i", &[&x[0], &x[1], &x[2]])),
        case("einsum of a diagonal", [(Real, &[3, 3]), (Real, &[3])], |x| einsum("ii,i->i", &[&x[0], &x[1]])),
        case("kron", [(Real, &[2, 2]), (Real, &[2])], |x| x[0].kron(&x[1])),
    ]
}

/// Constants, nondifferentiable operations combined with differentiable ones, and calls.
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
        case("argsort", [(Real, &[2, 3])], |x| x[0].argsort(1).convert(F64) * x[0].sin()),
        case("sort", [(Real, &[4])], |x| x[0].take(&x[0].argsort(0), 0)),
        case("threefry2x32", [(Real, &[3]), (Indices(9), &[3]), (Indices(9), &[3])], |x| {
            let (key, count) = (x[1].convert(U32), x[2].convert(U32));
            let (first, second) = extend::threefry2x32(&key, &count, &count, &key);
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
