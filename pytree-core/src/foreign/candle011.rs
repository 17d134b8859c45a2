//! Tensors of [candle](https://docs.rs/candle-core/0.11) 0.11 as leaves: the feature `candle011`. It needs Rust 1.90 or later, as this crate does.
//!
//! A [`Tensor`] or a [`Var`] is a parameter or a state of a module. Everything that works on models works on theirs: filters, parts by path,
//! maps, averages, edits, summaries, sharing and files. `Tensor` leaves and `Var` leaves in one model have two types; see
//! [`mixed`].
//!
//! A tensor that is a variable, as `VarBuilder` makes them for training, is one here, too.
//!
//! # Examples
//! A layer is trained while another one is frozen:
//! ```
//! # use candle_core011 as candle_core;
//! use candle_core::{DType, Device, Result, Tensor, Var};
//! use pytree_core::{Filter, Module, candle011};
//!
//! #[derive(Module, Clone, Debug)]
//! struct Linear {
//!     #[param]
//!     weight: Var,
//!     #[param]
//!     bias: Var,
//! }
//!
//! #[derive(Module, Clone, Debug)]
//! struct Model {
//!     base: Linear,
//!     head: Linear,
//! }
//!
//! let linear = || -> Result<Linear> {
//!     let weight = Var::ones((2, 2), DType::F32, &Device::Cpu)?;
//!     Ok(Linear { weight, bias: Var::zeros(2, DType::F32, &Device::Cpu)? })
//! };
//! let model = Model { base: linear()?, head: linear()? };
//! let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu)?;
//! let y = x.matmul(&model.base.weight)?.broadcast_add(&model.base.bias)?;
//! let y = y.matmul(&model.head.weight)?.broadcast_add(&model.head.bias)?;
//!
//! // The variables for any optimizer of candle, and the gradient as a part of the model.
//! let head = Filter::path("head");
//! assert_eq!(candle011::params(&model, &head)?.len(), 2);
//! let gradient = candle011::gradient(&model, &y.sum_all()?.backward()?)?;
//! assert_eq!(gradient["head.weight"].to_vec2::<f32>()?, [[2.0, 2.0], [2.0, 2.0]]);
//! assert_eq!(gradient.filter(&head)?.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use candle_core011::backprop::GradStore;
use candle_core011::{DType, Tensor, TensorId, Var, WithDType};
use indexmap::IndexSet;
use pytree_base::dtype::ElementType;

use crate::base::error::{LeafMismatch, PlaceProblem, TreeError};
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::pytree::Pytree;
use crate::node::leaf::{AnyLeaf, ArrayInfo, ArrayLeaf, Leaf, LeafError, ReadRegion};
use crate::trees::convert::ConvertError;
use crate::trees::dynamic::Tree;
use crate::trees::filter::Filter;
use crate::trees::graph;
use crate::trees::mixed::mixed;
use crate::trees::partition::Partition;

/// Returns the dtype, or `None` if leaves have no such dtype.
fn element_of(tensor: &Tensor) -> Option<ElementType> {
    ElementType::from_name(tensor.dtype().as_str())
}

/// Returns the elements in row-major order as bytes in the byte order of the host.
fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>, LeafError> {
    fn typed<T: WithDType + bytemuck::NoUninit>(tensor: &Tensor) -> Result<Vec<u8>, LeafError> {
        let elements = tensor.flatten_all()?.to_vec1::<T>()?;
        Ok(bytemuck::cast_slice(&elements).to_vec())
    }
    match tensor.dtype() {
        DType::U8 => typed::<u8>(tensor),
        DType::U32 => typed::<u32>(tensor),
        DType::I16 => typed::<i16>(tensor),
        DType::I32 => typed::<i32>(tensor),
        DType::I64 => typed::<i64>(tensor),
        DType::BF16 => typed::<half::bf16>(tensor),
        DType::F16 => typed::<half::f16>(tensor),
        DType::F32 => typed::<f32>(tensor),
        DType::F64 => typed::<f64>(tensor),
        other => Err(format!("leaves have no dtype `{}`", other.as_str()).into()),
    }
}

/// Returns a tensor on the same device, with the same dtype and shape, and with the elements that `read` writes.
fn refilled(tensor: &Tensor, read: &mut ReadRegion<'_>) -> Result<Tensor, LeafError> {
    let whole: Vec<Range<usize>> = tensor.dims().iter().map(|&length| 0..length).collect();
    let mut bytes = vec![0; tensor.elem_count() * tensor.dtype().size_in_bytes()];
    read(&whole, &mut bytes)?;
    let filled = Tensor::from_raw_buffer(&bytes, tensor.dtype(), tensor.dims(), tensor.device())?;
    // A variable stays one.
    if tensor.is_variable() {
        return Ok(Var::from_tensor(&filled)?.into_inner());
    }
    Ok(filled)
}

