//! Layers, functions and random numbers with extreme arguments: each call gives the right result, or panics at the caller's
//! line with a message that names the function called.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

#[path = "../../pytree-transform/tests/extremes/harness.rs"]
mod harness;

use pytree_nn::{
    Activation, BatchNorm, Dropout, Embed, GroupNorm, Initializer, Key, LayerNorm, Linear, Mlp,
    Replacement, RmsNorm, Rngs, accuracy, celu, confusion_matrix, elu, gelu, gelu_exact, glu,
    leaky_relu, log_sigmoid, log_softmax, logsumexp, mse, sigmoid, soft_sign, softmax,
    softmax_cross_entropy, softplus, standardize,
};
use pytree_transform::{DType, Tensor, jit};

use crate::extremes::harness::{Panic, Shape, check, elements, rows};

const HUGE: usize = usize::MAX;
const TOP: usize = 1 << 63;
const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn key() -> Key {
    Key::new(u64::MAX)
}

fn rngs() -> Rngs {
    Rngs::new(u64::MAX)
}

fn two() -> Tensor {
    Tensor::from([1.0_f64, 2.0])
}

fn none() -> Tensor {
    Tensor::zeros(DType::F64, [0])
}

#[test]
fn random_numbers_too_many_are_refused() {
    check(&rows! {
        key().split(1 << 40).remove(0).data().clone() => Panic("by `split`: 4398046511104 bytes of memory");
        key().split(HUGE).remove(0).data().clone() => Panic("by `split`");
        key().split_stacked(TOP).data().clone() => Panic("by `split_stacked`");
        key().split_shaped([1 << 32, 1 << 32]).data().clone() => Panic("by `split_shaped`");
        key().split_stacked(0).data().clone() => Shape(vec![0, 2]);
        key().bits([HUGE, 2]) => Panic("by `bits`");
        key().bits([0, 5]) => Shape(vec![0, 5]);
        key().uniform(DType::F32, [1 << 43]) => Panic("by `uniform`: 35184372088832 bytes of memory");
        key().uniform(DType::F64, [1 << 62]) => Panic("by `uniform`");
        key().uniform(DType::I32, [1]) => Panic("expected a float dtype");
        key().uniform_between(DType::F32, [HUGE], 0.0, 1.0) => Panic("by `uniform_between`");
        key().normal(DType::F64, [TOP]) => Panic("by `normal`");
        key().truncated_normal(DType::F32, [1 << 45], -2.0, 2.0) => Panic("by `truncated_normal`");
        key().bernoulli(0.5, [1 << 43]) => Panic("by `bernoulli`");
        key().randint([HUGE], 0, 1) => Panic("by `randint`");
        key().randint([3], i32::MAX - 1, i32::MAX) => elements([2_147_483_646.0; 3]);
        key().permutation(HUGE) => Panic("by `permutation`");
        key().permutation(1 << 40) => Panic("permutation");
        key().permutation(0) => elements([]);
        key().permutation(1) => elements([0.0]);
        key().fold_in(u32::MAX).data().clone() => Shape(vec![2]);
        key().fold_in(Tensor::from(1.5)).data().clone() => Panic("cannot fold f64[] into a key");
        rngs().split(1 << 40).params().data().clone() => Panic("by `split_shaped`");
    });
}

