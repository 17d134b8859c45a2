//! Random bits, and random numbers of basic distributions.

use pytree_transform::extend::{called, check_memory};
use pytree_transform::{AbstractArray, DType, Tensor, TensorElement, bf16, f16};

use crate::error::or_panic;
use crate::functions::rounding::{next_down, next_up, product_plus, rounded};
use crate::random::arguments::{check_interval, check_probability, check_range};
use crate::random::error_function::erf_of_quotient;
use crate::random::key::Key;

/// The number of elements in a block. Each element needs two random words of 4 bytes, so the words of a block need 512
/// KiB.
const BLOCK: usize = 1 << 16;

/// Methods that draw random numbers.
impl Key {
    /// Returns random bits: `u32[..shape]`.
    ///
    /// # Panics
    /// If this is a stack of keys.
    #[doc(alias = "jax.random.bits")]
    #[track_caller]
    pub fn bits(&self, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("bits");
        let (high, low) = self.words(shape.as_ref(), "draw from");
        high.bit_xor(low)
    }

    /// Returns uniform numbers in [0, 1): `[..shape]`.
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    #[doc(alias("jax.random.uniform", "torch.rand"))]
    #[track_caller]
    pub fn uniform(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("uniform");
        check_float(dtype);
        self.draw(dtype, shape.as_ref(), &|words| unit(dtype, words))
    }

    /// Returns uniform numbers in [`low`, `high`): `[..shape]`. If the bounds are equal, all numbers are `low`.
    ///
    /// The numbers differ from JAX in three ways. The last digits of f64 numbers may differ, because JAX rounds
    /// `u * span + low` only once. Where JAX rounds a number up to `high`, the result is the next number below. And if
    /// `high - low` overflows, the numbers are finite.
    ///
    /// # Panics
    /// If this is a stack of keys, if `dtype` is not a float, if a bound is not finite, or if `low` is above `high`.
    #[track_caller]
    pub fn uniform_between(
        &self,
        dtype: DType,
        shape: impl AsRef<[usize]>,
        low: f64,
        high: f64,
    ) -> Tensor {
        let _called = called("uniform_between");
        check_float(dtype);
        let (low, high) = (rounded(dtype, low), rounded(dtype, high));
        check_interval(low, high, false);
        self.draw(dtype, shape.as_ref(), &|words| {
            between(&unit(dtype, words), low, high)
        })
    }

    /// Returns numbers from the normal distribution with mean 0 and standard deviation 1: `[..shape]`.
    ///
    /// A number is computed as √2 · erf⁻¹(u) with u uniform in (-1, 1).
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    #[doc(alias("jax.random.normal", "torch.randn"))]
    #[track_caller]
    pub fn normal(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("normal");
        // The interval begins at the smallest float above -1, because erf⁻¹(-1) is infinite. The length of the interval
        // is rounded to 2.
        let low = next_up(dtype, -1.0);
        check_float(dtype);
        self.draw(dtype, shape.as_ref(), &|words| {
            (unit(dtype, words) * 2.0 + low).erf_inv() * std::f64::consts::SQRT_2
        })
    }

    /// Returns numbers from the normal distribution with mean 0 and standard deviation 1, truncated to (`low`,
    /// `high`): `[..shape]`. A bound may be infinite. If the interval contains no number of the dtype, the numbers are
    /// `low`.
    ///
    /// The numbers are computed as √2 · erf⁻¹(u), so they are at most 5.4 (f32) or 8.2 (f64) before they are moved into
    /// the interval: all numbers of an interval beyond are the same, the bound nearer to 0.
    ///
    /// # Panics
    /// If this is a stack of keys, if `dtype` is not a float, or if `low` is not below `high`.
    #[doc(alias = "jax.random.truncated_normal")]
    #[track_caller]
    pub fn truncated_normal(
        &self,
        dtype: DType,
        shape: impl AsRef<[usize]>,
        low: f64,
        high: f64,
    ) -> Tensor {
        let _called = called("truncated_normal");
        check_float(dtype);
        check_interval(low, high, true);
        // erf⁻¹(±1) is infinite, so the ends of the interval of u are inside of (-1, 1).
        let ends = [next_up(dtype, -1.0), next_down(dtype, 1.0)];
        let [from, to] = [low, high]
            .map(|bound| erf_of_quotient(dtype, rounded(dtype, bound)).clamp(ends[0], ends[1]));
        let (mut least, mut most) = (next_up(dtype, low), next_down(dtype, high));
        if least > most {
            (least, most) = (rounded(dtype, low), rounded(dtype, low));
        }
        self.draw(dtype, shape.as_ref(), &|words| {
            let uniform = between(&unit(dtype, words), from, to);
            (uniform.erf_inv() * std::f64::consts::SQRT_2).clip(least, most)
        })
    }

