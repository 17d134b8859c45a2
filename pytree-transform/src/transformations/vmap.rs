//! `vmap`: a function of one example becomes a function of a batch.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::graph;

use crate::error::or_panic;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::trace::{Interpreter, Trace, at_own_lines};
use crate::transformations::function::{Function, Traceable, rebuild, transformed};

/// Over which axis each leaf of an argument is mapped: a prefix of the argument's structure.
///
/// A number holds for all leaves below it, `None` maps none of them, and a tuple goes with a tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Axes {
    /// One axis for all leaves; negative ones count from the end. `None` maps nothing.
    All(Option<isize>),
    /// Axes for each member of a tuple.
    Tuple(Vec<Axes>),
}

impl From<i32> for Axes {
    fn from(axis: i32) -> Self {
        Self::All(isize::try_from(axis).ok())
    }
}
impl From<Option<i32>> for Axes {
    fn from(axis: Option<i32>) -> Self {
        axis.map_or(Self::All(None), Self::from)
    }
}

macro_rules! tuples {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: Into<Axes>),+> From<($($name,)+)> for Axes {
            fn from(($($name,)+): ($($name,)+)) -> Self {
                Self::Tuple(vec![$($name.into()),+])
            }
        }
    )*};
}
#[allow(non_snake_case, reason = "the type parameters name the members")]
mod tuples {
    use super::Axes;
    tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }
}

impl Axes {
    /// The axis of each leaf of a structure.
    fn per_leaf(
        &self,
        treedef: &pytree_core::TreeDef,
        axes: &mut Vec<Option<isize>>,
    ) -> Result<(), String> {
        match self {
            Self::All(axis) => {
                axes.extend(std::iter::repeat_n(*axis, treedef.num_leaves()));
                Ok(())
            }
            Self::Tuple(members) => {
                let children = treedef.children();
                if treedef.kind() != pytree_core::shape::NodeKind::Tuple
                    || children.len() != members.len()
                {
                    return Err(format!(
                        "the axes are a tuple of {}, the argument is {treedef}",
                        members.len()
                    ));
                }
                members
                    .iter()
                    .zip(&children)
                    .try_for_each(|(member, child)| member.per_leaf(child, axes))
            }
        }
    }
}

/// Maps a function over axis 0 of every leaf of its argument; [`in_axes`](Vmap::in_axes) chooses others.
///
/// Results are stacked along axis 0.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, vmap};
/// let dot = vmap(|(x, y): (Tensor, Tensor)| (x * y).sum());
/// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(dot((x.clone(), x)).to_vec::<f32>(), [5.0, 25.0]);
/// ```
///
/// # Panics
/// When called: if no leaf is mapped, or the mapped axes differ in length.
#[track_caller]
pub fn vmap<'f, A, R, F>(function: F) -> Vmap<'f, A, R>
where
    A: Traceable,
    R: Traceable,
    F: Function<A, Output = R> + Send + Sync + 'f,
{
    let line = Location::caller();
    let function: Arc<dyn Fn(A) -> R + Send + Sync + 'f> =
        Arc::new(move |argument| function.call(argument));
    Vmap::new(function, Axes::All(Some(0)), line)
}

