//! Reports why a compiled function was traced again.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use pytree_base::lists::Joined;
use pytree_core::KeyPath;
use pytree_core::error::Difference;
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::axis_names::AxisName;
use crate::tensor::trace::bound_length;
use crate::transformations::signature::Signature;

/// The reason why a compiled function was traced again: the differences between the arguments of the last two traces.
/// The display of a `Retrace` has one line for each difference.
///
/// # Examples
/// ```
/// use pytree_transform::{RetraceDifference, Tensor, jit};
/// let f = jit(|(x, y): (Tensor, Tensor)| x.sum() + y.sum());
/// f((Tensor::from([1.0_f32]), Tensor::from([1.0_f32])));
/// f((Tensor::from([1.0_f32]), Tensor::from([1.0_f32, 2.0])));
/// let why = f.why_retraced().unwrap();
/// assert_eq!(why, "[1]: f32[1] before, f32[2] now");
/// assert_eq!(why.differences.len(), 1);
/// let RetraceDifference::Leaf { path, now, .. } = &why.differences[0] else { panic!() };
/// assert_eq!((path.to_string(), now.shape[0]), ("[1]".to_owned(), 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrace {
    /// The line that called `jit`.
    pub line: &'static Location<'static>,
    /// All differences in structure. If the structures are equal, all differences in shapes and dtypes of leaves.
    /// Differences in batch axes are at the end.
    pub differences: Vec<RetraceDifference>,
}

/// One difference between the arguments of two traces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetraceDifference {
    /// A node differs in its type, in its children or keys, or in its static value.
    Structure(Difference),
    /// A leaf differs in shape or dtype.
    Leaf {
        /// The key path of the leaf.
        path: KeyPath,
        /// The shape and dtype of the leaf in the previous trace.
        before: AbstractArray,
        /// The shape and dtype of the leaf in the newest trace.
        now: AbstractArray,
    },
    /// A named batch axis that the function uses differs in length.
    BatchAxis {
        /// The name of the batch axis.
        name: String,
        /// The length of the batch axis in the previous trace.
        before: usize,
        /// The length of the batch axis in the newest trace. `None` if no `vmap` around that trace binds the axis name.
        now: Option<usize>,
    },
    /// The function reads a captured reference, so each call traces the function.
    Captured,
}

/// The key of a trace: the signature of the argument, and the batch axes on which the trace depends.
pub(crate) struct Traced {
    pub(crate) signature: Arc<Signature>,
    pub(crate) batch_axes: Vec<(AxisName, usize)>,
    /// Whether the trace read a reference that the function captured.
    pub(crate) is_used_once: bool,
}

impl Retrace {
    /// Returns the differences between the previous trace and a new trace of an argument with the signature `now`.
    pub(crate) fn between(
        line: &'static Location<'static>,
        last: &Traced,
        now: &Signature,
    ) -> Self {
        let before = &last.signature;
        let structure = before.treedef.differences(&now.treedef).into_iter();
        let mut differences: Vec<RetraceDifference> =
            structure.map(RetraceDifference::Structure).collect();
        if differences.is_empty() {
            let paths = now.treedef.leaf_paths().into_iter();
            let infos = before.infos.iter().zip(&now.infos);
            let changed = paths.zip(infos).filter(|(_, (before, now))| before != now);
            differences.extend(
                changed.map(|(path, (before, now))| RetraceDifference::Leaf {
                    path,
                    before: before.clone(),
                    now: now.clone(),
                }),
            );
        }
        for (name, length) in &last.batch_axes {
            let now = bound_length(name);
            if now != Some(*length) {
                differences.push(RetraceDifference::BatchAxis {
                    name: name.to_string(),
                    before: *length,
                    now,
                });
            }
        }
        if last.is_used_once {
            differences.push(RetraceDifference::Captured);
        }
        Self { line, differences }
    }
}

impl fmt::Display for RetraceDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Two static values of one type may have the same text, for instance two functions. So the message says
            // only that they differ.
            Self::Structure(difference) if difference.left == difference.right => {
                write!(
                    f,
                    "static value at {}: {} before, a different value of the same type now",
                    difference.path.or_root(),
                    difference.left
                )
            }
            Self::Structure(difference) => difference.fmt(f),
            Self::Leaf { path, before, now } => {
                write!(f, "{}: {before} before, {now} now", path.or_root())
            }
            Self::Captured => f.write_str(
                "the function reads a reference that it captured; pass it as part of the argument",
            ),
            Self::BatchAxis { name, before, now } => {
                write!(f, "the batch axis `{name}`: {before} before, ")?;
                match now {
                    Some(now) => write!(f, "{now} now"),
                    None => f.write_str("not bound now"),
                }
            }
        }
    }
}

impl fmt::Display for Retrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Joined("\n", &self.differences).fmt(f)
    }
}

/// Compares the displayed text of a [`Retrace`] with a string.
impl PartialEq<str> for Retrace {
    fn eq(&self, text: &str) -> bool {
        let own = self.to_string();
        own == text
    }
}
impl PartialEq<&str> for Retrace {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}
