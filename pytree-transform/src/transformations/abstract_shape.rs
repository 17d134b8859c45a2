//! `eval_shape`: computes the structure, shapes and dtypes of a result, but not its values.

use pytree_base::bug::bug;
use pytree_core::{Tree, graph};
use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::Tensor;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_own_lines};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::custom::check::Form;
use crate::transformations::function::{Function, or_no_leaves};
use crate::transformations::returned::Returned;

/// Returns the dtype and shape of each leaf of a function's result, in the structure of the result.
///
/// The function is traced but not run, so no memory is allocated for tensors. Values that the function writes to
/// references of its argument are discarded. The function may return a `Result`; see [`Returned`].
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, eval_shape};
/// let f = |x: &Tensor| (x.matmul(x), x.sum());
/// let shapes = eval_shape(f, &Tensor::zeros(DType::F32, [3, 3]));
/// assert_eq!(shapes.leaves()[0].to_string(), "f32[3,3]");
/// assert_eq!(shapes.leaves()[1].to_string(), "f32[]");
/// ```
///
/// # Panics
/// If the function panics, for instance because it reads the elements of a tensor.
#[doc(alias("jax.eval_shape", "nnx.eval_shape"))]
#[track_caller]
pub fn eval_shape<M, R, F, K, C>(function: F, argument: &M) -> R::With<Tree<AbstractArray>>
where
    M: Traceable,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let (leaves, treedef) = graph::flatten::<Tensor, M>(argument);
    let infos = Form::of(treedef.clone(), &leaves).infos;
    let (_, _, result) = stage(Recorder::EvalShape, &infos, |tensors| {
        let argument: M = rebuild(&treedef, tensors);
        let result = at_own_lines(|| function.call(&argument)).into_value();
        or_no_leaves(result.map(|result| {
            let (leaves, treedef) = graph::flatten::<Tensor, R::Value>(&result);
            let form = Form::of(treedef, &leaves);
            (leaves, form)
        }))
    });
    R::with(
        result.map(|result| match Tree::new(result.treedef, result.infos) {
            Ok(tree) => tree,
            Err(error) => bug(format_args!(
                "leaves that fit the structure of the result, found the error: {error}"
            )),
        }),
    )
}
