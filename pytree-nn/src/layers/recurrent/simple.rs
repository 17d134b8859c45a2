//! The recurrent cell without gates.

use super::cell::{CellOptions, RecurrentCell, prepared, zeros};
use crate::layers::activation::Activation;
use crate::layers::prelude::*;

/// A cell without gates: `h' = tanh(x · input + bias + h · recurrent)` (Elman 1990, "Finding structure in time").
///
/// The carry is h: `[batch…, hidden]`, and the output is h'. If `residual` is true, h is added before tanh.
///
/// # Examples
/// ```
/// use pytree_nn::{RecurrentCell, Rngs, SimpleCell};
/// use pytree_transform::{DType, Tensor};
/// let cell = SimpleCell::new(3, 4, &mut Rngs::new(0));
/// let (h, y) = cell.step(&cell.initial_carry(&[2]), &Tensor::ones(DType::F32, [2, 3]));
/// assert_eq!((h.shape(), &h), (&[2, 4][..], &y));
/// ```
#[doc(alias("nnx.SimpleCell", "nn.RNNCell"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct SimpleCell {
    /// The matrix that multiplies the hidden state.
    #[param("T[hidden hidden]", roles(input, output))]
    pub recurrent: Tensor,
    /// The matrix that multiplies the input.
    #[param("T[in hidden]", roles(input, output))]
    pub input: Tensor,
    /// The bias that is added to the product with the input.
    #[param("T[hidden]", roles(output))]
    pub bias: Tensor,
    /// The function that is applied to the sum. The default is tanh.
    #[r#static]
    pub activation: Activation,
    /// Whether the old hidden state is added to the argument of `activation`. The default is false, as in Flax.
    #[r#static]
    pub residual: bool,
}

impl SimpleCell {
    /// Creates an f32 cell. Draws three keys of the stream `params`: for `recurrent`, `input` and `bias`, as in Flax.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(inputs, hidden, CellOptions::default(), rngs)
    }

    /// Creates a cell with the given options.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        inputs: usize,
        hidden: usize,
        options: CellOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let recurrent = options.parameter(options.recurrent_init, &[hidden, hidden], rngs);
        let input = options.parameter(options.input_init, &[inputs, hidden], rngs);
        let bias = options.parameter(options.bias_init, &[hidden], rngs);
        Self {
            recurrent,
            input,
            bias,
            activation: Activation::Tanh,
            residual: false,
        }
    }

    /// Computes one step for `x: [batch…, in]` and the carry `h: [batch…, hidden]`. Returns the next carry and the
    /// output, which are equal.
    ///
    /// # Panics
    /// If the shapes or the dtypes of `x` or of the carry do not fit the cell.
    #[shapes(
        x = "T[*batch in]",
        carry = "T[*batch hidden]",
        return = ("T[*batch hidden]", "T[*batch hidden]")
    )]
    #[panicking_twin(step)]
    pub fn try_step(&self, carry: &Tensor, x: &Tensor) -> Result<(Tensor, Tensor), InputError> {
        Ok(self.advance(carry, &(x.matmul(&self.input) + &self.bias)))
    }
}

impl RecurrentCell for SimpleCell {
    type Carry = Tensor;

    fn initial_carry(&self, batch: &[usize]) -> Tensor {
        let hidden = self.recurrent.shape().first().copied().unwrap_or(0);
        zeros(batch, hidden, self.recurrent.dtype())
    }

    #[track_caller]
    fn try_step(&self, carry: &Tensor, x: &Tensor) -> Result<(Tensor, Tensor), InputError> {
        Self::try_step(self, carry, x)
    }

    fn prepare(&self, carry: &Self::Carry, steps: &Tensor) -> Option<Tensor> {
        prepared(&[carry], steps, [&self.input, &self.recurrent, &self.bias])
    }

    #[track_caller]
    fn advance(&self, carry: &Tensor, prepared: &Tensor) -> (Tensor, Tensor) {
        let mut sum = prepared + carry.matmul(&self.recurrent);
        if self.residual {
            sum += carry;
        }
        let h = self.activation.apply(&sum);
        (h.clone(), h)
    }
}
