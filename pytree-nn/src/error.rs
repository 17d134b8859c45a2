//! Errors of layers, losses and metrics.

use std::fmt::Display;

use pytree_core::ShapeError;
use pytree_transform::{AbstractArray, Tensor, TensorError};
use thiserror::Error;

/// The error of a layer, loss or metric that received an invalid input. Nothing was computed.
///
/// An error of a tensor operation converts to it, so a function that calls layers and operations returns `InputError`, and
/// uses `?` for both.
///
/// # Examples
/// ```
/// use pytree_nn::{InputError, Linear, Rngs, try_softmax_cross_entropy};
/// use pytree_transform::{DType, Tensor};
/// fn loss(layer: &Linear, x: &Tensor, labels: &Tensor) -> Result<Tensor, InputError> {
///     let logits = layer.try_forward(&x.try_reshape([-1, 3])?)?;
///     Ok(try_softmax_cross_entropy(&logits, labels)?.try_mean()?)
/// }
/// let layer = Linear::new(3, 2, &mut Rngs::new(0));
/// let labels = Tensor::from([0, 1]);
/// assert!(loss(&layer, &Tensor::ones(DType::F32, [6]), &labels).is_ok());
/// let error = loss(&layer, &Tensor::ones(DType::F32, [7]), &labels).unwrap_err();
/// assert!(error.to_string().starts_with("cannot reshape f32[7]"));
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputError {
    /// Inputs or arrays of the layer do not match the named axes. The error lists all mismatches.
    #[error(transparent)]
    Shapes(#[from] ShapeError),
    /// A tensor operation beside the layers failed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An input has a wrong shape or dtype, in a way that named axes do not describe.
    #[error("{what} expects {expected}, found {found}; {fix}")]
    Input {
        /// The name of the layer, loss or metric.
        what: &'static str,
        /// The expected input with its shape, for example `x: [.., 64]`.
        expected: String,
        /// The dtype and shape of the input.
        found: AbstractArray,
        /// How to fix the input.
        fix: String,
    },
    /// A label is out of range.
    #[error(
        "{what} expects labels in 0..{classes}, found {label} at position {position}; check the number of classes, or the order of the arguments"
    )]
    Label {
        /// The name of the loss or metric.
        what: &'static str,
        /// The number of classes.
        classes: usize,
        /// The label that is out of range.
        label: i64,
        /// The position of this label in the tensor of labels, in row-major order.
        position: usize,
    },
    /// An index is out of range.
    #[error(
        "{what} expects indices in -{length}..{length}, found {index} at position {position}; check the number of valid indices, or where the indices come from"
    )]
    Index {
        /// The name of the layer.
        what: &'static str,
        /// The length of the indexed axis: indices from `-length` to `length - 1` are valid.
        length: usize,
        /// The index that is out of range.
        index: i64,
        /// The position of this index in the tensor of indices, in row-major order.
        position: usize,
    },
    /// A cache or a table of positions has too little room for the next tokens.
    #[error(
        "{what} has room for {length} tokens and holds {index}, so {tokens} more do not fit; create a longer cache with `with_cache`, or a table with more positions"
    )]
    CacheFull {
        /// The name of the layer.
        what: &'static str,
        /// The number of tokens that the cache or the table can hold.
        length: usize,
        /// The number of earlier tokens, or 0 if this number is unknown.
        index: usize,
        /// The number of new tokens.
        tokens: usize,
    },
    /// A tensor operation inside of the layer, loss or metric failed.
    #[error("{what}: {source}")]
    Operation {
        /// The name of the layer, loss or metric.
        what: &'static str,
        /// The error of the operation.
        source: TensorError,
    },
    /// A layer of a [`Sequential`](crate::Sequential) received an invalid input.
    #[error("{source}; in {path} of the Sequential")]
    Layer {
        /// The path of the layer, for example `layers[2]`.
        path: String,
        /// The error of the layer.
        source: Box<InputError>,
    },
}

pytree_base::debug_as_display!(InputError);

impl InputError {
    pub(crate) fn input(
        what: &'static str,
        expected: impl Into<String>,
        found: &Tensor,
        fix: &str,
    ) -> Self {
        // If a function of the user with named axes calls the layer, add a description of these axes. The layer itself
        // does not know the names.
        let fix = match pytree_core::axes::describe_running() {
            Some(running) => format!("{fix}; {running}"),
            None => fix.to_owned(),
        };
        Self::Input {
            what,
            expected: expected.into(),
            found: found.info().clone(),
            fix,
        }
    }

    /// Adds the position of a layer in a `Sequential` to the error. If `Sequential`s are nested, each of them adds a
    /// position to the path.
    pub(crate) fn in_layer(self, position: usize) -> Self {
        let (path, source) = match self {
            Self::Layer { path, source } => (format!("layers[{position}].{path}"), source),
            error => (format!("layers[{position}]"), Box::new(error)),
        };
        Self::Layer { path, source }
    }

    /// Returns a function that adds the name of the layer, loss or metric to an error.
    pub(crate) fn inside(what: &'static str) -> impl Fn(TensorError) -> Self {
        move |source| Self::Operation { what, source }
    }
}

/// Returns the value of `outcome`. If `outcome` is an error, panics at the caller's line with the message of the error.
#[track_caller]
pub(crate) fn or_panic<T, E: Display>(outcome: Result<T, E>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
