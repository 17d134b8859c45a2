//! `grad`, `value_and_grad` and `vjp`: reverse-mode differentiation.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use pytree_base::bug::expect_some;
use pytree_core::boundary::flatten_with_references;
use pytree_core::{Filter, SelectPart, TreeDef, graph};
use pytree_kernels::base::dtype::AbstractArray;

use super::argument::Gradient;
use crate::base::text_layout::with_article;
use crate::primitives::body::tape::{Tape, linearize};
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::Traceable;
use crate::transformations::argument::Argument;
use crate::transformations::function::{
    Ending, Function, Known, call_inside, rebuild_result, transformed,
};
use crate::transformations::returned::{Loss, Returned};

/// A loss and its gradient with respect to an `M`, or a `Result` of both if the loss is a `Result`.
pub type BothOf<M, L> = <L as Loss>::With<(<L as Loss>::Value, Gradient<M>)>;

/// Returns the function that computes the gradient of a loss with respect to the parameters of its argument.
///
/// Leaves of the kind param, and leaves without a kind, are differentiated. [`wrt`](Grad::wrt) chooses other leaves. If
/// the loss does not depend on a parameter, the parameter is absent from the gradient.
///
/// If the loss function returns a `Result`, the gradient function also returns a `Result`: an `Err` is passed on, and
/// no reference is written.
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
#[doc(alias("jax.grad", "nnx.grad", "torch.func.grad", "torch.autograd.grad"))]
#[track_caller]
pub fn grad<'f, M, L, F, C>(function: F) -> Grad<'f, M, L::With<Gradient<M>>>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, C, Output = L> + Send + Sync + 'f,
{
    let both = both(function);
    let compute = move |model: &M, wrt: Option<&Filter>| {
        L::with(both(model, wrt).map(|(_, gradient)| gradient))
    };
    Grad::new(Arc::new(compute), None)
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
/// The returned function panics under the same conditions as the function that [`grad`] returns.
#[doc(alias(
    "jax.value_and_grad",
    "torch.func.grad_and_value",
    "torch.Tensor.backward"
))]
#[track_caller]
pub fn value_and_grad<'f, M, L, F, C>(function: F) -> ValueAndGrad<'f, M, L>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, C, Output = L> + Send + Sync + 'f,
{
    let both = both(function);
    let compute = move |model: &M, wrt: Option<&Filter>| L::with(both(model, wrt));
    ValueAndGrad::new(Arc::new(compute), None)
}

/// A loss and its gradient, or the error of the loss function.
type Both<M, L> = Result<(<L as Loss>::Value, Gradient<M>), <L as Loss>::Error>;

/// Returns the function that computes a loss and its gradient, or the error of the loss function.
#[track_caller]
pub(crate) fn both<'f, M, L, F, C>(
    function: F,
) -> impl Fn(&M, Option<&Filter>) -> Both<M, L> + Send + Sync + 'f
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a M, C, Output = L> + Send + Sync + 'f,
{
    let line = Location::caller();
    move |model: &M, wrt: Option<&Filter>| {
        let run = |model: M| {
            let output = function.call(&model).into_value()?;
            Ok((L::loss(&output).clone(), output))
        };
        at_line_by_default(line, || differentiate(model, wrt, line, run))
    }
}

/// Returns the function that computes a loss and its gradient, and updates the states of its argument. The loss
/// function may write these states; see [`value_and_grad`].
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
/// The returned function panics under the same conditions as the function that [`grad`] returns.
#[doc(alias = "nnx.value_and_grad")]
#[track_caller]
pub fn value_and_grad_mut<'f, M, L, F, C>(function: F) -> ValueAndGradMut<'f, M, L>
where
    M: SelectPart<Tensor>,
    L: Loss + 'f,
    F: for<'a> Function<&'a mut M, C, Output = L> + Send + Sync + 'f,
{
    let line = Location::caller();
    let compute = move |model: &mut M, wrt: Option<&Filter>| {
        let run = |mut model: M| {
            let output = function.call(&mut model).into_value()?;
            Ok((L::loss(&output).clone(), (output, model)))
        };
        let both = at_line_by_default(line, || differentiate(model, wrt, line, run));
        L::with(both.map(|((output, updated), gradient)| {
            *model = updated;
            (output, gradient)
        }))
    };
    ValueAndGradMut::new(Arc::new(compute), None)
}

