//! Code shared by `vmap` and `vmap_mut`. Leaves with a batch axis become tracers of one example before the call, and
//! results become values for the whole batch afterwards.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::panic::Location;

use pytree_base::bug::{expect_at, expect_some, pairs};
use pytree_core::boundary::Outcome;
use pytree_core::{KeyPath, TreeDef};

use crate::base::axis_names::AxisName;
use crate::base::error::or_panic;
use crate::primitives::create::broadcast_in_dim;
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::primitive::BatchAxis;
use crate::tensor::trace::Trace;
use crate::transformations::aliasing::conflicts;
use crate::transformations::axes::Axes;
use crate::transformations::function::{Known, Origin};

/// The options of a `vmap` or `vmap_mut`.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) in_axes: Axes,
    pub(crate) out_axes: Axes,
    pub(crate) axis_size: Option<usize>,
    pub(crate) axis_name: Option<AxisName>,
    pub(crate) line: &'static Location<'static>,
}

/// The expected items, as panic messages name them after a library bug.
const AXES: &str = "an axis, or none, for each leaf";
const PLACES: &str = "a path in the argument for each reference that is written";

/// The value of a result leaf for the whole batch, and its batch axis. The axis is `None` if the value is the same for
/// all examples.
pub(crate) type Unbatched = (Tensor, Option<usize>);

impl Mapping {
    /// Returns the default options: axis 0 of all leaves is mapped.
    pub(crate) fn new(line: &'static Location<'static>) -> Self {
        Self {
            in_axes: Axes::All(Some(0)),
            out_axes: Axes::All(Some(0)),
            axis_size: None,
            axis_name: None,
            line,
        }
    }

    /// Returns the mapped axis of each leaf of the argument, counted from the front, and the common length of these
    /// axes.
    pub(crate) fn mapped(
        &self,
        treedef: &TreeDef,
        leaves: &[Tensor],
    ) -> (Vec<Option<usize>>, usize) {
        let wanted = self.axes_of("in_axes", &self.in_axes, treedef, leaves);
        let resolved: Vec<_> = pairs(leaves, &wanted, AXES)
            .map(|(leaf, axis)| axis.and_then(|axis| from_front(axis, leaf.rank())))
            .collect();
        let problems: Vec<String> = treedef
            .leaf_paths()
            .iter()
            .zip(leaves)
            .zip(wanted.iter().zip(&resolved))
            .filter_map(|((path, leaf), (wanted, resolved))| {
                let axis = wanted.filter(|_| resolved.is_none())?;
                Some(format!(
                    "{}: {} has no axis {axis}",
                    path.or_root(),
                    leaf.info()
                ))
            })
            .collect();
        assert!(
            problems.is_empty(),
            "cannot vmap: {}; map fewer leaves with `.in_axes(…)`, or add the axis (vmap at {})",
            problems.join("; "),
            self.line
        );
        let size = self.size(treedef, leaves, &resolved);
        (resolved, size)
    }

    /// Returns the mapped axis of each leaf as the user wrote it, possibly negative.
    fn axes_of(
        &self,
        option: &str,
        axes: &Axes,
        treedef: &TreeDef,
        leaves: &[Tensor],
    ) -> Vec<Option<isize>> {
        let origin = Origin {
            name: "vmap",
            line: self.line,
        };
        axes_of(origin, &format!("{option}(…)"), axes, treedef, leaves)
    }

    /// Returns the common length of all mapped axes, which is the number of examples.
    fn size(&self, treedef: &TreeDef, leaves: &[Tensor], axes: &[Option<usize>]) -> usize {
        let mut sizes: Vec<usize> = Vec::new();
        let mut seen = HashSet::new();
        let lengths = pairs(leaves, axes, AXES);
        let lengths = lengths.filter_map(|(leaf, axis)| axis.map(|axis| leaf.shape()[axis]));
        for size in self.axis_size.into_iter().chain(lengths) {
            if sizes.last() != Some(&size) && seen.insert(size) {
                sizes.push(size);
            }
        }
        match sizes[..] {
            [size] => size,
            [] => panic!(
                "cannot vmap: no leaf of the argument {treedef} is mapped; map at least one leaf, or set the number of examples with `.axis_size(…)` (vmap at {})",
                self.line
            ),
            _ => panic!(
                "cannot vmap: the mapped axes differ in length:{}\nuse equal lengths, or map only some of the leaves: `.in_axes((None, 0))` maps only the second of two arguments (vmap at {})",
                self.sizes_text(&sizes, treedef, leaves, axes),
                self.line
            ),
        }
    }

