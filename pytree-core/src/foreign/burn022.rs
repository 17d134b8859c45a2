//! Tensors of [burn](https://docs.rs/burn/0.22) 0.22 as leaves: the feature `burn022`. It needs Rust 1.95 or later, as burn's dependencies do.
//!
//! [`Tensor`]s of every rank and kind are leaves, and so are [`Param`]s of them. A `Tensor<D>` or a `Param<Tensor<D>>` is a parameter or a
//! state of a module; tensors of integers and of bools are states. Everything that works on models works on theirs: filters, parts by path,
//! maps, averages, edits, summaries, sharing and files. Tensors of different ranks are leaves of different types; see
//! [`mixed`](crate::mixed()). [`AsBurn`] is such a model as a module of burn, for its optimizers and records.
//!
//! - A `Param` keeps its [`ParamId`](burn_core022::module::ParamId) when it is copied, loaded or converted.
//! - The shape of a `Param` is known before it is initialized. Its dtype and its elements are not: functions that need them initialize it.
//! - Elements are read from the device of a tensor, which waits for the operations that compute them.
//! - The elements of a `Param` are those that it stores. A `Param` with a reparameterization, such as `LoRA`, has no elements: call burn's
//!   `materialize` first, so that no file lacks the adapters.
//!
//! # Examples
//! A layer is trained while another one is frozen:
//! ```no_run
//! # use burn_core022 as burn_core;
//! use burn_core::module::{Module as _, Param};
//! use burn_core::tensor::{Device, Tensor};
//! use pytree_core::burn022::{self, AsBurn};
//! use pytree_core::{Filter, Module};
//!
//! #[derive(Module, Clone, Debug)]
//! struct Linear {
//!     #[param]
//!     weight: Param<Tensor<2>>,
//!     #[param]
//!     bias: Param<Tensor<1>>,
//! }
//!
//! #[derive(Module, Clone, Debug)]
//! struct Model {
//!     base: Linear,
//!     head: Linear,
//! }
//!
//! let device = Device::default();
//! let linear = || Linear {
//!     weight: Param::from_tensor(Tensor::ones([2, 2], &device)),
//!     bias: Param::from_tensor(Tensor::zeros([2], &device)),
//! };
//! // A module of burn, for its optimizers and records.
//! let model = AsBurn::new(Model { base: linear(), head: linear() })?;
//! let base = burn022::group(&*model, &Filter::path("base"))?;
//! let model = model.freeze_group(base);
//! assert!(!model.base.weight.is_require_grad());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Integers have no gradient, so this does not compile:
//! ```compile_fail,E0277
//! # use burn_core022::tensor::{Int, Tensor};
//! #[derive(pytree_core::Module)]
//! struct Lookup {
//!     #[param]
//!     indices: Tensor<1, Int>,
//! }
//! ```

mod as_burn;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::{LazyLock, PoisonError, RwLock};

use burn_core022::module::{
    Flag, Module, ModuleVisitor, Param, ParamGroup, ParamId, Parameter, RunningState,
};
use burn_core022::tensor::kind::Basic;
use burn_core022::tensor::{Bool, BoolStore, DType, Float, Int, Tensor, TensorData};
use pytree_base::dtype::ElementType;

pub use self::as_burn::{AsBurn, elementwise};
use crate::base::error::TreeError;
use crate::contract::pytree::Pytree;
use crate::node::leaf::{ArrayInfo, ArrayLeaf, Leaf, LeafError, ReadRegion};
use crate::trees::filter::Filter;
use crate::trees::graph;

/// Returns the dtype, or `None` if leaves have no such dtype.
fn element_of(dtype: DType) -> Option<ElementType> {
    Some(match dtype {
        DType::F64 => ElementType::F64,
        DType::F32 => ElementType::F32,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::BF16,
        DType::I64 => ElementType::I64,
        DType::I32 => ElementType::I32,
        DType::I16 => ElementType::I16,
        DType::I8 => ElementType::I8,
        DType::U64 => ElementType::U64,
        DType::U32 => ElementType::U32,
        DType::U16 => ElementType::U16,
        DType::U8 => ElementType::U8,
        DType::Bool(_) => ElementType::Bool,
        DType::Flex32 | DType::QFloat(_) => return None,
    })
}

