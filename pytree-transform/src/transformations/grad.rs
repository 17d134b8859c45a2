//! `grad`, `value_and_grad` and `vjp`.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::bug::{bug, expect_next, expect_some};
use pytree_core::crossing::take_apart;
use pytree_core::{Filter, LeafKind, SelectPart, Tree, TreeDef, graph};

use crate::base::dtype::AbstractArray;
use crate::primitives::body::tape::{Tape, linearize};
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::aliasing::conflicts;
use crate::transformations::function::{
    Ending, Function, Known, Loss, call_inside, call_inside_knowing, rebuild_result, transformed,
};

/// What the gradient with respect to an `M` is: a tensor for a tensor, a tuple for a tuple, and a
/// [`Partition`](pytree_core::Partition) for everything else.
pub type Gradient<M> = <M as SelectPart<Tensor>>::Part;

/// The gradient of a loss with respect to the parameters of its argument.
///
/// Differentiated are the leaves of kind param, and leaves without a kind. [`wrt`](Grad::wrt) chooses
/// others. A parameter that the loss does not depend on is absent from the gradient.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, grad};
/// let slope = grad(|x: &Tensor| x.sin() * x)(&Tensor::from(2.0_f64));
/// assert!((slope.item::<f64>() - (2.0_f64.sin() + 2.0 * 2.0_f64.cos())).abs() < 1e-12);
/// ```
///
/// # Panics
/// When called: if the loss is not a floating-point scalar, or a leaf to differentiate is not a float.
#[track_caller]
pub fn grad<'f, M, L, F>(function: F) -> Grad<'f, M>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, Output = L> + Send + Sync + 'f,
{
    let inner = value_and_grad(function);
    Grad::new(Arc::new(move |wrt| {
        let inner = inner.clone_with(wrt);
        Box::new(move |model: &M| (inner.call)(model).1)
    }))
}

/// The value of a loss with its gradient; both as [`grad`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, value_and_grad};
/// let (value, slope) = value_and_grad(|x: &Tensor| (x * x).sum())(&Tensor::from([1.0_f32, 2.0]));
/// assert_eq!(value.item::<f32>(), 5.0);
/// assert_eq!(slope.to_vec::<f32>(), [2.0, 4.0]);
/// ```
///
/// # Panics
/// When called: as [`grad`].
#[track_caller]
pub fn value_and_grad<'f, M, L, F>(function: F) -> ValueAndGrad<'f, M, L>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, Output = L> + Send + Sync + 'f,
{
    let line = Location::caller();
    let function = Arc::new(function);
    ValueAndGrad::new(Arc::new(move |wrt| {
        let function = Arc::clone(&function);
        Box::new(move |model: &M| {
            let run = |model: M| {
                let output = function.call(&model);
                (output.loss().clone(), output)
            };
            at_line_by_default(line, || differentiate(model, wrt.as_ref(), line, run))
        })
    }))
}

/// As [`value_and_grad`], of a function that writes states of its argument, which are updated.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, value_and_grad_mut};
/// let mut pair = (Tensor::from(3.0_f32), Tensor::from(0.0_f32));
/// let (loss, _) = value_and_grad_mut(|pair: &mut (Tensor, Tensor)| {
///     pair.1 = &pair.1 + 1.0;
///     &pair.0 * &pair.0
/// })(&mut pair);
/// assert_eq!(loss.item::<f32>(), 9.0);
/// assert_eq!(pair.1.item::<f32>(), 1.0);
/// ```
///
/// # Panics
/// When called: as [`grad`].
#[track_caller]
pub fn value_and_grad_mut<'f, M, L, F>(function: F) -> ValueAndGradMut<'f, M, L>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: Fn(&mut M) -> L + Send + Sync + 'f,
{
    let line = Location::caller();
    let function = Arc::new(function);
    ValueAndGradMut::new(Arc::new(move |wrt| {
        let function = Arc::clone(&function);
        Box::new(move |model: &mut M| {
            let run = |mut model: M| {
                let output = function(&mut model);
                (output.loss().clone(), (output, model))
            };
            let ((output, updated), gradient) =
                at_line_by_default(line, || differentiate(model, wrt.as_ref(), line, run));
            *model = updated;
            (output, gradient)
        })
    }))
}