/// Defines the struct that a differentiating transformation returns, with its option `wrt`.
macro_rules! differentiating {
    ($(#[$doc:meta])* $name:ident<M, $other:ident $(: $bound:ident)? $(= $default:ty)?>, ($model:ty) -> $output:ty) => {
        $(#[$doc])*
        pub struct $name<'f, M, $other $(= $default)?>
        where
            M: SelectPart<Tensor>,
            $($other: $bound,)?
        {
            compute: Arc<dyn Fn($model, Option<&Filter>) -> $output + Send + Sync + 'f>,
            call: Box<dyn Fn($model) -> $output + Send + Sync + 'f>,
        }

        impl<'f, M, $other: 'f> $name<'f, M, $other>
        where
            M: SelectPart<Tensor>,
            $($other: $bound,)?
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
            #[doc(alias = "nnx.DiffState")]
            #[must_use]
            pub fn wrt(self, filter: Filter) -> Self {
                Self::new(self.compute, Some(filter))
            }
        }
    };
}

differentiating! {
    /// The result of [`grad`]: a function from a model to its gradient. `O` is a `Result` if the loss is a `Result`.
    Grad<M, O = Gradient<M>>, (&M) -> O
}
differentiating! {
    /// The result of [`value_and_grad`]: a function from a model to the loss and its gradient, or to a `Result` of
    /// both.
    ValueAndGrad<M, L: Loss>, (&M) -> BothOf<M, L>
}
differentiating! {
    /// The result of [`value_and_grad_mut`]: a function that updates a model, and returns the loss and its gradient, or
    /// a `Result` of both.
    ValueAndGradMut<M, L: Loss>, (&mut M) -> BothOf<M, L>
}

transformed!(reference [M: SelectPart<Tensor>, O] Grad<'f, M, O>, (M) -> O);
transformed!(reference [M: SelectPart<Tensor>, L: Loss] ValueAndGrad<'f, M, L>, (M) -> BothOf<M, L>);
transformed!(callable [M: SelectPart<Tensor>, L: Loss] ValueAndGradMut<'f, M, L>, dyn Fn(&mut M) -> BothOf<M, L>);

/// Runs a function that returns a loss and other results, and computes the gradient of the loss.
fn differentiate<M: SelectPart<Tensor>, R: Traceable, E>(
    model: &M,
    wrt: Option<&Filter>,
    line: &Location<'_>,
    run: impl FnOnce(M) -> Result<(Tensor, R), E>,
) -> Result<(R, Gradient<M>), E> {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(model);
    let argument = Argument::new(leaves, treedef, wrt, line);
    let (mut results, tape, outcome) = linearize(&argument.leaves, &argument.active, |traced| {
        let mut loss = None;
        let run = |model: M| {
            let (value, results) = run(model)?;
            check_loss(&value, line);
            loss = Some(value);
            Ok(results)
        };
        let (mut results, outcome) =
            call_inside::<M, R, E>(Known::All, &argument.treedef, traced, run);
        // The loss is appended, so that the leaves of the result keep their positions.
        results.extend(loss);
        (results, outcome)
    });
    let outcome = outcome?;
    let mut seeds = vec![None; results.len()];
    let loss = expect_some(results.pop(), "the loss after the results");
    seeds[results.len()] = Some(Tensor::ones_like(&loss));
    let gradient = argument.gradient::<M>(tape.transpose(seeds), Tensor::zeros_like);
    let ending = Ending::of("grad", line);
    let result = rebuild_result(ending, &outcome, results, &references);
    Ok((result, gradient))
}

fn check_loss(loss: &Tensor, line: &Location<'_>) {
    assert!(
        loss.rank() == 0 && loss.dtype().is_float(),
        "cannot take the gradient of {}: the loss must be a floating-point scalar; reduce the loss, for instance with `.mean()`, or convert integers to floats (gradient taken at {line})",
        with_article(loss.info())
    );
}

/// The result of a function, of type `R`, and the pullback to the argument, of type `M`: see [`vjp`].
pub type WithPullback<M, R> = (R, Pullback<M, R>);

/// Returns the result of a function, and the pullback. The pullback maps a cotangent of the result to the cotangent of
/// the argument. The function may return a `Result`; see [`Returned`].
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
#[doc(alias("jax.vjp", "torch.func.vjp"))]
#[track_caller]
pub fn vjp<M, R, F, K, C>(function: F, primals: &M) -> R::With<WithPullback<M, R::Value>>
where
    M: SelectPart<Tensor>,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(primals);
    let line = Location::caller();
    let argument = Argument::new(leaves, treedef, None, line);
    let (results, mut tape, outcome) = linearize(&argument.leaves, &argument.active, |traced| {
        // Only references keep their identity in the result, because the cotangent has a leaf for each leaf of the
        // result.
        call_inside(Known::References, &argument.treedef, traced, |model: M| {
            function.call(&model).into_value()
        })
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return R::with(Err(error)),
    };
    // The leaves that were written to references follow the leaves of the result. These written leaves have no
    // cotangent.
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
    R::with(Ok((output, pullback)))
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
