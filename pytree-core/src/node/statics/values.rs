//! Implements static values for types of the standard library.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::data::{FloatBits, StaticData};
use super::{Shown, StaticValue, function_type};
use crate::base::text::{write_bool, write_float};

macro_rules! by_hash {
    ($($type:ty { $(show: $show:expr,)? data: $data:expr, from: $from:expr })*) => {$(
        impl StaticValue for $type {
            const __IS_EXACT: bool = true;
            fn static_eq(&self, other: &Self) -> bool {
                self == other
            }
            fn static_hash(&self, hasher: &mut dyn Hasher) {
                self.static_data().add_to_hash(hasher);
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shows: &[fn(&$type, &mut fmt::Formatter<'_>) -> fmt::Result] =
                    &[$($show,)? fmt::Debug::fmt];
                shows[0](self, f)
            }
            fn static_data(&self) -> StaticData {
                let data: fn(&$type) -> StaticData = $data;
                data(self)
            }
            fn from_static_data(data: &StaticData) -> Option<Self> {
                let from: fn(&StaticData) -> Option<$type> = $from;
                from(data)
            }
        }
    )*};
}
by_hash! {
    bool {
        show: |&value, f| write_bool(f, value),
        data: |&value| StaticData::Bool(value),
        from: |data| match data { StaticData::Bool(value) => Some(*value), _ => None }
    }
    () {
        data: |()| StaticData::Unit,
        from: |data| matches!(data, StaticData::Unit).then_some(())
    }
    char {
        data: |value| StaticData::Text(value.to_string()),
        from: |data| match data { StaticData::Text(text) => text.parse().ok(), _ => None }
    }
    std::time::Duration {
        data: |value| StaticData::opaque::<Self>(format!("{value:?}")),
        from: |_| None
    }
    std::path::PathBuf {
        data: |value| StaticData::opaque::<Self>(format!("{}", Shown(value))),
        from: |_| None
    }
    std::any::TypeId {
        data: |value| StaticData::opaque::<Self>(format!("{value:?}")),
        from: |_| None
    }
}

macro_rules! integers {
    ($($type:ident)*) => {$(by_hash! {
        $type {
            data: |&value| match i128::try_from(value) {
                Ok(value) => StaticData::Integer(value),
                Err(_) => StaticData::opaque::<Self>(value.to_string()),
            },
            from: |data| match data {
                StaticData::Integer(value) => (*value).try_into().ok(),
                _ => None,
            }
        }
    })*};
}
integers! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

macro_rules! strings {
    ($($type:ty: $from:expr),* $(,)?) => {$(
        impl StaticValue for $type {
            fn static_eq(&self, other: &Self) -> bool {
                self == other
            }
            fn static_hash(&self, mut hasher: &mut dyn Hasher) {
                (**self).hash(&mut hasher);
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                crate::base::text::write_quoted(f, self)
            }
            fn static_data(&self) -> StaticData {
                StaticData::Text(self.to_string())
            }
            fn from_static_data(data: &StaticData) -> Option<Self> {
                match data {
                    StaticData::Text(text) => $from(text),
                    _ => None,
                }
            }
        }
    )*};
}
strings! {
    String: |text: &String| Some(text.clone()),
    // A text that is read at run time cannot become a `&'static str`.
    &'static str: |_: &String| None,
    std::borrow::Cow<'static, str>: |text: &String| Some(text.clone().into()),
    Box<str>: |text: &String| Some(text.as_str().into()),
    Arc<str>: |text: &String| Some(text.as_str().into()),
}

macro_rules! by_bits {
    ($($type:ty),*) => {$(
        impl StaticValue for $type {
            fn static_eq(&self, other: &Self) -> bool {
                self.to_bits() == other.to_bits()
            }
            fn static_hash(&self, mut hasher: &mut dyn Hasher) {
                f64::from(*self).to_bits().hash(&mut hasher);
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_float(f, self)
            }
            fn static_data(&self) -> StaticData {
                StaticData::Float(FloatBits::from(f64::from(*self)))
            }
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "what is lost is seen")]
            fn from_static_data(data: &StaticData) -> Option<Self> {
                match data {
                    StaticData::Float(bits) => {
                        let value = f64::from(*bits);
                        let narrow = value as Self;
                        (f64::from(narrow).to_bits() == value.to_bits()).then_some(narrow)
                    }
                    _ => None,
                }
            }
        }
    )*};
}
by_bits!(f32, f64);

impl<T: 'static> StaticValue for std::marker::PhantomData<T>
where
    Self: Send + Sync,
{
    fn static_eq(&self, _: &Self) -> bool {
        true
    }
    fn static_hash(&self, _: &mut dyn Hasher) {}
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhantomData")
    }
    fn static_data(&self) -> StaticData {
        StaticData::Unit
    }
    fn from_static_data(data: &StaticData) -> Option<Self> {
        matches!(data, StaticData::Unit).then_some(Self)
    }
}

