//! `grad`, `value_and_grad` and `vjp`.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::flatten_with_references;
use pytree_core::bug::expect_some;
use pytree_core::{Filter, SelectPart, TreeDef, graph};

use crate::base::dtype::AbstractArray;
use crate::primitives::body::tape::{Tape, linearize};
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::argument::Argument;
use crate::transformations::function::{
    Ending, Function, Known, Loss, call_inside, call_inside_knowing, rebuild_result, transformed,
};

/// The type of the gradient with respect to an `M`: a tensor if `M` is a tensor, a tuple if `M` is a tuple, and a
/// [`Partition`](pytree_core::Partition) for every other type.
pub type Gradient<M> = <M as SelectPart<Tensor>>::Part;

/// Returns the function that computes the gradient of a loss with respect to the parameters of its argument.
///
/// The leaves of kind param, and leaves without a kind, are differentiated. [`wrt`](Grad::wrt) chooses other leaves. A
/// parameter that the loss does not depend on is absent from the gradient.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, grad};
/// let slope = grad(|x: &Tensor| x.sin() * x)(&Tensor::from(2.0_f64));
/// assert!((slope.item::<f64>() - (2.0_f64.sin() + 2.0 * 2.0_f64.cos())).abs() < 1e-12);
/// ```
///
/// # Panics
/// The returned function panics if the loss is not a floating-point scalar, or a leaf to differentiate is not a float.
#[track_caller]
pub fn grad<'f, M, L, F>(function: F) -> Grad<'f, M>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, Output = L> + Send + Sync + 'f,
{
    let both = value_and_grad(function).compute;
    Grad::new(
        Arc::new(move |model: &M, wrt: Option<&Filter>| both(model, wrt).1),
        None,
    )
}

/// Returns the function that computes a loss and its gradient; see [`grad`].
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
/// The returned function panics under the same conditions as that of [`grad`].
#[track_caller]
pub fn value_and_grad<'f, M, L, F>(function: F) -> ValueAndGrad<'f, M, L>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, Output = L> + Send + Sync + 'f,
{
    let line = Location::caller();
    let compute = move |model: &M, wrt: Option<&Filter>| {
        let run = |model: M| {
            let output = function.call(&model);
            (output.loss().clone(), output)
        };
        at_line_by_default(line, || differentiate(model, wrt, line, run))
    };
    ValueAndGrad::new(Arc::new(compute), None)
}

/// Returns the function that computes a loss and its gradient, and writes the changes that the loss function made to
/// the states of its argument back into the argument; see [`value_and_grad`].
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
/// The returned function panics under the same conditions as that of [`grad`].
#[track_caller]
pub fn value_and_grad_mut<'f, M, L, F>(function: F) -> ValueAndGradMut<'f, M, L>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: Fn(&mut M) -> L + Send + Sync + 'f,
{
    let line = Location::caller();
    let compute = move |model: &mut M, wrt: Option<&Filter>| {
        let run = |mut model: M| {
            let output = function(&mut model);
            (output.loss().clone(), (output, model))
        };
        let ((output, updated), gradient) =
            at_line_by_default(line, || differentiate(model, wrt, line, run));
        *model = updated;
        (output, gradient)
    };
    ValueAndGradMut::new(Arc::new(compute), None)
}