/// Implements the traits of a leaf for a type of candle, with its tensor and with the conversion from a tensor.
macro_rules! leaf {
    ($type:ty, |$leaf:ident| $tensor:expr, |$new:ident| $from:expr) => {
        impl Leaf for $type {
            crate::__leaf_methods!();
            fn as_array(&self) -> Option<&dyn ArrayLeaf> {
                element_of(self).map(|_| self as &dyn ArrayLeaf)
            }
            fn storage_identity(&self) -> Option<usize> {
                let (storage, _) = self.storage_and_layout();
                Some(std::ptr::from_ref(&*storage).addr())
            }
            fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&shown(self))
            }
        }
        crate::__leaf_is_pytree!([] $type);
        crate::leaf_field!(param $type);

        impl ArrayLeaf for $type {
            fn info(&self) -> ArrayInfo<&[usize]> {
                ArrayInfo {
                    // `as_array` returns only tensors that have one.
                    element: element_of(self).unwrap_or(ElementType::U8),
                    shape: self.dims(),
                }
            }
            fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
                bytes_of(self).map(Cow::Owned)
            }
            fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
                let $new = refilled(self, read)?;
                Ok(Box::new($from))
            }
        }
    };
}
leaf!(Tensor, |tensor| tensor, |tensor| tensor);
leaf!(Var, |var| var.as_tensor(), |tensor| Var::from_tensor(
    &tensor
)?);

/// Returns the variable that a leaf is: a [`Var`], or a [`Tensor`] that is a variable.
fn variable(leaf: &AnyLeaf) -> Option<Var> {
    let var = leaf.downcast_ref::<Var>().cloned();
    var.or_else(|| {
        // `Var::from_tensor` copies a tensor that is no variable.
        let tensor = leaf.downcast_ref::<Tensor>().filter(|it| it.is_variable());
        Var::from_tensor(tensor?).ok()
    })
}

/// Returns the variables that a filter accepts, in the order of the leaves, for an optimizer of candle. A shared variable occurs once. States
/// that are not variables are not returned.
///
/// # Errors
/// [`TreeError::NoLeaf`] if a path of the filter does not exist, [`TreeError::NothingSelected`] if the filter accepts no leaf, and
/// [`TreeError::LeafTypes`] with all accepted parameters that are not variables, such as the results of operations: an optimizer cannot change
/// them.
pub fn params<M: Pytree>(model: &M, filter: &Filter) -> Result<Vec<Var>, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let chosen = filter.choose(&treedef, &leaves)?;
    let mut variables = Vec::new();
    let mut mismatches = Vec::new();
    let paths = treedef.leaf_paths().into_iter();
    for (((leaf, path), kind), chosen) in leaves
        .iter()
        .zip(paths)
        .zip(treedef.leaf_kinds())
        .zip(chosen)
    {
        match variable(leaf) {
            Some(variable) if chosen => variables.push(variable),
            None if chosen && kind.is_some_and(|kind| kind.is_param()) => {
                mismatches.push(LeafMismatch::new(path, "`Var`".to_owned(), described(leaf)));
            }
            _ => {}
        }
    }
    if !mismatches.is_empty() {
        let doing = "cannot train tensors that are not variables: make each a variable with `Var::from_tensor`, write the values to the variables of a model with `candle011::set`, or exclude them from the filter";
        return Err(TreeError::LeafTypes { doing, mismatches });
    }
    Ok(variables)
}

/// Returns the gradient of a model from what `backward` returned: a part of the model with the leaves that have a gradient. Leaves of which the
/// loss does not depend are absent. What clips, logs, averages or masks the gradient works by path; [`with_gradient`] is the way back.
///
/// # Errors
/// [`TreeError`] if the model cannot be flattened.
pub fn gradient<M: Pytree>(
    model: &M,
    grads: &GradStore,
) -> Result<Partition<M, Tensor>, TreeError> {
    parts(model, |leaf| {
        grads.get(variable(leaf)?.as_tensor()).cloned()
    })
}

/// Writes a gradient to a `GradStore`, from which an optimizer of candle reads it. Gradients of the model that the part lacks are removed.
///
/// # Errors
/// [`TreeError`] if the model cannot be flattened, if the gradient is not that of a model with the same structure, or with all dtypes and shapes
/// that differ from those of the variables. Then no gradient has changed.
pub fn with_gradient<M: Pytree>(
    model: &M,
    gradient: &Partition<M, Tensor>,
    grads: &mut GradStore,
) -> Result<(), TreeError> {
    let (mut written, mut removed, mut mismatches) = (Vec::new(), Vec::new(), Vec::new());
    for (path, leaf) in mixed(model).iter_with_path() {
        let Some(variable) = variable(leaf) else {
            continue;
        };
        match gradient.get(&path) {
            Ok(new) if shown(new) == shown(&variable) => written.push((variable, new.clone())),
            Ok(new) => mismatches.push(LeafMismatch::new(path, shown(&variable), shown(new))),
            Err(TreeError::InAnotherPart { .. }) => removed.push(variable),
            Err(error) => return Err(error),
        }
    }
    if !mismatches.is_empty() {
        let doing = "cannot write a gradient";
        return Err(TreeError::LeafTypes { doing, mismatches });
    }
    // First, because two fields may hold one variable.
    for variable in removed {
        grads.remove(&variable);
    }
    for (variable, new) in written {
        grads.insert(&variable, new);
    }
    Ok(())
}

