//! `vmap_mut`: maps a function that takes some of its arguments by `&mut` and writes them.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::{Outcome, References, flatten_visited};

use pytree_core::TreeDef;

use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::axes::Axes;
use crate::transformations::batch::{Mapping, enter, leave, mapping_options};
use crate::transformations::function::{
    Ending, Known, call_inside_knowing, rebuild_result, transformed,
};
use crate::transformations::returned::Returned;
use crate::transformations::writing::{
    Arguments, Borrowed, Parts, WritingFunction, call_with_values, writing_function,
};

/// Maps a function that writes some of its arguments over a batch axis of each leaf; see [`vmap`](crate::vmap).
///
/// The function takes its arguments as for [`jit_mut`](crate::jit_mut): first the arguments that it writes, by `&mut`,
/// then the other arguments by value. All arguments are mapped over axis 0 of every leaf. [`in_axes`](VmapMut::in_axes)
/// sets other axes, as a tuple with a member for each argument. A value written to a mapped leaf gets the batch axis of
/// this leaf. A value written to a leaf that is not mapped must be the same for all examples, for instance a result of
/// [`pmean`](crate::pmean).
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
/// The mapped function panics under the same conditions as the function that [`vmap`](crate::vmap) returns. The mapped
/// function also panics, and writes nothing, if a value written to a leaf that is not mapped differs between the
/// examples.
#[doc(alias = "nnx.vmap")]
#[track_caller]
pub fn vmap_mut<'f, P, R, F, K>(function: F) -> VmapMut<'f, P, R::With<R::Value>>
where
    P: Arguments,
    R: Returned<K>,
    F: WritingFunction<P, Output = R> + Send + Sync + 'f,
{
    let compute = move |arguments: P::Borrowed<'_>, mapping: &Mapping| {
        let function = |arguments: P::Borrowed<'_>| function.call(arguments).into_value();
        R::with(map::<P, R::Value, R::Error>(function, mapping, arguments))
    };
    VmapMut::new(Arc::new(compute), Mapping::new(Location::caller()))
}

/// The result of [`vmap_mut`]: a mapped function that writes some of its arguments.
///
/// `P` lists the arguments, and `R` is the result of a call: a `VmapMut<(Mut<Net>, Tensor), Tensor>` is called with a
/// `(&mut Net, Tensor)` and returns a `Tensor`.
pub struct VmapMut<'f, P: Arguments, R> {
    compute: Arc<Compute<'f, P, R>>,
    mapping: Mapping,
    call: Box<Call<'f, P, R>>,
}

type Compute<'f, P, R> =
    dyn for<'a> Fn(<P as Parts>::Borrowed<'a>, &Mapping) -> R + Send + Sync + 'f;

type Call<'f, P, R> = dyn for<'a> Fn(<P as Parts>::Borrowed<'a>) -> R + Send + Sync + 'f;

impl<'f, P: Arguments, R: 'f> VmapMut<'f, P, R> {
    fn new(compute: Arc<Compute<'f, P, R>>, mapping: Mapping) -> Self {
        let (inner, own) = (Arc::clone(&compute), mapping.clone());
        Self {
            compute,
            mapping,
            call: Box::new(move |arguments: P::Borrowed<'_>| {
                at_line_by_default(own.line, || inner(arguments, &own))
            }),
        }
    }

    fn with(self, change: impl FnOnce(&mut Mapping)) -> Self {
        let mut mapping = self.mapping;
        change(&mut mapping);
        Self::new(self.compute, mapping)
    }

    /// Sets the batch axis of each leaf of the result; see [`Vmap::out_axes`](crate::Vmap::out_axes).
    #[must_use]
    pub fn out_axes(self, axes: impl Into<Axes>) -> Self {
        self.with(|mapping| mapping.out_axes = axes.into())
    }
}
mapping_options!([P: Arguments, R: 'f] VmapMut<'f, P, R>);

transformed!(callable [P: Arguments, R] VmapMut<'f, P, R>, dyn for<'a> Fn(P::Borrowed<'a>) -> R);
writing_function!(['f] VmapMut);

fn map<P: Arguments, R: Traceable, E>(
    function: impl FnOnce(P::Borrowed<'_>) -> Result<R, E>,
    mapping: &Mapping,
    arguments: P::Borrowed<'_>,
) -> Result<R, E> {
    let given = Borrowed::<P>(arguments);
    let (leaves, treedef, references) = flatten_visited(&given);
    let (mut places, _) = P::divide(given.0);
    let (axes, size) = mapping.mapped(&treedef, &leaves);
    let trace = mapping.begin(size);
    let examples = enter(&trace, leaves, &axes);
    // A shared node that the function does not replace has the same leaves before and after the call. A shared node in the
    // result alone may get other axes.
    let known = |(written, _): &(P::Written, R), references: References| match mapping.known() {
        Known::All => references,
        Known::References => {
            let (_, outcome) = Outcome::of::<Tensor, _>(written, &references, Vec::new());
            outcome.returned_of(references)
        }
    };
    let (mut results, outcome) = call_inside_knowing::<P::Values, (P::Written, R), E>(
        known,
        &treedef,
        examples.clone(),
        |values| {
            let (written, result) = call_with_values::<P, Result<R, E>>(function, values);
            result.map(|result| (written, result))
        },
    );
    let outcome = outcome?;
    let mut all = leave(&trace, &results);
    drop(trace);
    let [of_written, of_result] = members(outcome.result());
    let num_written = of_written.num_leaves();
    let mut output = results.split_off(num_written);
    let mut all_output = all.split_off(num_written);
    let in_references = output.split_off(of_result.num_leaves());
    let all_in_references = all_output.split_off(of_result.num_leaves());
    // The call may have changed the structure of a written argument. The axes must also be a prefix of the new
    // structure.
    let (whole, num_read) = P::structure_after(of_written, &treedef);
    results.extend_from_slice(&examples[examples.len() - num_read..]);
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
    let (written, output) = rebuild_result(ending, &outcome, placed, &references);
    P::store(&mut places, written);
    Ok(output)
}

/// Returns the structures of the two members of a pair.
fn members(pair: &TreeDef) -> [TreeDef; 2] {
    match pair.children().try_into() {
        Ok(members) => members,
        Err(_) => unreachable!("a pair has two members"),
    }
}
