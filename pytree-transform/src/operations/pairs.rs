//! Elementwise functions of two and three tensors, with broadcasting.

use pytree_core::leaf::NumberKind;
use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::{Binary, Comparison};

use crate::base::error::{TensorError, called, or_panic};
use crate::operations::fused::{try_differentiated, try_fused};
use crate::primitives::body::recorded::RematPolicy;
use crate::primitives::elementwise;
use crate::primitives::elementwise::operand::{Operand, beside_each_other, check_quotient};
use crate::primitives::select::{self, Select};
use crate::primitives::tangent::with_tangent_of;
use crate::tensor::Tensor;
use crate::tensor::trace::{bind_repeating, is_staging, overwriting};

/// Applies a function whose derivative computes its factors from the operands again.
#[track_caller]
fn recomputed(operation: Binary, x: &Tensor, y: &Tensor) -> Result<Tensor, TensorError> {
    let function = || elementwise::binary(operation, x, y);
    try_differentiated(RematPolicy::Nothing, &[x, y], function)
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident $try_name:ident = $function:path, $operation:expr;)*) => {
        /// Elementwise functions of two tensors, with broadcasting. The other operand may be a number.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// Panics if the dtypes differ or the shapes do not broadcast.
            #[panicking_twin($name)]
            pub fn $try_name(&self, other: impl Operand) -> Result<Self, TensorError> {
                let _called = called(stringify!($name));
                $function($operation, self, &other.beside(self)?)
            }
        )*}
    };
}

binary_methods! {
    /// Returns the elementwise sum, like `+`.
    #[doc(alias("jnp.add", "torch.add"))]
    add try_add = elementwise::binary, Binary::Add;
    /// Returns the elementwise difference, like `-`.
    #[doc(alias("jnp.subtract", "torch.sub"))]
    subtract try_subtract = elementwise::binary, Binary::Sub;
    /// Returns the elementwise product, like `*`.
    #[doc(alias("jnp.multiply", "torch.mul"))]
    multiply try_multiply = elementwise::binary, Binary::Mul;
    /// Returns the elementwise remainder of the division rounded toward zero, like `%` and `lax.rem`. The remainder has
    /// the sign of the dividend. The remainder of an integer divided by 0 is the dividend. For Python's
    /// `%`, see [`remainder`](Self::remainder).
    #[doc(alias("lax.rem", "torch.fmod"))]
    rem try_rem = elementwise::binary, Binary::Rem;
    /// Raises each element of this tensor to the power of the other tensor's element at the same position. Both tensors
    /// must have the same dtype; for an exponent that is one Rust integer, see [`powi`](Self::powi).
    ///
    /// Of floats, the result is NaN if the base is negative and the exponent is not a whole number. Of integers, the
    /// result wraps around, as in NumPy. A negative power of integers is rounded toward zero: it is ±1 for a base of ±1,
    /// and 0 for other bases, 0 among them. NumPy raises an error there.
    #[doc(alias("jnp.power", "lax.pow", "torch.pow"))]
    pow try_pow = elementwise::binary, Binary::Pow;
    /// Returns the angle of each point (x, y), from -π to π. This tensor contains the y coordinates, and the other
    /// tensor contains the x coordinates.
    #[doc(alias("jnp.arctan2", "torch.atan2"))]
    atan2 try_atan2 = elementwise::binary, Binary::Atan2;
    /// Returns log(eˣ + eʸ) of each pair of elements, without overflow.
    #[doc(alias("jnp.logaddexp", "torch.logaddexp"))]
    logaddexp try_logaddexp = recomputed, Binary::LogAddExp;
    /// Returns the larger element of each pair. The result is NaN if either element is NaN. Equal elements receive half
    /// of the gradient each.
    #[doc(alias("jnp.maximum", "torch.maximum"))]
    maximum try_maximum = recomputed, Binary::Max;
    /// Returns the smaller element of each pair. The result is NaN if either element is NaN. Equal elements receive
    /// half of the gradient each.
    #[doc(alias("jnp.minimum", "torch.minimum"))]
    minimum try_minimum = recomputed, Binary::Min;
    /// Returns whether the two elements of each pair are equal.
    #[doc(alias("jnp.equal", "torch.eq"))]
    equal try_equal = elementwise::compare, Comparison::Eq;
    /// Returns whether the two elements of each pair differ.
    #[doc(alias("jnp.not_equal", "torch.ne"))]
    not_equal try_not_equal = elementwise::compare, Comparison::Ne;
    /// Returns, for each pair of elements, whether the first is less than the second.
    #[doc(alias("jnp.less", "torch.lt"))]
    less try_less = elementwise::compare, Comparison::Lt;
    /// Returns, for each pair of elements, whether the first is less than or equal to the second.
    #[doc(alias("jnp.less_equal", "torch.le"))]
    less_equal try_less_equal = elementwise::compare, Comparison::Le;
    /// Returns, for each pair of elements, whether the first is greater than the second.
    #[doc(alias("jnp.greater", "torch.gt"))]
    greater try_greater = elementwise::compare, Comparison::Gt;
    /// Returns, for each pair of elements, whether the first is greater than or equal to the second.
    #[doc(alias("jnp.greater_equal", "torch.ge"))]
    greater_equal try_greater_equal = elementwise::compare, Comparison::Ge;
    /// Returns the bitwise exclusive or of each pair of elements.
    #[doc(alias("jnp.bitwise_xor", "torch.bitwise_xor"))]
    bit_xor try_bit_xor = elementwise::binary, Binary::Xor;
    /// Shifts the bits of each element to the left. The result is 0 if the shift is the bit width or more.
    #[doc(alias("jnp.left_shift", "lax.shift_left"))]
    shift_left try_shift_left = elementwise::binary, Binary::ShiftLeft;
    /// Shifts the bits of each element to the right, and fills with zeros. The result is 0 if the shift is the bit
    /// width or more. This is `jnp.right_shift` of unsigned integers.
    #[doc(alias("lax.shift_right_logical", "jnp.right_shift"))]
    shift_right try_shift_right = elementwise::binary, Binary::ShiftRight;
    /// Shifts the bits of each element to the right, and fills with copies of the highest bit. The result is the
    /// quotient by a power of 2, rounded down. This is `jnp.right_shift` of signed integers.
    #[doc(alias("lax.shift_right_arithmetic", "jnp.right_shift"))]
    shift_right_arithmetic try_shift_right_arithmetic = elementwise::binary, Binary::ShiftRightArithmetic;
}

