//! Elementwise functions of one tensor.

use std::f64::consts::{LN_2, LOG10_E, PI};

use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::{Rounding, Unary};

use crate::base::error::{TensorError, called, or_panic};
use crate::operations::fused::{fused, try_differentiated};
use crate::operations::reduce::called_with_floats;
use crate::primitives::body::recorded::RematPolicy;
use crate::primitives::{convert, elementwise};
use crate::tensor::Tensor;

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $operation:expr, $at:literal => $value:literal;)*) => {
        /// Elementwise functions.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// Panics if the function does not support the dtype.
            ///
            /// # Examples
            /// ```
            /// use pytree_transform::Tensor;
            #[doc = concat!("let y = Tensor::from(", stringify!($at), "_f64).", stringify!($name), "();")]
            #[doc = concat!("assert!((y.item::<f64>() - ", stringify!($value), ").abs() <= 1e-15);")]
            /// ```
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Self {
                let _called = called(stringify!($name));
                // The derivative holds its factor, because the function takes long.
                let function = || elementwise::unary($operation, self);
                or_panic(try_differentiated(RematPolicy::Everything, &[self], function))
            }
        )*}
    };
}

unary_methods! {
    /// Returns the absolute value of each element.
    #[doc(alias("jnp.abs", "torch.abs"))]
    abs = Unary::Abs, -1.5 => 1.5;
    /// Returns the sign of each element: -1, 0 or 1. NaN stays NaN.
    #[doc(alias("jnp.sign", "torch.sign"))]
    sign = Unary::Sign, -1.5 => -1.0;
    /// Rounds each element down to a whole number.
    #[doc(alias("jnp.floor", "torch.floor"))]
    floor = Unary::Floor, -1.5 => -2.0;
    /// Rounds each element up to a whole number.
    #[doc(alias("jnp.ceil", "torch.ceil"))]
    ceil = Unary::Ceil, -1.5 => -1.0;
    /// Rounds each element to the nearest whole number. Halfway values round to even, as in `jnp.round`.
    #[doc(alias("jnp.round", "torch.round"))]
    round = Unary::Round(Rounding::ToEven), 2.5 => 2.0;
    /// Rounds each element to the nearest whole number. Halfway values round away from zero, as in `lax.round`.
    #[doc(alias = "lax.round")]
    round_half_away = Unary::Round(Rounding::AwayFromZero), 2.5 => 3.0;
    /// Returns eˣ of each element.
    #[doc(alias("jnp.exp", "torch.exp"))]
    exp = Unary::Exp, 1.0 => 2.718281828459045;
    /// Returns 2ˣ of each element.
    #[doc(alias("jnp.exp2", "torch.exp2"))]
    exp2 = Unary::Exp2, 3.0 => 8.0;
    /// Returns eˣ - 1 of each element, accurate near 0.
    #[doc(alias("jnp.expm1", "torch.expm1"))]
    expm1 = Unary::Expm1, 1e-20 => 1e-20;
    /// Returns the natural logarithm of each element.
    #[doc(alias("jnp.log", "torch.log"))]
    log = Unary::Log, 1.0 => 0.0;
    /// Returns log(1 + x) of each element, accurate near 0.
    #[doc(alias("jnp.log1p", "torch.log1p"))]
    log1p = Unary::Log1p, 1e-20 => 1e-20;
    /// Returns the square root of each element.
    #[doc(alias("jnp.sqrt", "torch.sqrt"))]
    sqrt = Unary::Sqrt, 9.0 => 3.0;
    /// Returns the reciprocal of the square root of each element.
    #[doc(alias("lax.rsqrt", "torch.rsqrt"))]
    rsqrt = Unary::Rsqrt, 4.0 => 0.5;
    /// Returns the cube root of each element, including negative elements.
    #[doc(alias = "jnp.cbrt")]
    cbrt = Unary::Cbrt, -8.0 => -2.0;
    /// Returns the sine of each element.
    #[doc(alias("jnp.sin", "torch.sin"))]
    sin = Unary::Sin, 1.0 => 0.8414709848078965;
    /// Returns the cosine of each element.
    #[doc(alias("jnp.cos", "torch.cos"))]
    cos = Unary::Cos, 1.0 => 0.5403023058681398;
    /// Returns the tangent of each element.
    #[doc(alias("jnp.tan", "torch.tan"))]
    tan = Unary::Tan, 1.0 => 1.5574077246549023;
    /// Returns the inverse sine of each element, from -π/2 to π/2. The result is NaN for elements outside of [-1, 1].
    #[doc(alias("jnp.arcsin", "torch.asin"))]
    asin = Unary::Asin, 1.0 => 1.5707963267948966;
    /// Returns the inverse cosine of each element, from 0 to π. The result is NaN for elements outside of [-1, 1].
    #[doc(alias("jnp.arccos", "torch.acos"))]
    acos = Unary::Acos, 0.0 => 1.5707963267948966;
    /// Returns the inverse tangent of each element, from -π/2 to π/2.
    #[doc(alias("jnp.arctan", "torch.atan"))]
    atan = Unary::Atan, 1.0 => 0.7853981633974483;
    /// Returns the hyperbolic sine of each element.
    #[doc(alias("jnp.sinh", "torch.sinh"))]
    sinh = Unary::Sinh, 1.0 => 1.1752011936438014;
    /// Returns the hyperbolic cosine of each element.
    #[doc(alias("jnp.cosh", "torch.cosh"))]
    cosh = Unary::Cosh, 1.0 => 1.5430806348152437;
    /// Returns the hyperbolic tangent of each element.
    #[doc(alias("jnp.tanh", "torch.tanh"))]
    tanh = Unary::Tanh, 1.0 => 0.7615941559557649;
    /// Returns the inverse hyperbolic sine of each element.
    #[doc(alias("jnp.arcsinh", "torch.asinh"))]
    asinh = Unary::Asinh, 1.0 => 0.881373587019543;
    /// Returns the inverse hyperbolic cosine of each element. The result is at least 0, and NaN for elements below 1.
    #[doc(alias("jnp.arccosh", "torch.acosh"))]
    acosh = Unary::Acosh, 2.0 => 1.3169578969248166;
    /// Returns the inverse hyperbolic tangent of each element. The result is infinite at ±1, and NaN for elements
    /// outside of [-1, 1].
    #[doc(alias("jnp.arctanh", "torch.atanh"))]
    atanh = Unary::Atanh, 0.5 => 0.5493061443340548;
    /// Returns the logistic function 1 / (1 + e⁻ˣ) of each element.
    #[doc(alias("jax.nn.sigmoid", "scipy.special.expit", "torch.sigmoid"))]
    sigmoid = Unary::Logistic, 0.0 => 0.5;
    /// Returns the error function 2/√π ∫₀ˣ exp(-t²) dt of each element.
    #[doc(alias("lax.erf", "scipy.special.erf", "torch.erf"))]
    erf = Unary::Erf, 1.0 => 0.8427007929497149;
    /// Returns 1 - erf(x) of each element, accurate where the result is small.
    #[doc(alias("lax.erfc", "scipy.special.erfc", "torch.erfc"))]
    erfc = Unary::Erfc, 3.0 => 2.209049699858544e-5;
    /// Returns the inverse error function of each element. The result is infinite at ±1, and NaN for elements outside
    /// of [-1, 1].
    #[doc(alias("lax.erf_inv", "scipy.special.erfinv", "torch.erfinv"))]
    erf_inv = Unary::ErfInv, 0.8427007929497149 => 1.0;
}