/// Defines the struct that a differentiating transformation returns, with its option `wrt`.
macro_rules! differentiating {
    ($(#[$doc:meta])* $name:ident<M $(, $loss:ident)?>, ($model:ty) -> $output:ty) => {
        $(#[$doc])*
        pub struct $name<'f, M $(, $loss)?>
        where
            M: SelectPart<Tensor>,
        {
            compute: Arc<dyn Fn($model, Option<&Filter>) -> $output + Send + Sync + 'f>,
            call: Box<dyn Fn($model) -> $output + Send + Sync + 'f>,
        }

        impl<'f, M $(, $loss: 'f)?> $name<'f, M $(, $loss)?>
        where
            M: SelectPart<Tensor>,
        {
            fn new(
                compute: Arc<dyn Fn($model, Option<&Filter>) -> $output + Send + Sync + 'f>,
                wrt: Option<Filter>,
            ) -> Self {
                let inner = Arc::clone(&compute);
                let call = Box::new(move |model: $model| inner(model, wrt.as_ref()));
                Self { compute, call }
            }

            /// Differentiates only with respect to the leaves that a filter accepts.
            #[must_use]
            pub fn wrt(self, filter: Filter) -> Self {
                Self::new(self.compute, Some(filter))
            }
        }
    };
}

differentiating! {
    /// The result of [`grad`]: a function from a model to its gradient.
    Grad<M>, (&M) -> Gradient<M>
}
differentiating! {
    /// The result of [`value_and_grad`]: a function from a model to the loss and its gradient.
    ValueAndGrad<M, L>, (&M) -> (L, Gradient<M>)
}
differentiating! {
    /// The result of [`value_and_grad_mut`]: a function from a model, which it updates, to the loss and its gradient.
    ValueAndGradMut<M, L>, (&mut M) -> (L, Gradient<M>)
}

transformed!(reference [M: SelectPart<Tensor>] Grad<'f, M>, (M) -> Gradient<M>);
transformed!(reference [M: SelectPart<Tensor>, L] ValueAndGrad<'f, M, L>, (M) -> (L, Gradient<M>));
transformed!(callable [M: SelectPart<Tensor>, L] ValueAndGradMut<'f, M, L>, dyn Fn(&mut M) -> (L, Gradient<M>));

/// Runs a function that returns a loss and results, and takes the gradient of the loss.
fn differentiate<M: SelectPart<Tensor>, R: Traceable>(
    model: &M,
    wrt: Option<&Filter>,
    line: &Location<'_>,
    run: impl FnOnce(M) -> (Tensor, R),
) -> (R, Gradient<M>) {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(model);
    let argument = Argument::new(leaves, treedef, wrt, line);
    let (mut results, tape, outcome) = linearize(&argument.leaves, &argument.active, |traced| {
        let mut loss = None;
        let (mut results, outcome) = call_inside::<M, R>(&argument.treedef, traced, |model| {
            let (value, results) = run(model);
            check_loss(&value, line);
            loss = Some(value);
            results
        });
        // The loss is appended, so that the leaves of the result keep their positions.
        results.extend(loss);
        (results, outcome)
    });
    let mut seeds = vec![None; results.len()];
    let loss = expect_some(results.pop(), "the loss after the results");
    seeds[results.len()] = Some(Tensor::ones_like(&loss));
    let gradient = argument.gradient::<M>(tape.transpose(seeds), Tensor::zeros_like);
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

/// Returns the result of a function, and the pullback: the function from a cotangent of the result to the cotangent of
/// the argument.
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
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(primals);
    let line = Location::caller();
    let argument = Argument::new(leaves, treedef, None, line);
    let (results, mut tape, outcome) = linearize(&argument.leaves, &argument.active, |traced| {
        // The cotangent has a leaf for each leaf of the result.
        call_inside_knowing::<M, R>(Known::References, &argument.treedef, traced, |model| {
            function.call(&model)
        })
    });
    // Leaves that were written to references follow the result and have no cotangent.
    let count = outcome.result().num_leaves();
    tape.outputs.truncate(count);
    let output_infos: Vec<AbstractArray> = results[..count]
        .iter()
        .map(|result| result.info().clone())
        .collect();
    let ending = Ending::of("vjp", line);
    let output = rebuild_result(ending, &outcome, results, &references);
    let output_treedef = outcome.result().clone();
    let pullback = Pullback {
        tape,
        argument,
        output_treedef,
        output_infos,
        types: PhantomData,
    };
    (output, pullback)
}

/// The function from a cotangent of a result to the cotangent of the argument: see [`vjp`].
#[derive(Debug)]
pub struct Pullback<M, R> {
    pub(crate) tape: Tape,
    pub(crate) argument: Argument,
    pub(crate) output_treedef: TreeDef,
    pub(crate) output_infos: Vec<AbstractArray>,
    pub(crate) types: PhantomData<fn(R) -> M>,
}

impl<M: SelectPart<Tensor>, R: Traceable> Pullback<M, R> {
    /// Returns the cotangent of the argument.
    ///
    /// # Panics
    /// If structure, shapes or dtypes of the cotangent differ from those of the result.
    #[track_caller]
    pub fn call(&self, cotangent: &R) -> Gradient<M> {
        let (cotangents, treedef) = graph::flatten::<Tensor, R>(cotangent);
        assert!(
            treedef == self.output_treedef,
            "cannot pull back: the cotangent has the structure {treedef}, expected the structure of the result, {}",
            self.output_treedef
        );
        for (path, (cotangent, info)) in treedef
            .leaf_paths()
            .iter()
            .zip(cotangents.iter().zip(&self.output_infos))
        {
            assert!(
                cotangent.info() == info,
                "cannot pull back: at {} the cotangent is {}, expected {info}, as in the result",
                path.or_root(),
                cotangent.info()
            );
        }
        at_line_by_default(Location::caller(), || {
            let cotangents = cotangents.into_iter().map(Some).collect();
            let cotangents = self.tape.transpose_again(cotangents);
            self.argument.gradient::<M>(cotangents, Tensor::zeros_like)
        })
    }
}
