//! Loss scaling, which keeps small gradients in half precision from becoming 0.

use pytree_core::kind::OptState;
use pytree_core::{Module, Partition, Static};
use pytree_derive::Defaults;
use pytree_transform::{DType, Tensor};

use crate::convert_floats::at_least_f32;
use crate::optimizers::guards::all_finite;

/// The options of [`LossScale::dynamic_with`], with the defaults of Flax's `DynamicScale`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct DynamicLossScaleOptions {
    /// The initial scale; by default 65536.
    #[default(65536.0)]
    pub initial: f64,
    /// The number of consecutive finite steps after which the scale grows; by default 2000. A step is finite if all
    /// numbers of its gradient are finite.
    #[default(2000)]
    pub growth_interval: usize,
    /// The factor by which the scale grows; by default 2.
    #[default(2.0)]
    pub growth_factor: f64,
    /// The factor by which the scale shrinks after a step that is not finite; by default 0.5.
    #[default(0.5)]
    pub backoff_factor: f64,
    /// The least scale; by default 2⁻¹²⁶, the smallest normal number of f32.
    #[default(f64::from(f32::MIN_POSITIVE))]
    pub minimum: f64,
}

/// The factor of loss scaling: the loss is multiplied by the factor, and the gradient is divided by the factor.
///
/// Small gradients in f16 are rounded to 0. The gradients of a scaled loss are larger, so fewer of them become 0
/// (Micikevicius et al. 2018, "Mixed precision training", section 3.2). bf16 has the exponents of f32, and seldom needs
/// a scale. A dynamic scale halves if a gradient is not finite, and doubles after many finite steps, like Flax's
/// `DynamicScale`.
///
/// A `LossScale` is a pytree of states, so it can be an argument and a result of `jit`, and can be saved.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, LossScale, Optimizer, Rngs, adam, apply_if_finite, mse};
/// use pytree_transform::{DType, Tensor, value_and_grad};
/// let mut model = Linear::new(2, 1, &mut Rngs::new(0));
/// // A step with gradients that are not finite is skipped.
/// let mut optimizer = Optimizer::new(&model, apply_if_finite(10, adam(1e-3)));
/// let mut scale = LossScale::dynamic();
/// let (x, y) = (Tensor::ones(DType::F32, [4, 2]), Tensor::zeros(DType::F32, [4, 1]));
/// let loss = |model: &Linear| scale.scaled(&mse(&model.forward(&x), &y));
/// let (_, gradient) = value_and_grad(loss)(&model);
/// let gradient = scale.unscaled(&gradient);
/// scale.adjust(&gradient);
/// optimizer.update(&mut model, &gradient);
/// ```
#[doc(alias("flax.training.dynamic_scale.DynamicScale", "torch.amp.GradScaler"))]
#[derive(Module, Clone, Debug)]
pub struct LossScale {
    /// The number of finite steps since the last change of the scale: `u32[]`. `None` for a constant scale.
    #[state(OptState)]
    finite_steps: Option<Tensor>,
    /// The scale: `f32[]`.
    #[state(OptState)]
    scale: Tensor,
    #[r#static]
    options: DynamicLossScaleOptions,
}

impl LossScale {
    /// Returns a scale that does not change.
    pub fn constant(scale: f64) -> Self {
        Self {
            finite_steps: None,
            scale: Tensor::from(scale).convert(DType::F32),
            options: DynamicLossScaleOptions {
                initial: scale,
                ..DynamicLossScaleOptions::default()
            },
        }
    }

    /// Returns a dynamic scale with the default options.
    pub fn dynamic() -> Self {
        Self::dynamic_with(DynamicLossScaleOptions::default())
    }

    /// Returns a dynamic scale with the given options.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{DynamicLossScaleOptions, LossScale};
    /// let options = DynamicLossScaleOptions { initial: 1024.0, ..DynamicLossScaleOptions::default() };
    /// assert_eq!(LossScale::dynamic_with(options).scale().item::<f32>(), 1024.0);
    /// ```
    pub fn dynamic_with(options: DynamicLossScaleOptions) -> Self {
        Self {
            finite_steps: Some(Tensor::from(0_u32)),
            scale: Tensor::from(options.initial).convert(DType::F32),
            options,
        }
    }

    /// Returns the scale: `f32[]`.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }

    /// Returns the number of finite steps since the last change of the scale: `u32[]`, or `None` for a constant scale.
    pub fn finite_steps(&self) -> Option<&Tensor> {
        self.finite_steps.as_ref()
    }

    /// Returns the loss multiplied by the scale. A loss in half precision is first converted to f32, because the scale may
    /// exceed the largest f16.
    ///
    /// # Panics
    /// If the loss is not a float.
    #[must_use]
    #[track_caller]
    pub fn scaled(&self, loss: &Tensor) -> Tensor {
        let loss = at_least_f32(loss);
        &loss * self.scale.convert(loss.dtype())
    }

    /// Returns the gradient divided by the scale. Gradients in half precision are first converted to f32.
    ///
    /// # Panics
    /// If a leaf of the gradient is not a float.
    #[must_use]
    #[track_caller]
    pub fn unscaled<M>(&self, gradient: &Partition<M, Tensor>) -> Partition<M, Tensor> {
        gradient.map(|leaf| {
            let wide = at_least_f32(leaf);
            &wide / self.scale.convert(wide.dtype())
        })
    }

    /// Adjusts a dynamic scale after a step with this gradient. Returns whether all numbers of the gradient are finite:
    /// `bool[]`.
    ///
    /// # Panics
    /// If a leaf of the gradient is not a float.
    #[track_caller]
    pub fn adjust<M>(&mut self, gradient: &Partition<M, Tensor>) -> Tensor {
        let is_finite = all_finite(gradient.leaves());
        let Some(steps) = &mut self.finite_steps else {
            return is_finite;
        };
        let options = self.options;
        let interval = u32::try_from(options.growth_interval).unwrap_or(u32::MAX);
        let grows = steps.equal(Tensor::from(interval));
        let grown = (&self.scale * options.growth_factor).minimum(f64::from(f32::MAX));
        let finite = grows.select(&grown, &self.scale);
        let shrunk = (&self.scale * options.backoff_factor).maximum(options.minimum);
        self.scale = is_finite.select(&finite, &shrunk);
        let zero = Tensor::from(0_u32);
        let next = grows.select(&zero, &*steps + 1);
        *steps = is_finite.select(&next, &zero);
        is_finite
    }
}
