//! The layer that applies a recurrent cell along a time axis.

use pytree_base::bug::bug;
use pytree_core::{Module, graph};
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor, scan};

use super::cell::RecurrentCell;
use crate::error::InputError;
use crate::layers::forward::fallible_forward;

const RNN: &str = "Rnn";

/// Applies a [`RecurrentCell`] to each element of a sequence with [`scan`], like `RNN` of Flax.
///
/// `x` is `[batch…, time, inputs]`, or `[time, batch…, inputs]` if `time_major` is true. The result has the outputs of
/// the cell at all time steps, with the same order of axes.
///
/// # Examples
/// ```
/// use pytree_nn::{GruCell, Rngs, Rnn};
/// use pytree_transform::{DType, Tensor};
/// let rnn = Rnn::new(GruCell::new(3, 4, &mut Rngs::new(0)));
/// let x = Tensor::ones(DType::F32, [2, 10, 3]);
/// assert_eq!(rnn.forward(&x).shape(), [2, 10, 4]);
///
/// // The last hidden state of sequences of 10 and 6 steps, and then ten steps more.
/// let (state, _) = rnn.run(&x, None, Some(&Tensor::from([10, 6])));
/// let (state, y) = rnn.run(&x, Some(&state), None);
/// assert_eq!((state.shape(), y.shape()), (&[2, 4][..], &[2, 10, 4][..]));
/// ```
#[doc(alias("nnx.RNN", "nn.LSTM", "nn.GRU", "nn.RNN"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Rnn<C> {
    /// The cell.
    pub cell: C,
    /// Whether the time is the first axis of the input. The default is false.
    #[r#static]
    pub time_major: bool,
    /// Whether the cell runs from the last element to the first. The default is false.
    #[r#static]
    pub reverse: bool,
    /// Whether the outputs of a layer with `reverse` have the order of the input. The default is false, as in Flax: the
    /// first output belongs to the last element of the input.
    #[r#static]
    pub keep_order: bool,
}

/// The order in which a cell reads the elements of a sequence, and the order of its outputs.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    /// From the first element to the last.
    Forward,
    /// From the last element to the first. The first output belongs to the last element.
    Reversed,
    /// From the last element to the first. The first output belongs to the first element.
    Backward,
}

fallible_forward!([C: RecurrentCell + Clone + Send + Sync + std::fmt::Debug] Rnn<C>);

impl<C> Rnn<C> {
    /// Creates a layer that runs forward in time. The time axis is the axis before the last.
    pub const fn new(cell: C) -> Self {
        Self {
            cell,
            time_major: false,
            reverse: false,
            keep_order: false,
        }
    }
}