/// Returns a part of a model with the tensors that `function` returns for its leaves.
fn parts<M: Pytree>(
    model: &M,
    function: impl Fn(&AnyLeaf) -> Option<Tensor>,
) -> Result<Partition<M, Tensor>, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let leaves = leaves.iter().map(function).collect();
    Tree::with_absent(&treedef, leaves).map(Partition::from_tree)
}

/// Sets the variables of a model to the values that another model, or a part of one, has at the same paths. So an optimizer keeps its
/// variables when a model is loaded, averaged or edited.
///
/// # Errors
/// All paths of `values` that are no variables of the model, whose variables have other dtypes or shapes, or which are one variable but have
/// different values. Then no variable has changed. If other leaves are in the way, pass a part:
/// `partition::filter(&mixed(&values), &filter)`.
pub fn set<M: Pytree, V: Pytree>(model: &M, values: &V) -> Result<(), ConvertError> {
    let (model, values) = (mixed(model), mixed(values));
    let (mut pairs, mut mismatches, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let mut first_paths: HashMap<TensorId, (KeyPath, &Tensor)> = HashMap::new();
    let mut paths: IndexSet<KeyPath> = values.treedef().leaf_paths().into_iter().collect();
    if values.treedef().has_aliases() {
        // A shared value has a path for each of its places.
        paths.extend(model.treedef().leaf_paths());
    }
    for path in paths {
        let Some((_, position, true)) = values.treedef().place_at(&path) else {
            continue;
        };
        let value = &values.leaves()[position];
        let leaf = match model.get(&path) {
            Ok(leaf) => leaf,
            Err(TreeError::NoLeaf { path, nearest }) => {
                problems.push(PlaceProblem::Unknown { path, nearest });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let tensor = value.downcast_ref::<Tensor>();
        let tensor = tensor.or_else(|| value.downcast_ref::<Var>().map(Var::as_tensor));
        let mut differs = |expected, found| {
            mismatches.push(LeafMismatch::new(path.clone(), expected, found));
        };
        match (variable(leaf), tensor) {
            (None, _) => differs("`Var`".to_owned(), described(leaf)),
            (Some(variable), Some(tensor)) if shown(&variable) == shown(tensor) => {
                let first = first_paths.entry(variable.id());
                let (first, other) = first.or_insert_with(|| (path.clone(), tensor));
                if other.id() == tensor.id() || has_same_elements(other, tensor) {
                    pairs.push((path, variable, tensor));
                } else {
                    let same = format!(
                        "{} with the elements of {first}, the same variable",
                        shown(tensor)
                    );
                    differs(same, "other elements".to_owned());
                }
            }
            (Some(variable), _) => differs(shown(&variable), described(value)),
        }
    }
    let doing = "cannot set the variables";
    if !problems.is_empty() {
        return Err(TreeError::Places { doing, problems }.into());
    }
    if !mismatches.is_empty() {
        return Err(TreeError::LeafTypes { doing, mismatches }.into());
    }
    let failed = |path: &KeyPath, source: candle_core011::Error| ConvertError::Elements {
        path: path.clone(),
        source: source.into(),
    };
    let identity = |tensor: &Tensor| Leaf::storage_identity(tensor);
    let written: HashSet<Option<usize>> = pairs.iter().map(|(_, it, _)| identity(it)).collect();
    // All values are read before a variable is written, because a value may be the memory of another variable.
    let mut writes = Vec::new();
    for (path, variable, tensor) in pairs {
        let value = if written.contains(&identity(tensor)) {
            tensor.copy()
        } else {
            tensor.to_device(variable.device())
        };
        let value = value.map_err(|error| failed(&path, error))?;
        writes.push((path, variable, value));
    }
    for (path, variable, value) in writes {
        variable.set(&value).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Returns the dtype and the shape as text, for instance `f32[2,3]`.
fn shown(tensor: &Tensor) -> String {
    let lengths: Vec<String> = tensor.dims().iter().map(ToString::to_string).collect();
    format!("{}[{}]", tensor.dtype().as_str(), lengths.join(","))
}

/// Returns the dtype and the shape of a tensor, or the type of another leaf.
fn described(leaf: &AnyLeaf) -> String {
    let tensor = leaf.downcast_ref::<Tensor>();
    let tensor = tensor.or_else(|| leaf.downcast_ref::<Var>().map(Var::as_tensor));
    tensor.map_or_else(|| short_name(leaf.type_name()), shown)
}

fn has_same_elements(left: &Tensor, right: &Tensor) -> bool {
    matches!((bytes_of(left), bytes_of(right)), (Ok(left), Ok(right)) if left == right)
}