    /// Returns a text with a line for each length of a mapped axis. Each line lists the mapped axes of this length and
    /// their leaves.
    fn sizes_text(
        &self,
        sizes: &[usize],
        treedef: &TreeDef,
        leaves: &[Tensor],
        axes: &[Option<usize>],
    ) -> String {
        let mut places: HashMap<usize, Vec<String>> = HashMap::new();
        if let Some(size) = self.axis_size {
            places.insert(size, vec!["`.axis_size(…)`".to_owned()]);
        }
        for ((path, leaf), axis) in treedef.leaf_paths().iter().zip(leaves).zip(axes) {
            if let Some(axis) = *axis {
                let place = format!("axis {axis} of {} ({})", path.or_root(), leaf.info());
                places.entry(leaf.shape()[axis]).or_default().push(place);
            }
        }
        let mut text = String::new();
        for size in sizes {
            let places = expect_some(places.remove(size), "at least one leaf for each length");
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {size}: {}", places.join(", "));
        }
        text
    }

    /// Returns the nodes of the argument that keep their identity in the result. References always keep their identity.
    /// Shared nodes keep their identity only if one axis applies to all leaves of both the argument and the result.
    pub(crate) fn known(&self) -> Known {
        match (&self.in_axes, &self.out_axes) {
            (Axes::All(Some(from)), Axes::All(Some(to))) if from == to => Known::All,
            _ => Known::References,
        }
    }

    /// Begins a trace level for a batch of `size` examples.
    pub(crate) fn begin(&self, size: usize) -> Trace {
        Trace::begin_vmap(BatchAxis {
            size,
            name: self.axis_name.clone(),
            is_mesh: false,
        })
    }

    /// Returns the results, with their batch axes moved to the positions that `out_axes` sets.
    pub(crate) fn results(
        &self,
        treedef: &TreeDef,
        examples: &[Tensor],
        results: Vec<Unbatched>,
        size: usize,
    ) -> Vec<Tensor> {
        let axes = self.axes_of("out_axes", &self.out_axes, treedef, examples);
        let (placed, problems) = place(&axes, results, size);
        assert!(
            problems.is_empty(),
            "cannot vmap: {}; choose other axes with `.out_axes(…)` (vmap at {})",
            self.problem_text(&treedef.leaf_paths(), examples, &axes, &problems),
            self.line
        );
        placed
    }

    /// Returns the leaves of the written arguments after the call, with their batch axes at the positions that
    /// `in_axes` sets. `whole` is the structure of all arguments.
    pub(crate) fn written(
        &self,
        whole: &TreeDef,
        examples: &[Tensor],
        results: Vec<Unbatched>,
        size: usize,
    ) -> Vec<Tensor> {
        let mut axes = self.axes_of("in_axes", &self.in_axes, whole, examples);
        axes.truncate(results.len());
        let (placed, problems) = place(&axes, results, size);
        assert!(
            problems.is_empty(),
            "cannot vmap: the written values do not fit the axes: {}; map the written leaves with `.in_axes(…)`, or write values that are the same for all examples, such as a mean by `pmean` (vmap at {})",
            self.problem_text(&whole.leaf_paths(), examples, &axes, &problems),
            self.line
        );
        placed
    }