/// Functions of two and three tensors composed of other operations.
impl Tensor {
    /// Returns the elementwise quotient, like `/`. An integer quotient is rounded toward zero, as in `lax.div`. An
    /// integer divided by 0 gives a result with all bits set. For Python's `//`, see
    /// [`floor_divide`](Self::floor_divide).
    ///
    /// An integer tensor cannot be divided by a float such as `2.0`, because JAX would return floats.
    ///
    /// # Panics
    /// Panics if the dtypes differ, if the shapes do not broadcast, or if an integer tensor is divided by a float.
    #[doc(alias("jnp.divide", "lax.div", "torch.div"))]
    #[panicking_twin(divide)]
    pub fn try_divide(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("divide");
        check_quotient(&other, self)?;
        elementwise::binary(Binary::Div, self, &other.beside(self)?)
    }

    /// Returns the elementwise quotient rounded down, like Python's `//` and `jnp.floor_divide`.
    ///
    /// # Panics
    /// Panics if the dtypes differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([7, -7]).floor_divide(2), Tensor::from([3, -4]));
    /// ```
    #[doc(alias("jnp.floor_divide", "torch.floor_divide"))]
    #[panicking_twin(floor_divide)]
    pub fn try_floor_divide(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("floor_divide");
        let other = &other.beside(self)?;
        try_fused(&[self, other], || {
            let (x, y) = elementwise::broadcast_together("floor_divide", self, other)?;
            if x.dtype().kind() == NumberKind::Unsigned {
                return x.try_divide(&y);
            }
            // If the signs differ and the remainder is not 0, the quotient rounded toward zero is too large by one.
            if !x.dtype().is_float() {
                let rest = x.try_rem(&y)?;
                let above = x.sign().not_equal(y.sign()) & rest.not_equal(0);
                let quotient = &x / &y;
                return Ok(above.select(&quotient - 1, &quotient));
            }
            // If the divisor is 0, return the plain quotient, which is infinite or NaN. The remainder would be NaN.
            let is_zero = y.equal(0.0);
            let of = |value| Self::constant(x.dtype(), value);
            let rest = is_zero
                .select(of(0.0), &x)
                .try_rem(is_zero.select(of(1.0), &y))?;
            let dividend = is_zero.select(&x, &x - &rest);
            let quotient = dividend / &y;
            let above = rest.not_equal(0.0) & rest.sign().not_equal(y.sign());
            Ok(above.select(&quotient - 1.0, &quotient).round_half_away())
        })
    }

