//! A dataset divided into batches.

use std::sync::Arc;

use pytree_core::PytreeOf;
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::data::error::DataError;
use crate::data::order::Order;
use crate::data::position::Position;
use crate::data::prefetch::{Plan, Supply};
use crate::data::source::{Arrays, Padded, Source};
use pytree_nn::Key;

/// What happens with the last batch of an epoch if it has fewer examples than the others.
///
/// To pad it, use [`Batches::padded`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastBatch {
    /// The last batch is kept, with fewer examples. A function under `jit` is compiled once more for its shape.
    #[default]
    Keep,
    /// The last batch is left out. If the examples are shuffled, each epoch leaves out others.
    Drop,
}

/// A dataset in batches, epoch by epoch.
///
/// By default, the examples keep their order, the last batch is kept, and each batch is made when it is needed.
///
/// Batches are made on the device of the arrays. A clone shares the dataset.
///
/// # Examples
/// ```
/// use pytree_nn::Key;
/// use pytree_io::data::{Batches, LastBatch};
/// use pytree_transform::{DType, Tensor};
///
/// let images = Tensor::zeros(DType::F32, [10, 8, 8]);
/// let labels = Tensor::arange(DType::I32, 10);
/// let batches = Batches::new((images, labels), 4)
///     .shuffle(&Key::new(0))
///     .last_batch(LastBatch::Drop);
/// for epoch in 0..3 {
///     for (x, y) in batches.epoch(epoch) {
///         assert_eq!(x.shape(), [4, 8, 8]);
///         assert_eq!(y.shape(), [4]);
///     }
/// }
/// assert_eq!(batches.per_epoch(), 2);
/// ```
///
/// The type of batches of tensors is long: `Batches<Arrays<(Tensor, Tensor)>>`. Its short name is [`BatchesOf`]. A
/// function that accepts any batches takes a [`Source`]:
/// ```
/// use pytree_io::data::{Batch, Batches, BatchesOf, Source};
/// use pytree_nn::{Activation, Mlp, Model, Optimizer, Rngs, adam, mse};
/// use pytree_transform::{DType, Tensor, jit_mut, value_and_grad_mut};
///
/// /// Trains a model for an epoch. Returns the loss of the last step.
/// fn fit<M: Model, B: Batch, S: Source<Example = B>>(
///     model: &mut M,
///     optimizer: &mut Optimizer<M>,
///     batches: &Batches<S>,
///     loss: impl Fn(&mut M, &B) -> Tensor + Send + Sync + 'static,
/// ) -> Option<f32> {
///     let step = jit_mut(move |(model, optimizer, batch): (&mut M, &mut Optimizer<M>, B)| {
///         let (loss, gradient) = value_and_grad_mut(|model: &mut M| loss(model, &batch))(model);
///         optimizer.update(model, &gradient);
///         loss
///     });
///     let losses = batches.epoch(0).map(|batch| step((&mut *model, &mut *optimizer, batch)));
///     losses.last().map(|loss| loss.item())
/// }
///
/// let mut rngs = Rngs::new(0);
/// let (x, y) = (rngs.normal(DType::F32, [8, 2]), Tensor::zeros(DType::F32, [8, 1]));
/// let batches: BatchesOf<(Tensor, Tensor)> = Batches::new((x, y), 4);
/// let mut model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut rngs);
/// let mut optimizer = Optimizer::new(&model, adam(1e-2));
/// let loss = |model: &mut Mlp, (x, y): &(Tensor, Tensor)| mse(&model.forward(x), y);
/// assert!(fit(&mut model, &mut optimizer, &batches, loss).is_some());
/// ```
#[doc(alias("torch.utils.data.DataLoader", "grain.DataLoader"))]
#[derive(Debug)]
pub struct Batches<S> {
    source: Arc<S>,
    count: usize,
    size: usize,
    order: Order,
    last: LastBatch,
    is_padded: bool,
    ahead: usize,
}

/// The batches of a pytree of tensors, which [`Batches::new`] makes: of pairs of a tensor of inputs and a tensor of
/// targets, unless another type is given.
pub type BatchesOf<T = (Tensor, Tensor)> = Batches<Arrays<T>>;

impl<S> Clone for Batches<S> {
    fn clone(&self) -> Self {
        Self {
            source: Arc::clone(&self.source),
            order: self.order.clone(),
            ..*self
        }
    }
}

impl<T: PytreeOf<Tensor> + Send + Sync + 'static> Batches<Arrays<T>> {
    /// Creates batches of `size` examples from a pytree of tensors: `[examples, ..]`. The leaves of a batch are `[size, ..]`.
    ///
    /// A tensor is a handle, so `Batches::new((images.clone(), labels.clone()), 64)` copies no elements.
    ///
    /// # Panics
    /// If the first axes of the tensors have different lengths, if there is no example, or if `size` is 0.
    #[panicking_twin(new)]
    pub fn try_new(data: T, size: usize) -> Result<Self, DataError> {
        Self::try_from_source(Arrays::try_new(data)?, size)
    }
}

