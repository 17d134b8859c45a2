//! Hyper-parameters that are numbers or tensors.
//!
//! A number is static: it is a constant of a compiled function. A tensor is a leaf, so `vmap` can sweep it, a compiled
//! function runs with another value without a retrace, and a checkpoint stores it.

use std::ops::RangeInclusive;

use pytree_core::Module;
use pytree_core::kind::OptState;
use pytree_transform::{DType, Tensor};

/// A hyper-parameter: a number, which is static, or a scalar tensor, which is a leaf.
///
/// [`Dropout`](crate::Dropout) takes its rate in this form, and optimizers their numbers, with
/// [`Chain::with_hyperparameter`](crate::Chain::with_hyperparameter). Like `optax.inject_hyperparams`, a tensor makes
/// `vmap` over values possible.
///
/// # Examples
/// ```
/// use pytree_nn::{Dropout, Hyperparameter, Rngs};
/// use pytree_transform::{DType, Tensor, vmap};
/// let fixed = Dropout::new(0.5, &mut Rngs::new(0));
/// assert_eq!(fixed.rate, Hyperparameter::from(0.5));
///
/// // The fraction of zeros for each rate.
/// let dropped = vmap(|rate: Tensor| {
///     let mut dropout = Dropout::new(rate, &mut Rngs::new(0));
///     let y = dropout.forward(&Tensor::ones(DType::F32, [1000]));
///     y.equal(0.0).convert(DType::F32).mean()
/// });
/// let fractions = dropped(Tensor::from([0.0_f32, 0.2, 0.9])).to_vec::<f32>();
/// assert!(fractions[0] == 0.0 && (fractions[1] - 0.2).abs() < 0.05 && (fractions[2] - 0.9).abs() < 0.05);
/// ```
#[derive(Module, Clone, Debug, PartialEq)]
pub enum Hyperparameter {
    /// A number, which is part of the structure.
    Number(#[r#static] f64),
    /// A scalar of floats, which is a leaf.
    Tensor(#[state(OptState, "float[]")] Tensor),
}

impl Hyperparameter {
    /// Returns the value as a scalar of the given dtype.
    #[track_caller]
    pub fn value(&self, dtype: DType) -> Tensor {
        match self {
            Self::Number(number) => Tensor::full(dtype, [], *number),
            Self::Tensor(tensor) => tensor.convert(dtype),
        }
    }

    /// Returns the number, or `None` if the hyper-parameter is a traced tensor, whose value is unknown.
    pub fn known(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Tensor(tensor) if tensor.is_traced() || tensor.len() != 1 => None,
            Self::Tensor(tensor) => Some(tensor.convert(DType::F64).item::<f64>()),
        }
    }

    /// Returns `tensor` times the hyper-parameter.
    #[track_caller]
    pub(crate) fn times(&self, tensor: &Tensor) -> Tensor {
        match self {
            Self::Number(number) => tensor * *number,
            Self::Tensor(factor) => tensor * factor.convert(tensor.dtype()),
        }
    }

    /// Returns 1 minus the hyper-parameter. The difference is computed in f64, because an f32 difference would lose half
    /// of its digits.
    #[track_caller]
    pub(crate) fn rest(&self) -> Self {
        match self {
            Self::Number(number) => Self::Number(1.0 - number),
            Self::Tensor(tensor) => Self::Tensor(1.0 - tensor.convert(DType::F64)),
        }
    }

    /// Returns the natural logarithm in f64.
    #[track_caller]
    pub(crate) fn log(&self) -> Self {
        match self {
            Self::Number(number) => Self::Number(number.ln()),
            Self::Tensor(tensor) => Self::Tensor(tensor.convert(DType::F64).log()),
        }
    }

    /// Returns `tensor` plus the hyper-parameter, or `tensor` itself if the hyper-parameter is the number 0.
    #[track_caller]
    pub(crate) fn added_to(&self, tensor: &Tensor) -> Tensor {
        match self {
            Self::Number(0.0) => tensor.clone(),
            Self::Number(number) => tensor + *number,
            Self::Tensor(term) => tensor + term.convert(tensor.dtype()),
        }
    }
}

pytree_base::conversions! { Hyperparameter:
    [] f64, |number| Self::Number(number);
    [] Tensor, |tensor| Self::Tensor(tensor);
    [] &Tensor, |tensor| Self::Tensor(tensor.clone());
    [] &Hyperparameter, |other| other.clone();
}

/// A hyper-parameter of a gradient transformation that can be replaced: see
/// [`GradientTransformation::hyperparameters`](crate::GradientTransformation::hyperparameters).
#[derive(Debug)]
pub struct NamedHyperparameter<'a> {
    /// The name, such as `beta1`.
    pub name: &'static str,
    /// The allowed values. A traced tensor, whose value is unknown, is not compared with the range.
    pub allowed: RangeInclusive<f64>,
    /// The value.
    pub value: &'a mut Hyperparameter,
}

impl<'a> NamedHyperparameter<'a> {
    /// Returns the weight of an old mean whose bias is corrected: a number of at least 0 and below 1.
    pub(crate) fn below_one(name: &'static str, value: &'a mut Hyperparameter) -> Self {
        let allowed = 0.0..=1.0_f64.next_down();
        Self {
            name,
            allowed,
            value,
        }
    }

    /// Returns a weight from 0 to 1.
    pub(crate) fn fraction(name: &'static str, value: &'a mut Hyperparameter) -> Self {
        let allowed = 0.0..=1.0;
        Self {
            name,
            allowed,
            value,
        }
    }

    /// Returns a finite number of at least 0.
    pub(crate) fn not_negative(name: &'static str, value: &'a mut Hyperparameter) -> Self {
        let allowed = 0.0..=f64::MAX;
        Self {
            name,
            allowed,
            value,
        }
    }

    /// Returns a finite number above 0.
    pub(crate) fn positive(name: &'static str, value: &'a mut Hyperparameter) -> Self {
        let allowed = f64::MIN_POSITIVE..=f64::MAX;
        Self {
            name,
            allowed,
            value,
        }
    }
}