    /// Returns bools that are true with the given probability: `[..shape]`.
    ///
    /// # Panics
    /// If this is a stack of keys, or if `probability` is not from 0 to 1.
    #[doc(alias("jax.random.bernoulli", "torch.bernoulli"))]
    #[track_caller]
    pub fn bernoulli(&self, probability: f64, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("bernoulli");
        check_probability(probability);
        self.uniform(DType::F32, shape).less(probability)
    }

    /// Returns uniform integers in `low..high`: `i32[..shape]`.
    ///
    /// # Panics
    /// If this is a stack of keys, or if the range is empty and `shape` has elements.
    #[doc(alias("jax.random.randint", "torch.randint"))]
    #[track_caller]
    pub fn randint(&self, shape: impl AsRef<[usize]>, low: i32, high: i32) -> Tensor {
        let _called = called("randint");
        let shape = shape.as_ref();
        let range = (i64::from(low), i64::from(high));
        check_range(shape, range, (i32::MIN.into(), i32::MAX.into()));
        let span = if high > low { high.abs_diff(low) } else { 1 };
        // 2³² modulo the span, computed as (2¹⁶)².
        let half = (1 << 16) % span;
        let multiplier = half.wrapping_mul(half) % span;
        // No closure is used here, because a panic in a closure would not report the caller's line.
        let upper = self.fold_in(0_u32).bits(shape);
        let lower = self.fold_in(1_u32).bits(shape);
        let offset = remainder(
            &(remainder(&upper, span) * multiplier + remainder(&lower, span)),
            span,
        );
        offset.convert(DType::I32) + low
    }

    /// Returns the integers of `0..length` in random order: `i32[length]`.
    ///
    /// # Panics
    /// If this is a stack of keys.
    #[doc(alias("jax.random.permutation", "torch.randperm"))]
    #[track_caller]
    pub fn permutation(&self, length: usize) -> Tensor {
        let _called = called("permutation");
        // Each round sorts by 32 random bits. Elements with equal bits keep their order, so the sort is repeated until
        // the effect of such ties is small.
        let rounds = (3.0 * (length.max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil();
        let mut order = Tensor::arange(DType::I32, length);
        let mut key = self.clone();
        let mut round = 0.0;
        while round < rounds {
            let sort_keys = key.fold_in(1).bits([length]);
            order = order.take(&sort_keys.argsort(0), 0);
            key = key.fold_in(0);
            round += 1.0;
        }
        order
    }

    /// Draws two random words for each element of a shape, and computes the elements with `numbers`. A large shape is
    /// computed in blocks, so that intermediate values stay in the processor's cache.
    #[track_caller]
    fn draw(
        &self,
        dtype: DType,
        shape: &[usize],
        numbers: &dyn Fn((Tensor, Tensor)) -> Tensor,
    ) -> Tensor {
        or_panic(check_memory("draw", &AbstractArray::new(dtype, shape)));
        let count: usize = shape.iter().product();
        let drawn = match dtype {
            _ if count <= BLOCK || self.is_traced() => None,
            DType::F64 => self.draw_blocks::<f64>(count, numbers),
            DType::BF16 => self.draw_blocks::<bf16>(count, numbers),
            DType::F16 => self.draw_blocks::<f16>(count, numbers),
            _ => self.draw_blocks::<f32>(count, numbers),
        };
        drawn.map_or_else(
            || numbers(self.words(shape, "draw from")),
            |drawn| drawn.reshape(shape),
        )
    }

    /// Returns `count` elements, which are computed block by block. Returns `None` if the elements are traced.
    #[track_caller]
    fn draw_blocks<T: TensorElement>(
        &self,
        count: usize,
        numbers: &dyn Fn((Tensor, Tensor)) -> Tensor,
    ) -> Option<Tensor> {
        let mut elements = Vec::with_capacity(count);
        while elements.len() < count {
            let block = BLOCK.min(count - elements.len());
            let counts = Tensor::arange(DType::U32, block) + word(elements.len());
            let block = numbers(self.words_at(&counts, "draw from"));
            if block.is_traced() {
                return None;
            }
            elements.extend_from_slice(or_panic(block.read::<T>()));
        }
        Some(Tensor::from(elements))
    }
}

/// Returns the low 32 bits of the position of an element, which wrap around after 2³² elements.
#[allow(clippy::cast_possible_truncation, reason = "counts wrap around")]
fn word(position: usize) -> u32 {
    position as u32
}

/// Returns uniform numbers in [0, 1), each computed from two words.
fn unit(dtype: DType, (high, low): (Tensor, Tensor)) -> Tensor {
    if dtype == DType::F64 {
        // Uses the upper 52 of the 64 random bits.
        let integer = high.convert(dtype) * f64::from(1 << 20) + low.shift_right(12).convert(dtype);
        return integer * (1.0 / f64::from(1 << 26) / f64::from(1 << 26));
    }
    // JAX uses the upper bits of a random integer of 32, 16 or 8 bits as the mantissa of a number in [1, 2), and then
    // subtracts 1. This function computes the same number: it divides the mantissa bits by a power of 2.
    let mantissa = dtype.element().mantissa_bits();
    let drawn = (mantissa + 1).next_power_of_two();
    let bits = high.bit_xor(low).shift_left(32 - drawn);
    bits.shift_right(32 - mantissa).convert(dtype) * (1.0 / f64::from(1 << mantissa))
}

/// Maps numbers of [0, 1) to numbers of [`low`, `high`). If the bounds are equal, the results are `low`. The bounds are
/// numbers of the dtype.
fn between(unit: &Tensor, low: f64, high: f64) -> Tensor {
    let dtype = unit.dtype();
    let span = high - low;
    // Rounding is monotonic: if the greatest number of [0, 1) stays below `high`, all numbers do.
    let greatest = next_down(dtype, 1.0);
    let product = rounded(dtype, greatest * span);
    let reaches = |product: f64| rounded(dtype, product + low) >= high;
    if !rounded(dtype, span).is_finite() {
        let unit = unit.convert(DType::F64);
        let numbers = &unit * high + (1.0 - &unit) * low;
        return numbers.convert(dtype).clip(low, next_down(dtype, high));
    }
    let numbers = scaled(unit, low, high);
    if low < high && (reaches(product) || reaches(greatest * span)) {
        return numbers.minimum(next_down(dtype, high));
    }
    numbers
}

/// Returns `unit` · (`high` - `low`) + `low`, rounded as in JAX.
fn scaled(unit: &Tensor, low: f64, high: f64) -> Tensor {
    let dtype = unit.dtype();
    if dtype != DType::F32 {
        return unit * (high - low) + low;
    }
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the bounds are f32 numbers"
    )]
    let (low, high) = (low as f32, high as f32);
    let span = high - low;
    if low == 0.0 || span.log2().fract() == 0.0 {
        // Either the product or the sum is exact, so only one rounding occurs.
        return unit * span + low;
    }
    // JAX rounds only the sum, not the product.
    product_plus(unit, &Tensor::from(span), &Tensor::from(low))
}