#[test]
fn arguments_of_no_distribution_are_refused() {
    fn of(numbers: &[f32]) -> Tensor {
        Tensor::from(numbers)
    }
    fn choice(weights: &[f32], replacement: Replacement) -> Tensor {
        key().choice(2, [2], Some(&of(weights)), replacement)
    }
    check(&rows! {
        key().bernoulli(NAN, [2]) => Panic("with the probability NaN: expected a number from 0 to 1");
        key().bernoulli(1.5, [2]) => Panic("with the probability 1.5");
        key().bernoulli(-1e-9, [2]) => Panic("with the probability -1e-9");
        key().bernoulli(1.0, [2]) => elements([1.0, 1.0]);
        key().randint([3], 5, 2) => Panic("cannot draw integers from 5..2: the range is empty");
        key().randint([3], 7, 7) => Panic("7..7");
        key().randint([0], 7, 7) => elements([]);
        key().randint([3], 7, i32::MIN) => Panic("7..-2147483648");
        key().randint_of(DType::U8, [3], 0, 257) => Panic("the dtype holds the integers 0 to 255");
        key().randint_of(DType::U8, [3], -1, 9) => Panic("-1..9");
        key().randint_of(DType::U8, [3], 300, 400) => Panic("300..400");
        key().randint_of(DType::U8, [3], 255, 256) => elements([255.0; 3]);
        key().randint_of(DType::U32, [3], 1 << 32, (1 << 32) + 1) => Panic("4294967296..4294967297");
        key().randint_of(DType::I64, [3], i64::MAX, i64::MIN) => Panic("the range is empty");
        key().uniform_between(DType::F32, [2], 1.0, 0.0) => Panic("between 1.0 and 0.0: expected finite bounds");
        key().uniform_between(DType::F32, [2], 0.0, INF) => Panic("and inf");
        key().uniform_between(DType::F32, [2], 0.0, 1e39) => Panic("and inf");
        key().uniform_between(DType::F64, [2], NAN, 1.0) => Panic("between NaN");
        key().uniform_between(DType::F64, [2], 3.0, 3.0) => elements([3.0, 3.0]);
        key().truncated_normal(DType::F32, [2], 3.0, 1.0) => Panic("between 3.0 and 1.0: expected a lower bound below");
        key().truncated_normal(DType::F32, [2], 1.0, 1.0) => Panic("between 1.0 and 1.0");
        key().truncated_normal(DType::F64, [2], NAN, 1.0) => Panic("between NaN");
        key().poisson(&of(&[2.0, -1.0]), [2]) => Panic("with the rate -1.0 (element 1 of f32[2]): expected numbers from 0 to 2e9");
        key().poisson(&of(&[f32::NAN]), [1]) => Panic("with the rate NaN");
        key().poisson(&of(&[f32::INFINITY]), [1]) => Panic("with the rate inf");
        key().poisson(&of(&[3e9]), [1]) => Panic("with the rate 3000000000.0");
        key().gamma(&of(&[-0.5]), [1]) => Panic("with the concentration -0.5");
        key().loggamma(&of(&[f32::INFINITY]), [1]) => Panic("with the concentration inf");
        key().beta(&of(&[1.0]), &of(&[0.0]), [1]) => Panic("with b = 0.0");
        key().rademacher(DType::U8, [3]) => Panic("cannot draw u8 from -1 and 1");
        key().categorical(&of(&[0.0, f32::NAN]), []) => Panic("with the logit NaN");
        choice(&[1.0, -0.5], Replacement::With) => Panic("with the weight -0.5 (element 1 of f32[2])");
        choice(&[1.0, f32::NAN], Replacement::With) => Panic("with the weight NaN");
        choice(&[0.0, 0.0], Replacement::With) => Panic("that are all 0");
        choice(&[0.0, 1.0], Replacement::Without) => Panic("cannot choose 2 numbers without replacement with 1 weights above 0");
        choice(&[3e38, 3e38], Replacement::With) => Panic("overflows f32");
        choice(&[0.0, 1.0], Replacement::With) => elements([1.0, 1.0]);
    });
}

#[test]
fn mistakes_are_reported_at_the_callers_line() {
    check(&rows! {
        {
            pytree_transform::Shape::from(&[1][..]).insert(3, 1);
            none()
        } => Panic("cannot insert an axis at 3 of a shape with 1 axes");
        {
            pytree_transform::Shape::from(&[1][..]).remove(1);
            none()
        } => Panic("cannot remove axis 1 of a shape with 1 axes");
    });
}

/// The values of traced arguments are not known, so the results are those that the documentation states.
#[test]
fn bad_traced_arguments_stay_in_range() {
    let rates = Tensor::from([-1.0, f64::NAN, INF, 3e9, 4.0]);
    let drawn = jit(|rates: Tensor| key().poisson(&rates, [5]))(rates).to_vec::<i32>();
    assert_eq!(drawn[..4], [-1; 4]);
    assert!(drawn[4] >= 0);
    let choose = jit(|weights: Tensor| key().choice(3, [50], Some(&weights), Replacement::With));
    for weights in [
        [1.0, -5.0, 2.0],
        [NAN, 1.0, 1.0],
        [0.0; 3],
        [-1.0; 3],
        [INF, 1.0, -INF],
    ] {
        let drawn = choose(Tensor::from(weights)).to_vec::<i32>();
        assert!(
            drawn.iter().all(|number| (0..3).contains(number)),
            "{weights:?}: {drawn:?}"
        );
    }
}