impl<S: Source> Batches<S> {
    /// Creates batches of `size` examples from a [`Source`].
    ///
    /// # Panics
    /// If the source has no example, or if `size` is 0.
    #[panicking_twin(from_source)]
    pub fn try_from_source(source: S, size: usize) -> Result<Self, DataError> {
        let count = source.count();
        if size == 0 {
            return Err(DataError::BatchSize);
        }
        if count == 0 {
            return Err(DataError::NoExamples { leaves: Vec::new() });
        }
        Ok(Self {
            source: Arc::new(source),
            count,
            size,
            order: Order::Sequential,
            last: LastBatch::Keep,
            is_padded: false,
            ahead: 0,
        })
    }

    /// Shuffles the examples anew in each epoch. The order is `jax.random.permutation(jax.random.fold_in(key, epoch), examples)`.
    #[must_use]
    pub fn shuffle(self, key: &Key) -> Self {
        Self {
            order: Order::shuffled(key),
            ..self
        }
    }

    /// Orders the examples by a function that maps the index of an epoch to the positions of the epoch's examples.
    ///
    /// The function returns as many positions as there are examples. A position may occur several times, for example to draw rare
    /// classes more often. A [`Position`] does not compare such functions: resume with the same function.
    #[must_use]
    pub fn order_by(self, order: impl Fn(usize) -> Vec<usize> + Send + Sync + 'static) -> Self {
        Self {
            order: Order::Custom(Arc::new(order)),
            ..self
        }
    }

    /// Keeps or drops the last batch of an epoch if it has fewer examples.
    ///
    /// # Panics
    /// If the last batch is to be dropped and there are fewer examples than in one batch.
    #[panicking_twin(last_batch)]
    pub fn try_last_batch(self, last: LastBatch) -> Result<Self, DataError> {
        if last == LastBatch::Drop && self.count < self.size {
            return Err(DataError::NoBatch {
                examples: self.count,
                size: self.size,
            });
        }
        Ok(Self { last, ..self })
    }

    /// Pads the last batch to the size of the others. Each batch becomes a pair: the batch, and the mask of its real
    /// examples: `bool[size]`.
    ///
    /// So all batches have the same shape, and a function under `jit` is compiled once. The padding repeats the last example.
    /// Exclude it with the mask, for example with [`mean_where`](Tensor::mean_where). An epoch is an error if its padding would
    /// have more than 2²⁴ examples.
    ///
    /// # Examples
    /// ```
    /// use pytree_io::data::Batches;
    /// use pytree_transform::Tensor;
    /// let batches = Batches::new(Tensor::from([1.0_f32, 2.0, 3.0]), 2).padded();
    /// let means = batches.epoch(0).map(|(x, mask)| x.mean_where(&mask).item::<f32>());
    /// assert_eq!(means.collect::<Vec<_>>(), [1.5, 3.0]);
    /// ```
    #[must_use]
    pub fn padded(self) -> Batches<Padded<S>> {
        Batches {
            source: Arc::new(Padded {
                source: self.source,
                size: self.size,
            }),
            count: self.count,
            size: self.size,
            order: self.order,
            last: LastBatch::Keep,
            is_padded: true,
            ahead: self.ahead,
        }
    }

    /// Prepares up to `ahead` batches, at most 4,096, on a thread of each iterator. 0 turns this off.
    ///
    /// The batches are the same. The thread ends with the epoch, or after its current batch when the iterator is dropped.
    #[must_use]
    pub fn prefetch(self, ahead: usize) -> Self {
        Self { ahead, ..self }
    }

    /// Returns the number of examples of the dataset.
    pub fn examples(&self) -> usize {
        self.count
    }

    /// Returns the number of batches of an epoch.
    pub fn per_epoch(&self) -> usize {
        match self.last {
            LastBatch::Keep => self.count.div_ceil(self.size),
            LastBatch::Drop => self.count / self.size,
        }
    }

    /// Returns the batches of an epoch.
    ///
    /// # Panics
    /// If the order of the examples is invalid. The iterator panics if the source returns an error or panics.
    #[track_caller]
    pub fn epoch(&self, epoch: usize) -> impl ExactSizeIterator<Item = S::Example> + use<S> {
        Panicking(or_panic(self.try_epoch(epoch)))
    }

    /// Returns the batches of an epoch. The iterator ends after the first error.
    ///
    /// # Errors
    /// Returns [`DataError::Order`] if a function of [`order_by`](Self::order_by) is invalid, and [`DataError::Tensor`] if the key
    /// is traced. Returns [`DataError::Shuffle`] or [`DataError::Padding`] if the memory has no room for an epoch. The iterator
    /// returns [`DataError::Source`], [`DataError::Examples`], [`DataError::Length`], [`DataError::Changed`],
    /// [`DataError::Panicked`] or [`DataError::Ended`].
    pub fn try_epoch(
        &self,
        epoch: usize,
    ) -> Result<impl ExactSizeIterator<Item = Result<S::Example, DataError>> + use<S>, DataError>
    {
        let batches = self.remaining(epoch, 0)?;
        Ok(batches.map(|batch| batch.map(|(_, batch)| batch)))
    }