    /// Returns the remainder of [`floor_divide`](Self::floor_divide), with the sign of the divisor, like Python's `%`
    /// and `jnp.remainder`. The remainder of an integer divided by 0 is 0. For Rust's `%`, see [`rem`](Self::rem).
    ///
    /// # Panics
    /// Panics if the dtypes differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([7, -7]).remainder(3), Tensor::from([1, 2]));
    /// assert_eq!(Tensor::from([7, -7]).rem(3), Tensor::from([1, -1]));
    /// ```
    #[doc(alias("jnp.remainder", "torch.remainder"))]
    #[panicking_twin(remainder)]
    pub fn try_remainder(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("remainder");
        let other = &other.beside(self)?;
        try_fused(&[self, other], || {
            let (x, mut y) = elementwise::broadcast_together("remainder", self, other)?;
            if x.dtype() == DType::Bool {
                return Err(TensorError::dtype(
                    "remainder",
                    &[x.info(), y.info()],
                    "numbers",
                ));
            }
            if !x.dtype().is_float() {
                y = y.try_equal(0)?.select(Self::ones_like(&y), &y);
            }
            let rest = x.try_rem(&y)?;
            let zeros = Self::zeros_like(&rest);
            let other_sign = rest.less(&zeros).not_equal(y.less(&zeros));
            Ok((other_sign & rest.not_equal(&zeros)).select(&rest + &y, &rest))
        })
    }

    /// Returns √(x² + y²) of each pair of elements, without overflow or underflow of the squares.
    ///
    /// # Panics
    /// Panics if the dtypes are not the same float type, or if the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let length = Tensor::from([3.0, 3e200]).hypot(Tensor::from([4.0, 4e200])).to_vec::<f64>();
    /// assert_eq!(length[0], 5.0);
    /// assert!((length[1] / 5e200 - 1.0).abs() < 1e-15);
    /// ```
    #[doc(alias("jnp.hypot", "torch.hypot"))]
    #[panicking_twin(hypot)]
    pub fn try_hypot(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("hypot");
        let other = &other.beside(self)?;
        try_fused(&[self, other], || {
            let (x, y) = elementwise::broadcast_together("hypot", self, other)?;
            let (x, y) = (x.abs(), y.abs());
            let infinite = x.try_equal(f64::INFINITY)? | y.try_equal(f64::INFINITY)?;
            let (larger, smaller) = (x.try_maximum(&y)?, x.try_minimum(&y)?);
            let has_no_quotient = larger.equal(0.0) | larger.equal(f64::INFINITY);
            let divisor = has_no_quotient.select(Self::ones_like(&larger), &larger);
            let length = &larger * ((smaller / divisor).square() + 1.0).sqrt();
            let infinity = Self::constant(length.dtype(), f64::INFINITY);
            Ok(infinite.select(&infinity, &length))
        })
    }

    /// Returns the step function of each element x: 0 if x is negative, `at_zero` if x is 0, 1 if x is positive, and
    /// NaN if x is NaN.
    ///
    /// # Panics
    /// Panics if the dtypes are not the same float type, or if the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([-2.0, 0.0, 2.0]).heaviside(0.5), Tensor::from([0.0, 0.5, 1.0]));
    /// ```
    #[doc(alias("jnp.heaviside", "torch.heaviside"))]
    #[panicking_twin(heaviside)]
    pub fn try_heaviside(&self, at_zero: impl Operand) -> Result<Self, TensorError> {
        let _called = called("heaviside");
        let at_zero = &at_zero.beside(self)?;
        try_fused(&[self, at_zero], || {
            let of = |value| Self::constant(self.dtype(), value);
            let numbers = self.isnan().try_select(self, at_zero)?;
            let right = self.try_greater(0.0)?.select(of(1.0), &numbers);
            Ok(self.less(0.0).select(of(0.0), &right))
        })
    }

    /// Limits each element to the range from `low` to `high`.
    ///
    /// If an element equals a bound, the element and the bound receive half of the gradient each, as in `jnp.clip`. In
    /// [`clamp`](Self::clamp), neither the element nor the bound receives a gradient in this case.
    ///
    /// # Panics
    /// Panics if the dtypes differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([-2, 1, 5]).clip(0, 3), Tensor::from([0, 1, 3]));
    /// ```
    #[doc(alias("jnp.clip", "torch.clamp"))]
    #[must_use]
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Self {
        let _called = called("clip");
        let (low, high) = (or_panic(low.beside(self)), or_panic(high.beside(self)));
        or_panic(try_fused(&[self, &low, &high], || {
            self.try_maximum(&low)?.try_minimum(&high)
        }))
    }

