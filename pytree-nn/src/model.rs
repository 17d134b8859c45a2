//! The trait that generic training code requires of a model.

use pytree_core::field::ModuleField;
use pytree_core::{Partition, SelectPart};
use pytree_transform::Tensor;

/// A model that can be compiled, differentiated, optimised and saved. Use this trait as the bound of functions that
/// accept any model.
///
/// Every type that derives `Module` and `Clone`, holds only tensors as leaves, and is `Send` and `Sync` is a `Model`.
/// Lists, arrays and maps of models and boxed modules are also models. A tuple is not a `Model`: derive `Module` for a
/// struct of its members.
///
/// The bound implies:
///
/// | what | for |
/// |---|---|
/// | [`Traceable`](pytree_transform::Traceable) | [`jit`](pytree_transform::jit), [`vmap`](pytree_transform::vmap), `pytree::checkpoint` |
/// | [`SelectPart<Tensor>`](SelectPart) | [`grad`](pytree_transform::grad), [`Optimizer`](crate::Optimizer); the gradient is a `Partition<Self, Tensor>` |
/// | `ModuleField` | a field of a module without an attribute |
/// | `Clone` | keeping the best model, or an average of models |
/// | `Send`, `Sync` | functions that capture a model, and threads |
///
/// Do not implement this trait: all types that meet its bounds implement it.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Mlp, Model, Optimizer, Rngs, adam, mse};
/// use pytree_transform::{DType, Tensor, jit_mut, value_and_grad_mut};
///
/// /// Trains a model on one batch. Returns the loss of each step.
/// fn fit<M: Model>(
///     model: &mut M,
///     optimizer: &mut Optimizer<M>,
///     loss: impl Fn(&mut M, &Tensor, &Tensor) -> Tensor + Send + Sync + 'static,
///     (x, y): (&Tensor, &Tensor),
///     steps: usize,
/// ) -> Vec<f32> {
///     let step = jit_mut(move |(model, optimizer, x, y): (&mut M, &mut Optimizer<M>, Tensor, Tensor)| {
///         let (loss, gradient) = value_and_grad_mut(|model: &mut M| loss(model, &x, &y))(model);
///         optimizer.update(model, &gradient);
///         loss
///     });
///     let mut losses = Vec::new();
///     for _ in 0..steps {
///         let loss = step((&mut *model, &mut *optimizer, x.clone(), y.clone()));
///         losses.push(loss.item());
///     }
///     losses
/// }
///
/// let mut rngs = Rngs::new(0);
/// let mut model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut rngs);
/// let mut optimizer = Optimizer::new(&model, adam(1e-2));
/// let x = rngs.normal(DType::F32, [32, 2]);
/// let y = x.square().sum_keep([-1]);
/// let loss = |model: &mut Mlp, x: &Tensor, y: &Tensor| mse(&model.forward(x), y);
/// let losses = fit(&mut model, &mut optimizer, loss, (&x, &y), 20);
/// assert!(losses[19] < losses[0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model",
    label = "a model that can be compiled, differentiated, optimised and saved is needed here",
    note = "write `#[derive(Module, Clone)]` on the type; all its leaves must be `Tensor`s, and the type must be `Send + Sync`",
    note = "in a generic function, add the bound `Model` to the type parameter; instead of a tuple of models, use a struct that derives `Module`"
)]
pub trait Model:
    ModuleField + SelectPart<Tensor, Part = Partition<Self, Tensor>> + Clone + Send + Sync
{
}

#[diagnostic::do_not_recommend]
impl<M> Model for M where
    M: ModuleField + SelectPart<Tensor, Part = Partition<M, Tensor>> + Clone + Send + Sync
{
}
