//! `jacfwd`, `jacrev` and `hessian`: compute all partial derivatives at once.

use std::panic::Location;

use pytree_base::bug::{expect_next, pairs};
use pytree_core::boundary::flatten_with_references;
use pytree_core::{Partition, SelectPart, TreeDef, graph};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::Shape;

use crate::base::error::or_panic;
use crate::primitives::body::chosen;
use crate::primitives::body::tape::linearize;
use crate::primitives::shape::batch_axis_first;
use crate::primitives::slice::slice;
use crate::tensor::Tensor;
use crate::tensor::primitive::BatchAxis;
use crate::tensor::trace::{Interpreter, Trace};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::argument::{Argument, Gradient};
use crate::transformations::function::{Function, call_reading, or_no_leaves, transformed};
use crate::transformations::grad::both;
use crate::transformations::returned::{Loss, Returned};

/// A result that has a Jacobian: a tensor, or tensors in tuples, in a `Vec` or in a part of a model.
///
/// The Jacobian of a tensor is a `P`: the gradient type of the argument, with leaves of shape `[result…, leaf…]`. The
/// Jacobian of any other result has the structure of the result, with a `P` in place of each tensor.
#[diagnostic::on_unimplemented(
    message = "cannot take the Jacobian of a function that returns `{Self}`",
    note = "return a `Tensor`, or tensors in a tuple or a `Vec`"
)]
pub trait Jacobian<P>: Traceable {
    /// The type of the Jacobian.
    type Rows: 'static;

    /// Builds the Jacobian of the result from the Jacobians of its tensors. Calls `of_tensor` once for each tensor, in
    /// the order of the leaves. Each call returns the Jacobian of one tensor.
    fn rows(&self, of_tensor: &mut dyn FnMut() -> P) -> Self::Rows;
}

impl<P: 'static> Jacobian<P> for Tensor {
    type Rows = P;
    fn rows(&self, of_tensor: &mut dyn FnMut() -> P) -> P {
        of_tensor()
    }
}
impl<P, T: Jacobian<P>> Jacobian<P> for Vec<T> {
    type Rows = Vec<T::Rows>;
    fn rows(&self, of_tensor: &mut dyn FnMut() -> P) -> Vec<T::Rows> {
        self.iter().map(|member| member.rows(of_tensor)).collect()
    }
}
impl<P: 'static, M: 'static> Jacobian<P> for Partition<M, Tensor> {
    type Rows = Partition<M, P>;
    fn rows(&self, of_tensor: &mut dyn FnMut() -> P) -> Partition<M, P> {
        self.map(|_| of_tensor())
    }
}
macro_rules! tuples {
    ($(($($name:ident),+))*) => {$(
        #[allow(non_snake_case, reason = "the type parameters name the members")]
        impl<P_, $($name: Jacobian<P_>),+> Jacobian<P_> for ($($name,)+) {
            type Rows = ($($name::Rows,)+);
            fn rows(&self, of_tensor: &mut dyn FnMut() -> P_) -> Self::Rows {
                let ($($name,)+) = self;
                ($($name.rows(of_tensor),)+)
            }
        }
    )*};
}
tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F)
(A, B, C, D, E, F, G) (A, B, C, D, E, F, G, H) }

/// A function that computes the derivatives of another function at an argument.
type Derivative<'f, M, D> = dyn Fn(&M) -> D + Send + Sync + 'f;

/// The type of the Jacobian of a result `R` with respect to an argument `M`.
pub type JacobianOf<M, R> = <R as Jacobian<Gradient<M>>>::Rows;

/// Flattens the argument of a function that is differentiated.
fn argument<M: SelectPart<Tensor>>(model: &M, line: &Location<'_>) -> Argument {
    let (leaves, treedef, _) = flatten_with_references::<Tensor, M>(model);
    Argument::new(leaves, treedef, None, line)
}

