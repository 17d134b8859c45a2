//! Functions of one tensor, element by element.

use std::f64::consts::{LN_2, LOG10_E, PI};

use crate::base::dtype::DType;
use crate::base::error::{TensorError, called, or_panic};
use crate::operations::reduce::check_float;
use crate::primitives::convert;
use crate::primitives::elementwise::{self};
use crate::tensor::Tensor;
use crate::tensor::elementwise::{Rounding, Unary};

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $operation:expr, $at:literal => $value:literal;)*) => {
        /// Functions element by element.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If the element type has no such function.
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
                or_panic(elementwise::unary($operation, self))
            }
        )*}
    };
}

unary_methods! {
    /// The absolute values.
    abs = Unary::Abs, -1.5 => 1.5;
    /// The signs: -1, 0 or 1; NaN stays NaN.
    sign = Unary::Sign, -1.5 => -1.0;
    /// The greatest whole numbers that are not greater.
    floor = Unary::Floor, -1.5 => -2.0;
    /// The least whole numbers that are not less.
    ceil = Unary::Ceil, -1.5 => -1.0;
    /// The nearest whole numbers; halfway, the even one, as `jnp.round` does.
    round = Unary::Round(Rounding::ToEven), 2.5 => 2.0;
    /// The nearest whole numbers; halfway, the one away from zero, as `lax.round` does.
    round_half_away = Unary::Round(Rounding::AwayFromZero), 2.5 => 3.0;
    /// eˣ.
    exp = Unary::Exp, 1.0 => 2.718281828459045;
    /// 2ˣ.
    exp2 = Unary::Exp2, 3.0 => 8.0;
    /// eˣ - 1, exact near 0.
    expm1 = Unary::Expm1, 1e-20 => 1e-20;
    /// The natural logarithm.
    log = Unary::Log, 1.0 => 0.0;
    /// log(1 + x), exact near 0.
    log1p = Unary::Log1p, 1e-20 => 1e-20;
    /// The square root.
    sqrt = Unary::Sqrt, 9.0 => 3.0;
    /// The reciprocal of the square root.
    rsqrt = Unary::Rsqrt, 4.0 => 0.5;
    /// The cube root, of negative numbers too.
    cbrt = Unary::Cbrt, -8.0 => -2.0;
    /// The sine.
    sin = Unary::Sin, 1.0 => 0.8414709848078965;
    /// The cosine.
    cos = Unary::Cos, 1.0 => 0.5403023058681398;
    /// The tangent.
    tan = Unary::Tan, 1.0 => 1.5574077246549023;
    /// The inverse of the sine, from -π/2 to π/2; NaN beyond ±1.
    asin = Unary::Asin, 1.0 => 1.5707963267948966;
    /// The inverse of the cosine, from 0 to π; NaN beyond ±1.
    acos = Unary::Acos, 0.0 => 1.5707963267948966;
    /// The inverse of the tangent, from -π/2 to π/2.
    atan = Unary::Atan, 1.0 => 0.7853981633974483;
    /// The hyperbolic sine.
    sinh = Unary::Sinh, 1.0 => 1.1752011936438014;
    /// The hyperbolic cosine.
    cosh = Unary::Cosh, 1.0 => 1.5430806348152437;
    /// The hyperbolic tangent.
    tanh = Unary::Tanh, 1.0 => 0.7615941559557649;
    /// The inverse of the hyperbolic sine.
    asinh = Unary::Asinh, 1.0 => 0.881373587019543;
    /// The inverse of the hyperbolic cosine, from 0 on; NaN below 1.
    acosh = Unary::Acosh, 2.0 => 1.3169578969248166;
    /// The inverse of the hyperbolic tangent; infinite at ±1 and NaN beyond.
    atanh = Unary::Atanh, 0.5 => 0.5493061443340548;
    /// The logistic function 1 / (1 + e⁻ˣ).
    sigmoid = Unary::Logistic, 0.0 => 0.5;
    /// The error function 2/√π ∫₀ˣ exp(-t²) dt.
    erf = Unary::Erf, 1.0 => 0.8427007929497149;
    /// 1 - erf(x), exact where that is small.
    erfc = Unary::Erfc, 3.0 => 2.209049699858544e-5;
    /// The inverse of the error function, on (-1, 1).
    erf_inv = Unary::ErfInv, 0.8427007929497149 => 1.0;
}

