//! Random bits and uniform integers of every integer dtype.

use pytree_core::leaf::NumberKind;
use pytree_transform::extend::called;
use pytree_transform::{DType, Tensor};

use crate::random::arguments::check_range;
use crate::random::key::Key;

impl Key {
    /// Returns random integers of a dtype, in which all bits are random: `[..shape]`. For i64, the result has the bits
    /// of JAX's u64 result, because u64 is not a dtype of this crate.
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not an integer dtype.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let bytes = Key::new(0).bits_of(DType::U8, [3]);
    /// assert_eq!(bytes.dtype(), DType::U8);
    /// assert_eq!(Key::new(0).bits_of(DType::U32, [3]), Key::new(0).bits([3]));
    /// ```
    #[doc(alias = "jax.random.bits")]
    #[track_caller]
    pub fn bits_of(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("bits_of");
        check_integer(dtype);
        if dtype == DType::I64 {
            let (high, low) = self.words(shape.as_ref(), "draw from");
            return high
                .convert(dtype)
                .shift_left(32)
                .bit_xor(low.convert(dtype));
        }
        narrowed(&self.bits(shape), dtype)
    }

    /// Returns uniform integers of a dtype in `low..high`: `[..shape]`.
    ///
    /// `high` may be one more than the greatest integer of the dtype: `0..256` is the range of all u8 numbers.
    ///
    /// # Panics
    /// If:
    /// - this is a stack of keys
    /// - `dtype` is not an integer dtype
    /// - `shape` has elements, and the range is empty or contains an integer that the dtype does not hold
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let pixels = Key::new(0).randint_of(DType::U8, [28, 28], 0, 256);
    /// assert_eq!(pixels.shape(), [28, 28]);
    /// ```
    #[doc(alias = "jax.random.randint")]
    #[track_caller]
    pub fn randint_of(
        &self,
        dtype: DType,
        shape: impl AsRef<[usize]>,
        low: i64,
        high: i64,
    ) -> Tensor {
        let _called = called("randint_of");
        check_integer(dtype);
        let shape = shape.as_ref();
        let limits = dtype.integer_range().unwrap_or_default();
        check_range(shape, (low, high), limits);
        if dtype.element().bits() < 32 {
            // Narrow dtypes are drawn as i32, because remainders of 32 random bits are less biased.
            return self.randint_of(DType::I32, shape, low, high).convert(dtype);
        }
        // If the range contains all integers of the dtype, the span is 2^width. `Span::new` stores this span as 0.
        let span = if high > low { high.abs_diff(low) } else { 1 };
        // No closure is used here, because a panic in a closure would not report the caller's line.
        let upper = self.fold_in(0_u32).bits_of(unsigned(dtype), shape);
        let lower = self.fold_in(1_u32).bits_of(unsigned(dtype), shape);
        let span = Span::new(dtype, span);
        let low = Tensor::from(low).convert(dtype);
        span.offset(&upper, &lower).convert(dtype) + low
    }
}

/// Returns the unsigned dtype of the same width. For i64, returns i64, which holds the bits of u64 numbers.
fn unsigned(dtype: DType) -> DType {
    dtype.with_kind(NumberKind::Unsigned).unwrap_or(dtype)
}

/// Converts u32 numbers to an integer dtype of at most 32 bits. Keeps the lowest bits of each number.
fn narrowed(bits: &Tensor, dtype: DType) -> Tensor {
    let width = dtype.element().bits();
    if width == 32 {
        return bits.convert(dtype);
    }
    let lowest = bits.shift_left(32 - width).shift_right(32 - width);
    if dtype == unsigned(dtype) {
        return lowest.convert(dtype);
    }
    // Numbers whose highest bit is set are negative in the signed dtype.
    let wide = lowest.convert(DType::I32);
    let is_negative = wide.greater_equal(1_i32 << (width - 1));
    is_negative
        .select(&wide - (1_i32 << width), &wide)
        .convert(dtype)
}

/// The number of integers in the range to draw from. The methods compute remainders modulo this number.
struct Span {
    /// The number of integers in the range, modulo 2^width. 0 means that the range contains all integers of the dtype.
    span: u64,
    width: u32,
}

impl Span {
    fn new(dtype: DType, span: u64) -> Self {
        let width = dtype.element().bits();
        let mask = u64::MAX >> (64 - width);
        Self {
            span: span & mask,
            width,
        }
    }

    /// Returns (2^width · upper + lower) modulo the span, in wrapping arithmetic of the width, as in JAX.
    fn offset(&self, upper: &Tensor, lower: &Tensor) -> Tensor {
        let dtype = upper.dtype();
        if self.span == 0 {
            return lower.clone();
        }
        let half = (1_u64 << (self.width / 2)) % self.span;
        let mask = u64::MAX >> (64 - self.width);
        let multiplier = (half.wrapping_mul(half) & mask) % self.span;
        let multiplier = number(dtype, multiplier);
        self.remainder(&(self.remainder(upper) * multiplier + self.remainder(lower)))
    }

    /// Returns the remainders of unsigned numbers divided by the span.
    fn remainder(&self, dividend: &Tensor) -> Tensor {
        let dtype = dividend.dtype();
        let span = number(dtype, self.span);
        if dtype != DType::I64 {
            return dividend - dividend / &span * &span;
        }
        let reduced = |number: Tensor| {
            // As unsigned numbers, `number` is less than twice the span.
            let is_less = is_less_unsigned(&number, &span);
            is_less.select(&number, &number - &span)
        };
        if self.span >> 63 == 1 {
            return reduced(dividend.clone());
        }
        // An i64 division is signed. So the unsigned number is halved, which makes its i64 value positive, and the
        // remainder of the half is doubled.
        let half = dividend.shift_right(1);
        let half = &half - &half / &span * &span;
        let lowest = dividend.bit_xor(dividend.shift_right(1).shift_left(1));
        reduced(reduced(half.shift_left(1)) + lowest)
    }
}

/// Compares the bits of i64 numbers as unsigned numbers.
fn is_less_unsigned(left: &Tensor, right: &Tensor) -> Tensor {
    let sign = Tensor::from(i64::MIN);
    left.bit_xor(&sign).less(right.bit_xor(&sign))
}

/// Returns a scalar of `dtype` with the lowest bits of `bits`.
fn number(dtype: DType, bits: u64) -> Tensor {
    #[allow(clippy::cast_possible_wrap, reason = "the bits are kept")]
    Tensor::from(bits as i64).convert(dtype)
}

#[track_caller]
fn check_integer(dtype: DType) {
    assert!(
        !dtype.is_float() && dtype != DType::Bool,
        "cannot draw {dtype} as integers: expected an integer dtype; to draw real numbers, use `uniform` or `normal`"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_of_64_bits_are_unsigned() {
        let numbers = [
            0_u64,
            1,
            5,
            u64::MAX,
            1 << 63,
            (1 << 63) + 12345,
            0x0123_4567_89AB_CDEF,
        ];
        for span in [
            1_u64,
            2,
            3,
            1000,
            (1 << 62) + 1,
            (1 << 63) - 1,
            1 << 63,
            u64::MAX,
        ] {
            for dividend in numbers {
                let found = Span::new(DType::I64, span).remainder(&number(DType::I64, dividend));
                let expected = number(DType::I64, dividend % span);
                assert_eq!(found, expected, "{dividend} % {span}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "cannot draw f32 as integers: expected an integer dtype")]
    fn integers_are_not_floats() {
        let _ = Key::new(0).randint_of(DType::F32, [1], 0, 2);
    }
}
