//! Layers of [candle-nn](https://docs.rs/candle-nn/0.11) 0.11 as modules: the feature `candle_nn011`.
//!
//! `Linear`, `Embedding`, `LayerNorm`, `RmsNorm`, `BatchNorm`, `Conv1d` and `Conv2d` are modules whose leaves are tensors of candle, so a model of
//! these layers needs only a derive. Their fields have the names that `VarBuilder` gives them, and settings are static.
//!
//! # Examples
//! ```
//! # use {candle_core011 as candle_core, candle_nn011 as candle_nn};
//! use candle_core::{DType, Device, Tensor};
//! use candle_nn::{Linear, Module as _, VarBuilder, VarMap, linear};
//! use pytree_core::{Filter, Module, candle011, partition};
//!
//! #[derive(Module, Clone, Debug)]
//! struct Model {
//!     base: Linear,
//!     head: Linear,
//! }
//!
//! let vars = VarMap::new();
//! let from = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
//! let model = Model { base: linear(4, 3, from.pp("base"))?, head: linear(3, 2, from.pp("head"))? };
//! let weights = partition::filter(&model, &Filter::path("head"));
//! assert_eq!(weights["head.weight"].dims(), [2, 3]);
//! // The variables of the layer that is trained.
//! assert_eq!(candle011::params(&model, &Filter::path("head"))?.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use candle_core011::{Result as CandleResult, Tensor};
use candle_nn011::{
    BatchNorm, Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Embedding, LayerNorm, Linear, RmsNorm,
};

use crate::base::error::TreeError;
use crate::base::kind::{self, FieldKind};
use crate::contract::pytree::{Pytree, PytreeOf, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::foreign::kept::kept;
use crate::module::axes::{NamedAxes, Scope};
use crate::module::field::{HoldsArrays, ModuleField, NodeShapes, Probe, StaticFallback as _};
use crate::module::registry::{Module, ModuleType, Registry};
use crate::node::shape::{self, Field, NodeShape};
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;
use crate::trees::select_part::SelectPart;

/// Visits a tensor that a layer may lack, as an `Option` is visited.
fn visit_option<'a>(tensor: Option<&'a Tensor>, visitor: &mut dyn Visitor<'a>) {
    let node = if tensor.is_some() {
        &shape::SOME
    } else {
        &shape::NONE
    };
    if visitor.enter(node, tensor.iter().len()) == Visit::Skip {
        return;
    }
    if let Some(tensor) = tensor {
        tensor.visit(visitor);
    }
    visitor.exit();
}

