//! `linearize`, `linear_transpose` and `saved_residuals`: the linear parts of derivatives.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use pytree_base::bug::pairs;
use pytree_core::boundary::flatten_with_references;
use pytree_core::{SelectPart, TreeDef, graph};
use pytree_kernels::base::dtype::AbstractArray;

use crate::primitives::body::tape::{Tape, linearize as on_tape};
use crate::primitives::body::{chosen, in_places};
use crate::primitives::create::or_zeros;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Builder, Jaxpr, Variable};
use crate::tensor::stage::stage;
use crate::tensor::trace::Recorder;
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::argument::Argument;
use crate::transformations::custom::check::Form;
use crate::transformations::function::{Function, call_reading, or_no_leaves};
use crate::transformations::grad::Pullback;
use crate::transformations::returned::Returned;

/// Returns the result of a function, and the function's derivative at `primals` as a linear function of the tangent.
///
/// Use `linearize` instead of [`jvp`](crate::jvp) for many tangents at one point, because the function runs only once.
/// The function may return a `Result`; see [`Returned`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, linearize};
/// let (y, derivative) = linearize(|x: &Tensor| x.powi(3), &Tensor::from(2.0_f64));
/// assert_eq!(y.item::<f64>(), 8.0);
/// assert_eq!(derivative.call(&Tensor::from(1.0_f64)).item::<f64>(), 12.0);
/// assert_eq!(derivative.call(&Tensor::from(0.5_f64)).item::<f64>(), 6.0);
/// ```
///
/// # Panics
/// If the function panics.
#[doc(alias("jax.linearize", "torch.func.linearize"))]
#[track_caller]
pub fn linearize<M, R, F, K, C>(function: F, primals: &M) -> R::With<WithDerivative<M, R::Value>>
where
    M: Traceable,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let (leaves, treedef, _) = flatten_with_references::<Tensor, M>(primals);
    let active: Vec<bool> = leaves.iter().map(|leaf| leaf.dtype().is_float()).collect();
    let (results, tape, output_treedef) = on_tape(&leaves, &active, |traced| {
        let function = |primals: M| function.call(&primals).into_value();
        let output = call_reading("linearize", &treedef, traced, function);
        or_no_leaves(output.map(|output| graph::flatten::<Tensor, R::Value>(&output)))
    });
    let output_treedef = match output_treedef {
        Ok(treedef) => treedef,
        Err(error) => return R::with(Err(error)),
    };
    let has_tangent = tape.outputs.iter().map(Option::is_some).collect();
    let output = Form::of(output_treedef, &results);
    let (jaxpr, residuals) = tape.into_jaxpr();
    let value = rebuild(&output.treedef, results);
    let linearization = Linearization {
        jaxpr: jaxpr.only_needed(),
        residuals,
        input: Form::of(treedef, &leaves),
        active,
        output,
        has_tangent,
        types: PhantomData,
    };
    R::with(Ok((value, linearization)))
}

/// The result of a function, of type `R`, and its derivative at an argument of type `M`: see [`linearize`].
pub type WithDerivative<M, R> = (R, Linearization<M, R>);

/// The derivative of a function at a point, as a linear function of the tangent; see [`linearize`].
pub struct Linearization<M, R> {
    jaxpr: Jaxpr,
    residuals: Vec<Tensor>,
    input: Form,
    active: Vec<bool>,
    output: Form,
    has_tangent: Vec<bool>,
    types: PhantomData<fn(M) -> R>,
}

impl<M: Traceable, R: Traceable> Linearization<M, R> {
    /// Applies the derivative to `tangents`, and returns the tangent of the result. Tangents of leaves that are not
    /// floats are ignored.
    ///
    /// # Panics
    /// If the tangents differ from the primals of [`linearize`] in structure, shapes or dtypes.
    #[track_caller]
    pub fn call(&self, tangents: &M) -> R {
        let (leaves, treedef, _) = flatten_with_references::<Tensor, M>(tangents);
        let found = Form::of(treedef, &leaves);
        let mistake = self
            .input
            .mistake("the tangents differ from the primals", &found);
        if let Some(mistake) = mistake {
            panic!("cannot apply a derivative: {mistake}");
        }
        let inputs: Vec<Tensor> = chosen(&leaves, &self.active)
            .chain(&self.residuals)
            .cloned()
            .collect();
        let tangents = in_places(self.jaxpr.apply(&inputs), &self.has_tangent);
        let tangents = pairs(
            tangents,
            &self.output.infos,
            "a tangent, or none, for each output",
        )
        .map(|(tangent, info)| or_zeros(tangent.as_ref(), info))
        .collect();
        rebuild(&self.output.treedef, tangents)
    }
}

impl<M, R> fmt::Debug for Linearization<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linearization({})", self.jaxpr)
    }
}

/// The inputs of the linear part are the tangents, followed by the residuals. This text is for the panic message of a
/// library bug: the numbers of inputs and residuals differ.
const RESIDUALS: &str = "an input of the linear part for each residual";

/// A recorded function, split into the part that computes the residuals and the part that is linear in the tangents.
struct Recorded {
    known: Jaxpr,
    captured: Vec<Tensor>,
    linear: Jaxpr,
    has_tangent: Vec<bool>,
    output: Form,
}

