//! Weights as 8-bit integers.

use pytree_core::{Filter, KeyPath, Module, Partition, partition};
use pytree_derive::panicking_twin;
use pytree_transform::extend::{called, fused};
use pytree_transform::{DType, Tensor, jit};

use crate::error::InputError;
use crate::layers::forward::{Forward, fallible_forward};
use crate::layers::rewriting::{WrapError, selected_matrices};
use crate::model::Model;

/// Stores chosen matrices W of a model as integers of 8 bits and one scale for each output: W ≈ q · scale, where
/// q = round(W / scale) and scale = max |W| / 127 over the inputs of an output.
///
/// This is symmetric weight-only quantization: the numbers between layers, and all that is not selected, stay floats. The integers take a
/// quarter of the memory of f32 weights. The model may have any type, and its layers do not change. [`model`](Self::model) returns the
/// model with q · scale in place of W. Call it inside of a compiled function: its products then read the integers, and no W is made, if
/// W is f32. A quantized model is saved and loaded as any other.
///
/// A matrix is a weight whose field declares the roles of its axes, as for [`Lora`](crate::Lora). To train adapters of a quantized
/// model, quantize a [`Lora`](crate::Lora), with a filter that leaves out [`LoraParam`](crate::LoraParam).
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{Activation, Mlp, Quantized, Rngs};
/// use pytree_transform::{DType, Tensor, jit};
/// let mut rngs = Rngs::new(0);
/// let model = Mlp::new(&[64, 128, 10], Activation::Relu, &mut rngs);
/// let quantized = Quantized::new(&model, &Filter::param());
/// assert_eq!(quantized.integers["layers[0].weight"].dtype(), DType::I8);
/// for (path, error) in quantized.errors(&model).iter_with_path() {
///     assert!(error.item::<f32>() < 0.01, "{path}: {error}");
/// }
///
/// let forward = jit(|(quantized, x): (&Quantized<Mlp>, Tensor)| quantized.model().forward(&x));
/// let x = rngs.normal(DType::F32, [8, 64]);
/// let difference = forward((&quantized, x.clone())) - model.forward(&x);
/// assert!(difference.abs().max().item::<f32>() < 0.05);
/// ```
#[doc(alias("torch.ao.quantization.quantize_dynamic", "int8"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Quantized<M: Model> {
    /// The part of the model that is not quantized, with its kinds.
    pub rest: Partition<M, Tensor>,
    /// The integers q in place of each quantized weight: i8.
    #[state]
    pub integers: Partition<M, Tensor>,
    /// The scales of each quantized weight, with the dtype of the weight and with its axes, which have length 1 along the inputs.
    #[state]
    pub scales: Partition<M, Tensor>,
}

fallible_forward!([M: Model + Forward + std::fmt::Debug] Quantized<M>);

impl<M: Model> Quantized<M> {
    /// Quantizes each matrix that the filter selects. Selected parameters that are not matrices, such as biases and the scales of
    /// normalisations, stay as they are.
    ///
    /// # Panics
    /// - If the filter selects no matrix, or has an unknown path.
    /// - If the filter selects a parameter with at least two axes whose field declares no roles.
    #[panicking_twin(new)]
    pub fn try_new(model: &M, filter: &Filter) -> Result<Self, WrapError> {
        let _called = called("quantize");
        let matrices = selected_matrices("quantize", model, filter)?;
        let chosen = paths(matrices.iter().map(|(path, ..)| path.clone()));
        let [weights, rest] = partition::split(model, [chosen, Filter::everything()])?;
        let mut layouts = matrices.iter().map(|(.., layout)| layout);
        let scales = weights.map(|weight: &Tensor| {
            let rows = layouts.next().map_or(&[][..], |layout| &layout.rows);
            let rows: Vec<isize> = rows.iter().map(|axis| axis.cast_signed()).collect();
            fused(&[weight], || weight.abs().max_keep(rows) / 127.0)
        });
        let integers = weights.map2(&scales, |weight, scale| {
            // All weights of an output may be 0. A scale in half precision may be rounded down.
            let is_zero = scale.equal(Tensor::zeros(scale.dtype(), []));
            let divisor = is_zero.select(Tensor::ones(scale.dtype(), []), scale);
            fused(&[weight], || {
                let rounded = (weight / divisor).round();
                rounded.clamp(-127.0, 127.0).convert(DType::I8)
            })
        })?;
        Ok(Self {
            rest,
            integers,
            scales,
        })
    }

    /// Returns the model with q · scale in place of each quantized weight.
    ///
    /// # Panics
    /// If the three parts are not those of one model.
    #[must_use]
    #[track_caller]
    pub fn model(&self) -> M {
        let weights = self.integers.map2(&self.scales, |integers, scale| {
            integers.convert(scale.dtype()) * scale
        });
        match weights.and_then(|weights| partition::merge([self.rest.clone(), weights])) {
            Ok(model) => model,
            Err(error) => panic!(
                "cannot join the parts of a quantized model: {error}; change the structure of the model inside of `with_model` or `map_rest`"
            ),
        }
    }

