//! Low-rank adapters, which fine-tune a model with few trained parameters.

use pytree_core::kind::Param;
use pytree_core::{Collection, Filter};

use crate::initializers::Initializer;
use crate::layers::forward::Forward;
use crate::layers::matrix_layout::MatrixLayout;
use crate::layers::prelude::*;
use crate::layers::rewriting::{WrapError, rewritten, selected_matrices, with_rewritten};
use crate::model::Model;

/// The collection of the adapters' parameters. The parent of this collection is [`Param`], which contains all
/// parameters.
#[doc(alias = "nnx.LoRAParam")]
#[derive(Collection)]
#[collection(parent = Param)]
#[derive(Debug)]
pub struct LoraParam;

/// The adapter of one matrix of a model: two matrices whose product has a low rank.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LoraAdapter {
    /// The key path of the matrix in the model.
    #[r#static]
    pub path: String,
    /// The axes of the weight that are the rows and the columns of the matrix.
    #[r#static]
    pub layout: MatrixLayout,
    /// The first factor, initially drawn from [`Initializer::he_uniform`]: `lora_a` in Flax.
    #[param(LoraParam, "T[*batch in rank]", roles(batch, input, output))]
    pub a: Tensor,
    /// The second factor, initially 0: `lora_b` in Flax.
    #[param(LoraParam, "T[*batch rank out]", roles(batch, input, output))]
    pub b: Tensor,
}

impl LoraAdapter {
    /// Returns `weight + scale · a · b`, where the product has the axes of the weight.
    ///
    /// # Panics
    /// If the shapes or the dtypes differ.
    #[track_caller]
    pub fn adapted(&self, weight: &Tensor, scale: f64) -> Tensor {
        let product = self.a.matmul(&self.b) * scale;
        let found = self.layout.matrix_shape(weight.shape());
        assert!(
            found.as_deref() == Some(product.shape()),
            "cannot adapt {}: the adapter is made for a matrix {:?}, but the weight {} is a matrix {:?}; make the adapters for this model, with `Lora::new`",
            self.path,
            product.shape(),
            weight.info(),
            found.unwrap_or_default()
        );
        weight + self.layout.weight(&product, weight.shape())
    }
}

/// Replaces chosen matrices W of a model by W + scale · A · B, where A and B have a low rank (Hu et al. 2021, "Low-rank
/// adaptation of large language models", equation 3).
///
/// The model may have any type, and its layers do not change. [`adapted`](Self::adapted) returns a copy of the model
/// with W + scale · A · B in place of W. Call `adapted` inside the loss function. B is initially 0, so the adapted
/// model initially computes the same results as the model.
///
/// To train only the adapters, differentiate with respect to [`LoraParam`], and give the optimizer the same filter.
/// After training, keep the result of `adapted` to merge the adapters into the model.
///
/// A matrix is a weight whose field declares the roles of its axes, with inputs and outputs: the weights of `Linear`,
/// `LinearGeneral`, `Einsum`, `Conv`, `Embed`, recurrent cells, and the query, key, value and output of attention. The
/// heads of attention belong to its features, and the positions of a convolution's kernel belong to its inputs. A
/// layer of your own declares roles like this: `#[param("in out", roles(input, output))]`.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{Activation, Lora, LoraParam, Mlp, Optimizer, Rngs, adam, mse};
/// use pytree_transform::{DType, grad};
/// let mut rngs = Rngs::new(0);
/// let pretrained = Mlp::new(&[4, 16, 2], Activation::Tanh, &mut rngs);
/// let (x, y) = (rngs.normal(DType::F32, [8, 4]), rngs.normal(DType::F32, [8, 2]));
///
/// let mut lora = Lora::new(&pretrained, &Filter::param(), 2, &mut rngs);
/// assert_eq!(lora.adapted().forward(&x), pretrained.forward(&x));
/// let adapters = Filter::collection::<LoraParam>();
/// let mut optimizer = Optimizer::with_filter(&lora, adam(1e-2), &adapters);
/// for _ in 0..5 {
///     let loss = |lora: &Lora<Mlp>| mse(&lora.adapted().forward(&x), &y);
///     let gradient = grad(loss).wrt(adapters.clone())(&lora);
///     optimizer.update(&mut lora, &gradient);
/// }
/// assert_eq!(lora.model, pretrained);
/// let tuned: Mlp = lora.adapted();
/// assert_ne!(tuned.forward(&x), pretrained.forward(&x));
/// ```
#[doc(alias("nnx.LoRA", "nnx.LoRALinear"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Lora<M> {
    /// The model without adapters.
    pub model: M,
    /// The adapters, in the order of their matrices in the model.
    pub adapters: Vec<LoraAdapter>,
    /// The factor of A · B. The default is 1, as in Flax. (In the paper, the factor is α divided by the rank.)
    #[r#static]
    pub scale: f64,
}

fallible_forward!([M: Model + Forward + std::fmt::Debug] Lora<M>);

