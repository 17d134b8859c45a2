//! Functions of two and three tensors, element by element, after broadcasting.

use pytree_derive::panicking_twin;

use crate::base::dtype::DType;
use crate::base::error::{TensorError, called};
use crate::primitives::elementwise::operators::Operand;
use crate::primitives::elementwise::{self};
use crate::primitives::select;
use crate::tensor::Tensor;
use crate::tensor::elementwise::{Binary, Comparison};

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident $try_name:ident = $function:path, $operation:expr;)*) => {
        /// Functions of two tensors, after broadcasting. The other may be a number.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// If the element types differ or the shapes do not broadcast.
            #[must_use]
            #[panicking_twin($name)]
            #[track_caller]
            pub fn $try_name(&self, other: impl Operand) -> Result<Self, TensorError> {
                let _called = called(stringify!($name));
                $function($operation, self, &other.beside(self)?)
            }
        )*}
    };
}

binary_methods! {
    /// The sum; as `+`.
    add_to try_add = elementwise::binary, Binary::Add;
    /// The difference; as `-`.
    sub_from try_sub = elementwise::binary, Binary::Sub;
    /// The product element by element; as `*`.
    multiply try_mul = elementwise::binary, Binary::Mul;
    /// The quotient; as `/`. Of integers it is rounded toward zero, as `lax.div`, and all bits are set where the
    /// divisor is 0; [`floor_divide`](Self::floor_divide) is Python's `//`.
    divide try_div = elementwise::binary, Binary::Div;
    /// The remainder of the division rounded toward zero, with the sign of the dividend, as Rust's `%` and
    /// `lax.rem`; an integer divided by 0 leaves the dividend. [`remainder`](Self::remainder) is Python's.
    rem try_rem = elementwise::binary, Binary::Rem;
    /// Each element of the first to the power of the second, of floats; NaN where the base is negative and the
    /// exponent no whole number. [`powi`](Self::powi) multiplies, and takes integers.
    pow try_pow = elementwise::binary, Binary::Pow;
    /// The angle of the point whose ordinate is this tensor and whose abscissa is the other, from -π to π.
    atan2 try_atan2 = elementwise::binary, Binary::Atan2;
    /// log(eˣ + eʸ), which does not overflow.
    logaddexp try_logaddexp = elementwise::binary, Binary::LogAddExp;
    /// The larger of each pair; NaN if either is. Equal ones share the gradient.
    maximum try_maximum = elementwise::binary, Binary::Max;
    /// The smaller of each pair; NaN if either is. Equal ones share the gradient.
    minimum try_minimum = elementwise::binary, Binary::Min;
    /// Whether each pair is equal.
    equal try_equal = elementwise::compare, Comparison::Eq;
    /// Whether each pair is not equal.
    not_equal try_not_equal = elementwise::compare, Comparison::Ne;
    /// Whether the first of each pair is less.
    less try_less = elementwise::compare, Comparison::Lt;
    /// Whether the first of each pair is less or equal.
    less_equal try_less_equal = elementwise::compare, Comparison::Le;
    /// Whether the first of each pair is greater.
    greater try_greater = elementwise::compare, Comparison::Gt;
    /// Whether the first of each pair is greater or equal.
    greater_equal try_greater_equal = elementwise::compare, Comparison::Ge;
    /// The bits that differ.
    bit_xor try_bit_xor = elementwise::binary, Binary::Xor;
    /// The bits shifted to the left; by the width or more, 0.
    shift_left try_shift_left = elementwise::binary, Binary::ShiftLeft;
    /// The bits shifted to the right, zeros coming in; by the width or more, 0.
    shift_right try_shift_right = elementwise::binary, Binary::ShiftRight;
    /// The bits shifted to the right, copies of the highest coming in: division by a power of 2 rounded down.
    shift_right_arithmetic try_shift_right_arithmetic = elementwise::binary, Binary::ShiftRightArithmetic;
}

