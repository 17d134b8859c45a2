//! Mixed precision: a forward pass in half precision with parameters in f32.

use pytree_core::{LeafKind, PytreeOf, Static, graph};
use pytree_transform::{DType, Tensor};

use crate::convert_floats::convert_floats;

/// The dtypes of a mixed-precision computation (Micikevicius et al. 2018, "Mixed precision training", section 3.1).
///
/// The parameters stay in their dtype, usually f32. Convert the model inside of the loss: then the gradients have the dtype
/// of the parameters.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, MixedPrecision, Optimizer, Rngs, adam, mse};
/// use pytree_transform::{DType, Tensor, value_and_grad};
/// let mut model = Linear::new(2, 1, &mut Rngs::new(0));
/// let mut optimizer = Optimizer::new(&model, adam(1e-3));
/// let precision = MixedPrecision::bf16();
/// let (x, y) = (Tensor::ones(DType::F32, [4, 2]), Tensor::zeros(DType::F32, [4, 1]));
/// let loss = |model: &Linear| {
///     let output = precision.compute(model).forward(&precision.compute(&x));
///     assert_eq!(output.dtype(), DType::BF16);
///     mse(&precision.output(&output), &y)
/// };
/// let (loss, gradient) = value_and_grad(loss)(&model);
/// assert_eq!(loss.dtype(), DType::F32);
/// assert_eq!(gradient["weight"].dtype(), DType::F32);
/// optimizer.update(&mut model, &gradient);
/// ```
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedPrecision {
    /// The dtype of the forward pass.
    pub compute: DType,
    /// The dtype of the output, in which losses are computed.
    pub output: DType,
}

impl MixedPrecision {
    /// Returns the policy of a forward pass in bf16 and losses in f32.
    pub fn bf16() -> Self {
        Self {
            compute: DType::BF16,
            output: DType::F32,
        }
    }

    /// Returns the policy of a forward pass in f16 and losses in f32. Most models then need a
    /// [`LossScale`](crate::LossScale).
    pub fn f16() -> Self {
        Self {
            compute: DType::F16,
            output: DType::F32,
        }
    }

    /// Returns a pytree, for example a model or a batch, with all floats converted to the dtype of the forward pass.
    ///
    /// # Panics
    /// If the dtype is not a float.
    #[must_use]
    #[track_caller]
    pub fn compute<M: PytreeOf<Tensor>>(&self, model: &M) -> M {
        convert_floats(model, self.compute)
    }

    /// Returns a pytree with all floats converted to the dtype of the output.
    ///
    /// # Panics
    /// If the dtype is not a float.
    #[must_use]
    #[track_caller]
    pub fn output<T: PytreeOf<Tensor>>(&self, output: &T) -> T {
        convert_floats(output, self.output)
    }

    /// Runs a forward pass that changes states, such as running statistics, on the converted model. The changed states are
    /// converted back to their dtypes and written to `model`; the parameters of `model` stay.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{BatchNorm, MixedPrecision, Rngs};
    /// use pytree_transform::{DType, Tensor};
    /// let mut norm = BatchNorm::new(2, &mut Rngs::new(0));
    /// let x = Tensor::ones(DType::BF16, [4, 2]);
    /// let y = MixedPrecision::bf16().compute_mut(&mut norm, |norm| norm.forward(&x));
    /// assert_eq!(y.dtype(), DType::BF16);
    /// assert_eq!(norm.mean.dtype(), DType::F32);
    /// assert!(norm.mean.to_vec::<f32>()[0] > 0.0);
    /// ```
    ///
    /// # Panics
    /// If the dtype is not a float, or if `forward` changes the structure of the model.
    #[track_caller]
    pub fn compute_mut<M: PytreeOf<Tensor>, R>(
        &self,
        model: &mut M,
        forward: impl FnOnce(&mut M) -> R,
    ) -> R {
        let mut converted = self.compute(model);
        let result = forward(&mut converted);
        let (changed, treedef) = graph::flatten::<Tensor, M>(&converted);
        let kinds = treedef.leaf_kinds();
        let mut leaves = changed.into_iter().zip(kinds);
        let number = graph::leaves::<Tensor, M>(model).len();
        assert!(
            leaves.len() == number,
            "cannot write the states of a forward pass back: expected {number} leaves, found {}; change the structure of the model outside of the forward pass",
            leaves.len()
        );
        *model = graph::map(model, |leaf: &Tensor| match leaves.next() {
            Some((changed, Some(LeafKind::State(_)))) => changed.convert(leaf.dtype()),
            _ => leaf.clone(),
        });
        result
    }
}