#[test]
fn ranges_of_any_width_keep_their_bounds() {
    const DTYPES: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];
    let huge = |dtype| match dtype {
        DType::F16 => 65504.0,
        DType::F64 => f64::MAX,
        DType::BF16 => 3.38e38,
        _ => f64::from(f32::MAX),
    };
    for dtype in DTYPES {
        let rounded = |number: f64| {
            let number = Tensor::full(dtype, [], number).convert(DType::F64);
            number.item::<f64>()
        };
        let huge = rounded(huge(dtype));
        let ranges = [
            (-huge, huge),
            (0.0, huge),
            (-huge, -huge / 2.0),
            (-1.0, 1.0),
            (1.0, 1.0078125),
            (1000.0, 1008.0),
            (-1008.0, -1000.0),
            (-0.3, 1.7),
        ];
        for (low, high) in ranges {
            for seed in 0..20 {
                let drawn = Key::new(seed).uniform_between(dtype, [300], low, high);
                let drawn = drawn.convert(DType::F64).to_vec::<f64>();
                let is_inside = |x: &f64| (rounded(low)..rounded(high)).contains(x);
                assert!(
                    drawn.iter().all(is_inside),
                    "{dtype} of {low}..{high}: {drawn:?}"
                );
            }
        }
        let intervals = [
            (-INF, INF),
            (-INF, -7.0),
            (9.0, INF),
            (6.0, 8.0),
            (-40.0, -39.0),
            (0.0, 0.25),
            (-2.0, 100.0),
        ];
        for (low, high) in intervals {
            let drawn = Key::new(3).truncated_normal(dtype, [500], low, high);
            let drawn = drawn.convert(DType::F64).to_vec::<f64>();
            let is_inside = |x: &f64| low < *x && *x < high && x.is_finite();
            assert!(
                drawn.iter().all(is_inside),
                "{dtype} of {low}..{high}: {drawn:?}"
            );
        }
    }
    for (low, high) in [
        (i64::MIN, i64::MAX),
        (i64::MAX - 1, i64::MAX),
        (-3, 3),
        (i64::MIN, 0),
    ] {
        let drawn = key()
            .randint_of(DType::I64, [300], low, high)
            .to_vec::<i64>();
        assert!(
            drawn.iter().all(|number| (low..high).contains(number)),
            "{low}..{high}"
        );
    }
}

#[test]
fn layers_too_large_are_refused() {
    check(&rows! {
        Linear::new(HUGE, 2, &mut rngs()).weight => Panic("cannot make f32[18446744073709551615,2]");
        Linear::new(1 << 32, 1 << 32, &mut rngs()).weight => Panic("cannot make f32[4294967296,4294967296]");
        Linear::new(1 << 22, 1 << 21, &mut rngs()).weight => Panic("35184372088832 bytes of memory");
        Linear::new(0, 2, &mut rngs()).weight => Shape(vec![0, 2]);
        Linear::new(0, 2, &mut rngs()).forward(&Tensor::zeros(DType::F32, [3, 0])) => elements([0.0; 6]);
        Linear::new(2, 2, &mut rngs()).forward(&Tensor::from(1.0_f32)) => Panic("Linear::forward: x is f32[], expected T[... in] with in = 2");
        Mlp::new(&[2, HUGE], Activation::Relu, &mut rngs()).layers.remove(0).weight => Panic("cannot make f32[2,18446744073709551615]");
        Embed::new(HUGE, HUGE, &mut rngs()).embedding => Panic("cannot make f32[");
        Embed::new(1 << 43, 1, &mut rngs()).embedding => Panic("35184372088832 bytes of memory");
        Embed::new(2, 1, &mut rngs()).forward(&Tensor::from([i64::MIN])) => Panic("Embed expects indices in -2..2, found -9223372036854775808");
        Embed::new(2, 1, &mut rngs()).forward(&Tensor::from([u32::MAX])) => Panic("Embed expects indices in -2..2, found 4294967295");
        LayerNorm::new(HUGE, &mut rngs()).scale.unwrap() => Panic("cannot make f32[18446744073709551615]");
        RmsNorm::new(1 << 43, &mut rngs()).scale.unwrap() => Panic("35184372088832 bytes of memory");
        BatchNorm::new(TOP, &mut rngs()).scale.unwrap() => Panic("cannot make f32[9223372036854775808]");
        GroupNorm::new(HUGE, 0, &mut rngs()).scale.unwrap() => Panic("found 0 groups");
        GroupNorm::new(4, HUGE, &mut rngs()).scale.unwrap() => Panic("found 18446744073709551615 groups");
        GroupNorm::new(HUGE, HUGE, &mut rngs()).scale.unwrap() => Panic("cannot make f32[18446744073709551615]");
        Dropout::new(NAN, &mut rngs()).forward(&two()) => Panic("found NaN");
        Dropout::new(-0.0, &mut rngs()).forward(&two()) => elements([1.0, 2.0]);
        Initializer::Constant(INF).initialize(&key(), DType::F32, [HUGE]) => Panic("cannot make f32[18446744073709551615]");
        Initializer::lecun_normal().initialize(&key(), DType::F32, [TOP, TOP, 1, 1]) => Panic("cannot make f32[");
        Initializer::lecun_normal().initialize(&key(), DType::F32, [HUGE]) => Panic("cannot ");
        Initializer::glorot_uniform().initialize(&key(), DType::F64, [0, 0]) => Shape(vec![0, 0]);
    });
}

