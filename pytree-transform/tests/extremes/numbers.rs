//! Numbers at the ends of their ranges, NaN, infinities, and empty tensors.

use pytree_transform::{DType, Tensor};

use crate::extremes::harness::{Panic, check, elements, rows};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn none() -> Tensor {
    Tensor::zeros(DType::F64, [0])
}

#[test]
fn integers_wrap_as_in_xla() {
    let (low, high) = (|| Tensor::from(i32::MIN), || Tensor::from(i32::MAX));
    check(&rows! {
        high() + 1 => elements([-2_147_483_648.0]);
        low() - 1 => elements([2_147_483_647.0]);
        -low() => elements([-2_147_483_648.0]);
        low().abs() => elements([-2_147_483_648.0]);
        low() / -1 => elements([-2_147_483_648.0]);
        low() / 0 => elements([-1.0]);
        low().rem(0) => elements([-2_147_483_648.0]);
        low().rem(-1) => elements([0.0]);
        low().floor_divide(-1) => elements([-2_147_483_648.0]);
        low().remainder(-1) => elements([0.0]);
        low().remainder(high()) => elements([2_147_483_646.0]);
        Tensor::from(u32::MAX) / 0_u32 => elements([4_294_967_295.0]);
        high().shift_left(32) => elements([0.0]);
        high().shift_left(-1) => elements([0.0]);
        low().shift_right_arithmetic(i32::MAX) => elements([-1.0]);
        low().shift_right(31) => elements([1.0]);
        high() * high() => elements([1.0]);
        Tensor::from(2).powi(i32::MAX) => elements([0.0]);
        Tensor::from(2).powi(-1) => Panic("cannot powi i32[]");
        Tensor::from(2).powi(i32::MIN) => Panic("cannot powi i32[]");
        Tensor::from(f64::from(i32::MAX) + 1.0).convert(DType::I32) => elements([2_147_483_647.0]);
        Tensor::from(NAN).convert(DType::I64) => elements([0.0]);
        Tensor::from(-INF).convert(DType::U32) => elements([0.0]);
        Tensor::from([1, 2]) + 3_000_000_000_i64 => Panic("cannot combine the number 3000000000 with i32[2]");
        Tensor::from([1_u32]) + -1 => Panic("cannot combine the number -1 with u32[1]");
        Tensor::from([1]) + 1e300 => Panic("cannot combine the number");
        Tensor::from([1]) + NAN => Panic("cannot combine the number NaN with i32[1]");
        Tensor::full(DType::I32, [1], 1e300) => elements([2_147_483_647.0]);
        Tensor::full(DType::Bool, [1], NAN) => elements([1.0]);
        Tensor::from([i64::MAX, 1]).sum() => elements([-9_223_372_036_854_775_808.0]);
        Tensor::from([i32::MIN, -1]).prod() => elements([-2_147_483_648.0]);
        Tensor::from([i32::MAX, 1]).cumsum(0) => elements([2_147_483_647.0, -2_147_483_648.0]);
    });
}

#[test]
fn extreme_floats_give_defined_results() {
    let of = |x: f64| Tensor::from(x);
    check(&rows! {
        of(2.0).powi(i32::MIN) => elements([0.0]);
        of(2.0).powi(i32::MAX) => elements([INF]);
        of(-1.0).powi(i32::MIN) => elements([1.0]);
        of(0.0).pow(0.0) => elements([1.0]);
        of(NAN).pow(0.0) => elements([1.0]);
        of(1.0).pow(NAN) => elements([1.0]);
        of(-8.0).pow(1.0 / 3.0) => elements([NAN]);
        of(-INF).pow(3.0) => elements([-INF]);
        of(1e200).hypot(1e200) => elements([1e200 * std::f64::consts::SQRT_2]);
        of(INF).hypot(NAN) => elements([INF]);
        of(5e-324).hypot(0.0) => elements([5e-324]);
        of(INF).atan2(INF) => elements([std::f64::consts::FRAC_PI_4]);
        of(INF).logaddexp(INF) => elements([INF]);
        of(-INF).logaddexp(-INF) => elements([-INF]);
        of(1e308).logaddexp(1e308) => elements([1e308]);
        of(INF).acosh() => elements([INF]);
        of(0.999).acosh() => elements([NAN]);
        of(-INF).asinh() => elements([-INF]);
        of(1.0).atanh() => elements([INF]);
        of(1.5).atanh() => elements([NAN]);
        of(1.0).erf_inv() => elements([INF]);
        of(-1.0).erf_inv() => elements([-INF]);
        of(1.1).erf_inv() => elements([NAN]);
        of(30.0).erfc() => elements([0.0]);
        of(-INF).erfc() => elements([2.0]);
        of(800.0).sinh() => elements([INF]);
        of(-800.0).cosh() => elements([INF]);
        of(-1.0).log1p() => elements([-INF]);
        of(-INF).expm1() => elements([-1.0]);
        of(-INF).sigmoid() => elements([0.0]);
        of(NAN).sign() => elements([NAN]);
        of(NAN).clip(0.0, 1.0) => elements([NAN]);
        of(5.0).clip(NAN, 1.0) => elements([NAN]);
        of(5.0).clip(3.0, 1.0) => elements([1.0]);
        of(-INF).floor() => elements([-INF]);
        of(1e300).trunc() => elements([1e300]);
        of(-0.5).trunc() => elements([0.0]);
        of(NAN).trunc() => elements([NAN]);
        of(INF).remainder(1.0) => elements([NAN]);
        of(1.0).floor_divide(0.0) => elements([INF]);
        of(NAN).relu() => elements([NAN]);
        of(1e300).square() => elements([INF]);
        of(0.0).reciprocal() => elements([INF]);
        of(0.0).rsqrt() => elements([INF]);
        of(-INF).cbrt() => elements([-INF]);
        of(1024.0).exp2() => elements([INF]);
        of(5e-324).log2() => elements([-1074.0]);
        of(0.0).log10() => elements([-INF]);
    });
}

#[test]
fn empty_reductions_return_neutral_element() {
    check(&rows! {
        none().sum() => elements([0.0]);
        none().prod() => elements([1.0]);
        none().mean() => elements([NAN]);
        none().max() => Panic("cannot take the maximum of f64[0]");
        none().min() => Panic("cannot take the minimum of f64[0]");
        none().all() => elements([1.0]);
        none().any() => elements([0.0]);
        none().count_nonzero() => elements([0.0]);
        none().cumsum(0) => elements([]);
        none().cumlogsumexp(0) => elements([]);
        none().norm() => elements([0.0]);
        none().variance_axes([0]) => elements([NAN]);
        none().inner(&none()) => elements([0.0]);
        Tensor::zeros(DType::F64, [2, 0]).matmul(&Tensor::zeros(DType::F64, [0, 2])) => elements([0.0; 4]);
        Tensor::zeros(DType::F64, [0, 3]).max_axes([1]) => elements([]);
        Tensor::from(1.0).matmul(&Tensor::from(1.0)) => Panic("cannot matmul f64[] and f64[]");
        Tensor::from([1.0, 2.0]).item::<f64>().into() => Panic("cannot read the only element of f64[2]");
        Tensor::from(3.0).sum_axes([]) => elements([3.0]);
        Tensor::from(3.0).cumsum(0) => Panic("cannot cumsum f64[]: axis 0 is out of range");
        Tensor::from(f64::from(u8::from(Tensor::meshgrid(&[] as &[Tensor]).is_empty()))) => elements([1.0]);
    });
}
