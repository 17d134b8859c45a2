//! Random classes with given logits, and random numbers of a range with given weights.

use pytree_transform::extend::{called, called_with_floats};
use pytree_transform::{DType, Tensor};

use crate::random::arguments::{check_elements, check_weights};
use crate::random::key::Key;

/// Whether [`Key::choice`] may draw a number more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// A number may be drawn again.
    With,
    /// A number is drawn at most once.
    Without,
}

impl Key {
    /// Returns random classes with the probabilities softmax(logits) along the last axis: `i32[..shape, *batch]`.
    ///
    /// The logits are `[*batch, classes]`. `shape` adds axes for several draws from the same logits. Pass `[]` for one
    /// draw. A class with the logit -∞ is never drawn. As in JAX, a random number of the Gumbel distribution is added
    /// to each logit, and the class with the largest sum is drawn.
    ///
    /// # Panics
    /// If this is a stack of keys, if `logits` has no axis or no classes, if `logits` is not a tensor of floats, or if a
    /// logit is known to be NaN. In a compiled function, the class of a NaN logit is drawn.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::Tensor;
    /// let logits = Tensor::from([[0.0_f32, f32::NEG_INFINITY], [f32::NEG_INFINITY, 0.0]]);
    /// assert_eq!(Key::new(0).categorical(&logits, []), Tensor::from([0, 1]));
    /// assert_eq!(Key::new(0).categorical(&logits, [5]).shape(), [5, 2]);
    /// ```
    #[doc(alias("jax.random.categorical", "torch.multinomial"))]
    #[track_caller]
    pub fn categorical<const N: usize>(&self, logits: &Tensor, shape: [usize; N]) -> Tensor {
        let _called = called_with_floats("categorical", logits);
        assert!(
            logits.rank() > 0,
            "cannot draw classes from {}: expected logits with an axis of classes",
            logits.info()
        );
        check_elements(logits, "the logit", "numbers", |logit| !logit.is_nan());
        let shape = [&shape, logits.shape()].concat();
        (self.gumbel(logits.dtype(), shape) + logits).argmax(-1)
    }

    /// Returns random numbers of the range `0..length`: `i32[..shape]`. To draw rows of a tensor, pass these numbers to
    /// [`Tensor::take`].
    ///
    /// `weights: [length]` is proportional to the probabilities of the numbers. `None` means equal probabilities. The
    /// weights may be traced. Weights that are traced and wrong, for instance negative, still give numbers of
    /// `0..length`, with arbitrary probabilities.
    ///
    /// # Panics
    /// If:
    /// - this is a stack of keys
    /// - `length` is 0 and `shape` has elements, or `length` is above 2³¹
    /// - more numbers are drawn without replacement than there are, or than there are weights known to be above 0
    /// - `weights` is not a tensor of floats of the shape `[length]`
    /// - a weight is known to be negative or not finite, or all are known to be 0, or their sum overflows
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Key, Replacement};
    /// use pytree_transform::Tensor;
    /// let key = Key::new(0);
    /// let batch = key.choice(100, [8], None, Replacement::Without);
    /// assert_eq!(batch.shape(), [8]);
    /// let weights = Tensor::from([0.0_f32, 1.0, 0.0]);
    /// let drawn = key.choice(3, [4], Some(&weights), Replacement::With);
    /// assert_eq!(drawn, Tensor::from([1, 1, 1, 1]));
    /// ```
    #[doc(alias = "jax.random.choice")]
    #[track_caller]
    pub fn choice(
        &self,
        length: usize,
        shape: impl AsRef<[usize]>,
        weights: Option<&Tensor>,
        replacement: Replacement,
    ) -> Tensor {
        let _called = called("choice");
        let shape = shape.as_ref();
        let count: usize = shape.iter().product();
        assert!(
            length > 0 || count == 0,
            "cannot choose {count} numbers of 0..0; pass a positive length"
        );
        assert!(
            replacement == Replacement::With || count <= length,
            "cannot choose {count} of {length} numbers without replacement; draw fewer numbers, or use `Replacement::With`"
        );
        if count == 0 {
            return Tensor::zeros(DType::I32, shape);
        }
        let Some(weights) = weights else {
            return self.choice_of_equals(length, shape, count, replacement);
        };
        assert!(
            weights.shape() == [length] && weights.dtype().is_float(),
            "cannot choose from 0..{length} with weights {}: expected float[{length}]",
            weights.info()
        );
        let distinct = match replacement {
            Replacement::With => 1,
            Replacement::Without => count,
        };
        check_weights(weights, distinct);
        match replacement {
            Replacement::With => {
                let sums = weights.cumsum(0);
                let last = sums.take(&Tensor::from(-1), 0);
                let drawn = (1.0 - self.uniform(weights.dtype(), shape)) * last;
                let last = i64::try_from(length).unwrap_or(i64::MAX) - 1;
                sums.searchsorted(&drawn).minimum(last)
            }
            Replacement::Without => {
                let numbers = self.gumbel(weights.dtype(), [length]) + weights.log();
                numbers.top_k(count).1.reshape(shape)
            }
        }
    }

    #[track_caller]
    fn choice_of_equals(
        &self,
        length: usize,
        shape: &[usize],
        count: usize,
        replacement: Replacement,
    ) -> Tensor {
        match replacement {
            Replacement::With => {
                let high = i64::try_from(length).unwrap_or(i64::MAX);
                self.randint_of(DType::I32, shape, 0, high)
            }
            Replacement::Without => {
                let first = Tensor::arange(DType::I32, count);
                self.permutation(length).take(&first, 0).reshape(shape)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "cannot choose 3 of 2 numbers without replacement")]
    fn too_many_numbers_are_refused() {
        let _ = Key::new(0).choice(2, [3], None, Replacement::Without);
    }

    #[test]
    fn zero_weights_are_refused_with_and_without_replacement() {
        for replacement in [Replacement::With, Replacement::Without] {
            let choose =
                || Key::new(0).choice(2, [1], Some(&Tensor::from([0.0_f32; 2])), replacement);
            let payload = std::panic::catch_unwind(choose).unwrap_err();
            let message = payload.downcast::<String>().unwrap();
            assert_eq!(
                *message,
                "cannot choose with weights f32[2] that are all 0; pass a weight above 0"
            );
        }
    }

    #[test]
    #[should_panic(expected = "cannot choose from 0..2 with weights f64[3]: expected float[2]")]
    fn wrong_weights_are_named() {
        let weights = Tensor::from([1.0, 2.0, 3.0]);
        let _ = Key::new(0).choice(2, [3], Some(&weights), Replacement::With);
    }
}