    /// Calls a function with the model that [`model`](Self::model) returns. The states that the function writes, such as the cache of a
    /// decoder, are stored in [`rest`](Self::rest); what it writes to the quantized weights is lost. The states may change their
    /// structure, as sown values do.
    ///
    /// # Panics
    /// If the three parts are not those of one model, if the function moves or removes a quantized weight, or if the function panics.
    #[track_caller]
    pub fn with_model<R>(&mut self, function: impl FnOnce(&mut M) -> R) -> R {
        let mut model = self.model();
        let result = function(&mut model);
        *self = self.with_rest_of(&model);
        result
    }

    /// Changes what is not quantized, the structure included. `function` receives the model that [`model`](Self::model) returns, and is
    /// compiled, so no q · scale is made; what it writes to the quantized weights is lost.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Filter;
    /// use pytree_nn::{MultiHeadAttention, Quantized, Rngs, with_cache};
    /// let layer = MultiHeadAttention::causal(16, 4, &mut Rngs::new(0));
    /// let quantized = Quantized::new(&layer, &Filter::param());
    /// let decoder = quantized.map_rest(|layer| with_cache(&layer, [1], 64));
    /// assert_eq!(decoder.integers.leaves(), quantized.integers.leaves());
    /// ```
    ///
    /// # Panics
    /// If the function moves or removes a quantized weight.
    #[must_use]
    #[track_caller]
    pub fn map_rest(&self, function: impl Fn(M) -> M + Send + Sync + 'static) -> Self {
        let changed =
            jit(move |quantized: &Self| quantized.with_rest_of(&function(quantized.model())));
        changed(self)
    }

    /// Returns the quantized weights with the other leaves, and the structure, of `model`.
    #[track_caller]
    fn with_rest_of(&self, model: &M) -> Self {
        let [weights, rest] = match partition::split(model, [self.chosen(), Filter::everything()]) {
            Ok(parts) => parts,
            Err(error) => panic!(
                "cannot change a quantized model: {error}; keep each quantized weight at its path"
            ),
        };
        // The parts of a model have the order of its leaves.
        let [integers, scales] = [&self.integers, &self.scales].map(|part| {
            let mut leaves = part.iter_with_path();
            let next = |path: &KeyPath, _: &Tensor| match leaves.next() {
                Some((at, leaf)) if at == *path => leaf.clone(),
                _ => panic!(
                    "cannot change a quantized model: the weight {} is at another place; keep the order of the quantized weights",
                    path.or_root()
                ),
            };
            weights.map_with_path(next)
        });
        Self {
            rest,
            integers,
            scales,
        }
    }

    /// Selects the quantized weights of the model.
    fn chosen(&self) -> Filter {
        paths(self.integers.iter_with_path().map(|(path, _)| path))
    }

    /// Returns the error ‖q · scale - W‖ / ‖W‖ of each quantized weight, in the Frobenius norm: f32 numbers. `model` is the model that
    /// was quantized.
    ///
    /// # Panics
    /// If the structure or the shapes of `model` differ.
    #[must_use]
    #[track_caller]
    pub fn errors(&self, model: &M) -> Partition<M, Tensor> {
        let part = |model| partition::filter::<M, Tensor>(model, &self.chosen());
        let (found, weights) = (part(&self.model()), part(model));
        let pairs = found.iter_with_path().zip(weights.leaves());
        let differ = pairs.filter(|((_, found), weight)| found.info() != weight.info());
        let differ = differ.map(|((path, found), weight)| {
            format!("{path}: expected {}, found {}", found.info(), weight.info())
        });
        let differ: Vec<String> = differ.collect();
        assert!(
            differ.is_empty(),
            "cannot compare the quantized weights with a model: {}; pass the model that was quantized",
            differ.join("; ")
        );
        let norm = |weight: &Tensor| weight.convert(DType::F32).square().sum().sqrt();
        let errors = found.map2(&weights, |found, weight| {
            norm(&(found - weight)) / norm(weight)
        });
        match errors {
            Ok(errors) => errors,
            Err(error) => panic!("cannot compare a quantized model: {error}"),
        }
    }
}

impl<M: Model + Forward> Quantized<M> {
    /// Applies the model with q · scale in place of the quantized weights. The states that the model writes, such as running statistics,
    /// are stored in [`rest`](Self::rest).
    ///
    /// # Panics
    /// If `x` does not fit the model.
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        self.with_model(|model| model.try_forward(x))
    }
}