impl<C: RecurrentCell> Rnn<C> {
    /// Returns the outputs of the cell at all time steps: `x: [batch…, time, inputs]` to `[batch…, time, outputs]`. The
    /// carry before the first step is [`RecurrentCell::initial_carry`].
    ///
    /// # Panics
    /// If `x` has no time axis, or does not fit the cell.
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        match self.try_run(x, None, None) {
            Ok((_, outputs)) => Ok(outputs),
            Err(error) => Err(error),
        }
    }

    /// Returns the last carry, and the outputs of the cell at all time steps.
    ///
    /// - `initial_carry` is the carry before the first step. The default is [`RecurrentCell::initial_carry`].
    /// - `lengths: i32[batch…]` has the number of elements of each sequence, from 0 to the length of the time axis.
    ///   Shorter sequences are padded at their end. The returned carry of a sequence is the carry after its last
    ///   element, or the initial carry if the sequence has length 0. A layer with `reverse` begins at the last element
    ///   of each sequence. The outputs at padding positions are unspecified.
    ///
    /// # Panics
    /// If `x` has no time axis, if the input or the carry does not fit the cell, or if `lengths` does not have one
    /// integer for each sequence.
    #[panicking_twin(run)]
    pub fn try_run(
        &self,
        x: &Tensor,
        initial_carry: Option<&C::Carry>,
        lengths: Option<&Tensor>,
    ) -> Result<(C::Carry, Tensor), InputError> {
        let direction = match (self.reverse, self.keep_order) {
            (false, _) => Direction::Forward,
            (true, false) => Direction::Reversed,
            (true, true) => Direction::Backward,
        };
        self.directed(direction, x, initial_carry, lengths)
    }

    /// Runs the cell in a direction.
    #[track_caller]
    pub(super) fn directed(
        &self,
        direction: Direction,
        x: &Tensor,
        initial_carry: Option<&C::Carry>,
        lengths: Option<&Tensor>,
    ) -> Result<(C::Carry, Tensor), InputError> {
        if x.rank() < 2 {
            let expected = if self.time_major {
                "x: [time, batch.., inputs]"
            } else {
                "x: [batch.., time, inputs]"
            };
            let fix = "add the missing axes to x; a sequence of numbers is `[time, 1]`";
            return Err(InputError::input(RNN, expected, x, fix));
        }
        let time_axis = if self.time_major { 0 } else { x.rank() - 2 };
        let steps = x.move_axis(time_axis.cast_signed(), 0);
        let batch = &steps.shape()[1..steps.rank() - 1].to_vec();
        let lengths = checked_lengths(lengths, batch)?;
        let steps = match direction {
            Direction::Forward => steps,
            Direction::Reversed | Direction::Backward => flip(&steps, lengths.as_ref()),
        };
        let initial = match initial_carry {
            Some(carry) => carry.clone(),
            None => self.cell.initial_carry(batch),
        };
        let (carry, outputs) = self.scanned(initial, steps, lengths.as_ref())?;
        let outputs = match direction {
            Direction::Backward => flip(&outputs, lengths.as_ref()),
            Direction::Forward | Direction::Reversed => outputs,
        };
        Ok((carry, outputs.move_axis(0, time_axis.cast_signed())))
    }

    /// Runs the cell along axis 0 of `steps`. If there are lengths, the returned carry of a sequence is the carry after
    /// its last element.
    #[track_caller]
    fn scanned(
        &self,
        initial: C::Carry,
        steps: Tensor,
        lengths: Option<&Tensor>,
    ) -> Result<(C::Carry, Tensor), InputError> {
        let prepared = self.cell.prepare(&initial, &steps);
        let is_prepared = prepared.is_some();
        let advance = |carry: &C::Carry, x: &Tensor| {
            if is_prepared {
                Ok(self.cell.advance(carry, x))
            } else {
                self.cell.try_step(carry, x)
            }
        };
        let steps = prepared.unwrap_or(steps);
        let Some(lengths) = lengths else {
            return scan(|carry, x| advance(&carry, &x), initial, steps);
        };
        let times = Tensor::arange(DType::I32, steps.shape()[0]);
        let step = |(carry, last): (C::Carry, C::Carry), (time, x): (Tensor, Tensor)| {
            let (carry, output) = advance(&carry, &x)?;
            let is_inside = time.less(lengths);
            let last = graph::map2(&carry, &last, |new: &Tensor, old: &Tensor| {
                let ones = vec![1; new.rank().saturating_sub(lengths.rank())];
                let mask = is_inside.reshape([lengths.shape(), &ones].concat());
                mask.broadcast_to(new.shape()).select(new, old)
            });
            let last =
                last.unwrap_or_else(|_| bug("two carries of one cell to have the same structure"));
            Ok::<_, InputError>(((carry, last), output))
        };
        let carry = (initial.clone(), initial);
        let ((_, last), outputs) = scan(step, carry, (times, steps))?;
        Ok((last, outputs))
    }
}

/// Returns the lengths as i32, or an error if there is not one integer for each sequence.
#[track_caller]
fn checked_lengths(
    lengths: Option<&Tensor>,
    batch: &[usize],
) -> Result<Option<Tensor>, InputError> {
    let Some(lengths) = lengths else {
        return Ok(None);
    };
    if lengths.shape() == batch && lengths.dtype().is_integer() {
        return Ok(Some(lengths.convert(DType::I32)));
    }
    let expected = format!("lengths: i32{batch:?}, one for each sequence of the batch");
    let fix = "pass the numbers of elements of the sequences as integers";
    Err(InputError::input(RNN, expected, lengths, fix))
}

/// Reverses `steps: [time, batch…, …]` in time. If there are lengths, the padding of a sequence stays at its end.
#[track_caller]
fn flip(steps: &Tensor, lengths: Option<&Tensor>) -> Tensor {
    let Some(lengths) = lengths else {
        return steps.reverse([0]);
    };
    let count = steps.shape()[0];
    if count == 0 {
        return steps.clone();
    }
    let mut shape = vec![1; steps.rank()];
    shape[0] = count;
    let from_the_end = Tensor::arange(DType::I32, count)
        .reverse([0])
        .reshape(&shape);
    let batch = [
        &[1],
        lengths.shape(),
        &vec![1; steps.rank() - lengths.rank() - 1],
    ]
    .concat();
    let sources = from_the_end + lengths.reshape(batch);
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let sources = sources.less(count).select(&sources, &sources - count);
    steps.take_along_axis(&sources.broadcast_to(steps.shape()), 0)
}