/// Elementwise functions composed of other operations.
impl Tensor {
    /// Raises each element to an integer power by multiplication. Use [`pow`](Self::pow) for other exponents and for
    /// exponents in a tensor.
    ///
    /// # Panics
    /// Panics if the tensor contains integers and the exponent is negative.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, -3]).powi(3), Tensor::from([8, -27]));
    /// ```
    #[doc(alias("lax.integer_pow", "jnp.power"))]
    #[must_use]
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Self {
        let _called = called("powi");
        or_panic(elementwise::unary(Unary::IntegerPower(exponent), self))
    }

    /// Returns the square of each element.
    ///
    /// # Panics
    /// Panics if the dtype is bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, -3]).square(), Tensor::from([4, 9]));
    /// ```
    #[doc(alias("jnp.square", "torch.square"))]
    #[must_use]
    #[track_caller]
    pub fn square(&self) -> Self {
        let _called = called("square");
        self.powi(2)
    }

    /// Returns the reciprocal 1 / x of each element.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2.0, -0.25]).reciprocal(), Tensor::from([0.5, -4.0]));
    /// ```
    #[doc(alias("jnp.reciprocal", "torch.reciprocal"))]
    #[must_use]
    #[track_caller]
    pub fn reciprocal(&self) -> Self {
        let _called = called("reciprocal");
        self.powi(-1)
    }