/// Assembles the Jacobian of one tensor from its blocks. Each differentiated leaf of the argument has one block, or
/// `None` for zeros.
fn jacobian<M: SelectPart<Tensor>>(
    argument: &Argument,
    result: &AbstractArray,
    blocks: Vec<Option<Tensor>>,
) -> Gradient<M> {
    let shape =
        |leaf: &Tensor| -> Shape { result.shape.iter().chain(leaf.shape()).copied().collect() };
    let active: Vec<&Tensor> = chosen(&argument.leaves, &argument.active).collect();
    let blocks = pairs(active, blocks, "a block, or none, for each active leaf")
        .map(|(leaf, block)| block.map(|block| block.reshape(shape(leaf))))
        .collect();
    argument.gradient::<M>(blocks, |leaf| Tensor::zeros(leaf.dtype(), shape(leaf)))
}

/// Returns the function that computes a Jacobian by reverse mode. Prefer `jacrev` to [`jacfwd`] if the result has fewer
/// elements than the argument.
///
/// The Jacobian contains a gradient for each tensor of the result. The leaves of this gradient have the shape
/// `[result…, leaf…]`. The same leaves as in [`grad`](crate::grad) are differentiated. If the result does not depend on
/// a parameter, the parameter is absent from the gradient. The function may return a `Result`; see [`Returned`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jacrev};
/// let jacobian = jacrev(|x: &Tensor| x.square() * 3.0)(&Tensor::from([1.0_f64, 2.0]));
/// assert_eq!(jacobian.to_vec::<f64>(), [6.0, 0.0, 0.0, 12.0]);
/// ```
///
/// # Panics
/// The returned function panics if a leaf to differentiate, or a leaf of the result, is not a float.
#[doc(alias("jax.jacrev", "torch.func.jacrev"))]
#[track_caller]
pub fn jacrev<'f, M, R, F, K, C>(function: F) -> Jacobians<'f, M, R::With<JacobianOf<M, R::Value>>>
where
    M: SelectPart<Tensor>,
    R: Returned<K, Value: Jacobian<Gradient<M>>>,
    F: for<'a> Function<&'a M, C, Output = R> + Send + Sync + 'f,
{
    let line = Location::caller();
    Jacobians {
        call: Box::new(move |model: &M| {
            let function = |model: &M| function.call(model).into_value();
            R::with(backward(function, model, line))
        }),
    }
}

fn backward<M, R, E>(
    function: impl Fn(&M) -> Result<R, E>,
    model: &M,
    line: &'static Location<'static>,
) -> Result<JacobianOf<M, R>, E>
where
    M: SelectPart<Tensor>,
    R: Jacobian<Gradient<M>>,
{
    let argument = argument(model, line);
    let (results, tape, output_treedef) = linearize(&argument.leaves, &argument.active, |traced| {
        let function = |model: M| function(&model);
        let output = call_reading("jacrev", &argument.treedef, traced, function);
        or_no_leaves(output.map(|output| graph::flatten::<Tensor, R>(&output)))
    });
    let output_treedef = output_treedef?;
    check_floats(&output_treedef, &results, line);
    let mut rows = (0..results.len()).map(|position| {
        let info = results[position].info();
        let size = info.len();
        let trace = Trace::begin(Interpreter::Batch(BatchAxis::unnamed(size)));
        let mut cotangents = vec![None; results.len()];
        cotangents[position] = Some(trace.batched(basis(info), 0));
        let blocks = tape.transpose_again(cotangents);
        let blocks = blocks.into_iter().map(|block| {
            let (value, axis) = or_panic(trace.unbatched(&block?));
            Some(or_panic(batch_axis_first(&value, axis, size)))
        });
        let blocks = blocks.collect();
        drop(trace);
        jacobian::<M>(&argument, info, blocks)
    });
    let output: R = rebuild(&output_treedef, results.clone());
    Ok(output.rows(&mut || next(&mut rows)))
}

