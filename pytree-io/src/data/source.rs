//! Where examples come from: arrays in memory, a function, or a type of the user.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use pytree_core::{KeyPath, PytreeOf, tree};
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::data::error::{DataError, SourceError};

/// A batch, or an example, that generic training code passes to compiled functions, clones and sends to other threads.
/// Use this trait as the bound of functions that accept batches of any type, as [`Model`](pytree_nn::Model) is the bound for
/// models; see [`Batches`](crate::data::Batches).
///
/// Do not implement this trait: all types that meet its bounds implement it.
pub trait Batch: PytreeOf<Tensor> + Clone + Send + Sync {}

impl<T: PytreeOf<Tensor> + Clone + Send + Sync> Batch for T {}

/// A dataset that gives one example at a time, for example from files on disk.
///
/// An example is a pytree of tensors without an axis for the batch. All examples have the same structure, shapes and
/// dtypes. A source is used by several threads if batches are prefetched, so it is `Sync`. For a closure, see
/// [`examples`].
///
/// # Examples
/// ```
/// use pytree_io::data::{Batches, Source, SourceError};
/// use pytree_transform::Tensor;
///
/// struct Squares;
///
/// impl Source for Squares {
///     type Example = (Tensor, Tensor);
///     fn count(&self) -> usize {
///         5
///     }
///     fn example(&self, position: usize) -> Result<Self::Example, SourceError> {
///         let x = position as f32;
///         Ok((Tensor::from([x]), Tensor::from(x * x)))
///     }
/// }
///
/// let batches = Batches::from_source(Squares, 2);
/// let shapes: Vec<_> = batches.epoch(0).map(|(x, y)| (x.shape().to_vec(), y.to_vec::<f32>())).collect();
/// assert_eq!(shapes[1], (vec![2, 1], vec![4.0, 9.0]));
/// assert_eq!(shapes[2], (vec![1, 1], vec![16.0]));
/// ```
#[doc(alias = "torch.utils.data.Dataset")]
pub trait Source: Send + Sync + 'static {
    /// The type of an example, and of a batch, whose leaves have one more axis in front.
    type Example: PytreeOf<Tensor> + Send + 'static;

    /// Returns the number of examples, which does not change. Batches call this function before each batch, so it should be
    /// fast.
    fn count(&self) -> usize;

    /// Returns the example at `position`, which is less than [`count`](Self::count).
    ///
    /// # Errors
    /// Returns any error. The iterator over batches returns it as [`DataError::Source`] with the position.
    fn example(&self, position: usize) -> Result<Self::Example, SourceError>;

    /// Returns the examples at some positions as a batch. By default, stacks the examples along a new first axis.
    /// An implementation returns exactly one example for each position: another length is [`DataError::Length`].
    ///
    /// # Errors
    /// Returns the error of an example with its position, or [`DataError::Examples`] if two examples differ in structure, shapes or
    /// dtypes.
    fn batch(&self, positions: &[usize]) -> Result<Self::Example, DataError> {
        let example = |&position: &usize| {
            RUNNING.set(Some(position));
            let example = self.example(position);
            RUNNING.set(None);
            example.map_err(|source| DataError::Source {
                what: format!("example {position}"),
                source,
            })
        };
        let examples = positions.iter().map(example);
        stacked(positions, &examples.collect::<Result<Vec<_>, _>>()?)
    }
}

thread_local! {
    /// The position of the example that this thread reads, for the message if the source panics.
    static RUNNING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the position of the example that this thread was reading when the source panicked, or `None` if the source
/// did not read single examples.
pub(super) fn running_example() -> Option<usize> {
    RUNNING.take()
}

/// Stacks examples along a new first axis. `positions` are the positions of the examples in the dataset.
fn stacked<T: PytreeOf<Tensor>>(positions: &[usize], examples: &[T]) -> Result<T, DataError> {
    let mut flat = Vec::with_capacity(examples.len());
    for example in examples {
        flat.push(tree::try_flatten::<Tensor, T>(example)?);
    }
    let Some((first, treedef)) = flat.first() else {
        return Err(DataError::NoExamples { leaves: Vec::new() });
    };
    let paths = treedef.leaf_paths();
    for ((leaves, found), &other) in flat.iter().zip(positions) {
        let differ = |expected: String, found: String| DataError::Examples {
            first: positions[0],
            other,
            expected,
            found,
        };
        if found != treedef {
            return Err(differ(treedef.to_string(), found.to_string()));
        }
        let mut leaves = first.iter().zip(leaves).zip(&paths);
        if let Some(((expected, found), path)) =
            leaves.find(|((expected, found), _)| expected.info() != found.info())
        {
            let at = |leaf: &Tensor| format!("{} at {}", leaf.info(), path.or_root());
            return Err(differ(at(expected), at(found)));
        }
    }
    let mut leaves = Vec::with_capacity(first.len());
    for position in 0..first.len() {
        let members: Vec<&Tensor> = flat.iter().map(|(leaves, _)| &leaves[position]).collect();
        leaves.push(Tensor::try_stack(&members, 0)?);
    }
    Ok(tree::unflatten(treedef, leaves)?)
}

/// The dataset of [`Batches::new`](crate::data::Batches::new): a pytree of tensors whose first axes have the same length.
#[derive(Debug, Clone)]
pub struct Arrays<T> {
    data: T,
    count: usize,
}

impl<T: PytreeOf<Tensor> + Send + Sync + 'static> Arrays<T> {
    pub(super) fn try_new(data: T) -> Result<Self, DataError> {
        let (leaves, treedef) = tree::try_flatten::<Tensor, T>(&data)?;
        let paths = treedef.leaf_paths().into_iter();
        let leaves: Vec<(KeyPath, AbstractArray)> = paths
            .zip(leaves.iter().map(|leaf| leaf.info().clone()))
            .collect();
        let mut lengths = leaves.iter().map(|(_, info)| info.shape.first().copied());
        let first = lengths.next().ok_or(DataError::NoTensors)?;
        match first {
            Some(count) if lengths.all(|length| length == first) => {
                if count == 0 {
                    return Err(DataError::NoExamples { leaves });
                }
                Ok(Self { data, count })
            }
            _ => Err(DataError::Lengths { leaves }),
        }
    }

    /// Returns the slices of all leaves at some positions of the first axis. A scalar tensor of positions removes the
    /// axis.
    fn take(&self, positions: &Tensor) -> Result<T, DataError> {
        let (leaves, treedef) = tree::try_flatten::<Tensor, T>(&self.data)?;
        let taken = leaves.iter().map(|leaf| leaf.try_take(positions, 0));
        Ok(tree::unflatten(
            &treedef,
            taken.collect::<Result<Vec<_>, _>>()?,
        )?)
    }
}

