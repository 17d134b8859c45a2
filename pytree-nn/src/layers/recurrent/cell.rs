//! The trait of recurrent cells, and the options of new cells.

use pytree_core::Module;
use pytree_derive::Defaults;
use pytree_transform::{DType, Tensor, Traceable};

use crate::error::InputError;
use crate::initializers::Initializer;
use crate::random::Rngs;

/// One time step of a recurrent network: a function from a carry and an input to the next carry and an output. [`Rnn`](crate::Rnn)
/// applies a cell to a sequence.
///
/// # Examples
/// A cell of your own:
/// ```
/// use pytree_core::Module;
/// use pytree_nn::{InputError, RecurrentCell, Rnn};
/// use pytree_transform::{DType, Tensor};
///
/// /// Returns the mean of the last inputs, with weights that decay exponentially.
/// #[derive(Module, Clone, Debug)]
/// struct Decaying {
///     #[param]
///     decay: Tensor,
/// }
///
/// impl RecurrentCell for Decaying {
///     type Carry = Tensor;
///
///     fn initial_carry(&self, batch: &[usize]) -> Tensor {
///         Tensor::zeros(DType::F32, [batch, &[1]].concat())
///     }
///
///     fn try_step(&self, carry: &Tensor, x: &Tensor) -> Result<(Tensor, Tensor), InputError> {
///         let mean = carry * &self.decay + x * (1.0 - &self.decay);
///         Ok((mean.clone(), mean))
///     }
/// }
///
/// let rnn = Rnn::new(Decaying { decay: Tensor::from(0.5_f32) });
/// let y = rnn.forward(&Tensor::ones(DType::F32, [3, 1]));
/// assert_eq!(y.to_vec::<f32>(), [0.5, 0.75, 0.875]);
/// ```
#[doc(alias = "nnx.RNNCellBase")]
pub trait RecurrentCell: Module {
    /// The values that one step passes to the next: a tensor, or a tuple or struct of tensors `[batch…, …]`.
    type Carry: Traceable + Clone;

    /// Returns the carry before the first step. `batch` is the shape of the batch, which may be empty.
    fn initial_carry(&self, batch: &[usize]) -> Self::Carry;

    /// Computes one step for `x: [batch…, inputs]`. Returns the next carry and the output `[batch…, outputs]`.
    ///
    /// # Errors
    /// Returns [`InputError`] if the shape or the dtype of `x` or of the carry does not fit the cell.
    fn try_step(
        &self,
        carry: &Self::Carry,
        x: &Tensor,
    ) -> Result<(Self::Carry, Tensor), InputError>;

    /// Returns the part of all time steps that depends on the inputs alone, `[time, batch…, …]`, for `steps: [time, batch…, inputs]`.
    /// [`Rnn`](crate::Rnn) computes this part before the loop, and passes an element of it to [`advance`](Self::advance) in each step.
    /// With `None`, which is the default, `Rnn` calls [`try_step`](Self::try_step) instead. A cell returns `None` if the inputs or the
    /// carry do not fit, so that `try_step` returns the error.
    fn prepare(&self, carry: &Self::Carry, steps: &Tensor) -> Option<Tensor> {
        let _ = (carry, steps);
        None
    }

    /// Computes one time step from a part of the inputs that [`prepare`](Self::prepare) returned.
    ///
    /// # Panics
    /// If `prepare` returns `None`.
    fn advance(&self, carry: &Self::Carry, prepared: &Tensor) -> (Self::Carry, Tensor) {
        let _ = (carry, prepared);
        panic!("a cell whose `prepare` returns a tensor implements `advance`, too")
    }
}

/// The options of new recurrent cells, with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{CellOptions, GruCell, RecurrentCell, Rngs};
/// use pytree_transform::DType;
/// let options = CellOptions { param_dtype: DType::F64, ..CellOptions::default() };
/// let cell = GruCell::with_options(3, 4, options, &mut Rngs::new(0));
/// assert_eq!(cell.initial_carry(&[2]).dtype(), DType::F64);
/// ```
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct CellOptions {
    /// The dtype of the parameters and of the initial carry. The default is f32.
    #[default(DType::F32)]
    pub param_dtype: DType,
    /// The initializer of the matrix that multiplies the input. The default is [`Initializer::lecun_normal`].
    #[default(Initializer::lecun_normal())]
    pub input_init: Initializer,
    /// The initializer of the matrix that multiplies the hidden state. The default is [`Initializer::orthogonal`].
    #[default(Initializer::orthogonal())]
    pub recurrent_init: Initializer,
    /// The initializer of the bias. The default is zeros.
    #[default(Initializer::Zeros)]
    pub bias_init: Initializer,
}

impl CellOptions {
    /// Draws a parameter.
    #[track_caller]
    pub(super) fn parameter(
        &self,
        initializer: Initializer,
        shape: &[usize],
        rngs: &mut Rngs,
    ) -> Tensor {
        initializer.initialize(&rngs.params(), self.param_dtype, shape)
    }
}

/// Returns `steps · input + bias` for all time steps, or `None` if the parameters, the inputs and the carry do not fit each other.
#[track_caller]
pub(super) fn prepared(
    carry: &[&Tensor],
    steps: &Tensor,
    [input, recurrent, bias]: [&Tensor; 3],
) -> Option<Tensor> {
    let (&gates, hidden) = (bias.shape().first()?, recurrent.shape().first()?);
    let (inputs, batch) = steps.shape().get(1..)?.split_last()?;
    let state = [batch, &[*hidden]].concat();
    let mut tensors = [steps, recurrent, bias]
        .into_iter()
        .chain(carry.iter().copied());
    let fits = input.shape() == [*inputs, gates]
        && recurrent.shape() == [*hidden, gates]
        && carry.iter().all(|carry| carry.shape() == state)
        && tensors.all(|tensor| tensor.dtype() == input.dtype());
    fits.then(|| steps.matmul(input) + bias)
}

/// Returns zeros of the shape `[batch…, hidden]`.
pub(super) fn zeros(batch: &[usize], hidden: usize, dtype: DType) -> Tensor {
    Tensor::zeros(dtype, [batch, &[hidden]].concat())
}