/// Returns the function that computes a Jacobian by forward mode; see [`jacrev`]. Prefer `jacfwd` if the argument has
/// fewer elements than the result.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jacfwd};
/// let jacobian = jacfwd(|(x, y): &(Tensor, Tensor)| x * y);
/// let point = (Tensor::from([1.0_f64, 2.0]), Tensor::from(3.0_f64));
/// let (of_x, of_y) = jacobian(&point);
/// assert_eq!(of_x.to_vec::<f64>(), [3.0, 0.0, 0.0, 3.0]);
/// assert_eq!(of_y.to_vec::<f64>(), [1.0, 2.0]);
/// ```
///
/// # Panics
/// The returned function panics under the same conditions as the function that [`jacrev`] returns.
#[doc(alias("jax.jacfwd", "torch.func.jacfwd"))]
#[track_caller]
pub fn jacfwd<'f, M, R, F, K, C>(function: F) -> Jacobians<'f, M, R::With<JacobianOf<M, R::Value>>>
where
    M: SelectPart<Tensor>,
    R: Returned<K, Value: Jacobian<Gradient<M>>>,
    F: for<'a> Function<&'a M, C, Output = R> + Send + Sync + 'f,
{
    let line = Location::caller();
    Jacobians {
        call: Box::new(move |model: &M| {
            let function = |model: &M| function.call(model).into_value();
            R::with(forward(function, model, line))
        }),
    }
}

fn forward<M, R, E>(
    function: impl Fn(&M) -> Result<R, E>,
    model: &M,
    line: &'static Location<'static>,
) -> Result<JacobianOf<M, R>, E>
where
    M: SelectPart<Tensor>,
    R: Jacobian<Gradient<M>>,
{
    let argument = argument(model, line);
    // There is one tangent for each element of each differentiated leaf, in the order of the leaves.
    let active = argument.leaves.iter().zip(&argument.active);
    let lengths: Vec<usize> = active
        .map(|(leaf, &active)| if active { leaf.len() } else { 0 })
        .collect();
    let size: usize = lengths.iter().sum();
    let batch = Trace::begin(Interpreter::Batch(BatchAxis::unnamed(size)));
    let trace = Trace::begin(Interpreter::Jvp);
    let mut before = 0;
    let mut duals = Vec::with_capacity(lengths.len());
    for ((leaf, &active), &length) in argument.leaves.iter().zip(&argument.active).zip(&lengths) {
        if !active {
            duals.push(leaf.clone());
            continue;
        }
        let after = size - before - length;
        let rows = Tensor::eye(leaf.dtype(), length);
        let padding = [(before.cast_signed(), after.cast_signed(), 0), (0, 0, 0)];
        let mut shape = vec![size];
        shape.extend_from_slice(leaf.shape());
        let tangents = rows.pad(0.0, padding).reshape(shape);
        duals.push(trace.dual(leaf.clone(), Some(batch.batched(tangents, 0))));
        before += length;
    }
    let output = call_reading("jacfwd", &argument.treedef, duals, |model: M| {
        function(&model)
    })?;
    let (results, output_treedef) = graph::flatten::<Tensor, R>(&output);
    drop(output);
    let mut values = Vec::with_capacity(results.len());
    let mut tangents = Vec::with_capacity(results.len());
    for result in &results {
        let (value, tangent) = or_panic(trace.undual(result));
        tangents.push(tangent.map(|tangent| or_panic(batch.unbatched(&tangent))));
        values.push(value);
    }
    drop(results);
    drop(trace);
    drop(batch);
    check_floats(&output_treedef, &values, line);
    let mut rows = values.iter().zip(tangents).map(|(value, tangent)| {
        let info = value.info();
        let columns = tangent.map(|(tangent, axis)| {
            let first = or_panic(batch_axis_first(&tangent, axis, size));
            first.reshape([size, info.len()]).t()
        });
        let mut from = 0;
        let active = lengths.iter().zip(&argument.active);
        let blocks = active.filter(|(_, active)| **active).map(|(&length, _)| {
            let to = from + length;
            let block = columns
                .as_ref()
                .map(|columns| or_panic(slice(columns, &[0, from], &[info.len(), to], &[1, 1])));
            from = to;
            block
        });
        let blocks = blocks.collect();
        jacobian::<M>(&argument, info, blocks)
    });
    let output: R = rebuild(&output_treedef, values.clone());
    Ok(output.rows(&mut || next(&mut rows)))
}