    /// Limits each element to the range from `low` to `high`, with the gradient of `lax.clamp`. An element strictly
    /// between the bounds receives the gradient. If an element is strictly outside of the bounds, the nearer bound
    /// receives the gradient.
    ///
    /// # Panics
    /// Panics if the dtypes differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let x = Tensor::from([-1.0, 0.0, 0.5, 2.0]);
    /// assert_eq!(x.clamp(0.0, 1.0), Tensor::from([0.0, 0.0, 0.5, 1.0]));
    /// let slopes = grad(|x: &Tensor| x.clamp(0.0, 1.0).sum())(&x);
    /// assert_eq!(slopes, Tensor::from([0.0, 0.0, 1.0, 0.0]));
    /// ```
    #[doc(alias = "lax.clamp")]
    #[panicking_twin(clamp, composed)]
    pub fn try_clamp(&self, low: impl Operand, high: impl Operand) -> Result<Self, TensorError> {
        let _called = called("clamp");
        let (low, high) = (low.beside(self)?, high.beside(self)?);
        // The selections below determine the gradient, and change no number.
        if [self, &low, &high].iter().all(|it| it.array().is_some()) {
            return match overwriting(&Binary::Min, [self.try_maximum(&low)?, high]) {
                Ok(limited) => Ok(limited),
                Err([limited, high]) => limited.try_minimum(&high),
            };
        }
        if !is_staging() && [&low, &high].iter().all(|it| it.array().is_some()) {
            let operands = [self, &low, &high];
            // The derivative holds the bools, which take less memory than the operand.
            return try_differentiated(RematPolicy::Everything, &operands, || {
                let limited = self.stop_gradient().try_maximum(&low)?.try_minimum(&high)?;
                let inside = self.greater(&low) & self.less(&high);
                inside.try_select(self, &limited)
            });
        }
        let limited = self.try_maximum(&low)?.try_minimum(&high)?;
        let inside = self.greater(&low) & self.less(&high);
        let below = low.greater(self) & low.less(&high);
        let above = high.less(self);
        // If the lower bound is NaN, the result must be NaN. So also make the upper bound NaN.
        let upper = if self.dtype().is_float() {
            let is_nan = low.isnan();
            let shift = Self::full_like(&low, f64::NAN);
            &high + is_nan.select(&shift, Self::full_like(&low, -0.0))
        } else {
            high
        };
        let limited = limited.stop_gradient();
        let above = above.select(&upper, &limited);
        with_tangent_of(&limited, &inside.select(self, below.select(&low, &above)))
    }

    /// Selects elements of `on_true` where this bool tensor is true, and elements of `on_false` elsewhere, like
    /// `jnp.where`. The operands broadcast. A number has the dtype of the other operand. Two numbers have the dtype of their Rust type,
    /// as in [`Tensor::from`]: of a float and an integer, the dtype of the float.
    ///
    /// Both sides and their derivatives are computed for all elements. If the derivative of the side that is not
    /// selected is infinite, the gradient is NaN, because zero times infinity is NaN. To avoid the NaN, select twice.
    /// First, where a side is not selected, replace the operand from which this side is computed by a harmless number.
    /// Then select between the two sides.
    ///
    /// # Panics
    /// Panics if this is not a tensor of bools, if the dtypes differ, or if the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let x = Tensor::from([0.0, 4.0]);
    /// assert_eq!(x.greater(0.0).select(10.0, -10.0), Tensor::from([-10.0, 10.0]));
    /// let root = |x: &Tensor| x.greater(0.0).select(x.sqrt(), 0.0).sum();
    /// assert!(grad(root)(&x).to_vec::<f64>()[0].is_nan());
    ///
    /// let safe_root = |x: &Tensor| {
    ///     let positive = x.greater(0.0);
    ///     let safe = positive.select(x, 1.0);
    ///     positive.select(safe.sqrt(), 0.0).sum()
    /// };
    /// assert_eq!(grad(safe_root)(&x), Tensor::from([0.0, 0.25]));
    /// ```
    #[doc(alias("jnp.where", "lax.select", "torch.where", "torch.Tensor.masked_fill"))]
    #[panicking_twin(select)]
    pub fn try_select(
        &self,
        on_true: impl Operand,
        on_false: impl Operand,
    ) -> Result<Self, TensorError> {
        let (on_true, on_false) = beside_each_other(&on_true, &on_false, self)?;
        // The kernel repeats numbers, but not the condition.
        if self.len() > 1
            && let Some(selected) = bind_repeating(&Select, &[self, &on_true, &on_false])?
        {
            return Ok(selected);
        }
        let (on_true, on_false) = elementwise::broadcast_together("select", &on_true, &on_false)?;
        let (condition, on_true) = elementwise::broadcast_together("select", self, &on_true)?;
        let (_, on_false) = elementwise::broadcast_together("select", &condition, &on_false)?;
        select::select(&condition, &on_true, &on_false)
    }
}