/// Selects the leaves at some paths.
fn paths(paths: impl Iterator<Item = KeyPath>) -> Filter {
    let filters = paths.map(|path| Filter::path(path.to_string()));
    filters
        .reduce(|first, second| first | second)
        .unwrap_or_else(|| !Filter::everything())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use pytree_transform::{grad, jit};

    use super::*;
    use crate::{Linear, Lora, LoraParam, Rngs, mse};

    #[test]
    fn integers_and_scales_follow_the_formula() {
        let mut linear = Linear::new(3, 3, &mut Rngs::new(0));
        linear.weight = Tensor::from([[1.0_f32, -254.0, 0.0], [-0.5, 127.0, 0.0], [0.1, 3.0, 0.0]]);
        let quantized = Quantized::new(&linear, &Filter::param());
        assert_eq!(
            quantized.integers["weight"],
            Tensor::from([[127_i8, -127, 0], [-64, 64, 0], [13, 2, 0]])
        );
        assert_eq!(
            quantized.scales["weight"],
            Tensor::from([[1.0_f32 / 127.0, 2.0, 0.0]])
        );
        assert_eq!(
            quantized.model().weight.index(pytree_transform::ix![1, 1]),
            Tensor::from(128.0_f32)
        );
        assert_eq!(quantized.model().bias, linear.bias);
        let error = quantized.errors(&linear)["weight"].item::<f32>();
        assert!((1e-4..1e-2).contains(&error), "{error}");
    }

    #[test]
    fn compiled_products_have_the_bits_of_the_widened_weights() {
        let mut rngs = Rngs::new(0);
        let model = (
            crate::Mlp::new(&[70, 200, 70], crate::Activation::Tanh, &mut rngs),
            crate::MultiHeadAttention::causal(70, 7, &mut rngs),
            crate::Embed::new(300, 70, &mut rngs),
        );
        let forward = |quantized: &(
            Quantized<_>,
            Quantized<crate::MultiHeadAttention>,
            Quantized<crate::Embed>,
        ),
                       x: &Tensor| {
            let mlp: crate::Mlp = quantized.0.model();
            let x = quantized.1.model().forward(&mlp.forward(x));
            quantized.2.model().attend(&x)
        };
        let all = Filter::param();
        let quantized = (
            Quantized::new(&model.0, &all),
            Quantized::new(&model.1, &all),
            Quantized::new(&model.2, &all),
        );
        let compiled = jit(move |(quantized, x): (&_, Tensor)| forward(quantized, &x));
        for tokens in [1, 40] {
            let x = rngs.normal(DType::F32, [2, tokens, 70]);
            assert_eq!(compiled((&quantized, x.clone())), forward(&quantized, &x));
        }
        let rows =
            |(embed, items): (&Quantized<crate::Embed>, Tensor)| embed.model().forward(&items);
        let items = Tensor::from([[0, -1], [299, 7]]);
        let found = jit(rows)((&quantized.2, items.clone()));
        assert_eq!(found, rows((&quantized.2, items)));
    }

    #[test]
    fn half_precision_weights_come_back_in_their_dtype() {
        let linear = crate::convert_floats(&Linear::new(8, 4, &mut Rngs::new(0)), DType::BF16);
        let mut quantized = Quantized::new(&linear, &Filter::param());
        assert_eq!(quantized.scales["weight"].dtype(), DType::BF16);
        let y = quantized.forward(&Tensor::ones(DType::BF16, [2, 8]));
        assert_eq!(y.dtype(), DType::BF16);
        assert_eq!(quantized.integers["weight"].dtype(), DType::I8);
    }

    #[test]
    fn adapters_of_a_quantized_model_are_trained() {
        let mut rngs = Rngs::new(0);
        let linear = Linear::new(8, 4, &mut rngs);
        let lora = Lora::new(&linear, &Filter::param(), 2, &mut rngs);
        let adapters = Filter::collection::<LoraParam>();
        let quantized = Quantized::new(&lora, &(Filter::param() & !adapters.clone()));
        let (x, y) = (
            rngs.normal(DType::F32, [5, 8]),
            rngs.normal(DType::F32, [5, 4]),
        );
        let step = jit(move |quantized: Quantized<Lora<Linear>>| {
            let loss = |quantized: &Quantized<Lora<Linear>>| {
                mse(&quantized.model().adapted().forward(&x), &y)
            };
            let gradient = grad(loss).wrt(adapters.clone())(&quantized);
            gradient["rest.adapters[0].b"].clone()
        });
        assert!(step(quantized).abs().max().item::<f32>() > 0.0);
    }

    #[test]
    #[should_panic(
        expected = "model: weight: expected f32[8,4], found f32[8,3]; pass the model that was quantized"
    )]
    fn errors_beside_another_model_are_refused() {
        let linear = |outputs| Linear::new(8, outputs, &mut Rngs::new(0));
        let _ = Quantized::new(&linear(4), &Filter::param()).errors(&linear(3));
    }

    #[test]
    fn filter_without_matrices_is_an_error() {
        let linear = Linear::new(8, 4, &mut Rngs::new(0));
        let error = Quantized::try_new(&linear, &Filter::path("bias")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot quantize: the filter selects bias: f32[4]")
        );
    }
}