macro_rules! sequences {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {$(
        impl<$($generics)*> StaticValue for $type {
            fn static_eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().zip(other.iter()).all(|(left, right)| left.static_eq(right))
            }
            fn static_hash(&self, mut hasher: &mut dyn Hasher) {
                self.len().hash(&mut hasher);
                self.iter().for_each(|item| item.static_hash(hasher));
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[")?;
                for (position, item) in self.iter().enumerate() {
                    f.write_str(if position == 0 { "" } else { ", " })?;
                    item.static_show(f)?;
                }
                f.write_str("]")
            }
            fn static_data(&self) -> StaticData {
                StaticData::Sequence(self.iter().map(T::static_data).collect())
            }
            fn from_static_data(data: &StaticData) -> Option<Self> {
                let StaticData::Sequence(items) = data else {
                    return None;
                };
                let items: Vec<T> = items.iter().map(T::from_static_data).collect::<Option<_>>()?;
                items.try_into().ok()
            }
        }
    )*};
}
sequences!([T: StaticValue] Vec<T>, [T: StaticValue, const N: usize] [T; N], [T: StaticValue] std::collections::VecDeque<T>);

impl<T: StaticValue> StaticValue for Option<T> {
    fn static_eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Some(left), Some(right)) => left.static_eq(right),
            (None, None) => true,
            _ => false,
        }
    }
    fn static_hash(&self, mut hasher: &mut dyn Hasher) {
        self.is_some().hash(&mut hasher);
        if let Some(value) = self {
            value.static_hash(hasher);
        }
    }
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(value) => {
                f.write_str("Some(")?;
                value.static_show(f)?;
                f.write_str(")")
            }
            None => f.write_str("None"),
        }
    }
    fn static_data(&self) -> StaticData {
        StaticData::Optional(self.as_ref().map(|value| Box::new(value.static_data())))
    }
    fn from_static_data(data: &StaticData) -> Option<Self> {
        match data {
            StaticData::Optional(None) => Some(None),
            StaticData::Optional(Some(value)) => T::from_static_data(value).map(Some),
            _ => None,
        }
    }
}

macro_rules! pointers {
    ($($type:ident),*) => {$(
        impl<T: StaticValue> StaticValue for $type<T> {
            fn static_eq(&self, other: &Self) -> bool {
                (**self).static_eq(other)
            }
            fn static_hash(&self, hasher: &mut dyn Hasher) {
                (**self).static_hash(hasher);
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).static_show(f)
            }
            fn static_data(&self) -> StaticData {
                (**self).static_data()
            }
            fn from_static_data(data: &StaticData) -> Option<Self> {
                T::from_static_data(data).map(Self::new)
            }
        }
    )*};
}
pointers!(Box, Arc);

impl<K: StaticValue + Ord, V: StaticValue> StaticValue for std::collections::BTreeMap<K, V> {
    fn static_eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .zip(other)
                .all(|((left_key, left), (right_key, right))| {
                    left_key.static_eq(right_key) && left.static_eq(right)
                })
    }
    fn static_hash(&self, mut hasher: &mut dyn Hasher) {
        self.len().hash(&mut hasher);
        for (key, value) in self {
            key.static_hash(hasher);
            value.static_hash(hasher);
        }
    }
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (position, (key, value)) in self.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            key.static_show(f)?;
            f.write_str(": ")?;
            value.static_show(f)?;
        }
        f.write_str("}")
    }
    fn static_data(&self) -> StaticData {
        StaticData::Map(
            self.iter()
                .map(|(key, value)| (key.static_data(), value.static_data()))
                .collect(),
        )
    }
    fn from_static_data(data: &StaticData) -> Option<Self> {
        let StaticData::Map(entries) = data else {
            return None;
        };
        entries
            .iter()
            .map(|(key, value)| Some((K::from_static_data(key)?, V::from_static_data(value)?)))
            .collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: StaticValue),+> StaticValue for ($($name,)+) {
            fn static_eq(&self, other: &Self) -> bool {
                $(self.$index.static_eq(&other.$index))&&+
            }
            fn static_hash(&self, hasher: &mut dyn Hasher) {
                $(self.$index.static_hash(hasher);)+
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("(")?;
                $(
                    f.write_str(if $index == 0 { "" } else { ", " })?;
                    self.$index.static_show(f)?;
                )+
                f.write_str(if [$($index),+].len() == 1 { ",)" } else { ")" })
            }
            fn static_data(&self) -> StaticData {
                StaticData::Tuple(vec![$(self.$index.static_data()),+])
            }
            fn from_static_data(data: &StaticData) -> Option<Self> {
                match data {
                    StaticData::Tuple(items) if items.len() == [$($index),+].len() => {
                        Some(($($name::from_static_data(&items[$index])?,)+))
                    }
                    _ => None,
                }
            }
        }
    )*};
}
tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5) }

macro_rules! functions {
    ($(($($argument:ident),*))*) => {$(
        impl<R: 'static, $($argument: 'static),*> StaticValue for fn($($argument),*) -> R {
            fn static_eq(&self, other: &Self) -> bool {
                std::ptr::fn_addr_eq(*self, *other)
            }
            fn static_hash(&self, hasher: &mut dyn Hasher) {
                self.static_data().add_to_hash(hasher);
            }
            fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&function_type::<Self>().unwrap_or_else(|| "fn".to_owned()))
            }
            /// Returns only the type, because no other process can identify the function.
            fn static_data(&self) -> StaticData {
                StaticData::opaque::<Self>("a function".to_owned())
            }
        }
    )*};
}
functions! { () (A) (A, B) (A, B, C) (A, B, C, D) }

impl StaticValue for StaticData {
    fn static_eq(&self, other: &Self) -> bool {
        self == other
    }
    fn static_hash(&self, hasher: &mut dyn Hasher) {
        self.add_to_hash(hasher);
    }
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
    fn static_data(&self) -> StaticData {
        self.clone()
    }
    fn from_static_data(data: &StaticData) -> Option<Self> {
        Some(data.clone())
    }
}
