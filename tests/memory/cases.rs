//! The functions whose memory the tests measure: one for each method and activation, named like it, and one for each primitive.

use std::sync::Arc;

use pytree::control::{cond, scan, while_loop};
use pytree::convolution::{Convolution, Padding};
use pytree::device::shard;
use pytree::indexing::TakeMode;
use pytree::padding::PadMode;
use pytree::pooling::Pooling;
use pytree::prelude::*;
use pytree::{Reversed, extend, nn, vjp};

/// The length of the last axis of the operands, which have two.
pub(crate) const ROW: usize = 2048;

type Function = Arc<dyn Fn(&Tensor, &Tensor) -> Vec<Tensor> + Send + Sync>;

/// A function of two operands of the shape `[_, ROW]`.
pub(crate) struct Case {
    pub(crate) name: String,
    /// How many operands of a dtype the function may need beside its results.
    pub(crate) beside: fn(DType) -> f64,
    /// Whether the operands of f32 are larger than others.
    pub(crate) is_large: bool,
    pub(crate) function: Function,
}

impl Case {
    fn beside(self, beside: fn(DType) -> f64) -> Self {
        Self { beside, ..self }
    }

    fn large(self) -> Self {
        let is_large = true;
        Self { is_large, ..self }
    }
}

/// Returns the cases of all methods and primitives.
pub(crate) fn all() -> Vec<Case> {
    let groups = [
        elementwise(),
        activations(),
        along_axes(),
        products(),
        moved(),
        control_flow(),
        gradients(),
    ];
    groups.into_iter().flatten().collect()
}

fn case(name: &str, function: fn(&Tensor, &Tensor) -> Tensor) -> Case {
    results(name, move |x, y| vec![function(x, y)])
}

fn results(
    name: &str,
    function: impl Fn(&Tensor, &Tensor) -> Vec<Tensor> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.to_owned(),
        beside: |_| 0.0,
        is_large: false,
        function: Arc::new(function),
    }
}

fn gradient(name: &str, function: fn(&Tensor) -> Tensor) -> Case {
    results(&format!("gradient of {name}"), move |x, y| {
        let (value, pullback) = vjp(move |x: &Tensor| function(x), x);
        vec![pullback.call(y), value]
    })
}

/// The gradient of the sum of the results of a function of two operands with respect to the first one.
fn of_sum(name: &str, function: fn(&Tensor, &Tensor) -> Tensor) -> Case {
    results(&format!("gradient of the sum of {name}"), move |x, y| {
        vec![grad(|x: &Tensor| function(x, y).sum())(x)]
    })
}

/// The indices of some rows.
fn rows() -> Tensor {
    Tensor::arange(DType::I32, 10)
}