    /// Rounds each element toward zero to a whole number.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.7, -1.7]).trunc(), Tensor::from([1.0, -1.0]));
    /// ```
    #[doc(alias("jnp.trunc", "torch.trunc"))]
    #[must_use]
    #[track_caller]
    pub fn trunc(&self) -> Self {
        let _called = or_panic(called_with_floats("trunc", self));
        fused(&[self], || self.less(0.0).select(self.ceil(), self.floor()))
    }

    /// Returns the base-2 logarithm of each element.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from(8.0).log2().item::<f64>(), 3.0);
    /// ```
    #[doc(alias("jnp.log2", "torch.log2"))]
    #[must_use]
    #[track_caller]
    pub fn log2(&self) -> Self {
        let _called = or_panic(called_with_floats("log2", self));
        fused(&[self], || self.log() / LN_2)
    }

    /// Returns the base-10 logarithm of each element.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert!((Tensor::from(1000.0).log10().item::<f64>() - 3.0).abs() < 1e-15);
    /// ```
    #[doc(alias("jnp.log10", "torch.log10"))]
    #[must_use]
    #[track_caller]
    pub fn log10(&self) -> Self {
        let _called = or_panic(called_with_floats("log10", self));
        fused(&[self], || self.log() * LOG10_E)
    }

    /// Converts each element from degrees to radians.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert!((Tensor::from(30.0).deg2rad().sin().item::<f64>() - 0.5).abs() < 1e-15);
    /// ```
    #[doc(alias("jnp.deg2rad", "torch.deg2rad"))]
    #[must_use]
    #[track_caller]
    pub fn deg2rad(&self) -> Self {
        let _called = or_panic(called_with_floats("deg2rad", self));
        self * (PI / 180.0)
    }

    /// Converts each element from radians to degrees.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert!((Tensor::from(0.5).asin().rad2deg().item::<f64>() - 30.0).abs() < 1e-13);
    /// ```
    #[doc(alias("jnp.rad2deg", "torch.rad2deg"))]
    #[must_use]
    #[track_caller]
    pub fn rad2deg(&self) -> Self {
        let _called = or_panic(called_with_floats("rad2deg", self));
        self * (180.0 / PI)
    }