/// Functions element by element, written in others.
impl Tensor {
    /// Each element to an integer power, by multiplication; [`pow`](Self::pow) takes other exponents.
    ///
    /// # Panics
    /// If a tensor of integers is to be raised to a negative power.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, -3]).powi(3), Tensor::from([8, -27]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Self {
        let _called = called("powi");
        or_panic(elementwise::unary(Unary::IntegerPower(exponent), self))
    }

    /// Each element squared.
    ///
    /// # Panics
    /// If this is a tensor of bools.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2, -3]).square(), Tensor::from([4, 9]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn square(&self) -> Self {
        let _called = called("square");
        self.powi(2)
    }

    /// 1 / x.
    ///
    /// # Panics
    /// If this is not a tensor of floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([2.0, -0.25]).reciprocal(), Tensor::from([0.5, -4.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn reciprocal(&self) -> Self {
        let _called = called("reciprocal");
        self.powi(-1)
    }

    /// The whole numbers that are left without what is behind the point.
    ///
    /// # Panics
    /// If this is not a tensor of floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.7, -1.7]).trunc(), Tensor::from([1.0, -1.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn trunc(&self) -> Self {
        let _called = called("trunc");
        or_panic(check_float("trunc", self));
        self.less(0.0).select(&self.ceil(), &self.floor())
    }

    /// The logarithm to base 2.
    ///
    /// # Panics
    /// If this is not a tensor of floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from(8.0).log2().item::<f64>(), 3.0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn log2(&self) -> Self {
        let _called = called("log2");
        or_panic(check_float("log2", self));
        self.log() / LN_2
    }

    /// The logarithm to base 10.
    ///
    /// # Panics
    /// If this is not a tensor of floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert!((Tensor::from(1000.0).log10().item::<f64>() - 3.0).abs() < 1e-15);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn log10(&self) -> Self {
        let _called = called("log10");
        or_panic(check_float("log10", self));
        self.log() * LOG10_E
    }

    /// Radians of degrees.
    ///
    /// # Panics
    /// If this is not a tensor of floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert!((Tensor::from(30.0).deg2rad().sin().item::<f64>() - 0.5).abs() < 1e-15);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn deg2rad(&self) -> Self {
        let _called = called("deg2rad");
        or_panic(check_float("deg2rad", self));
        self * (PI / 180.0)
    }

    /// Degrees of radians.
    ///
    /// # Panics
    /// If this is not a tensor of floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert!((Tensor::from(0.5).asin().rad2deg().item::<f64>() - 30.0).abs() < 1e-13);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rad2deg(&self) -> Self {
        let _called = called("rad2deg");
        or_panic(check_float("rad2deg", self));
        self * (180.0 / PI)
    }

    /// The positive part, max(x, 0); its derivative at 0 is 0, as in JAX, and NaN stays NaN.
    ///
    /// # Panics
    /// If this is a tensor of bools.
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
        let zeros = Self::zeros_like(self);
        self.less_equal(&zeros).select(&zeros, self)
    }

    /// The number of bits that are 1, in the same type.
    ///
    /// # Panics
    /// If this is not a tensor of integers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([0, 5, -1]).population_count(), Tensor::from([0, 2, 32]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn population_count(&self) -> Self {
        or_panic(elementwise::unary(Unary::PopulationCount, self))
    }

    /// Whether each element is NaN, as bools; integers never are.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, f64::NAN]).isnan(), Tensor::from([false, true]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isnan(&self) -> Self {
        self.not_equal(self)
    }

    /// Whether each element is infinite, as bools; integers never are.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1.0, -f64::INFINITY]).isinf(), Tensor::from([false, true]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isinf(&self) -> Self {
        if self.dtype().is_float() {
            self.abs().equal(f64::INFINITY)
        } else {
            self.not_equal(self)
        }
    }

    /// Whether each element is neither infinite nor NaN, as bools; integers always are.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, f64::NAN, f64::INFINITY]);
    /// assert_eq!(x.isfinite(), Tensor::from([true, false, false]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isfinite(&self) -> Self {
        if self.dtype().is_float() {
            self.abs().less(f64::INFINITY)
        } else {
            self.equal(self)
        }
    }

    /// The elements with 0 in place of NaN, and the greatest and the least finite number in place of the
    /// infinities. Integers stay as they are.
    ///
    /// The derivative is 0 where an element was replaced. That helps no function that made the NaN: see
    /// [`select`](Self::select).
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, f64::NAN, f64::NEG_INFINITY]);
    /// assert_eq!(x.nan_to_num(), Tensor::from([1.0, 0.0, f64::MIN]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn nan_to_num(&self) -> Self {
        let greatest = match self.dtype() {
            DType::F32 => f64::from(f32::MAX),
            DType::F64 => f64::MAX,
            _ => return self.clone(),
        };
        let of = |value| Self::constant(self.dtype(), value);
        let numbers = self.isnan().select(&of(0.0), self);
        let below = numbers.equal(f64::INFINITY).select(&of(greatest), &numbers);
        below
            .equal(f64::NEG_INFINITY)
            .select(&of(-greatest), &below)
    }

    /// The tensor itself, to be taken as a constant by `grad` and `jvp`.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let slope = grad(|x: &Tensor| x * x.stop_gradient())(&Tensor::from(3.0_f32));
    /// assert_eq!(slope.item::<f32>(), 3.0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn stop_gradient(&self) -> Self {
        or_panic(elementwise::unary(Unary::StopGradient, self))
    }

    /// The tensor with another element type, converted as Rust's `as` does.
    ///
    /// # Panics
    /// If the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::from([1.7, -1.7]).convert(DType::I32), Tensor::from([1, -1]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn convert(&self, dtype: DType) -> Self {
        or_panic(convert::convert(self, dtype))
    }
}
