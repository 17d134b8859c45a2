//! Conversions of numbers to other types without a change of the value.

use std::any::Any;
use std::fmt;

use half::{bf16, f16};

use super::Leaf;

/// A number of any element type, stored without loss, with the name of its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128, &'static str),
    Float(f64, &'static str),
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
            ($($integer:ident)*; $($float:ident)*) => {
                $(if let Some(&number) = leaf.downcast_ref::<$integer>() {
                    return Some(Self::Integer(number.into(), stringify!($integer)));
                })*
                $(if let Some(&number) = leaf.downcast_ref::<$float>() {
                    return Some(Self::Float(f64::from(number), stringify!($float)));
                })*
            };
        }
        attempt!(i8 i16 i32 i64 u8 u16 u32 u64; bf16 f16 f32 f64);
        None
    }

    /// Returns the name of the number's type.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Integer(_, name) | Self::Float(_, name) => name,
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
        macro_rules! attempt {
            ($($integer:ident)*) => {
                $(if let Some(slot) = slot.downcast_mut::<Option<$integer>>() {
                    return fill(slot, match self {
                        Self::Integer(value, _) => value.try_into().ok(),
                        Self::Float(..) => None,
                    });
                })*
            };
        }
        attempt!(i8 i16 i32 i64 u8 u16 u32 u64);
        if let Some(slot) = slot.downcast_mut::<Option<f64>>() {
            return fill(slot, self.as_f64());
        }
        macro_rules! attempt_float {
            ($($float:ty: $narrowed:expr;)*) => {
                $(if let Some(slot) = slot.downcast_mut::<Option<$float>>() {
                    let equal = self.as_f64().and_then(|wide| {
                        let narrow: $float = $narrowed(wide);
                        let same = f64::from(narrow).to_bits() == wide.to_bits() || wide.is_nan();
                        same.then_some(narrow)
                    });
                    return fill(slot, equal);
                })*
            };
        }
        attempt_float!(f32: |wide| wide as f32; bf16: bf16::from_f64; f16: f16::from_f64;);
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