/// Elementwise methods.
#[rustfmt::skip]
fn elementwise() -> Vec<Case> {
    vec![
        case("neg", |x, _| -x),
        case("abs", |x, _| x.abs()),
        case("sign", |x, _| x.sign()),
        case("exp", |x, _| x.exp()),
        case("exp2", |x, _| x.exp2()),
        case("expm1", |x, _| x.expm1()),
        case("log", |x, _| x.log()),
        case("log1p", |x, _| x.log1p()),
        case("log2", |x, _| x.log2()).large(),
        case("log10", |x, _| x.log10()),
        case("sqrt", |x, _| x.sqrt()),
        case("rsqrt", |x, _| x.rsqrt()),
        case("cbrt", |x, _| x.cbrt()),
        case("sin", |x, _| x.sin()),
        case("cos", |x, _| x.cos()),
        case("tan", |x, _| x.tan()),
        case("asin", |x, _| x.asin()),
        case("acos", |x, _| x.acos()),
        case("atan", |x, _| x.atan()),
        case("sinh", |x, _| x.sinh()),
        case("cosh", |x, _| x.cosh()),
        case("tanh", |x, _| x.tanh()),
        case("asinh", |x, _| x.asinh()),
        case("acosh", |x, _| x.acosh()),
        case("atanh", |x, _| x.atanh()),
        case("sigmoid", |x, _| x.sigmoid()),
        case("erf", |x, _| x.erf()),
        case("erfc", |x, _| x.erfc()),
        case("erf_inv", |x, _| x.erf_inv()),
        case("floor", |x, _| x.floor()),
        case("ceil", |x, _| x.ceil()),
        case("round", |x, _| x.round()),
        case("round_half_away", |x, _| x.round_half_away()),
        case("trunc", |x, _| x.trunc()).large(),
        case("powi", |x, _| x.powi(3)),
        case("square", |x, _| x.square()),
        case("reciprocal", |x, _| x.reciprocal()),
        case("deg2rad", |x, _| x.deg2rad()),
        case("rad2deg", |x, _| x.rad2deg()),
        case("relu", |x, _| x.relu()).large(),
        case("isnan", |x, _| x.isnan()),
        case("isinf", |x, _| x.isinf()).large(),
        case("isfinite", |x, _| x.isfinite()),
        case("nan_to_num", |x, _| x.nan_to_num()).large(),
        case("not", |x, _| !x),
        case("population_count", |x, _| x.population_count()),
        case("stop_gradient", |x, _| x.stop_gradient()),
        case("convert", |x, _| x.convert(if x.dtype() == DType::F32 { DType::BF16 } else { DType::F32 })),
        case("add", |x, y| x + y),
        case("add 2", |x, _| x + 2),
        case("add a row", |x, _| x + x.index(ix![0])),
        case("add a column", |x, _| x + x.index(ix![.., ..1])),
        case("subtract", |x, y| x - y),
        case("subtract from 2", |x, _| 2 - x),
        case("multiply", |x, y| x * y),
        case("multiply 0.5", |x, _| x * 0.5),
        case("divide", |x, y| x / y),
        case("divide 2", |x, _| 2.0 / x),
        case("rem", |x, y| x.rem(y)),
        case("rem 3", |x, _| x.rem(3)),
        case("floor_divide", |x, y| x.floor_divide(y)),
        case("floor_divide 3", |x, _| x.floor_divide(3)).large(),
        case("remainder", |x, y| x.remainder(y)).large(),
        case("remainder 3", |x, _| x.remainder(3)),
        case("pow", |x, y| x.pow(y)),
        case("atan2", |x, y| x.atan2(y)),
        case("logaddexp", |x, y| x.logaddexp(y)),
        case("hypot", |x, y| x.hypot(y)).large(),
        case("heaviside", |x, y| x.heaviside(y)),
        case("heaviside 0.5", |x, _| x.heaviside(0.5)).large(),
        case("maximum", |x, y| x.maximum(y)),
        case("maximum 0", |x, _| x.maximum(0)),
        case("minimum", |x, y| x.minimum(y)),
        case("clip", |x, _| x.clip(0, 1)).large(),
        case("clip between tensors", |x, y| x.clip(y, y)),
        case("clamp", |x, _| x.clamp(0, 1)).large(),
        case("clamp between tensors", |x, y| x.clamp(y, y)),
        case("bit_and", |x, y| x & y),
        case("bit_or", |x, y| x | y),
        case("bit_xor", |x, y| x.bit_xor(y)),
        case("shift_left", |x, _| x.shift_left(1)),
        case("shift_right", |x, _| x.shift_right(1)),
        case("shift_right_arithmetic", |x, _| x.shift_right_arithmetic(1)),
        case("equal", |x, y| x.equal(y)),
        case("not_equal", |x, y| x.not_equal(y)),
        case("less", |x, y| x.less(y)),
        case("less_equal", |x, y| x.less_equal(y)),
        case("greater", |x, y| x.greater(y)),
        case("greater_equal", |x, y| x.greater_equal(y)),
        case("greater 0", |x, _| x.greater(0)),
        // The condition.
        case("select", |x, y| x.greater(y).select(x, 0)).beside(bools).large(),
    ]
}

/// Two operands of half-precision floats in f32.
fn widened(dtype: DType) -> f64 {
    if dtype == DType::BF16 { 2.0 } else { 0.0 }
}

/// The bools of an operand.
fn bools(dtype: DType) -> f64 {
    1.0 / dtype.bytes() as f64
}

