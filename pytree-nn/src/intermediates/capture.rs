//! Captures the values that a single run of a function stores in a model.

use pytree_core::{Filter, Partition, PytreeOf, TreeError, partition};
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

/// Runs a function on the model, and returns the result of the function and the leaves that the function added to the
/// model, like `nnx.capture`. Only leaves that `filter` accepts are returned.
///
/// The leaves that `filter` accepts are removed from the model before and after the run. So all captured leaves are
/// from this run. The model has the same structure before each run, so `jit` compiles the function only once. To select
/// some of the captured leaves, use [`Partition::filter`]. In a compiled function, captured values that the function
/// does not return are not computed.
///
/// Layers store values with fields of type [`Sown`](crate::Sown) or
/// [`Intermediates`](crate::Intermediates). The outputs of layers need no field: see
/// [`capture_outputs`](crate::capture_outputs), the equivalent of `method_outputs` in NNX.
///
/// # Examples
/// ```
/// use pytree_core::{Filter, Module, kind::Intermediate};
/// use pytree_nn::{Linear, Rngs, Sown, capture, relu};
/// use pytree_transform::{DType, Tensor};
/// #[derive(Module, Clone, Debug)]
/// struct Block {
///     linear: Linear,
///     #[state(Intermediate)]
///     output: Sown,
/// }
/// impl Block {
///     fn forward(&mut self, x: &Tensor) -> Tensor {
///         let y = relu(&self.linear.forward(x));
///         self.output.sow(y.clone());
///         y
///     }
/// }
/// let mut rngs = Rngs::new(0);
/// let mut blocks: Vec<Block> = (0..2)
///     .map(|_| Block { linear: Linear::new(3, 3, &mut rngs), output: Sown::new() })
///     .collect();
/// let x = Tensor::ones(DType::F32, [4, 3]);
/// let (y, captured) = capture(&mut blocks, &Filter::state::<Intermediate>(), |blocks| {
///     blocks.iter_mut().fold(x, |x, block| block.forward(&x))
/// });
/// assert_eq!(captured["[1].output[0]"], y);
/// assert_eq!(captured.filter(&Filter::path("[0]"))?.len(), 1);
/// assert!(blocks[0].output.is_empty());
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// Returns the error that [`partition::pop`] returns after the run. The reason is that a path of the filter does not
/// exist, or that an accepted leaf cannot be removed because its field must have a value.
#[doc(alias = "nnx.capture")]
#[panicking_twin(capture)]
pub fn try_capture<M: PytreeOf<Tensor>, R>(
    model: &mut M,
    filter: &Filter,
    run: impl FnOnce(&mut M) -> R,
) -> Result<(R, Partition<M, Tensor>), TreeError> {
    // An error of this call is ignored: a path of the filter may exist only after the run, and `pop` reports any other
    // error again after the run.
    let _ = partition::pop(model, filter);
    let result = run(model);
    Ok((result, partition::pop(model, filter)?))
}