/// Functions of two and three tensors, written in others.
impl Tensor {
    /// The quotient rounded down, as Python's `//` and `jnp.floor_divide`.
    ///
    /// # Panics
    /// If the element types differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([7, -7]).floor_divide(2), Tensor::from([3, -4]));
    /// ```
    #[must_use]
    #[panicking_twin(floor_divide)]
    #[track_caller]
    pub fn try_floor_divide(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("floor_divide");
        let other = &other.beside(self)?;
        let (x, y) = elementwise::broadcast_together("floor_divide", self, other)?;
        let rest = x.try_rem(&y)?;
        if x.dtype() == DType::U32 {
            return x.try_div(&y);
        }
        // Where the signs differ, the quotient rounded toward zero is one more.
        if !x.dtype().is_float() {
            let above = x.sign().not_equal(y.sign()) & rest.not_equal(0);
            let quotient = &x / &y;
            return Ok(above.select(&(&quotient - 1), &quotient));
        }
        // By 0 it is the quotient itself, infinite or NaN.
        let dividend = y.equal(0.0).select(&x, &(&x - &rest));
        let quotient = dividend / &y;
        let above = rest.not_equal(0.0) & rest.sign().not_equal(y.sign());
        Ok(above
            .select(&(&quotient - 1.0), &quotient)
            .round_half_away())
    }

    /// The remainder of [`floor_divide`](Self::floor_divide), with the sign of the divisor, as Python's `%`
    /// and `jnp.remainder`; an integer divided by 0 leaves 0. [`rem`](Self::rem) is Rust's.
    ///
    /// # Panics
    /// If the element types differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([7, -7]).remainder(3), Tensor::from([1, 2]));
    /// assert_eq!(Tensor::from([7, -7]).rem(3), Tensor::from([1, -1]));
    /// ```
    #[must_use]
    #[panicking_twin(remainder)]
    #[track_caller]
    pub fn try_remainder(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("remainder");
        let other = &other.beside(self)?;
        let (x, mut y) = elementwise::broadcast_together("remainder", self, other)?;
        if x.dtype() == DType::Bool {
            return Err(TensorError::dtype(
                "remainder",
                &[x.info(), y.info()],
                "numbers",
            ));
        }
        if !x.dtype().is_float() {
            y = y.try_equal(0)?.select(&Self::ones_like(&y), &y);
        }
        let rest = x.try_rem(&y)?;
        let zeros = Self::zeros_like(&rest);
        let other_sign = rest.less(&zeros).not_equal(y.less(&zeros));
        Ok((other_sign & rest.not_equal(&zeros)).select(&(&rest + &y), &rest))
    }

    /// √(x² + y²), which neither overflows nor underflows on the way.
    ///
    /// # Panics
    /// If these are not tensors of floats of one element type, or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let length = Tensor::from([3.0, 3e200]).hypot(Tensor::from([4.0, 4e200])).to_vec::<f64>();
    /// assert_eq!(length[0], 5.0);
    /// assert!((length[1] / 5e200 - 1.0).abs() < 1e-15);
    /// ```
    #[must_use]
    #[panicking_twin(hypot)]
    #[track_caller]
    pub fn try_hypot(&self, other: impl Operand) -> Result<Self, TensorError> {
        let _called = called("hypot");
        let other = &other.beside(self)?;
        let (x, y) = elementwise::broadcast_together("hypot", self, other)?;
        let (x, y) = (x.abs(), y.abs());
        let infinite = x.try_equal(f64::INFINITY)? | y.try_equal(f64::INFINITY)?;
        let (larger, smaller) = (x.try_maximum(&y)?, x.try_minimum(&y)?);
        let both_zero = larger.equal(0.0);
        let divisor = both_zero.select(&Self::ones_like(&larger), &larger);
        let length = &larger * ((smaller / divisor).square() + 1.0).sqrt();
        let length = both_zero.select(&larger, &length);
        let infinity = Self::constant(length.dtype(), f64::INFINITY);
        Ok(infinite.select(&infinity, &length))
    }