/// Activations, and functions along an axis.
#[rustfmt::skip]
fn activations() -> Vec<Case> {
    vec![
        case("nn relu", |x, _| nn::relu(x)),
        case("nn relu6", |x, _| nn::relu6(x)),
        case("nn leaky_relu", |x, _| nn::leaky_relu(x, 0.01)).large(),
        case("nn elu", |x, _| nn::elu(x, 1.0)).large(),
        case("nn selu", |x, _| nn::selu(x)),
        case("nn celu", |x, _| nn::celu(x, 1.0)),
        case("nn gelu", |x, _| nn::gelu(x)),
        case("nn gelu_exact", |x, _| nn::gelu_exact(x)),
        case("nn silu", |x, _| nn::silu(x)).large(),
        case("nn softplus", |x, _| nn::softplus(x)),
        case("nn sigmoid", |x, _| nn::sigmoid(x)),
        case("nn log_sigmoid", |x, _| nn::log_sigmoid(x)),
        case("nn hard_sigmoid", |x, _| nn::hard_sigmoid(x)),
        case("nn hard_silu", |x, _| nn::hard_silu(x)),
        case("nn hard_tanh", |x, _| nn::hard_tanh(x)),
        case("nn soft_sign", |x, _| nn::soft_sign(x)),
        case("nn mish", |x, _| nn::mish(x)),
        case("nn squareplus", |x, _| nn::squareplus(x, 4.0)),
        // The second half.
        case("nn glu", |x, _| nn::glu(x, -1)).beside(|_| 0.5),
        case("nn logsumexp", |x, _| nn::logsumexp(x, -1)),
        case("nn softmax", |x, _| softmax(x, -1)).large(),
        case("nn softmax of the first axis", |x, _| softmax(x, 0)),
        case("nn log_softmax", |x, _| nn::log_softmax(x, -1)),
        case("nn standardize", |x, _| nn::standardize(x, -1, 1e-5)),
        case("nn lgamma", |x, _| nn::lgamma(x)),
        case("nn digamma", |x, _| nn::digamma(x)),
        case("nn polygamma", |x, _| nn::polygamma(1, x)),
        case("nn sinc", |x, _| nn::sinc(x)),
    ]
}

/// Methods that reduce axes, or run along them.
#[rustfmt::skip]
fn along_axes() -> Vec<Case> {
    vec![
        case("sum", |x, _| x.sum()),
        case("sum_axes", |x, _| x.sum_axes([0])),
        case("sum_keep", |x, _| x.sum_keep([1])),
        case("mean", |x, _| x.mean()),
        case("mean_axes", |x, _| x.mean_axes([0])),
        case("mean_keep", |x, _| x.mean_keep([1])),
        case("max", |x, _| x.max()),
        case("max_axes", |x, _| x.max_axes([0])),
        case("max_keep", |x, _| x.max_keep([1])),
        case("min", |x, _| x.min()),
        case("min_axes", |x, _| x.min_axes([0])),
        case("min_keep", |x, _| x.min_keep([1])),
        case("prod", |x, _| x.prod()),
        case("prod_axes", |x, _| x.prod_axes([0])),
        case("prod_keep", |x, _| x.prod_keep([1])),
        case("variance", |x, _| x.variance()),
        case("variance_axes", |x, _| x.variance_axes([0])),
        case("variance_keep", |x, _| x.variance_keep([1])),
        case("variance_with", |x, _| x.variance_with([0], 1)),
        case("standard_deviation", |x, _| x.standard_deviation()),
        case("standard_deviation_axes", |x, _| x.standard_deviation_axes([0])),
        case("standard_deviation_keep", |x, _| x.standard_deviation_keep([1])),
        case("standard_deviation_with", |x, _| x.standard_deviation_with([1], 1)),
        // The sorted elements, with the keys of a row, which is the whole tensor.
        case("median", |x, _| x.median()).beside(|dtype| 20.0 * bools(dtype)),
        // The transposed elements, and the sorted ones.
        case("median_axes", |x, _| x.median_axes([0])).beside(|_| 2.0),
        // The sorted elements.
        case("median_keep", |x, _| x.median_keep([1])).beside(|_| 1.0),
        case("norm", |x, _| x.norm()).large(),
        case("norm_axes", |x, _| x.norm_axes([0])),
        case("norm_keep", |x, _| x.norm_keep([1])),
        case("logsumexp", |x, _| x.logsumexp()),
        case("logsumexp_axes", |x, _| x.logsumexp_axes([0])),
        case("logsumexp_keep", |x, _| x.logsumexp_keep([1])),
        case("all", |x, _| x.all()),
        case("all_axes", |x, _| x.all_axes([0])),
        case("all_keep", |x, _| x.all_keep([1])),
        case("any", |x, _| x.any()),
        case("any_axes", |x, _| x.any_axes([0])),
        case("any_keep", |x, _| x.any_keep([1])),
        // The truth values, because kernels sum only floats.
        case("count_nonzero", |x, _| x.count_nonzero()).beside(bools),
        case("count_nonzero_axes", |x, _| x.count_nonzero_axes([0])).beside(bools),
        case("count_nonzero_keep", |x, _| x.count_nonzero_keep([1])).beside(bools),
        // The mask, which is an operand. The selected integers, because kernels sum only floats.
        case("sum_where", |x, y| x.sum_where(&y.greater(0))).beside(|dtype| bools(dtype) + f64::from(u8::from(dtype == DType::I32))).large(),
        case("mean_where", |x, y| x.mean_where(&y.greater(0))).beside(bools),
        case("weighted_mean", |x, y| x.weighted_mean(y)),
        case("argmax", |x, _| x.argmax(0)),
        case("argmax of a vector", |x, _| x.reshape([-1]).argmax(0)),
        case("argmax_keep", |x, _| x.argmax_keep(1)),
        case("argmin", |x, _| x.reshape([-1, 2]).argmin(0)),
        case("argmin_keep", |x, _| x.argmin_keep(1)),
        case("cumsum", |x, _| x.cumsum(0)),
        case("cumsum of the last axis", |x, _| x.cumsum(1)),
        case("cumprod", |x, _| x.cumprod(1)),
        case("cummax", |x, _| x.cummax(Reversed(1))),
        case("cummin", |x, _| x.cummin(1)),
        case("cumlogsumexp", |x, _| x.cumlogsumexp(1)),
        case("sort", |x, _| x.sort(1)),
        case("sort of the first axis", |x, _| x.sort(0)),
        case("argsort", |x, _| x.argsort(1)),
        results("top_k", |x, _| {
            let (values, places) = x.top_k(3);
            vec![values, places]
        }),
        // The comparison of each value with each element.
        case("searchsorted", |x, _| x.index(ix![0]).searchsorted(&x.index(ix![0]))).beside(|_| 0.5),
        case("segment_sum", |x, _| x.segment_sum(&Tensor::zeros(DType::I32, [x.shape()[0]]), 3)),
        case("segment_prod", |x, _| x.segment_prod(&Tensor::zeros(DType::I32, [x.shape()[0]]), 3)),
        case("segment_max", |x, _| x.segment_max(&Tensor::zeros(DType::I32, [x.shape()[0]]), 3)),
        case("segment_min", |x, _| x.segment_min(&Tensor::zeros(DType::I32, [x.shape()[0]]), 3)),
    ]
}