/// Returns a shape that lives as long as the program, because burn returns shapes by value, and a leaf lends its shape. A program has few
/// different ones.
fn kept(dims: &[usize]) -> &'static [usize] {
    static KEPT: LazyLock<RwLock<HashSet<&'static [usize]>>> = LazyLock::new(RwLock::default);
    if let Some(&known) = KEPT
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(dims)
    {
        return known;
    }
    let new: &'static [usize] = dims.to_vec().leak();
    // Another thread may have added it since.
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    kept.get(dims).copied().unwrap_or_else(|| {
        kept.insert(new);
        new
    })
}

/// A dtype whose elements have one byte for a bool.
fn plain(dtype: DType) -> DType {
    match dtype {
        DType::Bool(_) => DType::Bool(BoolStore::Native),
        dtype => dtype,
    }
}

/// What the leaves of burn with a tensor have in common.
trait Stored: Clone {
    fn dims(&self) -> &'static [usize];

    /// Returns the dtype. Initializes a parameter.
    fn dtype(&self) -> DType;

    fn data(&self) -> Result<TensorData, LeafError>;

    /// Returns a leaf like this one with other elements, which gradients require as they require this one's.
    fn with_data(&self, data: TensorData) -> Result<Self, LeafError>;

    /// Returns a copy that shares no memory that is written in place.
    fn copy(&self) -> Self {
        self.clone()
    }

    /// Returns the parameter that this leaf is.
    fn id(&self) -> Option<ParamId> {
        None
    }
}

impl<const D: usize, K: Basic> Stored for Tensor<D, K>
where
    Self: Parameter,
{
    fn dims(&self) -> &'static [usize] {
        kept(&Self::dims(self))
    }
    fn dtype(&self) -> DType {
        Self::dtype(self)
    }
    fn data(&self) -> Result<TensorData, LeafError> {
        Ok(self.try_to_data()?.try_cast(plain(Self::dtype(self)))?)
    }
    fn with_data(&self, data: TensorData) -> Result<Self, LeafError> {
        let new = Self::from_data(data, (&Self::device(self), Self::dtype(self)));
        Ok(new.set_require_grad(self.is_require_grad()))
    }
}

impl<T: Parameter + Stored> Stored for Param<T>
where
    Self: Module,
{
    fn dims(&self) -> &'static [usize] {
        kept(self.lazy_shape().as_slice())
    }
    fn dtype(&self) -> DType {
        Stored::dtype(&**self)
    }
    fn data(&self) -> Result<TensorData, LeafError> {
        whole(self)?;
        Stored::data(&**self)
    }
    fn with_data(&self, data: TensorData) -> Result<Self, LeafError> {
        whole(self)?;
        let mut failed = None;
        let new = self.clone().map(|old| {
            old.with_data(data).unwrap_or_else(|error| {
                failed = Some(error);
                old
            })
        });
        failed.map_or(Ok(new), Err)
    }
    fn id(&self) -> Option<ParamId> {
        Some(self.id)
    }
}

/// Returns an error if a parameter has tensors besides the one that it stores.
fn whole(param: &impl Module) -> Result<(), LeafError> {
    /// The name of the reparameterization.
    struct Found(Option<String>);
    impl ModuleVisitor for Found {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0 = Some(name.to_owned());
        }
    }
    let mut found = Found(None);
    param.visit(&mut found);
    match found.0 {
        None => Ok(()),
        Some(name) => Err(format!(
            "the parameter has the reparameterization `{name}`, whose tensors are no leaves; call burn's `materialize` on the model first"
        )
        .into()),
    }
}

impl<const D: usize> Stored for RunningState<Tensor<D>> {
    fn dims(&self) -> &'static [usize] {
        Stored::dims(&self.value())
    }
    fn dtype(&self) -> DType {
        Stored::dtype(&self.value())
    }
    fn data(&self) -> Result<TensorData, LeafError> {
        Stored::data(&self.value_sync())
    }
    fn with_data(&self, data: TensorData) -> Result<Self, LeafError> {
        let new = self.value().with_data(data)?;
        Ok(Self::with_id(self.id().unwrap_or_default(), new))
    }
    fn copy(&self) -> Self {
        Self::with_id(self.id().unwrap_or_default(), self.value_sync())
    }
    fn id(&self) -> Option<ParamId> {
        /// The identity, which burn shows only to visitors.
        struct Found(Option<ParamId>);
        impl ModuleVisitor for Found {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0 = Some(param.id);
            }
        }
        let mut found = Found(None);
        Module::visit(self, &mut found);
        found.0
    }
}

