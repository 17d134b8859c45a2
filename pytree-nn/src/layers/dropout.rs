//! Dropout.

use crate::error::or_panic;
use crate::hyperparameter::Hyperparameter;
use crate::layers::mode::Mode;
use crate::layers::prelude::*;
use crate::random::RngStream;

/// In training, sets each element to 0 with the probability `rate`, and divides the other elements by 1 - `rate`
/// (Srivastava et al. 2014).
///
/// Each layer has its own stream of random keys, so each call drops different elements. [`eval`](crate::eval())
/// disables dropout in a whole model.
///
/// # Examples
/// ```
/// use pytree_nn::{Dropout, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
/// let y = dropout.forward(&Tensor::ones(DType::F32, [4, 5]));
/// assert!(y.to_vec::<f32>().iter().all(|&y| y == 0.0 || y == 2.0));
/// ```
#[doc(alias("nnx.Dropout", "nn.Dropout"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Dropout {
    /// The probability that an element is dropped: a number, or a scalar tensor such as a member of a sweep by `vmap`.
    pub rate: Hyperparameter,
    /// The mode. Elements are dropped only in [`Mode::Train`]. In [`Mode::Eval`], the layer returns its input.
    #[r#static]
    pub mode: Mode,
    stream: RngStream,
}

fallible_forward!(Dropout);

impl Dropout {
    /// Creates a layer that drops elements with the probability `rate`, a number or a scalar tensor. Forks the stream
    /// `dropout`.
    ///
    /// # Panics
    /// If the rate is known and not in [0, 1], if it is a tensor with axes, or if there is no stream to fork.
    #[track_caller]
    pub fn new(rate: impl Into<Hyperparameter>, rngs: &mut Rngs) -> Self {
        let rate = rate.into();
        if let Hyperparameter::Tensor(tensor) = &rate {
            assert!(
                tensor.rank() == 0 && tensor.dtype().is_float(),
                "Dropout expects a number or a scalar of floats as rate, found {}; to sweep several rates, make the layer inside of `vmap`",
                tensor.info()
            );
        }
        if let Some(rate) = rate.known() {
            assert!(
                (0.0..=1.0).contains(&rate),
                "Dropout expects a rate from 0 to 1, found {rate}; it is the probability of dropping an element"
            );
        }
        let stream = or_panic(rngs.stream_mut("dropout")).fork();
        Self {
            rate,
            mode: Mode::Train,
            stream,
        }
    }

    /// Returns the stream that decides which elements are dropped.
    pub fn stream(&self) -> &RngStream {
        &self.stream
    }

    /// Drops elements of `x`. Returns `x` itself in [`Mode::Eval`].
    ///
    /// # Panics
    /// If `x` is not a tensor of floats.
    #[shapes(x = "T: float[*shape]", return = "T[*shape]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        match self.rate {
            _ if self.mode == Mode::Eval => Ok(x.clone()),
            Hyperparameter::Number(..=0.0) => Ok(x.clone()),
            Hyperparameter::Number(1.0..) => Ok(Tensor::zeros_like(x)),
            _ => self.dropped(x),
        }
    }

    /// Draws a key and drops elements.
    #[track_caller]
    fn dropped(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let key = self.stream.next_key();
        let (keep, scaled) = match self.rate.rest() {
            Hyperparameter::Number(kept) => (key.bernoulli(kept, x.shape()), x / kept),
            Hyperparameter::Tensor(kept) => {
                // If nothing is kept, the divisor is 1, so that no derivative is NaN.
                let divisor = kept.greater(0.0).select(&kept, Tensor::ones_like(&kept));
                let drawn = key.uniform(DType::F32, x.shape());
                let keep = drawn.less(kept.convert(DType::F32));
                (keep, x / divisor.convert(x.dtype()))
            }
        };
        keep.try_select(&scaled, Tensor::zeros_like(x))
            .map_err(InputError::inside("Dropout"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::Key;
    use pytree_transform::{DType, jit};

    #[test]
    fn the_extremes_draw_no_key() {
        let x = Tensor::from([1.0_f32, 2.0]);
        let mut none = Dropout::new(0.0, &mut Rngs::new(0));
        assert_eq!(none.forward(&x), x);
        let mut all = Dropout::new(1.0, &mut Rngs::new(0));
        assert_eq!(all.forward(&x), Tensor::zeros(DType::F32, [2]));
        assert_eq!(all.stream().count().item::<u32>(), 0);
    }

    #[test]
    fn integers_are_refused() {
        let error = Dropout::new(0.5, &mut Rngs::new(0)).try_forward(&Tensor::from([1, 2]));
        let message = error.unwrap_err().to_string();
        assert!(
            message.starts_with("Dropout::forward: x is i32[2], expected T: float[*shape]; convert x to a float dtype"),
            "{message}"
        );
    }

    #[test]
    fn each_layer_has_its_own_stream() {
        let mut rngs = Rngs::new(0);
        let first = Dropout::new(0.5, &mut rngs);
        let second = Dropout::new(0.5, &mut rngs);
        assert_eq!(first.stream().key(), &Key::new(0).fold_in(0));
        assert_eq!(second.stream().key(), &Key::new(0).fold_in(1));
        assert_eq!(first.stream().tag(), "default");
    }

    #[test]
    fn the_count_advances_under_jit() {
        let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
        let x = Tensor::ones(DType::F32, [20]);
        let compiled = jit(|(mut dropout, x): (Dropout, Tensor)| {
            let y = dropout.forward(&x);
            (dropout, y)
        });
        let (advanced, first) = compiled((dropout.clone(), x.clone()));
        let (advanced, second) = compiled((advanced, x.clone()));
        assert_eq!(first, dropout.forward(&x));
        assert_eq!(second, dropout.forward(&x));
        assert_eq!(advanced, dropout);
        assert_ne!(first, second);
        assert_eq!(compiled.traces(), 1);
    }

    #[test]
    fn rate_may_be_a_tensor() {
        let x = Tensor::ones(DType::F32, [1000]);
        let forward = |rate: Tensor| Dropout::new(rate, &mut Rngs::new(0)).forward(&x);
        let rates = [0.0, 0.25, 1.0];
        let each = pytree_transform::vmap(forward)(Tensor::from(rates));
        for (row, rate) in rates.into_iter().enumerate() {
            let fixed = Dropout::new(rate, &mut Rngs::new(0)).forward(&x);
            assert_eq!(each.index(pytree_transform::ix![row]), fixed, "{rate}");
        }
        let mean = each.mean_axes([1]).to_vec::<f32>();
        assert!((mean[1] - 1.0).abs() < 0.1 && mean[2] == 0.0);
    }

    #[test]
    #[should_panic(
        expected = "found f64[2]; to sweep several rates, make the layer inside of `vmap`"
    )]
    fn rate_is_a_scalar() {
        let _ = Dropout::new(Tensor::from([0.1, 0.2]), &mut Rngs::new(0));
    }

    #[test]
    #[should_panic(expected = "Dropout expects a rate from 0 to 1, found 1.5")]
    fn a_rate_is_a_probability() {
        let _ = Dropout::new(1.5, &mut Rngs::new(0));
    }
}