fn next<T>(rows: &mut impl Iterator<Item = T>) -> T {
    expect_next(rows, "a leaf of the result for each of its tensors")
}

/// Returns the unit tensors of a shape, stacked along a new first axis. Each unit tensor is 1 at one element and 0
/// elsewhere.
fn basis(info: &AbstractArray) -> Tensor {
    let count = info.len();
    let mut shape = vec![count];
    shape.extend_from_slice(&info.shape);
    Tensor::eye(info.dtype, count).reshape(shape)
}

fn check_floats(treedef: &TreeDef, results: &[Tensor], line: &Location<'_>) {
    let paths = treedef.leaf_paths();
    let places: Vec<String> = paths
        .iter()
        .zip(results)
        .filter(|(_, result)| !result.dtype().is_float())
        .map(|(path, result)| format!("{} ({})", path.or_root(), result.info()))
        .collect();
    assert!(
        places.is_empty(),
        "cannot take the Jacobian of {}: only floats have derivatives; convert these tensors to floats, or remove them from the result (Jacobian taken at {line})",
        places.join(", ")
    );
}

/// The result of [`jacfwd`] and [`jacrev`]: a function from an argument to `O`, the Jacobian at this argument. `O` is a
/// `Result` of the Jacobian if the differentiated function returns a `Result`.
pub struct Jacobians<'f, M, O> {
    call: Box<Derivative<'f, M, O>>,
}
transformed!(reference [M: SelectPart<Tensor>, O] Jacobians<'f, M, O>, (M) -> O);

/// The type of the second derivatives with respect to an argument `M`: the Jacobian of the gradient.
pub type HessianOf<M> = JacobianOf<M, Gradient<M>>;

/// Returns the function that computes the second derivatives of a loss: the Jacobian of its gradient, by forward mode
/// over reverse mode.
///
/// For a tensor `x`, the result is a tensor of shape `[x…, x…]`. For a tuple, the result is a tuple of tuples. For a
/// model, the result is a partition whose leaves are partitions. The loss may be a `Result`; see [`grad`](crate::grad).
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, hessian};
/// let second = hessian(|x: &Tensor| x.powi(3).sum())(&Tensor::from([1.0_f64, 2.0]));
/// assert_eq!(second.to_vec::<f64>(), [6.0, 0.0, 0.0, 12.0]);
/// let point = (Tensor::from(2.0_f64), Tensor::from(3.0_f64));
/// let ((xx, xy), _) = hessian(|(x, y): &(Tensor, Tensor)| x * x * y)(&point);
/// assert_eq!((xx.item::<f64>(), xy.item::<f64>()), (6.0, 4.0));
/// ```
///
/// # Panics
/// The returned function panics under the same conditions as the function that [`grad`](crate::grad) returns.
#[doc(alias("jax.hessian", "torch.func.hessian"))]
#[track_caller]
pub fn hessian<'f, M, L, F, C>(function: F) -> Hessian<'f, M, L::With<HessianOf<M>>>
where
    M: SelectPart<Tensor> + 'f,
    L: Loss + 'f,
    Gradient<M>: Jacobian<Gradient<M>>,
    F: for<'a> Function<&'a M, C, Output = L> + Send + Sync + 'f,
{
    let (both, line) = (both(function), Location::caller());
    let gradient = move |model: &M| Ok(both(model, None)?.1);
    Hessian {
        call: Box::new(move |model: &M| L::with(forward(&gradient, model, line))),
    }
}

/// The result of [`hessian`]: a function from an argument to the second derivatives at this argument. `O` is a `Result`
/// if the loss is a `Result`.
pub struct Hessian<'f, M, O = HessianOf<M>> {
    call: Box<Derivative<'f, M, O>>,
}
transformed!(reference [M: SelectPart<Tensor>, O] Hessian<'f, M, O>, (M) -> O);
