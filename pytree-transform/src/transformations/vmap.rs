//! `vmap`: turns a function of one example into a function of a batch.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::flatten_with_references;

use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::axes::Axes;
use crate::transformations::batch::{Mapping, enter, leave, mapping_options};
use crate::transformations::function::{Ending, Unary, call_inside, rebuild_result, transformed};
use crate::transformations::returned::Returned;

/// Maps a function over axis 0 of every leaf of its argument; [`in_axes`](Vmap::in_axes) sets other axes.
///
/// Results are stacked along axis 0, or along the axes that [`out_axes`](Vmap::out_axes) sets. With an
/// [`axis_name`](Vmap::axis_name), operations such as [`psum`](crate::psum) combine the examples.
///
/// The function may return a `Result`; see [`Returned`].
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
/// The mapped function panics if no leaf is mapped, or the mapped axes differ in length.
#[doc(alias("jax.vmap", "torch.func.vmap"))]
#[track_caller]
pub fn vmap<'f, A, R, F, K, C>(function: F) -> Vmap<'f, A, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
    F: Unary<A, C, Output = R> + Send + Sync + 'f,
{
    let compute = move |argument, mapping: &Mapping| {
        let function = |argument| function.call(argument).into_value();
        R::with(map(function, mapping, argument))
    };
    Vmap::new(Arc::new(compute), Mapping::new(Location::caller()))
}

/// The result of [`vmap`]: a function of a batch. `R` is the result of a call: a value, or a `Result`.
pub struct Vmap<'f, A, R> {
    compute: Arc<Compute<'f, A, R>>,
    mapping: Mapping,
    call: Box<dyn Fn(A) -> R + Send + Sync + 'f>,
}
transformed!([A: Traceable, R] Vmap<'f, A, R>, (A) -> R);

type Compute<'f, A, R> = dyn Fn(A, &Mapping) -> R + Send + Sync + 'f;

impl<'f, A: Traceable, R: 'f> Vmap<'f, A, R> {
    fn new(compute: Arc<Compute<'f, A, R>>, mapping: Mapping) -> Self {
        let (inner, own) = (Arc::clone(&compute), mapping.clone());
        Self {
            compute,
            mapping,
            call: Box::new(move |argument| at_line_by_default(own.line, || inner(argument, &own))),
        }
    }

    fn with(self, change: impl FnOnce(&mut Mapping)) -> Self {
        let mut mapping = self.mapping;
        change(&mut mapping);
        Self::new(self.compute, mapping)
    }
}
mapping_options!([A: Traceable, R: 'f] Vmap<'f, A, R>);

impl<'f, A: Traceable, R: 'f> Vmap<'f, A, R> {
    /// Sets the batch axis of each leaf of the result. The default is 0.
    ///
    /// Write `None` for results that are the same for all examples. These results get no batch axis. If the result
    /// contains a reference of the argument, the reference keeps its identity, and the batch axis that it has in the
    /// argument.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, psum, vmap};
    /// let both = vmap(|x: Tensor| (&x * 2.0, psum(&x, "batch"))).axis_name("batch").out_axes((-1, None));
    /// let (doubled, sum) = both(Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
    /// assert_eq!(doubled, Tensor::from([[2.0, 6.0], [4.0, 8.0]]));
    /// assert_eq!(sum, Tensor::from([4.0, 6.0]));
    /// ```
    ///
    /// # Panics
    /// The mapped function panics if the axes are not a prefix tree of the result, if an axis is out of range, or if a
    /// result leaf whose axis is `None` differs between the examples.
    #[must_use]
    pub fn out_axes(self, axes: impl Into<Axes>) -> Self {
        self.with(|mapping| mapping.out_axes = axes.into())
    }
}

fn map<A: Traceable, R: Traceable, E>(
    function: impl FnOnce(A) -> Result<R, E>,
    mapping: &Mapping,
    argument: A,
) -> Result<R, E> {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, A>(&argument);
    drop(argument);
    let (axes, size) = mapping.mapped(&treedef, &leaves);
    let trace = mapping.begin(size);
    let examples = enter(&trace, leaves, &axes);
    let known = mapping.known();
    let (mut results, outcome) = call_inside(known, &treedef, examples, function);
    let outcome = outcome?;
    let mut all = leave(&trace, &results);
    drop(trace);
    let of_result = outcome.result().num_leaves();
    let (written, all_written) = (results.split_off(of_result), all.split_off(of_result));
    let mut placed = mapping.results(outcome.result(), &results, all, size);
    placed.extend(mapping.references(&treedef, &axes, &outcome, &written, all_written, size));
    let ending = Ending::of("vmap", mapping.line);
    Ok(rebuild_result(ending, &outcome, placed, &references))
}