    /// Returns max(x, 0) of each element. NaN stays NaN. The derivative at 0 and at NaN is 0, as in JAX.
    ///
    /// # Panics
    /// Panics if the dtype is bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// assert_eq!(Tensor::from([-1.0, 2.0]).relu(), Tensor::from([0.0, 2.0]));
    /// assert_eq!(grad(|x: &Tensor| x.relu())(&Tensor::from(0.0)).item::<f64>(), 0.0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn relu(&self) -> Self {
        let _called = called("relu");
        if self.dtype() == DType::Bool {
            return or_panic(Err(TensorError::dtype("relu", &[self.info()], "a number")));
        }
        if self.tracer().is_none() {
            return self.maximum(0);
        }
        // The gradient of `maximum` at 0 would be 1/2. The derivative holds the bools, which take less memory than the operand.
        or_panic(try_differentiated(RematPolicy::Everything, &[self], || {
            let bounded = self.stop_gradient().maximum(0);
            self.greater(0).try_select(self, &bounded)
        }))
    }

    /// Returns the number of bits that are 1 in each element, with the same dtype.
    ///
    /// # Panics
    /// Panics if the dtype is not an integer type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([0, 5, -1]).population_count(), Tensor::from([0, 2, 32]));
    /// ```
    #[doc(alias = "lax.population_count")]
    #[must_use]
    #[track_caller]
    pub fn population_count(&self) -> Self {
        or_panic(elementwise::unary(Unary::PopulationCount, self))
    }

    /// Returns whether each element is NaN, as bools. Integers are never NaN.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, f64::NAN]).isnan(), Tensor::from([false, true]));
    /// ```
    #[doc(alias("jnp.isnan", "torch.isnan"))]
    #[must_use]
    #[track_caller]
    pub fn isnan(&self) -> Self {
        self.not_equal(self)
    }

    /// Returns whether each element is infinite, as bools. Integers are never infinite.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, -f64::INFINITY]).isinf(), Tensor::from([false, true]));
    /// ```
    #[doc(alias("jnp.isinf", "torch.isinf"))]
    #[must_use]
    #[track_caller]
    pub fn isinf(&self) -> Self {
        let _called = called("isinf");
        if self.dtype().is_float() {
            fused(&[self], || self.abs().equal(f64::INFINITY))
        } else {
            self.not_equal(self)
        }
    }

    /// Returns whether each element is neither infinite nor NaN, as bools. Integers are always finite.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, f64::NAN, f64::INFINITY]);
    /// assert_eq!(x.isfinite(), Tensor::from([true, false, false]));
    /// ```
    #[doc(alias("jnp.isfinite", "torch.isfinite"))]
    #[must_use]
    #[track_caller]
    pub fn isfinite(&self) -> Self {
        let _called = called("isfinite");
        if self.dtype().is_float() {
            fused(&[self], || self.abs().less(f64::INFINITY))
        } else {
            self.equal(self)
        }
    }

    /// Replaces NaN by 0, ∞ by the greatest finite number, and -∞ by the least finite number. Integers are unchanged.
    ///
    /// The derivative of a replaced element is 0. However, the function that computed a NaN can still have a NaN
    /// gradient: see [`select`](Self::select).
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, f64::NAN, f64::NEG_INFINITY]);
    /// assert_eq!(x.nan_to_num(), Tensor::from([1.0, 0.0, f64::MIN]));
    /// ```
    #[doc(alias("jnp.nan_to_num", "torch.nan_to_num"))]
    #[must_use]
    #[track_caller]
    pub fn nan_to_num(&self) -> Self {
        let _called = called("nan_to_num");
        let Some((_, greatest)) = self.dtype().element().float_range() else {
            return self.clone();
        };
        fused(&[self], || {
            let of = |value| Self::constant(self.dtype(), value);
            let numbers = self.isnan().select(of(0.0), self);
            let below = numbers.equal(f64::INFINITY).select(of(greatest), &numbers);
            below.equal(f64::NEG_INFINITY).select(of(-greatest), &below)
        })
    }

    /// Returns a tensor with the same elements. `grad` and `jvp` treat the tensor as a constant.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let slope = grad(|x: &Tensor| x * x.stop_gradient())(&Tensor::from(3.0_f32));
    /// assert_eq!(slope.item::<f32>(), 3.0);
    /// ```
    #[doc(alias("lax.stop_gradient", "torch.Tensor.detach"))]
    #[must_use]
    #[track_caller]
    pub fn stop_gradient(&self) -> Self {
        or_panic(elementwise::unary(Unary::StopGradient, self))
    }

    /// Converts the elements to `dtype`, like Rust's `as`.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::from([1.7, -1.7]).convert(DType::I32), Tensor::from([1, -1]));
    /// ```
    #[doc(alias("jnp.astype", "lax.convert_element_type", "torch.Tensor.to"))]
    #[must_use]
    #[track_caller]
    pub fn convert(&self, dtype: DType) -> Self {
        or_panic(convert::convert(self, dtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{grad, jvp};

    /// The first and second derivatives at each point, in forward and in reverse mode.
    fn derivatives(f: fn(&Tensor) -> Tensor, points: &[f64]) -> [[Vec<f64>; 2]; 2] {
        let x = Tensor::from(points.to_vec());
        let ones = Tensor::ones_like(&x);
        let slope = |x: &Tensor| grad(|x: &Tensor| f(x).sum())(x);
        let curvature = grad(|x: &Tensor| slope(x).sum())(&x);
        let tangent = |x: &Tensor| jvp(|x: &Tensor| f(x), x, &ones).1;
        let of_tangent = jvp(|x: &Tensor| tangent(x), &x, &ones).1;
        [[tangent(&x), of_tangent], [slope(&x), curvature]]
            .map(|mode| mode.map(|tensor| tensor.to_vec::<f64>()))
    }

    #[test]
    fn derivatives_at_ends_of_domains_are_limits() {
        let infinite = f64::INFINITY;
        for [first, second] in derivatives(Tensor::asin, &[1.0, -1.0]) {
            assert_eq!(first, [infinite, infinite]);
            assert_eq!(second, [infinite, -infinite]);
        }
        for [first, second] in derivatives(Tensor::acos, &[1.0, -1.0]) {
            assert_eq!(first, [-infinite, -infinite]);
            assert_eq!(second, [-infinite, infinite]);
        }
        for [first, second] in derivatives(Tensor::acosh, &[1.0, infinite]) {
            assert_eq!(first, [infinite, 0.0]);
            assert_eq!(second, [-infinite, 0.0]);
        }
        for [first, second] in derivatives(Tensor::sqrt, &[0.0]) {
            assert_eq!((first, second), (vec![infinite], vec![-infinite]));
        }
    }

    #[test]
    fn acosh_has_no_derivative_outside_of_domain() {
        for [first, second] in derivatives(Tensor::acosh, &[-1.0, -2.0, 0.5]) {
            assert!(first.iter().chain(&second).all(|element| element.is_nan()));
        }
    }
}
