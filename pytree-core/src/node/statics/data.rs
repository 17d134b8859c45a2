//! Static values as data. This data is written to files, is compared across types, and determines the order of the keys
//! of maps.

use std::fmt;
use std::hash::{Hash, Hasher};

use pytree_base::lists::{Joined, Tuple};

use crate::base::text::{short_name, write_bool, write_float, write_quoted};

/// A static value without its Rust type.
///
/// The keys of a map are sorted in the order of this type, even if the keys have different types. Variants are compared
/// first: `()`, then bools, integers, floats, strings, tuples, sequences, options, maps, records and opaque values.
/// Within a variant, integers are compared by value, floats from `-nan` to `nan`, strings by code point, tuples and
/// sequences element by element, and opaque values by type name; `None` is less than `Some`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StaticData {
    /// `()`.
    Unit,
    /// A bool.
    Bool(bool),
    /// An integer of any width.
    Integer(i128),
    /// A float of any width.
    Float(FloatBits),
    /// A text, or a character.
    Text(String),
    /// A tuple.
    Tuple(Vec<StaticData>),
    /// A list or array.
    Sequence(Vec<StaticData>),
    /// An `Option`.
    Optional(Option<Box<StaticData>>),
    /// A map, in the order of its keys.
    Map(Vec<(StaticData, StaticData)>),
    /// A struct or variant of a type that derives `Static`.
    Record {
        /// The name of the struct or variant, such as `Relu`.
        name: String,
        /// The fields, by name or position.
        fields: Vec<(String, StaticData)>,
    },
    /// A value that is known only by its type name and its displayed text.
    Opaque {
        /// The short name of the type of the value.
        type_name: String,
        /// The displayed text.
        text: String,
    },
}

impl StaticData {
    /// Returns the type name and the text of the first value in this data that is known only by them.
    pub(crate) fn first_opaque(&self) -> Option<(&str, &str)> {
        match self {
            Self::Opaque { type_name, text } => Some((type_name, text)),
            Self::Tuple(values) | Self::Sequence(values) => {
                values.iter().find_map(Self::first_opaque)
            }
            Self::Optional(value) => value.as_deref().and_then(Self::first_opaque),
            Self::Map(entries) => {
                let mut entries = entries.iter();
                entries.find_map(|(key, value)| key.first_opaque().or_else(|| value.first_opaque()))
            }
            Self::Record { fields, .. } => {
                fields.iter().find_map(|(_, value)| value.first_opaque())
            }
            Self::Unit | Self::Bool(_) | Self::Integer(_) | Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// Creates the data of a value of type `T` that is known only by its type name and its displayed text.
    pub fn opaque<T: ?Sized>(text: String) -> Self {
        Self::Opaque {
            type_name: short_name(std::any::type_name::<T>()),
            text,
        }
    }

    /// Returns whether the data contains an [`Opaque`](Self::Opaque) value.
    pub(crate) fn has_opaque(&self) -> bool {
        match self {
            Self::Opaque { .. } => true,
            Self::Unit | Self::Bool(_) | Self::Integer(_) | Self::Float(_) | Self::Text(_) => false,
            Self::Tuple(items) | Self::Sequence(items) => items.iter().any(Self::has_opaque),
            Self::Optional(value) => value.as_deref().is_some_and(Self::has_opaque),
            Self::Map(entries) => entries
                .iter()
                .any(|(key, value)| key.has_opaque() || value.has_opaque()),
            Self::Record { fields, .. } => fields.iter().any(|(_, value)| value.has_opaque()),
        }
    }

    /// Adds the data to a hash. A typed static value with this data has the same hash.
    pub fn add_to_hash(&self, mut hasher: &mut dyn Hasher) {
        match self {
            Self::Unit => {}
            Self::Bool(value) => value.hash(&mut hasher),
            Self::Integer(value) => value.hash(&mut hasher),
            Self::Float(value) => f64::from(*value).to_bits().hash(&mut hasher),
            Self::Text(text) | Self::Opaque { text, .. } => text.hash(&mut hasher),
            Self::Tuple(items) => items.iter().for_each(|item| item.add_to_hash(hasher)),
            Self::Sequence(items) => {
                items.len().hash(&mut hasher);
                items.iter().for_each(|item| item.add_to_hash(hasher));
            }
            Self::Optional(value) => {
                value.is_some().hash(&mut hasher);
                if let Some(value) = value {
                    value.add_to_hash(hasher);
                }
            }
            Self::Map(entries) => {
                entries.len().hash(&mut hasher);
                for (key, value) in entries {
                    key.add_to_hash(hasher);
                    value.add_to_hash(hasher);
                }
            }
            Self::Record { name, fields } => {
                name.hash(&mut hasher);
                fields
                    .iter()
                    .for_each(|(_, value)| value.add_to_hash(hasher));
            }
        }
    }
}

impl fmt::Display for StaticData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("()"),
            Self::Bool(value) => write_bool(f, *value),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => write_float(f, &f64::from(*value)),
            Self::Text(text) => write_quoted(f, text),
            Self::Opaque { text, .. } => f.write_str(text),
            Self::Tuple(items) => Tuple(items).fmt(f),
            Self::Sequence(items) => write!(f, "[{}]", Joined(", ", items)),
            Self::Optional(None) => f.write_str("None"),
            Self::Optional(Some(value)) => write!(f, "Some({value})"),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| format!("{key}: {value}"));
                write!(f, "{{{}}}", Joined(", ", entries))
            }
            Self::Record { name, fields } => {
                f.write_str(name)?;
                let Some((first, _)) = fields.first() else {
                    return Ok(());
                };
                let is_tuple = first == "0";
                f.write_str(if is_tuple { "(" } else { " { " })?;
                for (position, (field, value)) in fields.iter().enumerate() {
                    f.write_str(if position == 0 { "" } else { ", " })?;
                    if !is_tuple {
                        write!(f, "{field}: ")?;
                    }
                    value.fmt(f)?;
                }
                f.write_str(if is_tuple { ")" } else { " }" })
            }
        }
    }
}

impl Hash for StaticData {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.add_to_hash(state);
    }
}

/// A float as a static value: compared and ordered by its bits, in the order of IEEE 754's `totalOrder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FloatBits(i64);

impl From<f64> for FloatBits {
    fn from(value: f64) -> Self {
        let bits = value.to_bits().cast_signed();
        // Inverts all bits of a negative float except the sign, so that a float nearer to zero becomes the larger
        // integer.
        Self(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
    }
}
impl From<FloatBits> for f64 {
    fn from(value: FloatBits) -> Self {
        let bits = value.0 ^ ((value.0 >> 63).cast_unsigned() >> 1).cast_signed();
        Self::from_bits(bits.cast_unsigned())
    }
}
