//! The gated recurrent unit.

use super::cell::{CellOptions, RecurrentCell, prepared, zeros};
use crate::layers::activation::Activation;
use crate::layers::prelude::*;

/// A cell with a reset gate r and an update gate z (Cho et al. 2014), like `GRUCell` of Flax.
///
/// With `x · input + bias` split into `x_r`, `x_z` and `x_n`, and `h · recurrent` split into `h_r`, `h_z`
/// and `h_n`:
///
/// ```text
/// r = σ(x_r + h_r)
/// z = σ(x_z + h_z)
/// n = tanh(x_n + r · h_n)
/// h' = (1 - z) · n + z · h
/// ```
///
/// The carry is h: `[batch…, hidden]`, and the output is h'.
///
/// # Examples
/// ```
/// use pytree_nn::{GruCell, RecurrentCell, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let cell = GruCell::new(3, 4, &mut Rngs::new(0));
/// let (h, y) = cell.step(&cell.initial_carry(&[2]), &Tensor::ones(DType::F32, [2, 3]));
/// assert_eq!((h.shape(), &h), (&[2, 4][..], &y));
/// ```
#[doc(alias("nnx.GRUCell", "nn.GRUCell"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct GruCell {
    /// The matrix that multiplies the hidden state, for r, z and n.
    #[param("T[hidden 3*hidden]", roles(input, output))]
    pub recurrent: Tensor,
    /// The matrix that multiplies the input, for r, z and n.
    #[param("T[in 3*hidden]", roles(input, output))]
    pub input: Tensor,
    /// The bias that is added to the product with the input, for r, z and n.
    #[param("T[3*hidden]", roles(output))]
    pub bias: Tensor,
    /// The function σ of the gates. The default is the sigmoid.
    #[r#static]
    pub gate: Activation,
    /// The function of n. The default is tanh.
    #[r#static]
    pub activation: Activation,
}

impl GruCell {
    /// Creates an f32 cell. Draws three keys of the stream `params`: for `input`, `bias` and `recurrent`, as in Flax.
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
        let input = options.parameter(options.input_init, &[inputs, 3 * hidden], rngs);
        let bias = options.parameter(options.bias_init, &[3 * hidden], rngs);
        let recurrent = options.parameter(options.recurrent_init, &[hidden, 3 * hidden], rngs);
        Self {
            recurrent,
            input,
            bias,
            gate: Activation::Sigmoid,
            activation: Activation::Tanh,
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

impl RecurrentCell for GruCell {
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
        let of_x = prepared.split(3, -1);
        let of_h = carry.matmul(&self.recurrent).split(3, -1);
        let r = self.gate.apply(&(&of_x[0] + &of_h[0]));
        let z = self.gate.apply(&(&of_x[1] + &of_h[1]));
        let n = self.activation.apply(&(&of_x[2] + r * &of_h[2]));
        let h = (1.0 - &z) * n + z * carry;
        (h.clone(), h)
    }
}