fn remainder(dividend: &Tensor, divisor: u32) -> Tensor {
    dividend - dividend / divisor * divisor
}

#[track_caller]
pub(super) fn check_float(dtype: DType) {
    assert!(
        dtype.is_float(),
        "cannot draw {dtype} from a distribution of real numbers: expected a float dtype; to draw integers, use `randint` or `bits`"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_range_of_integers_can_be_drawn() {
        let numbers = Key::new(0)
            .randint([100], i32::MIN, i32::MAX)
            .to_vec::<i32>();
        assert!(
            numbers.iter().any(|&number| number < 0) && numbers.iter().any(|&number| number > 0)
        );
    }

    #[test]
    fn short_permutations_need_no_sorting() {
        assert!(Key::new(0).permutation(0).is_empty());
        assert_eq!(Key::new(0).permutation(1).to_vec::<i32>(), [0]);
    }

    #[test]
    fn blocks_give_the_same_numbers() {
        // A traced function draws all elements at once, not block by block.
        let shape = [3, BLOCK / 2 + 7];
        for dtype in [DType::F32, DType::F64] {
            let drawn = move |key: &Key| {
                [
                    key.uniform(dtype, shape),
                    key.uniform_between(dtype, shape, -0.7, 1.9),
                    key.normal(dtype, shape),
                    key.truncated_normal(dtype, shape, -2.0, 2.0),
                ]
            };
            let key = Key::new(3);
            let at_once = pytree_transform::jit(move |key: Key| drawn(&key))(key.clone());
            for (blocks, at_once) in drawn(&key).iter().zip(&at_once) {
                let largest = (blocks - at_once).abs().max().convert(DType::F64);
                assert!(largest.item::<f64>() < 1e-6, "{dtype}");
                assert_eq!(blocks.shape(), shape);
            }
        }
    }

    #[test]
    fn truncated_numbers_stay_inside() {
        for dtype in [DType::F32, DType::F64] {
            let numbers = Key::new(1)
                .truncated_normal(dtype, [1000], -0.5, 3.0)
                .convert(DType::F64);
            assert!(
                numbers
                    .to_vec::<f64>()
                    .iter()
                    .all(|&number| number > -0.5 && number < 3.0)
            );
        }
    }

    #[test]
    #[should_panic(
        expected = "cannot draw from a stack of keys u32[2,2]: expected a single key; map over the stack with `vmap`"
    )]
    fn a_stack_of_keys_must_be_mapped_over() {
        let _ = Key::new(0).split_stacked(2).bits([1]);
    }

    #[test]
    #[should_panic(expected = "cannot draw i32 from a distribution of real numbers")]
    fn real_numbers_are_floats() {
        let _ = Key::new(0).uniform(DType::I32, [1]);
    }
}