/// What [`vmap`] returns: a function of a batch.
pub struct Vmap<'f, A, R> {
    function: Arc<dyn Fn(A) -> R + Send + Sync + 'f>,
    line: &'static Location<'static>,
    call: Box<dyn Fn(A) -> R + Send + Sync + 'f>,
}
transformed!([A: Traceable, R: Traceable] Vmap<'f, A, R>, (A) -> R);

impl<'f, A: Traceable, R: Traceable> Vmap<'f, A, R> {
    fn new(
        function: Arc<dyn Fn(A) -> R + Send + Sync + 'f>,
        axes: Axes,
        line: &'static Location<'static>,
    ) -> Self {
        let inner = Arc::clone(&function);
        Self {
            function,
            line,
            call: Box::new(move |argument| map(&*inner, &axes, line, argument)),
        }
    }

    /// Maps over other axes: a number for all leaves, `None` for leaves that are the same for all
    /// examples, or a tuple of these for a tuple of arguments.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, vmap};
    /// let scale = vmap(|(factor, x): (Tensor, Tensor)| factor * x).in_axes((None, 1));
    /// let y = scale((Tensor::from(2.0_f32), Tensor::from([[1.0_f32, 2.0]])));
    /// assert_eq!(y.shape(), [2, 1]);
    /// ```
    #[must_use]
    pub fn in_axes(self, axes: impl Into<Axes>) -> Self {
        Self::new(self.function, axes.into(), self.line)
    }
}

fn map<A: Traceable, R: Traceable>(
    function: &(dyn Fn(A) -> R + Send + Sync + '_),
    axes: &Axes,
    line: &Location<'_>,
    argument: A,
) -> R {
    let (leaves, treedef) = graph::flatten::<Tensor, A>(&argument);
    drop(argument);
    let mut per_leaf = Vec::with_capacity(leaves.len());
    if let Err(problem) = axes.per_leaf(&treedef, &mut per_leaf) {
        panic!(
            "cannot vmap: {problem}; the axes must be a prefix of the argument (vmap at {line})"
        );
    }
    let (axes, size) = resolve(&treedef, &leaves, &per_leaf, line);
    let trace = Trace::begin(Interpreter::Batch { size });
    let batched = leaves
        .into_iter()
        .zip(&axes)
        .map(|(leaf, axis)| match axis {
            Some(axis) => trace.batched(leaf, *axis),
            None => leaf,
        })
        .collect();
    let output = at_own_lines(|| function(rebuild(&treedef, batched)));
    let (results, output_treedef) = graph::flatten::<Tensor, R>(&output);
    drop(output);
    let unbatched: Vec<_> = results
        .iter()
        .map(|result| or_panic(trace.unbatched(result)))
        .collect();
    drop(trace);
    let stacked = unbatched
        .into_iter()
        .map(|(value, axis)| or_panic(batch_axis_first(&value, axis, size)))
        .collect();
    rebuild(&output_treedef, stacked)
}

/// The axis of each leaf counted from the front, and the length that all have.
fn resolve(
    treedef: &pytree_core::TreeDef,
    leaves: &[Tensor],
    axes: &[Option<isize>],
    line: &Location<'_>,
) -> (Vec<Option<usize>>, usize) {
    let mut sizes = Vec::new();
    let mut problems = Vec::new();
    let resolved = leaves
        .iter()
        .zip(axes)
        .enumerate()
        .map(|(position, (leaf, axis))| {
            let axis = (*axis)?;
            let rank = isize::try_from(leaf.rank()).unwrap_or(isize::MAX);
            let from_front = usize::try_from(if axis < 0 { axis + rank } else { axis })
                .ok()
                .filter(|&axis| axis < leaf.rank());
            match from_front {
                Some(axis) => sizes.push((position, leaf.shape()[axis])),
                None => problems.push((position, format!("{} has no axis {axis}", leaf.info()))),
            }
            from_front
        })
        .collect();
    let named = |position: usize| treedef.leaf_paths()[position].or_root();
    if !problems.is_empty() {
        let list: Vec<String> = problems
            .iter()
            .map(|(position, problem)| format!("{}: {problem}", named(*position)))
            .collect();
        panic!(
            "cannot vmap: {}; map fewer leaves with `.in_axes(…)`, or add the axis (vmap at {line})",
            list.join("; ")
        );
    }
    let Some(&(_, size)) = sizes.first() else {
        panic!(
            "cannot vmap: no leaf of the argument {treedef} is mapped; map at least one (vmap at {line})"
        );
    };
    if sizes.iter().any(|&(_, other)| other != size) {
        let list: Vec<String> = sizes
            .iter()
            .map(|(position, size)| format!("{} has {size}", named(*position)))
            .collect();
        panic!(
            "cannot vmap: the mapped axes differ in length: {}; they must be equal, or not mapped (`None` in `.in_axes(…)`) (vmap at {line})",
            list.join(", ")
        );
    }
    (resolved, size)
}