    /// Returns the leaves of the values that were written to references. Moves the batch axis of each leaf to the
    /// position that it has in the argument.
    pub(crate) fn references(
        &self,
        argument: &TreeDef,
        axes: &[Option<usize>],
        outcome: &Outcome,
        examples: &[Tensor],
        results: Vec<Unbatched>,
        size: usize,
    ) -> Vec<Tensor> {
        let places = argument.references();
        let mut wanted = Vec::with_capacity(results.len());
        for (position, value) in outcome.written() {
            let place = expect_at(&places, position, PLACES);
            let Some(leaves) = place.leaves_of(&value) else {
                panic!(
                    "cannot vmap: the value written to the reference at {} has a different structure than the old value: {value}; under vmap, write a value with the same structure (vmap at {})",
                    place.path.or_root(),
                    self.line
                );
            };
            let axis = |leaf: usize| expect_at(axes, leaf, AXES).map(usize::cast_signed);
            wanted.extend(leaves.into_iter().map(axis));
        }
        let (placed, problems) = place(&wanted, results, size);
        assert!(
            problems.is_empty(),
            "cannot vmap: the values written to references do not fit the axes: {}; map the reference with `.in_axes(…)`, or write values that are the same for all examples, such as a mean by `pmean` (vmap at {})",
            self.problem_text(
                &written_places(argument, outcome),
                examples,
                &wanted,
                &problems
            ),
            self.line
        );
        placed
    }

    /// Describes each leaf whose axis is out of range, or whose axis is `None` although the leaf differs between the
    /// examples.
    fn problem_text(
        &self,
        paths: &[KeyPath],
        examples: &[Tensor],
        axes: &[Option<isize>],
        problems: &[usize],
    ) -> String {
        let name = self.axis_name.as_ref();
        let name = name.map_or_else(String::new, |name| format!(" of `{name}`"));
        let text = |&position: &usize| {
            let (path, example) = (paths[position].or_root(), examples[position].info());
            match axes[position] {
                None => format!(
                    "{path} ({example}) differs between the examples{name}, but its axis is `None`"
                ),
                Some(axis) => {
                    format!("{path}: {example} with a batch axis added has no axis {axis}")
                }
            }
        };
        problems.iter().map(text).collect::<Vec<_>>().join("; ")
    }
}

/// Returns the axis of each leaf as the user wrote it, possibly negative. `option` is the call that set the axes, for
/// messages.
///
/// # Panics
/// Panics if the axes are not a prefix tree of the value, or if they give different axes to one shared node.
#[track_caller]
pub(crate) fn axes_of(
    origin: Origin,
    option: &str,
    axes: &Axes,
    treedef: &TreeDef,
    leaves: &[Tensor],
) -> Vec<Option<isize>> {
    let name = origin.name;
    let misfit = |problems: Vec<String>| -> ! {
        panic!(
            "cannot {name}: the axes of `.{option}` do not fit the value: {}; give the axes the structure of the value, or one axis for a whole part of it ({origin})",
            problems.join("; ")
        )
    };
    let own = match axes.of_leaves(treedef, leaves) {
        Ok(own) => own,
        Err(problems) => misfit(problems),
    };
    let at_all_places = |all: &TreeDef, which: &[usize]| {
        let repeated: Vec<Tensor> = which.iter().map(|&leaf| leaves[leaf].clone()).collect();
        match axes.of_leaves(all, &repeated) {
            Ok(said) => Some(said),
            // A tree of axes in which a shared node occurs only once has no axes for the later paths of this node.
            Err(_) if axes.has_tree() => None,
            Err(problems) => misfit(problems),
        }
    };
    let show = |axis: &Option<isize>| match axis {
        Some(axis) => format!("{axis} for"),
        None => "None for".to_owned(),
    };
    let conflicts = conflicts(treedef, &own, at_all_places, show);
    assert!(
        conflicts.is_empty(),
        "cannot {name}: `.{option}` gives different axes to one shared node: {}; pass the same axis for all paths of the node, or use a separate node at each path ({origin})",
        conflicts.join("; ")
    );
    own
}

/// Returns the paths, in the argument, of the leaves that were written to references.
fn written_places(argument: &TreeDef, outcome: &Outcome) -> Vec<KeyPath> {
    let places = argument.references();
    let mut paths = Vec::new();
    for (position, value) in outcome.written() {
        let below = value.leaf_paths();
        let place = &expect_at(&places, position, PLACES).path;
        let whole = |path: &KeyPath| place.keys().iter().chain(path.keys()).cloned().collect();
        paths.extend(below.iter().map(whole));
    }
    paths
}

/// Turns each leaf with a batch axis into a tracer of one example. Other leaves stay unchanged.
pub(crate) fn enter(trace: &Trace, leaves: Vec<Tensor>, axes: &[Option<usize>]) -> Vec<Tensor> {
    let each = pairs(leaves, axes, AXES);
    each.map(|(leaf, axis)| match axis {
        Some(axis) => trace.batched(leaf, *axis),
        None => leaf,
    })
    .collect()
}

