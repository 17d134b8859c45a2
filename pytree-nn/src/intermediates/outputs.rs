//! Captures what the layers of a model return, by the paths of the layers.

use pytree_core::{Leaf, PytreeOf, axes};
use pytree_transform::Tensor;

use crate::intermediates::named::Intermediates;

/// Runs a function on the model, and returns its result and the outputs of all layers by their paths, like the
/// `method_outputs` of `nnx.capture`. No layer has to be changed.
///
/// The name of an output is the path of its layer, such as `layers[0]` or `blocks[2].attention.query`. For a method other
/// than `forward` the name of the method follows, and the output of the model itself is named `forward`. A layer that runs
/// several times has several outputs. Your own layers are captured if their methods have the attribute `#[shapes]` with
/// `return = …`. Layers without arrays, such as pooling, have no path.
///
/// The function must use the model that it receives, not a copy. Layers that run inside of a further transformation, such
/// as the body of a `scan` or the loss of a `value_and_grad`, are not captured, because their outputs are invalid outside
/// of it. Call `capture_outputs` inside and return the outputs, which are a pytree. In a compiled function, outputs that
/// the function does not return are not computed.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Mlp, Rngs, capture_outputs};
/// use pytree_transform::{DType, Tensor};
/// let mut model = Mlp::new(&[3, 8, 2], Activation::Relu, &mut Rngs::new(0));
/// let x = Tensor::ones(DType::F32, [4, 3]);
/// let (y, outputs) = capture_outputs(&mut model, |model| model.forward(&x));
/// assert_eq!(outputs["layers[0]"][0], model.layers[0].forward(&x));
/// assert_eq!(outputs["layers[1]"][0], y);
/// ```
///
/// In the body of a `scan` over stacked layers, the outputs of all layers are stacked:
/// ```
/// use pytree_nn::{Linear, Rngs, capture_outputs};
/// use pytree_transform::{DType, Tensor, scan, vmap};
/// let layers = vmap(|mut rngs: Rngs| Linear::new(3, 3, &mut rngs))(Rngs::new(0).split(5));
/// let step = |x: Tensor, mut layer: Linear| capture_outputs(&mut layer, |layer| layer.forward(&x));
/// let (y, outputs) = scan(step, Tensor::ones(DType::F32, [3]), layers);
/// assert_eq!(outputs["forward"][0].shape(), [5, 3]);
/// ```
///
/// # Panics
/// If the function panics, or in a release build with the feature `unchecked-results`.
#[track_caller]
pub fn capture_outputs<M: PytreeOf<Tensor>, R>(
    model: &mut M,
    run: impl FnOnce(&mut M) -> R,
) -> (R, Intermediates) {
    let (result, captured) = axes::capture(model, run);
    let mut outputs = Intermediates::new();
    for (name, leaf) in captured {
        if let Some(output) = leaf.as_any().downcast_ref::<Tensor>() {
            outputs.sow(name, output.clone());
        }
    }
    (result, outputs)
}
