//! Two recurrent layers, which run in opposite directions.

use super::cell::RecurrentCell;
use super::rnn::{Direction, Rnn};
use crate::layers::prelude::*;

/// Applies one cell forward and another cell backward along a sequence, and merges their outputs (Schuster and Paliwal
/// 1997). By default, the two outputs at each time are concatenated along the last axis.
///
/// `x: [batch…, time, inputs]` becomes `[batch…, time, forward outputs + backward outputs]`. The fields `reverse` and
/// `keep_order` of the two layers are ignored.
///
/// # Examples
/// ```
/// use pytree_nn::{Bidirectional, GruCell, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let both = Bidirectional::new(GruCell::new(3, 4, &mut rngs), GruCell::new(3, 4, &mut rngs));
/// assert_eq!(both.forward(&Tensor::ones(DType::F32, [2, 10, 3])).shape(), [2, 10, 8]);
/// ```
#[doc(alias = "nnx.Bidirectional")]
#[derive(Module, Clone, Debug)]
pub struct Bidirectional<F, B> {
    /// The layer that runs forward in time.
    pub forward: Rnn<F>,
    /// The layer that runs backward in time.
    pub backward: Rnn<B>,
    /// The function that merges the outputs of both layers. The default function concatenates the outputs along the
    /// last axis.
    #[r#static]
    pub merge: fn(&Tensor, &Tensor) -> Tensor,
}

fallible_forward!([
    F: RecurrentCell + Clone + Send + Sync + std::fmt::Debug,
    B: RecurrentCell + Clone + Send + Sync + std::fmt::Debug
] Bidirectional<F, B>);

impl<F, B> Bidirectional<F, B> {
    /// Creates a layer whose time axis is the axis before the last.
    pub fn new(forward: F, backward: B) -> Self {
        Self {
            forward: Rnn::new(forward),
            backward: Rnn::new(backward),
            merge: |forward, backward| Tensor::concatenate(&[forward, backward], -1),
        }
    }
}

impl<F: RecurrentCell, B: RecurrentCell> Bidirectional<F, B> {
    /// Returns the merged outputs of all time steps.
    ///
    /// # Panics
    /// If `x` has no time axis, or does not fit the cells.
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        match self.try_run(x, None, None) {
            Ok((_, outputs)) => Ok(outputs),
            Err(error) => Err(error),
        }
    }

    /// Returns the last carries of the forward and the backward layer, and the merged outputs of all time steps. See
    /// [`Rnn::run`] for the arguments.
    ///
    /// # Panics
    /// In the same cases as [`Rnn::run`].
    #[panicking_twin(run)]
    #[allow(clippy::type_complexity, reason = "the carry is that of two cells")]
    pub fn try_run(
        &self,
        x: &Tensor,
        initial_carry: Option<&(F::Carry, B::Carry)>,
        lengths: Option<&Tensor>,
    ) -> Result<((F::Carry, B::Carry), Tensor), InputError> {
        let (forward, backward) = (
            initial_carry.map(|both| &both.0),
            initial_carry.map(|both| &both.1),
        );
        let (forward, outputs) = self
            .forward
            .directed(Direction::Forward, x, forward, lengths)?;
        let (backward, others) =
            self.backward
                .directed(Direction::Backward, x, backward, lengths)?;
        Ok(((forward, backward), (self.merge)(&outputs, &others)))
    }
}