/// Turns each result of one example into the value for the whole batch, with its batch axis.
pub(crate) fn leave(trace: &Trace, results: &[Tensor]) -> Vec<Unbatched> {
    let each = results.iter();
    each.map(|result| or_panic(trace.unbatched(result)))
        .collect()
}

/// Returns an axis counted from the front, or `None` if it is out of range.
pub(crate) fn from_front(axis: isize, rank: usize) -> Option<usize> {
    let axis = if axis < 0 {
        axis.checked_add_unsigned(rank)?
    } else {
        axis
    };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Moves the batch axis of each result to its position in `axes`. Also returns the indices of the results whose batch
/// axis cannot be moved.
fn place(
    axes: &[Option<isize>],
    results: Vec<Unbatched>,
    size: usize,
) -> (Vec<Tensor>, Vec<usize>) {
    let mut problems = Vec::new();
    let mut placed = Vec::with_capacity(results.len());
    for (position, ((value, from), to)) in pairs(results, axes, AXES).enumerate() {
        let rank = value.rank() + usize::from(from.is_none());
        placed.push(match (from, to.map(|to| from_front(to, rank))) {
            (None, None) => value,
            (Some(from), Some(Some(to))) => or_panic(move_axis(&value, from, to)),
            (None, Some(Some(to))) => repeated(&value, to, size),
            (Some(_), None) | (_, Some(None)) => {
                problems.push(position);
                value
            }
        });
    }
    (placed, problems)
}

/// Repeats a value `size` times along a new axis at position `axis`.
fn repeated(value: &Tensor, axis: usize, size: usize) -> Tensor {
    let mut shape = value.info().shape.clone();
    shape.insert(axis, size);
    let places: Vec<usize> = (0..shape.len()).filter(|&place| place != axis).collect();
    or_panic(broadcast_in_dim(value, &shape, &places))
}

/// Defines the options that `vmap` and `vmap_mut` share.
macro_rules! mapping_options {
    ([$($generics:tt)*] $type:ty) => {
        impl<'f, $($generics)*> $type {
            /// Sets the mapped axes by a prefix tree of the argument. A number in the prefix applies to all leaves of
            /// the subtree at its position. Negative numbers count from the end. `None` marks leaves that are the same
            /// for all examples. Pass a tuple of axes for a tuple of arguments. [`Axes`] lists the other forms.
            ///
            /// # Examples
            /// ```
            /// use pytree_transform::{Tensor, vmap};
            /// let scale = vmap(|(factor, x): (Tensor, Tensor)| factor * x).in_axes((None, 1));
            /// let y = scale((Tensor::from(2.0_f32), Tensor::from([[1.0_f32, 2.0]])));
            /// assert_eq!(y.shape(), [2, 1]);
            /// ```
            ///
            /// # Panics
            /// The mapped function panics if the axes are not a prefix of the argument, or an axis is out of range for
            /// its leaf.
            #[must_use]
            pub fn in_axes(self, axes: impl Into<Axes>) -> Self {
                self.with(|mapping| mapping.in_axes = axes.into())
            }

            /// Sets the number of examples, so that no leaf needs to be mapped. If leaves are mapped, their mapped
            /// axes must have this length.
            ///
            /// # Examples
            /// ```
            /// use pytree_transform::{Tensor, axis_index, vmap};
            /// let positions = vmap(|()| axis_index("batch")).axis_name("batch").axis_size(3);
            /// assert_eq!(positions(()).to_vec::<i32>(), [0, 1, 2]);
            /// ```
            #[must_use]
            pub fn axis_size(self, size: usize) -> Self {
                self.with(|mapping| mapping.axis_size = Some(size))
            }

            /// Names the batch axis, so that operations such as [`psum`](crate::psum) can combine the examples. If
            /// nested `vmap`s use the same name, operations use the innermost axis.
            #[must_use]
            pub fn axis_name(self, name: impl AsRef<str>) -> Self {
                self.with(|mapping| mapping.axis_name = Some(name.as_ref().into()))
            }
        }
    };
}
pub(crate) use mapping_options;