#[test]
fn functions_keep_to_their_limits() {
    let of = |x: f64| Tensor::from(x);
    let int = || Tensor::from([1, 2]);
    check(&rows! {
        softplus(&of(1e300)) => elements([1e300]);
        softplus(&of(-INF)) => elements([0.0]);
        log_sigmoid(&of(-1e300)) => elements([-1e300]);
        sigmoid(&of(-INF)) => elements([0.0]);
        gelu(&of(INF)) => elements([INF]);
        gelu_exact(&of(-40.0)) => elements([0.0]);
        elu(&of(1e300), 1.0) => elements([1e300]);
        elu(&of(-INF), 2.0) => elements([-2.0]);
        celu(&of(1.0), 0.0) => elements([NAN]);
        softmax(&Tensor::from([1e300, -1e300]), 0) => elements([1.0, 0.0]);
        softmax(&Tensor::from([INF, 0.0]), 0) => elements([NAN, NAN]);
        softmax(&two(), isize::MIN) => Panic("cannot softmax f64[2]: axis -9223372036854775808");
        softmax(&int(), 0) => Panic("cannot softmax i32[2]");
        softmax(&none(), 0) => Panic("cannot softmax f64[0]");
        log_softmax(&Tensor::from([1e300, -1e300]), 0) => elements([0.0, -2e300]);
        log_softmax(&two(), isize::MAX) => Panic("cannot log_softmax f64[2]: axis 9223372036854775807");
        logsumexp(&Tensor::from([-INF, -INF]), 0) => elements([-INF]);
        logsumexp(&Tensor::from([INF, 1.0]), 0) => elements([INF]);
        logsumexp(&Tensor::from([1e308, 1e308]), 0) => elements([1e308]);
        logsumexp(&int(), 0) => Panic("cannot logsumexp i32[2]");
        standardize(&two(), isize::MIN, 0.0) => Panic("cannot standardize f64[2]: axis");
        standardize(&int(), 0, 0.0) => Panic("cannot standardize i32[2]");
        glu(&two(), isize::MIN) => Panic("cannot glu f64[2]: axis");
        glu(&of(1.0), 0) => Panic("cannot glu f64[]");
        gelu(&int()) => Panic("cannot gelu i32[2]: expected a float dtype");
        leaky_relu(&int(), 0.1) => Panic("cannot leaky_relu i32[2]");
        soft_sign(&int()) => Panic("cannot soft_sign i32[2]");
        softplus(&int()) => Panic("cannot softplus i32[2]");
        mse(&none(), &none()) => elements([NAN]);
        accuracy(&Tensor::zeros(DType::F32, [0, 3]), &Tensor::zeros(DType::I32, [0])) => elements([NAN]);
        accuracy(&Tensor::zeros(DType::F32, [1, 3]), &Tensor::from([i64::MAX])) => Panic("accuracy expects labels in 0..3, found 9223372036854775807");
        softmax_cross_entropy(&Tensor::from([[1e30_f32, -1e30]]), &Tensor::from([0])) => elements([0.0]);
        softmax_cross_entropy(&Tensor::zeros(DType::F32, [1, 0]), &Tensor::from([0])) => Panic("labels in 0..0, found 0");
        { confusion_matrix(&Tensor::from([0]), &Tensor::from([0]), HUGE); two() } => Panic("confusion_matrix");
        { confusion_matrix(&Tensor::from([0]), &Tensor::from([0]), 1 << 32); two() } => Panic("confusion_matrix");
        { confusion_matrix(&Tensor::from([0]), &Tensor::from([0]), 0); two() } => Panic("labels in 0..0");
    });
}