    /// Returns the position of the first batch of the first epoch.
    pub fn start(&self) -> Position {
        let key = match &self.order {
            Order::Shuffled(key, _) => Some(key.clone()),
            Order::Sequential | Order::Custom(_) => None,
        };
        Position::new(self.count, self.size, key)
    }

    /// Returns the remaining batches of a position's epoch, each with the position after the batch.
    ///
    /// Save the position together with the model that was trained on the batch. The position after the last batch of an
    /// epoch is the start of the next epoch.
    ///
    /// # Examples
    /// ```
    /// use pytree_io::{checkpoint, data::Batches};
    /// use pytree_nn::Key;
    /// use pytree_transform::{DType, Tensor};
    /// let batches = Batches::new(Tensor::arange(DType::I32, 6), 2).shuffle(&Key::new(0));
    /// let path = std::env::temp_dir().join("pytree-resume-example.safetensors");
    ///
    /// let mut seen = Vec::new();
    /// let mut position = batches.start();
    /// while position.epoch() < 2 {
    ///     for (next, batch) in batches.resume(&position) {
    ///         seen.push(batch);
    ///         position = next;
    ///         if seen.len() == 2 {
    ///             checkpoint::save(&path, &position)?;
    ///         }
    ///     }
    /// }
    /// let position = checkpoint::load(&path, &batches.start())?;
    /// let again: Vec<_> = batches.resume(&position).map(|(_, batch)| batch).collect();
    /// assert_eq!(again, seen[2..3]);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the position was made for other batches, or if the order of the examples is invalid. The iterator panics if the
    /// source returns an error or panics.
    #[track_caller]
    pub fn resume(
        &self,
        position: &Position,
    ) -> impl ExactSizeIterator<Item = (Position, S::Example)> + use<S> {
        Panicking(or_panic(self.try_resume(position)))
    }

    /// Returns the remaining batches of a position's epoch, each with the position after the batch. The iterator ends
    /// after the first error; see [`resume`](Self::resume).
    ///
    /// # Errors
    /// Returns [`DataError::Position`] if the position was made for other batches, and the errors of
    /// [`try_epoch`](Self::try_epoch).
    pub fn try_resume(
        &self,
        position: &Position,
    ) -> Result<
        impl ExactSizeIterator<Item = Result<(Position, S::Example), DataError>> + use<S>,
        DataError,
    > {
        let (start, per_epoch) = (self.start(), self.per_epoch());
        let (epoch, batch) = position.checked(&start, per_epoch)?;
        let batches = self.remaining(epoch, batch)?;
        Ok(batches.map(move |batch| {
            batch.map(|(number, batch)| (start.behind(epoch, number, per_epoch), batch))
        }))
    }

    fn remaining(&self, epoch: usize, first: usize) -> Result<Remaining<S>, DataError> {
        if self.is_padded && self.size.saturating_sub(self.count) > PADDING {
            return Err(DataError::Padding {
                size: self.size,
                examples: self.count,
            });
        }
        let plan = Plan {
            source: Arc::clone(&self.source),
            order: self.order.positions(epoch, self.count)?,
            size: self.size,
            is_padded: self.is_padded,
            batches: first..self.per_epoch(),
        };
        Ok(Remaining {
            epoch,
            next: first,
            end: self.per_epoch(),
            supply: Supply::new(plan, self.ahead),
        })
    }
}

/// The maximum number of examples that fill a batch of a dataset that has fewer.
const PADDING: usize = 1 << 24;

/// The remaining batches of an epoch, with their numbers. Ends after an error.
struct Remaining<S: Source> {
    epoch: usize,
    next: usize,
    end: usize,
    supply: Supply<S>,
}

impl<S: Source> Iterator for Remaining<S> {
    type Item = Result<(usize, S::Example), DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let batch = self.supply.next();
        let number = self.next;
        self.next = if batch.is_ok() { number + 1 } else { self.end };
        let batch = batch.map_err(|error| error.in_batch(number, self.epoch));
        Some(batch.map(|batch| (number, batch)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl<S: Source> ExactSizeIterator for Remaining<S> {}

/// The values of results. An error is a panic at the line that calls `next`, which is the line of a `for` loop. With
/// `map`, it would be a line of the standard library.
struct Panicking<I>(I);

impl<T, I: Iterator<Item = Result<T, DataError>>> Iterator for Panicking<I> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        Some(or_panic(self.0.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T, I: ExactSizeIterator<Item = Result<T, DataError>>> ExactSizeIterator for Panicking<I> {}

/// Returns the value of `outcome`. If `outcome` is an error, panics at the caller's line with the message of the error.
#[track_caller]
fn or_panic<T>(outcome: Result<T, DataError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