fn record<M, R, F, K, C>(
    function: &F,
    leaves: &[Tensor],
    treedef: &TreeDef,
    active: &[bool],
) -> Result<Recorded, R::Error>
where
    M: Traceable,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let infos: Vec<AbstractArray> = leaves.iter().map(|leaf| leaf.info().clone()).collect();
    let (known, captured, recorded) = stage(Recorder::Linearize, &infos, |tensors| {
        let (results, tape, output_treedef) = on_tape(&tensors, active, |traced| {
            let function = |primals: M| function.call(&primals).into_value();
            let output = call_reading("linear_transpose", treedef, traced, function);
            or_no_leaves(output.map(|output| graph::flatten::<Tensor, R::Value>(&output)))
        });
        or_no_leaves(output_treedef.map(|output_treedef| {
            let has_tangent = tape.outputs.iter().map(Option::is_some).collect();
            let output = Form::of(output_treedef, &results);
            let (linear, residuals) = tape.into_jaxpr();
            (residuals, (linear.only_needed(), has_tangent, output))
        }))
    });
    let (linear, has_tangent, output) = recorded?;
    Ok(Recorded {
        known: known.only_needed(),
        captured,
        linear,
        has_tangent,
        output,
    })
}

/// Returns the transpose of a linear function: the function from a cotangent of the result to the cotangent of the
/// argument.
///
/// Only the structure, shapes and dtypes of `example` matter. The values of the floats in `example` are not used. The
/// function may also add a constant, which the transpose ignores. The function may return a `Result`; see [`Returned`].
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, linear_transpose};
/// let differences = |x: &Tensor| x.index(pytree_transform::ix![1..]) - x.index(pytree_transform::ix![..2]);
/// let transpose = linear_transpose(differences, &Tensor::zeros(DType::F32, [3]));
/// let x = transpose.call(&Tensor::from([1.0_f32, 10.0]));
/// assert_eq!(x.to_vec::<f32>(), [-1.0, -9.0, 10.0]);
/// ```
///
/// # Panics
/// If the function is not linear, or a leaf of the example is not a float.
#[doc(alias = "jax.linear_transpose")]
#[track_caller]
pub fn linear_transpose<M, R, F, K, C>(function: F, example: &M) -> R::With<Pullback<M, R::Value>>
where
    M: SelectPart<Tensor>,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let (leaves, treedef) = graph::flatten::<Tensor, M>(example);
    let argument = Argument::new(leaves, treedef, None, Location::caller());
    let Argument {
        leaves,
        treedef,
        active,
        ..
    } = &argument;
    let recorded = match record::<M, R, F, K, C>(&function, leaves, treedef, active) {
        Ok(recorded) => recorded,
        Err(error) => return R::with(Err(error)),
    };
    let Recorded { known, linear, .. } = &recorded;
    let inputs: Vec<_> = chosen(&known.inputs[..active.len()], active)
        .copied()
        .collect();
    let depends = known.depending_on(&inputs);
    let count = inputs.len();
    let residuals = pairs(&known.outputs, &linear.inputs[count..], RESIDUALS);
    let varying: HashSet<Variable> = residuals
        .filter(|(residual, _)| depends[residual.index()])
        .map(|(_, input)| *input)
        .collect();
    let is_varying = |input: &Variable| varying.contains(input);
    let mut equations = linear.equations.iter();
    if let Some(equation) = equations.find(|equation| equation.inputs.iter().any(is_varying)) {
        panic!(
            "cannot transpose: the function is not linear in its argument, because of the operation at {}; use `vjp` to take its derivative at a point",
            equation.line
        );
    }
    let residuals = recorded
        .known
        .apply(&[leaves.as_slice(), &recorded.captured].concat());
    let outputs = in_places(recorded.linear.outputs, &recorded.has_tangent);
    let mut inputs = recorded.linear.inputs;
    let mut constants = recorded.linear.constants;
    constants.extend(pairs(inputs.split_off(count), residuals, RESIDUALS));
    let builder = Builder {
        variables: recorded.linear.variables,
        inputs,
        constants,
        equations: recorded.linear.equations,
        ..Builder::default()
    };
    R::with(Ok(Pullback {
        tape: Tape { builder, outputs },
        argument,
        output_treedef: recorded.output.treedef,
        output_infos: recorded.output.infos,
        types: PhantomData,
    }))
}

/// Returns the shapes and dtypes of the residuals: the values that reverse mode stores for the backward pass of a
/// function.
///
/// Use [`remat`](crate::remat) to store fewer residuals. The function is traced but not run, and may return a `Result`;
/// see [`Returned`]. The counterpart in JAX is `jax.ad_checkpoint.saved_residuals`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, remat, saved_residuals};
/// let f = |x: &Tensor| x.sin().sin().sin();
/// let x = Tensor::from([1.0_f32, 2.0]);
/// assert_eq!(saved_residuals(f, &x).len(), 3);
/// assert_eq!(saved_residuals(remat(f), &x).len(), 1);
/// ```
///
/// # Panics
/// If the function panics.
#[doc(alias = "jax.ad_checkpoint.saved_residuals")]
#[track_caller]
pub fn saved_residuals<M, R, F, K, C>(function: F, primals: &M) -> R::With<Vec<AbstractArray>>
where
    M: Traceable,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let (leaves, treedef, _) = flatten_with_references::<Tensor, M>(primals);
    let active: Vec<bool> = leaves.iter().map(|leaf| leaf.dtype().is_float()).collect();
    let recorded = record::<M, R, F, K, C>(&function, &leaves, &treedef, &active);
    R::with(recorded.map(|recorded| {
        let mut seen = HashSet::new();
        let outputs = recorded.known.outputs.iter();
        outputs
            .filter(|output| seen.insert(**output))
            .map(|output| recorded.known.info(*output).clone())
            .collect()
    }))
}
