//! `vmap_mut`: maps a function that writes its first argument.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::TreeDef;
use pytree_core::boundary::flatten_both;

use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::axes::Axes;
use crate::transformations::batch::{Mapping, enter, leave, mapping_options};
use crate::transformations::function::{Ending, call_inside_knowing, rebuild_result, transformed};

/// Maps a function of two arguments that writes its first argument; see [`vmap`](crate::vmap).
///
/// Both arguments are mapped over axis 0 of every leaf; [`in_axes`](VmapMut::in_axes) sets other axes, as a pair. A
/// value written to a mapped leaf gets the batch axis of this leaf. A value written to a leaf that is not mapped must
/// be the same for all examples, for instance a result of [`pmean`](crate::pmean).
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
/// The mapped function panics under the same conditions as that of [`vmap`](crate::vmap). It also panics, and writes
/// nothing, if a value written to a leaf that is not mapped differs between the examples.
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

/// The result of [`vmap_mut`]: a function that takes a model and a batch, and updates the model.
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

    /// Sets the batch axis of each leaf of the result; see [`Vmap::out_axes`](crate::Vmap::out_axes).
    #[must_use]
    pub fn out_axes(self, axes: impl Into<Axes>) -> Self {
        self.with(|mapping| mapping.out_axes = axes.into())
    }
}
mapping_options!([M: Traceable, A: Traceable, R: Traceable] VmapMut<'f, M, A, R>);

transformed!(callable [M, A, R] VmapMut<'f, M, A, R>, dyn Fn((&mut M, A)) -> R);

fn map<M: Traceable, A: Traceable, R: Traceable>(
    function: &Writing<'_, M, A, R>,
    mapping: &Mapping,
    model: &mut M,
    argument: &A,
) -> R {
    let (leaves, treedef, references) = flatten_both::<Tensor, M, A>(&*model, argument);
    let (axes, size) = mapping.mapped(&treedef, &leaves);
    let trace = mapping.begin(size);
    let examples = enter(&trace, leaves, &axes);
    let (mut results, outcome) = call_inside_knowing::<(M, A), (M, R)>(
        mapping.known(),
        &treedef,
        examples.clone(),
        |(mut model, argument)| {
            let output = function((&mut model, argument));
            (model, output)
        },
    );
    let mut all = leave(&trace, &results);
    drop(trace);
    let [of_model, of_result] = members(outcome.result());
    let [_, of_argument] = members(&treedef);
    let mut output = results.split_off(of_model.num_leaves());
    let mut all_output = all.split_off(of_model.num_leaves());
    let in_references = output.split_off(of_result.num_leaves());
    let all_in_references = all_output.split_off(of_result.num_leaves());
    // The function may have changed the structure of its first argument. `in_axes` must be a prefix of the new
    // structure, too.
    results.extend_from_slice(&examples[examples.len() - of_argument.num_leaves()..]);
    let whole = TreeDef::tuple(vec![of_model, of_argument]);
    let mut placed = mapping.written(&whole, &results, all, size);
    placed.extend(mapping.results(&of_result, &output, all_output, size));
    placed.extend(mapping.references(
        &treedef,
        &axes,
        &outcome,
        &in_references,
        all_in_references,
        size,
    ));
    let ending = Ending::of("vmap_mut", mapping.line);
    let (updated, output) = rebuild_result(ending, &outcome, placed, &references);
    *model = updated;
    output
}

/// Returns the structures of the two members of a pair.
fn members(pair: &TreeDef) -> [TreeDef; 2] {
    match pair.children().try_into() {
        Ok(members) => members,
        Err(_) => unreachable!("a pair has two members"),
    }
}