/// Implements the traits of a leaf for a type of burn that holds a tensor.
macro_rules! leaf {
    ($kind:ident $type:ty) => {
        impl<const D: usize> Leaf for $type {
            crate::__leaf_methods!(but_clone_boxed);
            fn clone_boxed(&self) -> Box<dyn Leaf> {
                Box::new(self.copy())
            }
            fn as_array(&self) -> Option<&dyn ArrayLeaf> {
                element_of(Stored::dtype(self)).map(|_| self as &dyn ArrayLeaf)
            }
            fn storage_identity(&self) -> Option<usize> {
                usize::try_from(self.id()?.val()).ok()
            }
            fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.array_info() {
                    Some(info) => fmt::Display::fmt(&info, f),
                    None => write!(f, "{:?}{:?}", Stored::dtype(self), Stored::dims(self)),
                }
            }
        }
        crate::__leaf_is_pytree!([const D: usize] $type);
        crate::leaf_field!($kind [const D: usize] $type);

        impl<const D: usize> ArrayLeaf for $type {
            fn info(&self) -> ArrayInfo<&[usize]> {
                ArrayInfo {
                    // `as_array` returns only tensors that have one.
                    element: element_of(Stored::dtype(self)).unwrap_or(ElementType::U8),
                    shape: Stored::dims(self),
                }
            }
            fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
                Ok(Cow::Owned(self.data()?.as_bytes().to_vec()))
            }
            fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
                let dtype = plain(Stored::dtype(self));
                let dims = Stored::dims(self);
                let whole: Vec<Range<usize>> = dims.iter().map(|&length| 0..length).collect();
                let mut bytes = vec![0; dims.iter().product::<usize>() * dtype.size()];
                read(&whole, &mut bytes)?;
                let data = TensorData::try_from_bytes_vec(bytes, dims.to_vec(), dtype)?;
                Ok(Box::new(self.with_data(data)?))
            }
        }
    };
}
leaf!(param Tensor<D, Float>);
leaf!(state Tensor<D, Int>);
leaf!(state Tensor<D, Bool>);
leaf!(param Param<Tensor<D, Float>>);
leaf!(state Param<Tensor<D, Int>>);
leaf!(state Param<Tensor<D, Bool>>);
leaf!(state RunningState<Tensor<D>>);

/// Whether a layer such as burn's `Dropout` is training: a bool without axes.
impl Leaf for Param<Flag> {
    crate::__leaf_methods!();
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        Some(self)
    }
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.is_enabled().display(f)
    }
}
crate::__leaf_is_pytree!([] Param<Flag>);
crate::leaf_field!(state Param<Flag>);

impl ArrayLeaf for Param<Flag> {
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: ElementType::Bool,
            shape: &[],
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        Ok(Cow::Owned(vec![u8::from(self.is_enabled())]))
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let mut byte = [0];
        read(&[], &mut byte)?;
        Ok(Box::new(self.clone().with_value(byte != [0])))
    }
}

/// Returns the parameters that a filter accepts as a group of burn, to freeze them or to give them their own optimizer. Pass the model, or an
/// [`AsBurn`] of it.
///
/// # Errors
/// [`TreeError::NoLeaf`] if a path of the filter does not exist, and [`TreeError::NothingSelected`] if the filter accepts no leaf.
pub fn group<M: Pytree>(model: &M, filter: &Filter) -> Result<ParamGroup, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let chosen = filter.choose(&treedef, &leaves)?;
    let chosen = leaves.into_iter().zip(chosen).filter(|(_, chosen)| *chosen);
    Ok(ParamGroup::from_ids(
        chosen.filter_map(|(leaf, _)| as_burn::id(leaf)).collect(),
    ))
}
