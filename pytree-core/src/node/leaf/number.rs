//! Conversions of numbers to other types without a change of the value.

use std::any::Any;
use std::fmt;

use pytree_base::dtype::ElementType;

use super::Leaf;
use crate::base::leaf_types::for_each_leaf_type;

/// A number of any element type, stored without loss, with the name of its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128, ElementType),
    Float(f64, ElementType),
}

/// The outcome of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    Done,
    /// The target type has no equal value.
    DoesNotFit,
    /// The target type is not a type of numbers.
    NotANumber,
}

impl Number {
    /// Returns the leaf as a number, or `None` if the leaf is not a number.
    pub(crate) fn of(leaf: &dyn Leaf) -> Option<Self> {
        macro_rules! attempt {
            ([bool $bool:ident bool] $([$kind:ident $dtype:ident $type:ty])*) => {
                $(if let Some(&number) = leaf.downcast_ref::<$type>() {
                    return Some(of!($kind $dtype number));
                })*
            };
        }
        macro_rules! of {
            (integer $dtype:ident $number:expr) => {
                Self::Integer($number.into(), ElementType::$dtype)
            };
            ($float:ident $dtype:ident $number:expr) => {
                Self::Float(f64::from($number), ElementType::$dtype)
            };
        }
        for_each_leaf_type!([attempt]);
        None
    }

    /// Returns the name of the number's type.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Integer(_, dtype) | Self::Float(_, dtype) => dtype.name(),
        }
    }

    /// Puts the number into `slot`, an `Option` of the target type, if this type has an equal value. An integer can be
    /// converted to an integer or a float, and a float to a float.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the result is compared with the number"
    )]
    pub(crate) fn put(self, slot: &mut dyn Any) -> Conversion {
        fn fill<T>(slot: &mut Option<T>, value: Option<T>) -> Conversion {
            *slot = value;
            match slot {
                Some(_) => Conversion::Done,
                None => Conversion::DoesNotFit,
            }
        }
        macro_rules! equal {
            (integer $type:ty) => {
                match self {
                    Self::Integer(value, _) => value.try_into().ok(),
                    Self::Float(..) => None,
                }
            };
            ($float:ident $type:ty) => {
                self.as_f64().and_then(|wide| {
                    let narrow: $type = narrowed!($float $type, wide);
                    let same = f64::from(narrow).to_bits() == wide.to_bits() || wide.is_nan();
                    same.then_some(narrow)
                })
            };
        }
        macro_rules! narrowed {
            (half $type:ty, $wide:expr) => {
                <$type>::from_f64($wide)
            };
            (float $type:ty, $wide:expr) => {
                $wide as $type
            };
        }
        macro_rules! attempt {
            ([bool $bool:ident bool] $([$kind:ident $dtype:ident $type:ty])*) => {
                $(if let Some(slot) = slot.downcast_mut::<Option<$type>>() {
                    return fill(slot, equal!($kind $type));
                })*
            };
        }
        for_each_leaf_type!([attempt]);
        Conversion::NotANumber
    }

    /// Returns an equal `f64`, or `None` if no `f64` equals the number.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an integer of up to 64 bits is far inside the range of the floats, so the way back is exact"
    )]
    fn as_f64(self) -> Option<f64> {
        match self {
            Self::Float(value, _) => Some(value),
            Self::Integer(value, _) => {
                let float = value as f64;
                (float as i128 == value).then_some(float)
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value, name) => write!(f, "{value} of type {name}"),
            Self::Float(value, name) => write!(f, "{value} of type {name}"),
        }
    }
}