macro_rules! differentiating {
    ($(#[$doc:meta])* $name:ident<$($generic:ident),*>, $call:ty) => {
        $(#[$doc])*
        pub struct $name<'f, $($generic),*>
        where
            M: SelectPart<Tensor>,
        {
            make: Arc<dyn Fn(Option<Filter>) -> Box<$call> + Send + Sync + 'f>,
            call: Box<$call>,
        }

        impl<'f, $($generic),*> $name<'f, $($generic),*>
        where
            M: SelectPart<Tensor>,
        {
            fn new(make: Arc<dyn Fn(Option<Filter>) -> Box<$call> + Send + Sync + 'f>) -> Self {
                Self { call: make(None), make }
            }

            #[allow(dead_code, reason = "one of the three transformations needs it")]
            fn clone_with(&self, wrt: Option<Filter>) -> Self {
                Self { call: (self.make)(wrt), make: Arc::clone(&self.make) }
            }

            /// Differentiates only with respect to the leaves that a filter accepts.
            #[must_use]
            pub fn wrt(self, filter: Filter) -> Self {
                Self { call: (self.make)(Some(filter)), make: self.make }
            }
        }
    };
}

differentiating! {
    /// What [`grad`] returns: a function from a model to its gradient.
    Grad<M>, dyn Fn(&M) -> Gradient<M> + Send + Sync + 'f
}
differentiating! {
    /// What [`value_and_grad`] returns: a function from a model to the loss and its gradient.
    ValueAndGrad<M, L>, dyn Fn(&M) -> (L, Gradient<M>) + Send + Sync + 'f
}
differentiating! {
    /// What [`value_and_grad_mut`] returns: a function from a model, which it updates, to the loss and its
    /// gradient.
    ValueAndGradMut<M, L>, dyn Fn(&mut M) -> (L, Gradient<M>) + Send + Sync + 'f
}

transformed!(reference [M: SelectPart<Tensor>] Grad<'f, M>, (M) -> Gradient<M>);
transformed!(reference [M: SelectPart<Tensor>, L] ValueAndGrad<'f, M, L>, (M) -> (L, Gradient<M>));

impl<'f, M: SelectPart<Tensor>, L> std::ops::Deref for ValueAndGradMut<'f, M, L> {
    type Target = dyn Fn(&mut M) -> (L, Gradient<M>) + Send + Sync + 'f;
    fn deref(&self) -> &Self::Target {
        &*self.call
    }
}
impl<M: SelectPart<Tensor>, L> std::fmt::Debug for ValueAndGradMut<'_, M, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ValueAndGradMut")
    }
}

/// Which leaves to differentiate, with their kinds.
pub(crate) fn active_leaves(
    treedef: &TreeDef,
    leaves: &[Tensor],
    wrt: Option<&Filter>,
    line: &Location<'_>,
) -> (Vec<bool>, Vec<Option<LeafKind>>) {
    let kinds = treedef.leaf_kinds();
    let show = |kind: &Option<LeafKind>| match kind {
        Some(kind) => format!("{kind} at"),
        None => "no kind at".to_owned(),
    };
    let conflicts = conflicts(treedef, &kinds, |all, _| Some(all.leaf_kinds()), show);
    assert!(
        conflicts.is_empty(),
        "cannot differentiate: one node is at several places of different kinds: {}; give the fields one kind, or each a node of its own (gradient taken at {line})",
        conflicts.join("; ")
    );
    let active: Vec<bool> = match wrt {
        None => kinds
            .iter()
            .map(|kind| !matches!(kind, Some(LeafKind::State(_))))
            .collect(),
        Some(filter) => match filter.choose(treedef, leaves) {
            Ok(chosen) => chosen,
            Err(error) => panic!(
                "cannot choose what to differentiate by {filter:?}: {error} (gradient taken at {line})"
            ),
        },
    };
    if active
        .iter()
        .zip(leaves)
        .any(|(&active, leaf)| active && !leaf.dtype().is_float())
    {
        let places: Vec<String> = treedef
            .leaf_paths()
            .iter()
            .zip(leaves)
            .zip(&active)
            .filter(|((_, leaf), active)| **active && !leaf.dtype().is_float())
            .map(|((path, leaf), _)| format!("{} ({})", path.or_root(), leaf.info()))
            .collect();
        panic!(
            "cannot differentiate with respect to {}: only f32 and f64 have gradients; make it a state, capture it in the closure, or choose the leaves with `.wrt(filter)` (gradient taken at {line})",
            places.join(", ")
        );
    }
    (active, kinds)
}

/// Runs a function that gives a loss and results, and takes the gradient of the loss.
fn differentiate<M: SelectPart<Tensor>, R: Traceable>(
    model: &M,
    wrt: Option<&Filter>,
    line: &Location<'_>,
    run: impl FnOnce(M) -> (Tensor, R),
) -> (R, Gradient<M>) {
    let (leaves, treedef, references) = take_apart::<Tensor, M>(model);
    let (active, kinds) = active_leaves(&treedef, &leaves, wrt, line);
    let (mut results, tape, outcome) = linearize(&leaves, &active, |traced| {
        let mut loss = None;
        let (mut results, outcome) = call_inside::<M, R>(&treedef, traced, |model| {
            let (value, results) = run(model);
            check_loss(&value, line);
            loss = Some(value);
            results
        });
        // The loss is last, so that the others are where their structure has them.
        results.extend(loss);
        (results, outcome)
    });
    let mut seeds = vec![None; results.len()];
    let loss = expect_some(results.pop(), "the loss behind the results");
    seeds[results.len()] = Some(Tensor::ones_like(&loss));
    let gradient = assemble::<M>(&treedef, &leaves, &active, &kinds, tape.transpose(seeds));
    let ending = Ending::of("grad", line);
    (
        rebuild_result(ending, &outcome, results, &references),
        gradient,
    )
}

fn check_loss(loss: &Tensor, line: &Location<'_>) {
    assert!(
        loss.rank() == 0 && loss.dtype().is_float(),
        "cannot take the gradient of a {}: the loss must be a floating-point scalar; reduce it, for instance with `.mean()`, or convert integers to floats (gradient taken at {line})",
        loss.info()
    );
}

/// Puts the cotangents in the argument's structure. A leaf without a kind that received none has a
/// gradient of zeros, and so has a member of a tuple that is not differentiated; a parameter that
/// received none is absent.
fn assemble<M: SelectPart<Tensor>>(
    treedef: &TreeDef,
    leaves: &[Tensor],
    active: &[bool],
    kinds: &[Option<LeafKind>],
    cotangents: Vec<Option<Tensor>>,
) -> Gradient<M> {
    assemble_as::<M>(
        treedef,
        leaves,
        active,
        kinds,
        cotangents,
        Tensor::zeros_like,
    )
}

/// As [`assemble`], with other zeros.
pub(crate) fn assemble_as<M: SelectPart<Tensor>>(
    treedef: &TreeDef,
    leaves: &[Tensor],
    active: &[bool],
    kinds: &[Option<LeafKind>],
    cotangents: Vec<Option<Tensor>>,
    zeros: impl Fn(&Tensor) -> Tensor,
) -> Gradient<M> {
    let mut cotangents = cotangents.into_iter();
    // A tensor that is the argument, or a member of a tuple, has a gradient that is a tensor.
    let members = treedef.is_tuple_member();
    let gradients = leaves
        .iter()
        .zip(active)
        .zip(kinds.iter().zip(members))
        .map(|((leaf, &active), (kind, member))| {
            let cotangent = if active {
                expect_next(
                    &mut cotangents,
                    "a cotangent, or none, for each active leaf",
                )
            } else {
                None
            };
            if member || (active && kind.is_none()) {
                return Some(cotangent.unwrap_or_else(|| zeros(leaf)));
            }
            cotangent
        })
        .collect();
    match Tree::with_absent(treedef, gradients).and_then(M::select_part) {
        Ok(part) => part,
        Err(error) => bug(format_args!(
            "a gradient of the argument's type, found that {error}"
        )),
    }
}

/// The result of a function, and the function from a cotangent of the result to that of the argument.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, vjp};
/// let (y, pullback) = vjp(|x: &Tensor| x * x, &Tensor::from([1.0_f32, 2.0]));
/// assert_eq!(y.to_vec::<f32>(), [1.0, 4.0]);
/// let x_bar = pullback.call(&Tensor::from([1.0_f32, 10.0]));
/// assert_eq!(x_bar.to_vec::<f32>(), [2.0, 40.0]);
/// ```
///
/// # Panics
/// If a leaf to differentiate is not a float.
#[track_caller]
pub fn vjp<M, R, F>(function: F, primals: &M) -> (R, Pullback<M, R>)
where
    M: SelectPart<Tensor>,
    R: Traceable,
    F: for<'a> Function<&'a M, Output = R>,
{
    let (leaves, treedef, references) = take_apart::<Tensor, M>(primals);
    let line = Location::caller();
    let (active, kinds) = active_leaves(&treedef, &leaves, None, line);
    let (results, mut tape, outcome) = linearize(&leaves, &active, |traced| {
        // The cotangent has leaves for all of the result.
        call_inside_knowing::<M, R>(Known::References, &treedef, traced, |model| {
            function.call(&model)
        })
    });
    // What was written to references is behind the result, and has no cotangent.
    let count = outcome.result().num_leaves();
    tape.outputs.truncate(count);
    let output_infos: Vec<AbstractArray> = results[..count]
        .iter()
        .map(|result| result.info().clone())
        .collect();
    let ending = Ending::of("vjp", line);
    let output = rebuild_result(ending, &outcome, results, &references);
    let output_treedef = outcome.result().clone();
    let argument = (treedef, leaves, active, kinds);
    let pullback = Pullback::new(tape, argument, (output_treedef, output_infos));
    (output, pullback)
}

/// The function from a cotangent of a result to that of the argument: see [`vjp`].
#[derive(Debug)]
pub struct Pullback<M, R> {
    tape: Tape,
    treedef: TreeDef,
    leaves: Vec<Tensor>,
    active: Vec<bool>,
    kinds: Vec<Option<LeafKind>>,
    output_treedef: TreeDef,
    output_infos: Vec<AbstractArray>,
    types: std::marker::PhantomData<fn(R) -> M>,
}

impl<M: SelectPart<Tensor>, R: Traceable> Pullback<M, R> {
    /// From a tape, the argument's structure, leaves, active leaves and kinds, and the result's form.
    pub(crate) fn new(
        tape: Tape,
        (treedef, leaves, active, kinds): (TreeDef, Vec<Tensor>, Vec<bool>, Vec<Option<LeafKind>>),
        (output_treedef, output_infos): (TreeDef, Vec<AbstractArray>),
    ) -> Self {
        Self {
            tape,
            treedef,
            leaves,
            active,
            kinds,
            output_treedef,
            output_infos,
            types: std::marker::PhantomData,
        }
    }

    /// The cotangent of the argument.
    ///
    /// # Panics
    /// If the cotangent has another structure, or a leaf another shape or element type, than the result.
    #[track_caller]
    pub fn call(&self, cotangent: &R) -> Gradient<M> {
        let (cotangents, treedef) = graph::flatten::<Tensor, R>(cotangent);
        assert!(
            treedef == self.output_treedef,
            "cannot pull back: the cotangent has the structure {treedef}, expected that of the result, {}",
            self.output_treedef
        );
        for (path, (cotangent, info)) in treedef
            .leaf_paths()
            .iter()
            .zip(cotangents.iter().zip(&self.output_infos))
        {
            assert!(
                cotangent.info() == info,
                "cannot pull back: at {} the cotangent is {}, expected that of the result, {info}",
                path.or_root(),
                cotangent.info()
            );
        }
        at_line_by_default(Location::caller(), || {
            let cotangents = cotangents.into_iter().map(Some).collect();
            assemble::<M>(
                &self.treedef,
                &self.leaves,
                &self.active,
                &self.kinds,
                self.tape.transpose_again(cotangents),
            )
        })
    }
}