/// Products, and methods of windows.
#[rustfmt::skip]
fn products() -> Vec<Case> {
    vec![
        case("matmul", |x, _| x.matmul(&Tensor::ones(x.dtype(), [ROW, 8]))),
        case("matmul with a vector", |x, _| x.matmul(&Tensor::ones(x.dtype(), [ROW]))),
        case("matmul from a vector", |x, _| Tensor::ones(x.dtype(), [x.shape()[0]]).matmul(x)),
        case("dot_general along the first axis", |x, _| x.reshape([-1, 64]).dot_general(&x.reshape([-1, 64]), ([0], [0]), ([], []))),
        case("dot", |x, _| x.dot(&Tensor::ones(x.dtype(), [ROW]))),
        case("dot_general", |x, y| x.dot_general(y, ([1], [1]), ([0], [0]))),
        // The terms of one sum, which are widened together.
        case("tensordot", |x, y| x.tensordot(y, ([0, 1], [0, 1]))).beside(widened),
        case("inner", |x, _| x.inner(&Tensor::ones(x.dtype(), [ROW]))),
        case("vdot", |x, y| x.vdot(y)).beside(widened),
        // A block of the result in f32.
        case("outer", |x, _| x.index(ix![0]).outer(&x.index(ix![..2]))).beside(|dtype| widened(dtype) / 3.0),
        case("kron", |x, _| x.index(ix![..8]).kron(&Tensor::ones(x.dtype(), [2, 4]))),
        case("max pooling", |x, _| Pooling::new([2]).max(&x.expand_dims([2]))),
        case("min pooling", |x, _| Pooling::new([2]).min(&x.expand_dims([2]))),
        case("sum pooling", |x, _| Pooling::new([2]).sum(&x.expand_dims([2]))),
        results("select_and_gather_add", |x, y| {
            let (value, tangent) = jvp(|x: &Tensor| Pooling::new([2]).max(&x.expand_dims([2])), x, y);
            vec![value, tangent]
        }),
        // The slice that is the cotangent.
        results("select_and_scatter_add", |x, y| {
            let (value, pullback) = vjp(|x: &Tensor| Pooling::new([2]).strides([2]).max(&x.expand_dims([2])), x);
            vec![value, pullback.call(&y.index(ix![.., ..ROW as isize / 2]).expand_dims([2]))]
        })
        .beside(|_| 0.5),
        case("convolution", |x, _| {
            let kernel = Tensor::ones(x.dtype(), [3, 1, 1]);
            Convolution::new([1], Padding::Same).apply(&x.index(ix![..99]).expand_dims([2]), &kernel)
        })
        // The input, which is packed.
        .beside(|_| 0.1),
    ]
}

