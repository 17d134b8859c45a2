//! `vmap_mut`: maps a function that writes some of its arguments.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::TreeDef;
use pytree_core::boundary::flatten_visited;

use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::axes::Axes;
use crate::transformations::batch::{Mapping, enter, leave, mapping_options};
use crate::transformations::function::{Ending, call_inside_knowing, rebuild_result, transformed};
use crate::transformations::writing::{
    Arguments, Borrowed, Parts, WritingFunction, call_with_values, writing_function,
};

/// Maps a function of two arguments that writes its first argument; see [`vmap`](crate::vmap).
///
/// The function takes its arguments as under [`jit_mut`](crate::jit_mut): those that it writes by `&mut`, then the
/// others by value. All are mapped over axis 0 of every leaf; [`in_axes`](VmapMut::in_axes) sets other axes, as a tuple
/// with a member for each argument. A value written to a mapped leaf gets the batch axis of this leaf. A value written to a leaf that is not mapped must
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
pub fn vmap_mut<'f, P, R, F>(function: F) -> VmapMut<'f, P, R>
where
    P: Arguments,
    R: Traceable,
    F: WritingFunction<P, Output = R> + Send + Sync + 'f,
{
    VmapMut::new(
        Arc::new(move |arguments: P::Borrowed<'_>| function.call(arguments)),
        Mapping::new(Location::caller()),
    )
}

type Writing<'f, P, R> = dyn for<'a> Fn(<P as Parts>::Borrowed<'a>) -> R + Send + Sync + 'f;

/// The result of [`vmap_mut`]: a function of batches, of which it updates some.
///
/// `P` lists the arguments: a `VmapMut<(Mut<Net>, Tensor), Tensor>` is called with a `(&mut Net, Tensor)`.
pub struct VmapMut<'f, P: Arguments, R> {
    function: Arc<Writing<'f, P, R>>,
    mapping: Mapping,
    call: Box<Writing<'f, P, R>>,
}

impl<'f, P: Arguments, R: Traceable> VmapMut<'f, P, R> {
    fn new(function: Arc<Writing<'f, P, R>>, mapping: Mapping) -> Self {
        let (inner, own) = (Arc::clone(&function), mapping.clone());
        Self {
            function,
            mapping,
            call: Box::new(move |arguments: P::Borrowed<'_>| {
                at_line_by_default(own.line, || map::<P, R>(&*inner, &own, arguments))
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
mapping_options!([P: Arguments, R: Traceable] VmapMut<'f, P, R>);

transformed!(callable [P: Arguments, R] VmapMut<'f, P, R>, dyn for<'a> Fn(P::Borrowed<'a>) -> R);
writing_function!(['f] VmapMut);

fn map<P: Arguments, R: Traceable>(
    function: &Writing<'_, P, R>,
    mapping: &Mapping,
    arguments: P::Borrowed<'_>,
) -> R {
    let (leaves, treedef, references) = flatten_visited(&Borrowed::<P>(&arguments));
    let (mut places, _) = P::divide(arguments);
    let (axes, size) = mapping.mapped(&treedef, &leaves);
    let trace = mapping.begin(size);
    let examples = enter(&trace, leaves, &axes);
    let (mut results, outcome) = call_inside_knowing::<P::Values, (P::Written, R)>(
        mapping.known(),
        &treedef,
        examples.clone(),
        |values| call_with_values::<P, R>(function, values),
    );
    let mut all = leave(&trace, &results);
    drop(trace);
    let [of_written, of_result] = members(outcome.result());
    let num_written = of_written.num_leaves();
    let mut output = results.split_off(num_written);
    let mut all_output = all.split_off(num_written);
    let in_references = output.split_off(of_result.num_leaves());
    let all_in_references = all_output.split_off(of_result.num_leaves());
    // The written arguments may have other structures; the axes are a prefix of these structures too.
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
    output
}

/// Returns the structures of the two members of a pair.
fn members(pair: &TreeDef) -> [TreeDef; 2] {
    match pair.children().try_into() {
        Ok(members) => members,
        Err(_) => unreachable!("a pair has two members"),
    }
}
