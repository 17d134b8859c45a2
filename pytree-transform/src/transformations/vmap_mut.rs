//! `vmap_mut`: as `vmap`, of a function that writes its first argument.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::{TreeDef, graph};

use crate::tensor::Tensor;
use crate::trace::{at_line_by_default, at_own_lines};
use crate::transformations::axes::Axes;
use crate::transformations::batch::{Mapping, enter, leave, mapping_options};
use crate::transformations::function::{Traceable, rebuild};

/// As [`vmap`](crate::vmap), of a function that writes its first argument, which is updated.
///
/// Both arguments are mapped over axis 0 of every leaf; [`in_axes`](VmapMut::in_axes) chooses others, as a pair. What is
/// written to a mapped leaf lies along the axis over which the leaf is mapped. What is written to one that is not
/// mapped must be the same for all examples, as what [`pmean`](crate::pmean) gives.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, vmap_mut};
/// let mut counts = Tensor::from([0, 10]);
/// let add = vmap_mut(|(count, x): (&mut Tensor, Tensor)| {
///     *count = &*count + &x;
///     x * 2
/// });
/// let doubled = add((&mut counts, Tensor::from([1, 2])));
/// assert_eq!(doubled.to_vec::<i32>(), [2, 4]);
/// assert_eq!(counts.to_vec::<i32>(), [1, 12]);
/// ```
///
/// # Panics
/// When called: as [`vmap`](crate::vmap), and if what is written to a leaf that is not mapped differs between the
/// examples; then nothing is written.
#[track_caller]
pub fn vmap_mut<'f, M, A, R, F>(function: F) -> VmapMut<'f, M, A, R>
where
    M: Traceable,
    A: Traceable,
    R: Traceable,
    F: Fn((&mut M, A)) -> R + Send + Sync + 'f,
{
    VmapMut::new(Arc::new(function), Mapping::new(Location::caller()))
}

type Writing<'f, M, A, R> = dyn Fn((&mut M, A)) -> R + Send + Sync + 'f;

/// What [`vmap_mut`] returns: a function of a model, which it updates, and a batch.
pub struct VmapMut<'f, M, A, R> {
    function: Arc<Writing<'f, M, A, R>>,
    mapping: Mapping,
    call: Box<Writing<'f, M, A, R>>,
}

impl<'f, M: Traceable, A: Traceable, R: Traceable> VmapMut<'f, M, A, R> {
    fn new(function: Arc<Writing<'f, M, A, R>>, mapping: Mapping) -> Self {
        let (inner, own) = (Arc::clone(&function), mapping.clone());
        Self {
            function,
            mapping,
            call: Box::new(move |(model, argument)| {
                at_line_by_default(own.line, || map(&*inner, &own, model, &argument))
            }),
        }
    }

    fn with(self, change: impl FnOnce(&mut Mapping)) -> Self {
        let mut mapping = self.mapping;
        change(&mut mapping);
        Self::new(self.function, mapping)
    }

    /// Over which axis the examples lie in each leaf of the result: as [`Vmap::out_axes`](crate::Vmap::out_axes).
    #[must_use]
    pub fn out_axes(self, axes: impl Into<Axes>) -> Self {
        self.with(|mapping| mapping.out_axes = axes.into())
    }
}
mapping_options!([M: Traceable, A: Traceable, R: Traceable] VmapMut<'f, M, A, R>);

impl<'f, M, A, R> std::ops::Deref for VmapMut<'f, M, A, R> {
    type Target = dyn Fn((&mut M, A)) -> R + Send + Sync + 'f;
    fn deref(&self) -> &Self::Target {
        &*self.call
    }
}
impl<M, A, R> std::fmt::Debug for VmapMut<'_, M, A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VmapMut")
    }
}

fn map<M: Traceable, A: Traceable, R: Traceable>(
    function: &Writing<'_, M, A, R>,
    mapping: &Mapping,
    model: &mut M,
    argument: &A,
) -> R {
    let (mut leaves, model_treedef) = graph::flatten::<Tensor, M>(&*model);
    let split = leaves.len();
    let (argument_leaves, argument_treedef) = graph::flatten::<Tensor, A>(argument);
    leaves.extend(argument_leaves);
    let whole = TreeDef::tuple(vec![model_treedef.clone(), argument_treedef.clone()]);
    let (axes, size) = mapping.mapped(&whole, &leaves);
    let trace = mapping.begin(size);
    let mut examples = enter(&trace, leaves, &axes);
    let argument_examples = examples.split_off(split);
    let mut written: M = rebuild(&model_treedef, examples);
    let argument: A = rebuild(&argument_treedef, argument_examples.clone());
    let output = at_own_lines(|| function((&mut written, argument)));
    let (results, output_treedef) = graph::flatten::<Tensor, R>(&output);
    let (mut examples, written_treedef) = graph::flatten::<Tensor, M>(&written);
    drop((output, written));
    let (all, all_written) = (leave(&trace, &results), leave(&trace, &examples));
    drop(trace);
    let placed = mapping.results(&output_treedef, &results, all, size);
    examples.extend(argument_examples);
    // What was written may have another structure; the axes are a prefix of that, too.
    let whole = TreeDef::tuple(vec![written_treedef.clone(), argument_treedef]);
    let updated = mapping.written(&whole, &examples, all_written, size);
    *model = rebuild(&written_treedef, updated);
    rebuild(&output_treedef, placed)
}