/// Implements the traits of a module for a layer: the fields that it always has, those that it may lack, and the setting; its parts, and how it
/// is built from owned parts.
macro_rules! layer {
    (
        $layer:ident: [$($kind:ident $field:ident),*] [$($option:ident)*] $setting:ident: $type:ty,
        |$it:ident| [$($tensor:expr),*] [$($optional:expr),*] $value:expr, $new:expr
    ) => {
        impl NodeShapes for $layer {
            const SHAPES: &'static [NodeShape] = &[NodeShape::of_struct::<Self>(
                stringify!($layer),
                &[
                    $(Field::new(stringify!($field), layer!(@$kind)),)*
                    $(Field::new(stringify!($option), FieldKind::Param),)*
                ],
                &[stringify!($setting)],
            )];
        }

        impl Pytree for $layer {
            fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
                let $it = self;
                let shape = const { &Self::SHAPES[0] };
                if visitor.enter(shape, shape.fields.len()) == Visit::Descend {
                    let setting: &'a $type = $value;
                    visitor.aux(Probe::<$type>::NEW.__as_static(setting));
                    $(Tensor::visit($tensor, visitor);)*
                    $(visit_option($optional, visitor);)*
                    visitor.exit();
                }
            }

            fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
                let shape = const { &Self::SHAPES[0] };
                source.enter_fixed(shape, shape.fields.len())?;
                let setting = Probe::<$type>::NEW.__read_static(source)?;
                $(let $field = Tensor::unflatten(source)?;)*
                $(let $option = Option::<Tensor>::unflatten(source)?;)*
                let new: CandleResult<Self> = $new($($field,)* $($option,)* setting);
                let built = new.map_err(|error| TreeError::Build {
                    node: stringify!($layer),
                    reason: error.to_string(),
                })?;
                Ok(source.exit(built))
            }
        }

        impl PytreeOf<Tensor> for $layer {}
        impl SelectPart<Tensor> for $layer {
            type Part = Partition<Self, Tensor>;
            fn select_part(tree: Tree<Tensor>) -> Result<Self::Part, TreeError> {
                Ok(Partition::from_tree(tree))
            }
        }
        impl ModuleField for $layer {}
        impl HoldsArrays for $layer {}
        impl NamedAxes for $layer {
            fn bind_axes(&self, _: &mut Scope) {}
        }
        impl Module for $layer {
            fn registry(&self) -> Registry<'_> {
                Registry::Borrowed(Self::REGISTRY)
            }
        }
        impl ModuleType for $layer {
            const REGISTRY: &'static [(&'static str, FieldKind)] = &[
                $((stringify!($field), layer!(@$kind)),)*
                $((stringify!($option), FieldKind::Param),)*
                (stringify!($setting), FieldKind::Static),
            ];
        }
    };
    (@param) => { FieldKind::Param };
    (@state) => { FieldKind::of::<kind::State>() };
}

layer!(Linear: [param weight] [bias] settings: (), |it| [it.weight()] [it.bias()] &(),
    |weight, bias, ()| Ok(Self::new(weight, bias)));
layer!(Embedding: [param weight] [] hidden_size: usize, |it| [it.embeddings()] [] kept(it.hidden_size()),
    |weight, hidden_size| Ok(Self::new(weight, hidden_size)));
layer!(LayerNorm: [param weight] [bias] eps_and_remove_mean: (f64, bool),
|it| [it.weight()] [it.bias()] kept((it.eps(), it.remove_mean())),
|weight, bias, (eps, remove_mean)| match (bias, remove_mean) {
    (Some(bias), true) => Ok(Self::new(weight, bias, eps)),
    (None, true) => Ok(Self::new_no_bias(weight, eps)),
    (None, false) => Ok(Self::rms_norm(weight, eps)),
    (Some(_), false) => candle_core011::bail!("a layer without the mean has no bias"),
});
layer!(RmsNorm: [param weight] [] eps: f64, |it| [it.weight()] [] kept(it.eps()),
    |weight, eps| Ok(Self::new(weight, eps)));
layer!(BatchNorm: [state running_mean, state running_var] [weight bias] eps_and_momentum: (f64, f64),
|it| [it.running_mean(), it.running_var()] [it.weight_and_bias().map(|both| both.0), it.weight_and_bias().map(|both| both.1)]
    kept((it.eps(), it.momentum())),
|mean: Tensor, var, weight, bias, (eps, momentum)| {
    let features = mean.elem_count();
    match (weight, bias) {
        (Some(weight), Some(bias)) => {
            Self::new_with_momentum(features, mean, var, weight, bias, eps, momentum)
        }
        (None, None) => Self::new_no_bias_with_momentum(features, mean, var, eps, momentum),
        _ => candle_core011::bail!("a weight without a bias, or a bias without a weight"),
    }
});
layer!(Conv1d: [param weight] [bias] config: Conv1dConfig, |it| [it.weight()] [it.bias()] it.config(),
    |weight, bias, config| Ok(Self::new(weight, bias, config)));
layer!(Conv2d: [param weight] [bias] config: Conv2dConfig, |it| [it.weight()] [it.bias()] it.config(),
    |weight, bias, config| Ok(Self::new(weight, bias, config)));
