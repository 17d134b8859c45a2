//! The long short-term memory.

use super::cell::{CellOptions, RecurrentCell, prepared, zeros};
use crate::layers::activation::Activation;
use crate::layers::prelude::*;

/// A cell with a memory c and a hidden state h (Hochreiter and Schmidhuber 1997). The cell has the forget gate of Gers
/// et al. 2000.
///
/// With `y = x · input + h · recurrent + bias`, whose last axis is split into i, f, g and o:
///
/// ```text
/// c' = σ(f) · c + σ(i) · tanh(g)
/// h' = σ(o) · tanh(c')
/// ```
///
/// The carry is `(c, h)`, each `[batch…, hidden]`, and the output is h'. The cell corresponds to `OptimizedLSTMCell` of
/// Flax. The `LSTMCell` of Flax computes the same results with one matrix for each gate. To use the parameters of an
/// `LSTMCell`, concatenate the matrices along the last axis.
///
/// # Examples
/// ```
/// use pytree_nn::{LstmCell, RecurrentCell, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let cell = LstmCell::new(3, 4, &mut Rngs::new(0));
/// let ((c, h), y) = cell.step(&cell.initial_carry(&[2]), &Tensor::ones(DType::F32, [2, 3]));
/// assert_eq!((c.shape(), &h), (&[2, 4][..], &y));
/// ```
#[doc(alias("nnx.LSTMCell", "nnx.OptimizedLSTMCell", "nn.LSTMCell"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LstmCell {
    /// The matrix that multiplies the hidden state, for the gates i, f, g and o.
    #[param("T[hidden 4*hidden]", roles(input, output))]
    pub recurrent: Tensor,
    /// The matrix that multiplies the input, for the gates i, f, g and o.
    #[param("T[in 4*hidden]", roles(input, output))]
    pub input: Tensor,
    /// The bias of the gates i, f, g and o.
    #[param("T[4*hidden]", roles(output))]
    pub bias: Tensor,
    /// The function σ of the gates. The default is the sigmoid.
    #[r#static]
    pub gate: Activation,
    /// The function that is applied to g and to the memory. The default is tanh.
    #[r#static]
    pub activation: Activation,
}

impl LstmCell {
    /// Creates an f32 cell. Draws three keys of the stream `params`: for `input`, `recurrent` and `bias`, as in Flax.
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
        let input = options.parameter(options.input_init, &[inputs, 4 * hidden], rngs);
        let recurrent = options.parameter(options.recurrent_init, &[hidden, 4 * hidden], rngs);
        let bias = options.parameter(options.bias_init, &[4 * hidden], rngs);
        Self {
            recurrent,
            input,
            bias,
            gate: Activation::Sigmoid,
            activation: Activation::Tanh,
        }
    }

    /// Computes one step for `x: [batch…, in]` and the carry `(c, h)`, each `[batch…, hidden]`. Returns the next carry
    /// and the output, which is h'.
    ///
    /// # Panics
    /// If the shapes or the dtypes of `x` or of the carry do not fit the cell.
    #[shapes(
        x = "T[*batch in]",
        carry = ("T[*batch hidden]", "T[*batch hidden]"),
        return = (("T[*batch hidden]", "T[*batch hidden]"), "T[*batch hidden]")
    )]
    #[panicking_twin(step)]
    #[allow(clippy::type_complexity, reason = "the carry of this cell is a pair")]
    pub fn try_step(
        &self,
        carry: &(Tensor, Tensor),
        x: &Tensor,
    ) -> Result<((Tensor, Tensor), Tensor), InputError> {
        Ok(self.advance(carry, &(x.matmul(&self.input) + &self.bias)))
    }
}

impl RecurrentCell for LstmCell {
    type Carry = (Tensor, Tensor);

    fn initial_carry(&self, batch: &[usize]) -> Self::Carry {
        let hidden = self.recurrent.shape().first().copied().unwrap_or(0);
        let zeros = zeros(batch, hidden, self.recurrent.dtype());
        (zeros.clone(), zeros)
    }

    #[track_caller]
    fn try_step(
        &self,
        carry: &Self::Carry,
        x: &Tensor,
    ) -> Result<(Self::Carry, Tensor), InputError> {
        Self::try_step(self, carry, x)
    }

    fn prepare(&self, carry: &Self::Carry, steps: &Tensor) -> Option<Tensor> {
        prepared(
            &[&carry.0, &carry.1],
            steps,
            [&self.input, &self.recurrent, &self.bias],
        )
    }

    #[track_caller]
    fn advance(&self, (c, h): &Self::Carry, prepared: &Tensor) -> (Self::Carry, Tensor) {
        let gates = (prepared + h.matmul(&self.recurrent)).split(4, -1);
        let [i, f, o] = [0, 1, 3].map(|gate| self.gate.apply(&gates[gate]));
        let c = f * c + i * self.activation.apply(&gates[2]);
        let h = o * self.activation.apply(&c);
        ((c, h.clone()), h)
    }
}