/// Returns an empty list with room for something of each example of a batch.
pub(super) fn reserved<T>(examples: usize) -> Result<Vec<T>, DataError> {
    let mut list = Vec::new();
    match list.try_reserve_exact(examples) {
        Ok(()) => Ok(list),
        Err(_) => Err(DataError::Memory { examples }),
    }
}

/// Returns positions as integers of 32 bits, or of 64 bits for a larger dataset.
fn index(count: usize, shape: &[usize], positions: &[usize]) -> Result<Tensor, DataError> {
    let mut wide = reserved(positions.len())?;
    let numbers = positions.iter();
    wide.extend(numbers.map(|&position| i64::try_from(position).unwrap_or(i64::MAX)));
    let wide = Tensor::try_new(shape, wide)?;
    match i32::try_from(count) {
        Ok(_) => Ok(wide.convert(DType::I32)),
        Err(_) => Ok(wide),
    }
}

impl<T: PytreeOf<Tensor> + Send + Sync + 'static> Source for Arrays<T> {
    type Example = T;

    fn count(&self) -> usize {
        self.count
    }

    fn example(&self, position: usize) -> Result<T, SourceError> {
        Ok(self.take(&index(self.count, &[], &[position])?)?)
    }

    fn batch(&self, positions: &[usize]) -> Result<T, DataError> {
        self.take(&index(self.count, &[positions.len()], positions)?)
    }
}

/// Makes a [`Source`] of a function that returns the example at a position, for example from a file.
///
/// # Examples
/// ```
/// use pytree_io::data::{Batches, examples, npy};
/// use pytree_transform::Tensor;
/// # let folder = std::env::temp_dir().join("pytree-examples-example");
/// # std::fs::create_dir_all(&folder)?;
/// let files: Vec<_> = (0..4).map(|number| folder.join(format!("{number}.npy"))).collect();
/// for (number, file) in files.iter().enumerate() {
///     npy::save(file, &Tensor::from([number as f32, 1.0]))?;
/// }
/// let source = examples(files.len(), move |position| npy::load(&files[position]));
/// for batch in Batches::from_source(source, 2).prefetch(2).epoch(0) {
///     assert_eq!(batch.shape(), [2, 2]);
/// }
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn examples<T, E, F>(count: usize, function: F) -> Examples<F>
where
    F: Fn(usize) -> Result<T, E> + Send + Sync + 'static,
    T: PytreeOf<Tensor> + Send + 'static,
    E: Into<SourceError>,
{
    Examples { count, function }
}

/// A [`Source`] that calls a function; see [`examples`].
#[derive(Clone)]
pub struct Examples<F> {
    count: usize,
    function: F,
}

impl<F> fmt::Debug for Examples<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Examples")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl<T, E, F> Source for Examples<F>
where
    F: Fn(usize) -> Result<T, E> + Send + Sync + 'static,
    T: PytreeOf<Tensor> + Send + 'static,
    E: Into<SourceError>,
{
    type Example = T;

    fn count(&self) -> usize {
        self.count
    }

    fn example(&self, position: usize) -> Result<T, SourceError> {
        (self.function)(position).map_err(Into::into)
    }
}

/// The source of [`Batches::padded`](crate::data::Batches::padded). A batch is a pair: a batch of the inner source, and the mask of
/// its real examples: `bool[size]`.
#[derive(Debug, Clone)]
pub struct Padded<S> {
    pub(super) source: Arc<S>,
    pub(super) size: usize,
}

impl<S: Source> Source for Padded<S> {
    type Example = (S::Example, Tensor);

    fn count(&self) -> usize {
        self.source.count()
    }

    fn example(&self, position: usize) -> Result<Self::Example, SourceError> {
        Ok((self.source.example(position)?, Tensor::from(true)))
    }

    fn batch(&self, positions: &[usize]) -> Result<Self::Example, DataError> {
        let size = self.size.max(positions.len());
        let mut padded = reserved(size)?;
        padded.extend_from_slice(positions);
        // A repeated example is valid input: its labels are in range and its numbers are finite.
        let filler = positions.last().copied().unwrap_or(0);
        padded.resize(size, filler);
        let mut mask = reserved(size)?;
        mask.extend((0..size).map(|place| place < positions.len()));
        Ok((self.source.batch(&padded)?, Tensor::from(mask)))
    }
}
