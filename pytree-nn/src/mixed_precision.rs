//! Mixed precision: the forward pass is computed in half precision, while the parameters stay in f32.

use pytree_core::boundary::{call_with_leaves, flatten_with_references};
use pytree_core::{LeafKind, PytreeOf, Static};
use pytree_transform::{DType, Tensor};

use crate::convert_floats::{check_float, convert_floats, converted};
use crate::error::or_panic;

/// The dtypes of a mixed-precision computation (Micikevicius et al. 2018, "Mixed precision training", section 3.1).
///
/// The parameters keep their dtype, which usually is f32. Convert the model inside the loss function, so that the
/// gradients have the dtype of the parameters.
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
#[doc(alias("jmp.Policy", "torch.autocast"))]
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MixedPrecision {
    /// The dtype of the forward pass.
    pub compute: DType,
    /// The dtype of the output. Losses are computed in this dtype.
    pub output: DType,
}

impl MixedPrecision {
    /// Returns the dtypes for a forward pass in bf16 and losses in f32.
    pub fn bf16() -> Self {
        Self {
            compute: DType::BF16,
            output: DType::F32,
        }
    }

    /// Returns the dtypes for a forward pass in f16 and losses in f32. In f16, most models need a
    /// [`LossScale`](crate::LossScale).
    pub fn f16() -> Self {
        Self {
            compute: DType::F16,
            output: DType::F32,
        }
    }

    /// Returns a model, a batch or another pytree with its floats converted to the dtype of the forward pass. States
    /// that accumulate, such as running statistics, stay in f32: see [`convert_floats`].
    ///
    /// # Panics
    /// If the target dtype is not a float.
    #[must_use]
    #[track_caller]
    pub fn compute<M: PytreeOf<Tensor>>(&self, model: &M) -> M {
        convert_floats(model, self.compute)
    }

    /// Returns a pytree with all floats converted to the dtype of the output.
    ///
    /// # Panics
    /// If the target dtype is not a float.
    #[must_use]
    #[track_caller]
    pub fn output<T: PytreeOf<Tensor>>(&self, output: &T) -> T {
        convert_floats(output, self.output)
    }

    /// Runs a forward pass on the converted model, and keeps the states that the forward pass changes, such as running
    /// statistics. The changed states are converted back to their original dtypes and written to `model`. The
    /// parameters of `model` do not change. The references of `model` keep their identity, and so do the shared nodes that
    /// `forward` does not replace. States at new paths, such as sown values, are stored as they are.
    ///
    /// Running statistics are not converted to the dtype of the forward pass: see [`convert_floats`]. In a layer of your
    /// own, mark them with `#[state(BatchStat)]`, and convert them where they meet the input:
    /// `x - self.mean.convert(x.dtype())`. Other states are converted, so a small change of such a state may round to
    /// nothing. A number that the conversion and the forward pass leave unchanged keeps all its digits.
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
    /// If the dtype of the forward pass is not a float.
    #[track_caller]
    pub fn compute_mut<M: PytreeOf<Tensor>, R>(
        &self,
        model: &mut M,
        forward: impl FnOnce(&mut M) -> R,
    ) -> R {
        check_float(self.compute);
        let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(model);
        let kinds = treedef.leaf_kinds();
        let convert = |(leaf, kind): (&Tensor, &Option<LeafKind>)| {
            converted(leaf, kind.as_ref(), self.compute)
        };
        let lent: Vec<Tensor> = leaves.iter().zip(&kinds).map(convert).collect();
        let restore = |before: Option<usize>, leaf: Tensor| match before {
            Some(at) if kinds[at].as_ref().is_some_and(LeafKind::is_state) => {
                written(&leaves[at], &lent[at], &leaf)
            }
            Some(at) => leaves[at].clone(),
            None => leaf,
        };
        let (nodes, lent) = ((&treedef, &references), lent.clone());
        or_panic(call_with_leaves(model, nodes, lent, forward, restore))
    }
}

/// Returns the new value of a state `leaf` that was converted to `before`, and that the forward pass left as `changed`.
/// The elements that the forward pass did not change keep their digits.
#[track_caller]
fn written(leaf: &Tensor, before: &Tensor, changed: &Tensor) -> Tensor {
    let new = changed.convert(leaf.dtype());
    if before.dtype() == leaf.dtype() || before.info() != changed.info() {
        return new;
    }
    before.equal(changed).select(leaf, &new)
}