/// Methods that move elements, or create them.
#[rustfmt::skip]
fn moved() -> Vec<Case> {
    vec![
        case("reshape", |x, _| x.reshape([-1])),
        case("flatten", |x, _| x.flatten()),
        case("t", |x, _| x.t()),
        case("transpose", |x, _| x.transpose([1, 0])),
        case("swap_axes", |x, _| x.swap_axes(0, 1)),
        case("move_axis", |x, _| x.move_axis(0, 1)),
        case("expand_dims", |x, _| x.expand_dims([0])),
        case("squeeze", |x, _| x.expand_dims([0]).squeeze([0])),
        case("broadcast_to", |x, _| x.index(ix![0]).broadcast_to(x.shape())),
        case("stack", |x, y| Tensor::stack(&[x, y], 0)),
        case("concatenate", |x, y| Tensor::concatenate(&[x, y], 0)),
        case("reverse", |x, _| x.reverse([1])),
        case("pad", |x, _| x.pad(1, [(1, 1, 0), (0, 0, 0)])),
        // The tensor that is padded along its first axis.
        case("pad_mode", |x, _| x.pad_mode(PadMode::Wrap, [(1, 1), (1, 1)])).beside(|_| 1.0),
        case("pad_mode mean", |x, _| x.pad_mode(PadMode::Mean, [(1, 1), (1, 1)])).beside(|_| 1.0),
        case("roll", |x, _| x.roll(3, 0)).large(),
        case("roll of the last axis", |x, _| x.roll(3, 1)),
        case("tile", |x, _| x.index(ix![..99]).tile([2, 3])),
        case("repeat", |x, _| x.repeat(2, 1)),
        results("split", |x, _| x.split(2, 0)),
        results("array_split", |x, _| x.array_split(3, 0)),
        results("split_at", |x, _| x.split_at([5], 1)),
        results("meshgrid", |x, _| Tensor::meshgrid(&[x.index(ix![0]), x.index(ix![0])])),
        case("tril", |x, _| x.tril(0)).large(),
        case("triu", |x, _| x.triu(1)),
        case("diagonal", |x, _| x.diagonal(0, 0, 1)),
        case("diag", |x, _| x.index(ix![0]).diag(0)),
        case("trace", |x, _| x.trace()),
        case("index", |x, _| x.index(ix![1.., ..])),
        case("take", |x, _| x.take(&Tensor::arange(DType::I32, 1000), 0)),
        case("take_mode", |x, _| x.take_mode(&Tensor::arange(DType::I32, 1000), 0, TakeMode::Wrap)),
        case("take_along_axis", |x, _| x.take_along_axis(&Tensor::zeros(DType::I32, [x.shape()[0], 1]), 1)),
        case("take_along_axis first", |x, _| x.take_along_axis(&Tensor::zeros(DType::I32, [1, ROW]), 0)),
        case("at get", |x, _| x.at(ix![1..]).get()),
        case("at set", |x, y| x.at(ix![1..3]).set(y.index(ix![..2]))),
        case("at add", |x, y| x.at(ix![1..3]).add(y.index(ix![..2]))),
        case("at multiply", |x, y| x.at(ix![1..3]).multiply(y.index(ix![..2]))),
        case("at min", |x, y| x.at(ix![1..3]).min(y.index(ix![..2]))),
        case("at max", |x, y| x.at(ix![1..3]).max(y.index(ix![..2]))),
        case("at_indices add", |x, _| x.at_indices(&rows(), 0).add(x.index(ix![..10]))),
        case("at_indices multiply", |x, _| x.at_indices(&rows(), 0).multiply(x.index(ix![..10]))),
        case("at_indices min", |x, _| x.at_indices(&rows(), 0).min(x.index(ix![..10]))),
        case("at_indices max", |x, _| x.at_indices(&rows(), 0).max(x.index(ix![..10]))),
        case("at_indices set", |x, _| x.at_indices(&rows(), 0).set(x.index(ix![..10]))),
        case("dynamic_slice", |x, y| x.dynamic_slice(&[y.index(ix![0, 0]).convert(DType::I32), Tensor::from(0)], [1000, ROW])),
        case("dynamic_update_slice", |x, y| x.dynamic_update_slice(&y.index(ix![..2]), &[Tensor::from(1), Tensor::from(0)])),
        case("one_hot", |x, _| x.index(ix![..8]).one_hot(50, DType::U8)),
        case("full", |x, _| Tensor::full(x.dtype(), x.shape(), 3)),
        case("full_like", |x, _| Tensor::full_like(x, 3)),
        case("zeros", |x, _| Tensor::zeros(x.dtype(), x.shape())),
        case("zeros_like", |x, _| Tensor::zeros_like(x)),
        case("ones", |x, _| Tensor::ones(x.dtype(), x.shape())),
        case("ones_like", |x, _| Tensor::ones_like(x)),
        case("arange", |x, _| Tensor::arange(x.dtype(), ROW)),
        case("linspace", |x, _| Tensor::linspace(x.dtype(), 0.0, 1.0, ROW)),
        case("iota", |x, _| Tensor::iota(x.dtype(), x.shape(), 0)),
        case("shard", |x, _| shard(x, (None, "model"))),
        results("threefry2x32", |x, y| {
            let (first, second) = extend::threefry2x32(x, y, x, y);
            vec![first, second]
        }),
        // The comparison.
        case("eye", |x, _| Tensor::eye(x.dtype(), ROW)).beside(|_| 0.5),
    ]
}

