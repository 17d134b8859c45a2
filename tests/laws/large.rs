//! Functions of large tensors, which run as one compiled program, return the bits of their operations run one by one.

use pytree::nn;
use pytree::prelude::*;

/// As many elements as composed functions compile for.
const SHAPE: [usize; 2] = [2048, 1024];

/// A function of two matrices with special numbers and of a matrix without them, and its name.
type Function = (&'static str, fn([&Tensor; 3]) -> Tensor);

#[rustfmt::skip]
const FUNCTIONS: [Function; 43] = [
    ("leaky_relu", |[x, ..]| nn::leaky_relu(x, 0.01)),
    ("elu", |[x, ..]| nn::elu(x, 1.5)),
    ("selu", |[x, ..]| nn::selu(x)),
    ("celu", |[x, ..]| nn::celu(x, 1.5)),
    ("gelu", |[x, ..]| nn::gelu(x)),
    ("gelu_exact", |[x, ..]| nn::gelu_exact(x)),
    ("silu", |[x, ..]| nn::silu(x)),
    ("log_sigmoid", |[x, ..]| nn::log_sigmoid(x)),
    ("hard_sigmoid", |[x, ..]| nn::hard_sigmoid(x)),
    ("hard_silu", |[x, ..]| nn::hard_silu(x)),
    ("hard_tanh", |[x, ..]| nn::hard_tanh(x)),
    ("soft_sign", |[x, ..]| nn::soft_sign(x)),
    ("mish", |[x, ..]| nn::mish(x)),
    ("squareplus", |[x, ..]| nn::squareplus(x, 4.0)),
    ("glu", |[x, ..]| nn::glu(x, -1)),
    ("softmax", |[x, ..]| softmax(x, -1)),
    ("softmax of the first axis", |[x, ..]| softmax(x, 0)),
    ("log_softmax", |[x, ..]| nn::log_softmax(x, -1)),
    ("standardize", |[x, ..]| nn::standardize(x, -1, 1e-5)),
    ("lgamma", |[x, ..]| nn::lgamma(x)),
    ("sinc", |[x, ..]| nn::sinc(x)),
    ("mean", |[.., x]| x.mean()),
    ("mean_axes", |[x, ..]| x.mean_axes([0])),
    ("variance_keep", |[x, ..]| x.variance_keep([1])),
    ("standard_deviation_axes", |[x, ..]| x.standard_deviation_axes([0])),
    ("norm_axes", |[x, ..]| x.norm_axes([1])),
    ("logsumexp_axes", |[x, ..]| x.logsumexp_axes([0])),
    ("sum_where", |[_, y, x]| x.sum_where(&y.greater(0.0))),
    ("mean_where", |[_, y, x]| x.mean_where(&y.greater(0.0))),
    ("weighted_mean", |[.., x]| x.weighted_mean(&(x + 11.0))),
    ("relu", |[x, ..]| x.relu()),
    ("clip", |[x, y, _]| x.clip(-1.0, y)),
    ("trunc", |[x, ..]| x.trunc()),
    ("log2", |[x, ..]| x.log2()),
    ("log10", |[x, ..]| x.log10()),
    ("isinf", |[x, ..]| x.isinf()),
    ("isfinite", |[x, ..]| x.isfinite()),
    ("nan_to_num", |[x, ..]| x.nan_to_num()),
    ("floor_divide", |[x, y, _]| x.floor_divide(y)),
    ("remainder", |[x, y, _]| x.remainder(y)),
    ("hypot", |[x, y, _]| x.hypot(y)),
    ("heaviside", |[x, y, _]| x.heaviside(y)),
    ("tril", |[x, ..]| x.tril(-3).roll(5, 0)),
];

/// Returns a matrix. Some parts of its rows have special numbers: few, because a sum with NaN is NaN.
fn numbers(dtype: DType, seed: usize, has_special: bool) -> Tensor {
    const SPECIAL: [f32; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-40,
        -0.5,
        3e38,
    ];
    let [rows, columns] = SHAPE;
    let number = |n: usize| {
        if has_special && n / columns % 512 == 7 && n % columns < 144 {
            // Each number of one matrix beside each number of another one.
            SPECIAL[if seed == 0 { n } else { n / SPECIAL.len() } % SPECIAL.len()]
        } else {
            ((n + seed) * 7919 % 100_003) as f32 * 2e-4 - 10.0
        }
    };
    let numbers: Vec<f32> = (0..rows * columns).map(number).collect();
    Tensor::new(SHAPE, numbers).convert(dtype)
}

/// Returns the bits of a tensor, in which all NaN are equal.
fn bits(tensor: &Tensor) -> Vec<u32> {
    let numbers = tensor.convert(DType::F32).to_vec::<f32>().into_iter();
    let canonical = |it: f32| if it.is_nan() { f32::NAN } else { it };
    numbers.map(|it| canonical(it).to_bits()).collect()
}

#[test]
fn large_functions_match_their_operations() {
    for dtype in [DType::F32, DType::BF16] {
        let [x, y, z] = [(0, true), (1, true), (2, false)]
            .map(|(seed, has_special)| numbers(dtype, seed, has_special));
        for (name, function) in FUNCTIONS {
            // Within a transformation of another tensor, nothing is compiled.
            let zero = Tensor::from(0.0);
            let (expected, _) = jvp(|_: &Tensor| function([&x, &y, &z]), &zero, &zero);
            let found = function([&x, &y, &z]);
            assert_eq!(found.info(), expected.info(), "{name}");
            let is_same = found.bytes() == expected.bytes() || bits(&found) == bits(&expected);
            assert!(is_same, "{name} of {dtype}");
        }
    }
}

/// Functions of a matrix without special numbers. Several read it more than once, so its cotangents are added in an order.
#[rustfmt::skip]
const DIFFERENTIABLE: [(&str, fn(&Tensor) -> Tensor); 34] = [
    ("leaky_relu", |x| nn::leaky_relu(x, 0.01)),
    ("elu", |x| nn::elu(x, 1.5)),
    ("selu", |x| nn::selu(x)),
    ("celu", |x| nn::celu(x, 1.5)),
    ("gelu", |x| nn::gelu(x)),
    ("gelu_exact", |x| nn::gelu_exact(x)),
    ("silu", |x| nn::silu(x)),
    ("log_sigmoid", |x| nn::log_sigmoid(x)),
    ("hard_sigmoid", |x| nn::hard_sigmoid(x)),
    ("hard_silu", |x| nn::hard_silu(x)),
    ("hard_tanh", |x| nn::hard_tanh(x)),
    ("soft_sign", |x| nn::soft_sign(x)),
    ("softplus", |x| nn::softplus(x)),
    ("mish", |x| nn::mish(x)),
    ("squareplus", |x| nn::squareplus(x, 4.0)),
    ("glu", |x| nn::glu(&Tensor::concatenate(&[x, x], 1), -1)),
    ("softmax", |x| softmax(x, -1)),
    ("softmax of the first axis", |x| softmax(x, 0)),
    ("log_softmax", |x| nn::log_softmax(x, -1)),
    ("standardize", |x| nn::standardize(x, -1, 1e-5)),
    ("variance_keep", |x| x - x.variance_keep([1])),
    ("norm_axes", |x| x * x.norm_axes([0])),
    ("logsumexp_axes", |x| x - x.logsumexp_axes([0])),
    ("tanh", |x| x.tanh()),
    ("sin", |x| x.sin()),
    ("relu", |x| x.relu()),
    ("clamp", |x| x.clamp(-1.0, 2.0)),
    ("clip", |x| x.clip(-1.0, 2.0)),
    ("maximum", |x| x.maximum(x.reverse([0]))),
    ("hypot", |x| x.hypot(x + 21.0)),
    ("remainder", |x| x.remainder(x + 21.0)),
    ("tril", |x| x.tril(-3).roll(5, 0)),
    ("sums before and behind", |x| nn::gelu(x) + x * nn::silu(x) + nn::elu(x, 1.0)),
    ("chain", |x| nn::silu(&(nn::softplus(&nn::gelu(x)) * x)) + x),
];

#[test]
fn large_derivatives_match_their_operations() {
    for dtype in [DType::F32, DType::BF16] {
        let [x, y] = [3, 12_345].map(|seed| numbers(dtype, seed, false));
        for (name, function) in DIFFERENTIABLE {
            let gradient = |x: Tensor| grad(|x: &Tensor| (function(x) * &y).sum())(&x);
            let tangent = |x: Tensor| jvp(|x: &Tensor| function(x), &x, &y).1;
            let derivatives: [(&str, &(dyn Fn(Tensor) -> Tensor + Sync)); 2] =
                [("gradient", &gradient), ("tangent", &tangent)];
            for (kind, derivative) in derivatives {
                // In a batch, each operation runs on its own.
                let expected = vmap(move |x: Tensor| derivative(x))(x.expand_dims([0]));
                let found = derivative(x.clone());
                assert!(
                    found.bytes() == expected.bytes(),
                    "{kind} of {name} of {dtype}"
                );
            }
        }
    }
}
