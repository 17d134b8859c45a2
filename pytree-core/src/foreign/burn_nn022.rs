//! Layers of [burn-nn](https://docs.rs/burn-nn/0.22) 0.22 as modules: the feature `burn_nn022`.
//!
//! `Linear`, `Embedding`, `LayerNorm`, `RmsNorm`, `GroupNorm`, `InstanceNorm`, `BatchNorm`, the convolutions and `Dropout` are modules, so a
//! model of these layers needs only a derive. Their fields have burn's names, and settings are static. Running statistics and whether a layer
//! is training are states. Layers with private parts, such as those of attention
//! and recurrent layers, cannot be built.
//!
//! # Examples
//! ```no_run
//! # use {burn_core022 as burn_core, burn_nn022 as burn_nn};
//! use burn_core::{module::Module as _, tensor::Device};
//! use burn_nn::{Linear, LinearConfig};
//! use pytree_core::burn022::{self, AsBurn};
//! use pytree_core::{Filter, Module};
//!
//! #[derive(Module, Clone, Debug)]
//! struct Model {
//!     base: Linear,
//!     head: Linear,
//! }
//!
//! let device = Device::default();
//! let [base, head] = [[4, 3], [3, 2]].map(|[inputs, outputs]| LinearConfig::new(inputs, outputs).init(&device));
//! let model = AsBurn::new(Model { base, head })?;
//! let base = burn022::group(&model, &Filter::path("base"))?;
//! assert!(!model.freeze_group(base).base.weight.is_require_grad());
//! # Ok::<(), pytree_core::TreeError>(())
//! ```

use std::fmt;

use burn_core022::module::{Param, ParamId};
use burn_core022::tensor::Tensor;
use burn_nn022::conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
use burn_nn022::{
    BatchNorm, Dropout, Embedding, GroupNorm, InstanceNorm, LayerNorm, Linear, PaddingConfig1d,
    PaddingConfig2d, PaddingConfig3d, RmsNorm,
};

use crate::base::error::TreeError;
use crate::base::kind::{self, FieldKind};
use crate::contract::pytree::{Pytree, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::foreign::kept::kept;
use crate::module::axes::{NamedAxes, Scope};
use crate::module::field::{HoldsArrays, ModuleField, NodeShapes, Probe, StaticFallback as _};
use crate::module::registry::{Module, ModuleType, Registry};
use crate::node::shape::{Field, NodeShape};

/// The setting of a [`LayerNorm`], which burn keeps private: the layer without its tensors. It is compared and displayed by burn's text.
#[derive(Clone)]
struct Epsilon(LayerNorm);

impl fmt::Debug for Epsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        let number = text.rsplit("epsilon: ").next().unwrap_or(&text);
        f.write_str(number.trim_end_matches(" }"))
    }
}

impl PartialEq for Epsilon {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// Returns the setting of a layer.
fn epsilon(layer: &LayerNorm) -> &'static Epsilon {
    let mut bare = layer.clone();
    bare.gamma = Param::uninitialized(
        ParamId::from(0),
        |device, _| Tensor::zeros([0], device),
        layer.gamma.lazy_device(),
        false,
        [0].into(),
    );
    bare.beta = None;
    kept(Epsilon(bare))
}

/// Implements the traits of a module for a layer with its leaves and their kinds, and its settings.
macro_rules! layer {
    ($layer:ident: [$($kind:ident $leaf:ident),*] [$($setting:ident: $type:ty),*]) => {
        layer!($layer: [$($kind $leaf),*] [$($setting: $type),*],
            |it| [$(&it.$setting),*], Self { $($leaf,)* $($setting,)* });
    };
    (
        $layer:ident: [$($kind:ident $leaf:ident),*] [$($setting:ident: $type:ty),*],
        |$it:ident| [$($value:expr),*], $built:expr
    ) => {
        impl NodeShapes for $layer {
            const SHAPES: &'static [NodeShape] = &[NodeShape::of_struct::<Self>(
                stringify!($layer),
                &[$(Field::new(stringify!($leaf), layer!(@$kind)),)*],
                &[$(stringify!($setting)),*],
            )];
        }

        impl Pytree for $layer {
            fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
                let $it = self;
                let shape = const { &Self::SHAPES[0] };
                if visitor.enter(shape, shape.fields.len()) == Visit::Descend {
                    $(visitor.aux(Probe::<$type>::NEW.__as_static($value));)*
                    $(Pytree::visit(&$it.$leaf, visitor);)*
                    visitor.exit();
                }
            }

            fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
                let shape = const { &Self::SHAPES[0] };
                source.enter_fixed(shape, shape.fields.len())?;
                $(let $setting: $type = Probe::<$type>::NEW.__read_static(source)?;)*
                $(let $leaf = Pytree::unflatten(source)?;)*
                Ok(source.exit($built))
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
                $((stringify!($leaf), layer!(@$kind)),)*
                $((stringify!($setting), FieldKind::Static),)*
            ];
        }
    };
    (@param) => { FieldKind::Param };
    (@state) => { FieldKind::of::<kind::State>() };
}

layer!(Linear: [param weight, param bias] []);
layer!(Embedding: [param weight] []);
layer!(LayerNorm: [param gamma, param beta] [epsilon: Epsilon], |it| [epsilon(it)], {
    let mut layer = epsilon.0;
    (layer.gamma, layer.beta) = (gamma, beta);
    layer
});
layer!(RmsNorm: [param gamma] [epsilon: f64]);
layer!(GroupNorm: [param gamma, param beta] [num_groups: usize, num_channels: usize, epsilon: f64, affine: bool]);
layer!(InstanceNorm: [param gamma, param beta] [num_channels: usize, epsilon: f64, affine: bool]);
layer!(BatchNorm: [param gamma, param beta, state training, state running_mean, state running_var] [momentum: f64, epsilon: f64]);
layer!(Dropout: [state training] [prob: f64]);
layer!(Conv1d: [param weight, param bias]
    [stride: usize, kernel_size: usize, dilation: usize, groups: usize, padding: PaddingConfig1d]);
layer!(Conv2d: [param weight, param bias]
    [stride: [usize; 2], kernel_size: [usize; 2], dilation: [usize; 2], groups: usize, padding: PaddingConfig2d]);
layer!(Conv3d: [param weight, param bias]
    [stride: [usize; 3], kernel_size: [usize; 3], dilation: [usize; 3], groups: usize, padding: PaddingConfig3d]);
layer!(ConvTranspose1d: [param weight, param bias]
    [stride: usize, kernel_size: usize, dilation: usize, groups: usize, padding: usize, padding_out: usize, channels: [usize; 2]]);
layer!(ConvTranspose2d: [param weight, param bias]
    [stride: [usize; 2], kernel_size: [usize; 2], dilation: [usize; 2], groups: usize, padding: [usize; 2], padding_out: [usize; 2],
    channels: [usize; 2]]);
layer!(ConvTranspose3d: [param weight, param bias]
    [stride: [usize; 3], kernel_size: [usize; 3], dilation: [usize; 3], groups: usize, padding: [usize; 3], padding_out: [usize; 3],
    channels: [usize; 2]]);