/// Loops and branches.
#[rustfmt::skip]
fn control_flow() -> Vec<Case> {
    vec![
        case("cond", |x, y| cond(&x.index(ix![0, 0]).equal(1), |(x, _): (Tensor, Tensor)| -x, |(_, y)| -y, (x.clone(), y.clone()))),
        // The state before a step, and the one after it.
        case("while_loop", |x, _| while_loop(|x: &Tensor| x.index(ix![0, 0]).less(3), |x| x + 1, x.clone())).beside(|_| 1.0),
        case("scan", |x, _| scan(|carry: Tensor, row: Tensor| (carry, -row), Tensor::from(0.0), x.clone()).1),
    ]
}

/// Gradients.
#[rustfmt::skip]
fn gradients() -> Vec<Case> {
    vec![
        gradient("add 2", |x| x + 2),
        gradient("multiply 0.5", |x| x * 0.5),
        // The factor, which is the residual.
        gradient("divide", |x| 2.0 / x).beside(|_| 1.0),
        gradient("powi", |x| x.powi(3)).beside(|_| 1.0),
        gradient("sigmoid", |x| x.sigmoid()).beside(|_| 1.0),
        of_sum("sigmoid", |x, _| x.sigmoid()).beside(|_| 1.0),
        of_sum("tanh", |x, _| x.tanh()).beside(|_| 1.0),
        // The choice.
        gradient("relu", |x| x.relu()).beside(bools),
        gradient("clamp", |x| x.clamp(0, 1)).beside(bools),
        of_sum("relu", |x, _| x.relu()).beside(bools),
        of_sum("clamp", |x, _| x.clamp(0, 1)).beside(bools),
        gradient("maximum 0", |x| x.maximum(0)),
        gradient("clip", |x| x.clip(0, 1)),
        gradient("leaky_relu", |x| nn::leaky_relu(x, 0.1)),
        gradient("silu", nn::silu),
        of_sum("clip", |x, _| x.clip(0, 1)),
        of_sum("hypot", |x, y| x.hypot(y)),
        of_sum("leaky_relu", |x, _| nn::leaky_relu(x, 0.1)),
        of_sum("elu", |x, _| nn::elu(x, 1.0)),
        of_sum("gelu", |x, _| nn::gelu(x)),
        of_sum("silu", |x, _| nn::silu(x)),
        of_sum("softplus", |x, _| nn::softplus(x)),
        of_sum("softmax", |x, _| softmax(x, -1)),
        of_sum("log_softmax", |x, _| nn::log_softmax(x, -1)),
        of_sum("standardize", |x, _| nn::standardize(x, -1, 1e-5)),
    ]
}