    /// 0 where this tensor is negative, 1 where it is positive, the other where it is 0, and NaN where it is NaN.
    ///
    /// # Panics
    /// If these are not tensors of floats of one element type, or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([-2.0, 0.0, 2.0]).heaviside(0.5), Tensor::from([0.0, 0.5, 1.0]));
    /// ```
    #[must_use]
    #[panicking_twin(heaviside)]
    #[track_caller]
    pub fn try_heaviside(&self, at_zero: impl Operand) -> Result<Self, TensorError> {
        let _called = called("heaviside");
        let of = |value| Self::constant(self.dtype(), value);
        let numbers = self.isnan().try_select(self, &at_zero.beside(self)?)?;
        let right = self.try_greater(0.0)?.select(&of(1.0), &numbers);
        Ok(self.less(0.0).select(&of(0.0), &right))
    }

    /// Each element, but not less than `low` nor more than `high`.
    ///
    /// An element equal to a bound shares the gradient with it, as in `jnp.clip`; in [`clamp`](Self::clamp)
    /// neither receives one.
    ///
    /// # Panics
    /// If the element types differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([-2, 1, 5]).clip(0, 3), Tensor::from([0, 1, 3]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Self {
        let _called = called("clip");
        self.maximum(low).minimum(high)
    }

    /// Each element, but not less than `low` nor more than `high`, with the gradient of `lax.clamp`: it goes to
    /// the element strictly between the bounds, and to the bound strictly beyond.
    ///
    /// # Panics
    /// If the element types differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let x = Tensor::from([-1.0, 0.0, 0.5, 2.0]);
    /// assert_eq!(x.clamp(0.0, 1.0), Tensor::from([0.0, 0.0, 0.5, 1.0]));
    /// let slopes = grad(|x: &Tensor| x.clamp(0.0, 1.0).sum())(&x);
    /// assert_eq!(slopes, Tensor::from([0.0, 0.0, 1.0, 0.0]));
    /// ```
    #[must_use]
    #[panicking_twin(clamp)]
    #[track_caller]
    pub fn try_clamp(&self, low: impl Operand, high: impl Operand) -> Result<Self, TensorError> {
        let _called = called("clamp");
        let (low, high) = (low.beside(self)?, high.beside(self)?);
        let limited = self.try_maximum(&low)?.try_minimum(&high)?;
        let inside = self.greater(&low) & self.less(&high);
        let below = low.greater(self) & low.less(&high);
        // What none of the three conditions holds for is a constant; NaN as a lower bound is such, too.
        let above = high.less(self) & limited.equal(&high);
        let above = above.select(&high, &limited.stop_gradient());
        Ok(inside.select(self, &below.select(&low, &above)))
    }

    /// Where this tensor of bools is true the elements of `on_true`, elsewhere those of `on_false`, after
    /// broadcasting: `jnp.where`.
    ///
    /// Both sides are computed everywhere, and so are their derivatives. Where the side not chosen has an
    /// infinite derivative, zero times infinity makes the gradient NaN. So choose twice: first the operand, a
    /// harmless number where the function is not wanted, and then the result.
    ///
    /// # Panics
    /// If this is not a tensor of bools, if the element types differ or the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let (x, zero) = (Tensor::from([0.0, 4.0]), Tensor::from(0.0));
    /// let root = |x: &Tensor| x.greater(0.0).select(&x.sqrt(), &zero).sum();
    /// assert!(grad(root)(&x).to_vec::<f64>()[0].is_nan());
    ///
    /// let safe_root = |x: &Tensor| {
    ///     let positive = x.greater(0.0);
    ///     let safe = positive.select(x, &Tensor::ones_like(x));
    ///     positive.select(&safe.sqrt(), &zero).sum()
    /// };
    /// assert_eq!(grad(safe_root)(&x), Tensor::from([0.0, 0.25]));
    /// ```
    #[must_use]
    #[panicking_twin(select)]
    #[track_caller]
    pub fn try_select(&self, on_true: &Self, on_false: &Self) -> Result<Self, TensorError> {
        let (on_true, on_false) = elementwise::broadcast_together("select", on_true, on_false)?;
        let (condition, on_true) = elementwise::broadcast_together("select", self, &on_true)?;
        let (_, on_false) = elementwise::broadcast_together("select", &condition, &on_false)?;
        select::select(&condition, &on_true, &on_false)
    }
}