impl<M: Model> Lora<M> {
    /// Adds an adapter of the given rank to each matrix that the filter selects. Selected parameters that are not
    /// matrices, such as biases and scales, get no adapter.
    ///
    /// Draws two keys of the stream `params` for each matrix, first for `a` and then for `b`, as in Flax. An adapter
    /// has the dtype of its matrix.
    ///
    /// # Panics
    /// - If the filter selects no matrix, or has an unknown path.
    /// - If the filter selects a parameter with at least two axes whose field declares no roles.
    /// - If `rank` is 0, or greater than the number of rows or columns of a matrix.
    /// - If there is no stream to draw from.
    #[panicking_twin(new)]
    pub fn try_new(
        model: &M,
        filter: &Filter,
        rank: usize,
        rngs: &mut Rngs,
    ) -> Result<Self, WrapError> {
        let matrices = selected_matrices("add adapters", model, filter)?;
        let mut adapters = Vec::with_capacity(matrices.len());
        for (path, weight, layout) in matrices {
            let shape = layout.matrix_shape(weight.shape()).unwrap_or_default();
            let [batch @ .., rows, columns] = &shape[..] else {
                continue;
            };
            let (rows, columns) = (*rows, *columns);
            if rank == 0 || rank > rows.min(columns) {
                return Err(WrapError::Rank {
                    rank,
                    path,
                    rows,
                    columns,
                });
            }
            let (dtype, count) = (weight.dtype(), batch.iter().product::<usize>());
            // The factors of all matrices are drawn side by side, because the scale depends on the number of rows.
            let a = Initializer::he_uniform();
            let a = a.initialize(&rngs.params(), dtype, [rows, count * rank]);
            let a = a.reshape([rows, count, rank]).move_axis(1, 0);
            let b = [batch, &[rank, columns]].concat();
            adapters.push(LoraAdapter {
                path: path.to_string(),
                layout,
                a: a.reshape([batch, &[rows, rank]].concat()),
                b: Initializer::Zeros.initialize(&rngs.params(), dtype, &b),
            });
        }
        Ok(Self {
            model: model.clone(),
            adapters,
            scale: 1.0,
        })
    }

    /// Returns the model with W + scale · A · B in place of each adapted matrix W. Call this method in the loss
    /// function, and after training to merge the adapters into the model.
    ///
    /// The result is a copy with its own references and shared nodes. To store the states that a forward pass writes, use
    /// [`forward`](Self::forward).
    ///
    /// # Panics
    /// If the model has no matrix at the path of an adapter, or if the shape or the dtype of an adapter does not fit
    /// its matrix.
    #[must_use]
    #[track_caller]
    pub fn adapted(&self) -> M {
        let (adapted, replaced) = rewritten(&self.model, adapt(&self.adapters, self.scale));
        let paths = || -> Vec<&String> { self.adapters.iter().map(|one| &one.path).collect() };
        assert!(
            replaced == self.adapters.len(),
            "cannot adapt the model: it has {} of the {} matrices {:?}; make the adapters for this model, with `Lora::new`",
            replaced,
            self.adapters.len(),
            paths()
        );
        adapted
    }
}

/// Returns the function that adapts the weight at a path. It returns `None` for a path without an adapter.
fn adapt(adapters: &[LoraAdapter], scale: f64) -> impl Fn(&str, &Tensor) -> Option<Tensor> {
    move |path, weight| {
        let adapter = adapters.iter().find(|adapter| adapter.path == path)?;
        Some(adapter.adapted(weight, scale))
    }
}

impl<M: Model + Forward> Lora<M> {
    /// Applies the adapted model. The states that the model writes, such as running statistics, are stored in
    /// [`model`](Self::model).
    ///
    /// # Panics
    /// If `x` does not fit the model, or if the shape of an adapter does not fit its matrix.
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let adapt = adapt(&self.adapters, self.scale);
        with_rewritten(&mut self.model, adapt, |model| model.try_forward(x))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::{Activation, Mlp};

    #[test]
    fn filter_without_matrices_is_an_error() {
        let model = Mlp::new(&[2, 3], Activation::Relu, &mut Rngs::new(0));
        let bias = Filter::path("layers[0].bias");
        let error = Lora::try_new(&model, &bias, 1, &mut Rngs::new(0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot add adapters: the filter selects layers[0].bias: f32[3], expected weights with inputs and outputs; \
             choose a filter that selects some of the weights layers[0].weight, for instance `Filter::path(\"layers[0].weight\")`"
        );
        let error = Lora::try_new(&model, &Filter::path("head"), 1, &mut Rngs::new(0));
        assert!(error.unwrap_err().to_string().contains("head"));
    }

    #[test]
    fn rank_above_the_smaller_side_is_an_error() {
        let model = Mlp::new(&[8, 3, 8], Activation::Relu, &mut Rngs::new(0));
        let refused = |rank| {
            let error = Lora::try_new(&model, &Filter::param(), rank, &mut Rngs::new(0));
            error.unwrap_err().to_string()
        };
        assert_eq!(
            refused(4),
            "cannot add adapters of rank 4: layers[0].weight is a matrix [8, 3]; use a rank from 1 to 3, or leave it out: \
             `filter & !Filter::path(\"layers[0].weight\")`"
        );
        assert!(refused(0).contains("use a rank from 1 to 3"));
        assert!(Lora::try_new(&model, &Filter::param(), 3, &mut Rngs::new(0)).is_ok());
    }

    #[test]
    #[should_panic(expected = "it has 0 of the 1 matrices [\"layers[0].weight\"]")]
    fn adapters_of_another_model_are_refused() {
        let model = Mlp::new(&[2, 3], Activation::Relu, &mut Rngs::new(0));
        let lora = Lora::new(&model, &Filter::param(), 1, &mut Rngs::new(0));
        let other = crate::Linear::new(2, 3, &mut Rngs::new(0));
        let mistaken = Lora {
            model: other,
            adapters: lora.adapters,
            scale: 1.0,
        };
        let _ = mistaken.adapted();
    }
}
