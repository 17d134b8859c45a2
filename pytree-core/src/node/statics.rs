//! Static values: the data in a treedef that are part of the structure and not leaves.
//!
//! A static value is visited by reference, together with a table of its operations. So types that do not implement
//! [`StaticValue`] are accepted, and a value is cloned only when a treedef is built.

mod data;
mod saved;
mod values;

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub use self::data::{FloatBits, StaticData};
#[cfg(feature = "serde")]
use self::saved::SavedOperations;
pub use self::saved::SavedStatic;

/// The operations of a treedef on a static value: compare, hash, copy and display.
#[derive(Debug)]
pub(crate) struct StaticOperations {
    /// Whether equal values cannot be distinguished.
    is_exact: bool,
    eq: fn(&dyn Any, &dyn Any) -> bool,
    hash: fn(&dyn Any, &mut dyn Hasher),
    share: fn(&dyn Any) -> Arc<dyn Any + Send + Sync>,
    show: fn(&dyn Any, &mut fmt::Formatter<'_>) -> fmt::Result,
    data: fn(&dyn Any) -> StaticData,
}

impl StaticOperations {
    /// Returns the operations of a type that implements [`StaticValue`].
    pub(crate) const fn of<T: StaticValue>() -> Self {
        Self {
            is_exact: T::__IS_EXACT,
            eq: |left, right| match (left.downcast_ref::<T>(), right.downcast_ref::<T>()) {
                (Some(left), Some(right)) => left.static_eq(right),
                _ => false,
            },
            hash: |value, hasher| {
                if let Some(value) = value.downcast_ref::<T>() {
                    value.static_hash(hasher);
                }
            },
            share: share::<T>,
            show: |value, f| match value.downcast_ref::<T>() {
                Some(value) => value.static_show(f),
                None => Ok(()),
            },
            data: |value| match value.downcast_ref::<T>() {
                Some(value) => value.static_data(),
                None => StaticData::Unit,
            },
        }
    }

    /// Returns the operations of a type that implements `PartialEq + Debug`. Only the name of the type is hashed,
    /// because two equal values may have different `Debug` output.
    pub(crate) const fn of_debug<T: PartialEq + Clone + fmt::Debug + Send + Sync + 'static>() -> Self
    {
        Self {
            is_exact: false,
            eq: eq::<T>,
            hash: |_, mut hasher| std::any::type_name::<T>().hash(&mut hasher),
            share: share::<T>,
            show: show::<T>,
            data: |value| match value.downcast_ref::<T>() {
                Some(value) => StaticData::opaque::<T>(format!("{value:?}")),
                None => StaticData::Unit,
            },
        }
    }
}

fn share<T: Clone + Send + Sync + 'static>(value: &dyn Any) -> Arc<dyn Any + Send + Sync> {
    match value.downcast_ref::<T>() {
        Some(value) => Arc::new(value.clone()),
        None => Arc::new(()),
    }
}
/// Compares two values. Values that do not equal themselves, such as NaN, are equal if they have the same debug text.
pub(crate) fn eq<T: PartialEq + fmt::Debug + 'static>(left: &dyn Any, right: &dyn Any) -> bool {
    let (Some(left), Some(right)) = (left.downcast_ref::<T>(), right.downcast_ref::<T>()) else {
        return false;
    };
    left == right || (!is_equal_to_itself(left) && same_text(left, right))
}
#[allow(clippy::eq_op, reason = "NaN is not equal to itself")]
fn is_equal_to_itself<T: PartialEq>(value: &T) -> bool {
    value == value
}
#[cold]
fn same_text<T: PartialEq + fmt::Debug>(left: &T, right: &T) -> bool {
    !is_equal_to_itself(right) && format!("{left:?}") == format!("{right:?}")
}
fn show<T: fmt::Debug + 'static>(value: &dyn Any, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(function) = function_type::<T>() {
        return f.write_str(&function);
    }
    value
        .downcast_ref::<T>()
        .map_or(Ok(()), |value| value.fmt(f))
}

/// Returns the type of a function pointer, without module paths, or `None` for other types. A function pointer is
/// displayed by its type, because its value is an address that differs from run to run.
fn function_type<T>() -> Option<String> {
    let name = std::any::type_name::<T>();
    let pointer = ["fn(", "for<", "unsafe fn(", "unsafe extern ", "extern "];
    if !pointer.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    // Removes `for<…>`, the lifetimes of a higher-ranked function. The loop below removes the lifetimes of references.
    let name = match name.split_once("> fn(") {
        Some((lifetimes, rest)) if lifetimes.starts_with("for<") => format!("fn({rest}"),
        _ => name.to_owned(),
    };
    let mut text = String::new();
    let mut path = String::new();
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ':' if characters.next_if_eq(&':').is_some() => path.clear(),
            '\'' => {
                while characters.next_if(|&next| next != ' ').is_some() {}
                characters.next();
            }
            _ if character.is_alphanumeric() || character == '_' => path.push(character),
            _ => {
                text.push_str(&path);
                path.clear();
                text.push(character);
            }
        }
    }
    Some(text + &path)
}

/// A borrowed static value with its operations, for a visitor.
#[derive(Clone, Copy)]
pub struct StaticRef<'a> {
    value: &'a (dyn Any + Send + Sync),
    operations: &'static StaticOperations,
    /// The conversions to and from JSON, if checkpoints contain the value.
    #[cfg(feature = "serde")]
    saved: Option<&'static SavedOperations>,
}

impl<'a> StaticRef<'a> {
    /// Borrows a static value with the operations of its type.
    pub fn new<T: StaticValue>(value: &'a T) -> Self {
        Self::with(value, const { &StaticOperations::of::<T>() })
    }

    /// Returns the value of a field with `#[r#static(saved)]`, which checkpoints contain.
    #[doc(hidden)]
    #[must_use]
    #[cfg_attr(
        not(feature = "serde"),
        allow(unused_mut, reason = "nothing is saved without the feature")
    )]
    pub fn __saved<T: SavedStatic + Send + Sync + 'static>(mut self) -> Self {
        #[cfg(feature = "serde")]
        {
            self.saved = Some(const { &SavedOperations::of::<T>() });
        }
        self
    }

    /// Borrows a static value with the given operations.
    pub(crate) fn with(
        value: &'a (dyn Any + Send + Sync),
        operations: &'static StaticOperations,
    ) -> Self {
        Self {
            value,
            operations,
            #[cfg(feature = "serde")]
            saved: None,
        }
    }

    /// Returns the value, if it is a `T`.
    pub fn downcast_ref<T: 'static>(self) -> Option<&'a T> {
        (self.value as &dyn Any).downcast_ref()
    }

    /// Adds the value to a hash.
    pub fn add_to_hash(self, hasher: &mut dyn Hasher) {
        (self.operations.hash)(self.value, hasher);
    }

    /// Returns the value as data.
    pub fn data(self) -> StaticData {
        (self.operations.data)(self.value)
    }

    /// Returns whether no function can distinguish the value from an equal value of the same type.
    pub(crate) fn is_exact(self) -> bool {
        self.operations.is_exact
    }

    /// Returns whether two values of different types have equal data. For instance, a `String` key equals a `&str` key,
    /// and a value equals the value that was read from its bytes. Opaque values are never equal, because different
    /// values may have the same text.
    #[cold]
    fn same_data_of_another_type(self, other: &Self) -> bool {
        if self.value.type_id() == other.value.type_id() {
            return false;
        }
        let data = self.data();
        !data.has_opaque() && data == other.data()
    }

    /// Returns an owned copy.
    pub fn to_box(self) -> StaticBox {
        StaticBox {
            value: (self.operations.share)(self.value),
            operations: self.operations,
            #[cfg(feature = "serde")]
            saved: self.saved,
        }
    }
}

impl PartialEq for StaticRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.operations.eq)(self.value, other.value) || self.same_data_of_another_type(other)
    }
}
impl PartialEq<StaticBox> for StaticRef<'_> {
    fn eq(&self, other: &StaticBox) -> bool {
        *self == other.as_static_ref()
    }
}
impl fmt::Debug for StaticRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.operations.show)(self.value, f)
    }
}

/// A static value that a treedef owns. Clones share the value.
#[derive(Clone)]
pub struct StaticBox {
    value: Arc<dyn Any + Send + Sync>,
    operations: &'static StaticOperations,
    #[cfg(feature = "serde")]
    saved: Option<&'static SavedOperations>,
}

impl StaticBox {
    /// Creates an owned static value with the operations of its type.
    pub fn new<T: StaticValue>(value: T) -> Self {
        Self {
            value: Arc::new(value),
            operations: const { &StaticOperations::of::<T>() },
            #[cfg(feature = "serde")]
            saved: None,
        }
    }

    #[cfg(feature = "serde")]
    pub(crate) fn is_saved(&self) -> bool {
        self.saved.is_some()
    }

    /// Returns the value as JSON, if checkpoints contain it, or the problem of a value that the JSON does not keep.
    #[cfg(feature = "serde")]
    pub(crate) fn json(&self) -> Option<Result<String, String>> {
        let json = (self.saved?.to_json)(&*self.value);
        Some(json.and_then(|json| {
            let problem = match self.with_json(&json) {
                Ok(read) if read == *self => return Ok(json),
                Ok(_) => "it is read as another value".to_owned(),
                Err((_, problem)) => problem,
            };
            Err(format!(
                "its JSON does not keep it: {problem}; JSON has no NaN, no infinity and no `Some(None)`: choose another form with `#[serde(with = …)]`"
            ))
        }))
    }

    /// Returns a value of the same type from JSON, or the type and the problem.
    #[cfg(feature = "serde")]
    pub(crate) fn with_json(&self, json: &str) -> Result<Self, (&'static str, String)> {
        let Some(saved) = self.saved else {
            return Ok(self.clone());
        };
        let value = (saved.from_json)(json);
        let value = value.map_err(|problem| ((saved.type_name)(), problem))?;
        Ok(Self {
            value,
            ..self.clone()
        })
    }

    /// Returns the value as data.
    pub fn data(&self) -> StaticData {
        self.as_static_ref().data()
    }

    /// Returns a clone of the value if its type is `T`. Otherwise returns a `T` built from the data of the value, if
    /// possible.
    pub(crate) fn to_value<T: StaticValue>(&self) -> Option<T> {
        match self.downcast_ref::<T>() {
            Some(value) => Some(value.clone()),
            None => T::from_static_data(&self.data()),
        }
    }

    /// Borrows the value for a visitor.
    pub fn as_static_ref(&self) -> StaticRef<'_> {
        StaticRef {
            value: &*self.value,
            operations: self.operations,
            #[cfg(feature = "serde")]
            saved: self.saved,
        }
    }

    /// Returns the value, if it is a `T`.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        (&*self.value as &dyn Any).downcast_ref()
    }
}

impl PartialEq for StaticBox {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value) || self.as_static_ref() == other.as_static_ref()
    }
}
impl Eq for StaticBox {}
impl Hash for StaticBox {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut hasher = DefaultHasher::new();
        (self.operations.hash)(&*self.value, &mut hasher);
        hasher.finish().hash(state);
    }
}
impl fmt::Debug for StaticBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_static_ref().fmt(f)
    }
}

/// A type whose values may be static fields: they can be compared, hashed, copied and displayed.
///
/// Numbers are compared by their bits. So NaN equals itself, and a treedef that contains NaN equals itself, too.
/// `#[derive(Static)]` implements this trait for a user's type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be static",
    label = "a treedef cannot compare its values",
    note = "write `#[derive(Static, Clone)]` on the type, or add the bound `StaticValue` to the type parameter",
    note = "instead of a closure or a function, pass a function pointer: `name as fn(&Tensor) -> Tensor`"
)]
#[doc(alias("jax.tree_util.register_static"))]
pub trait StaticValue: Clone + Send + Sync + 'static {
    /// Whether equal values cannot be distinguished. Then a structure with one of them stands for the other.
    #[doc(hidden)]
    const __IS_EXACT: bool = false;

    /// Returns whether two values are equal. Every value must equal itself.
    fn static_eq(&self, other: &Self) -> bool;
    /// Adds the value to a hash. Equal values must have equal hashes.
    fn static_hash(&self, hasher: &mut dyn Hasher);
    /// Writes the value as a treedef displays it.
    ///
    /// # Errors
    /// The errors of the formatter.
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the value as data. Files store this data, and the keys of maps are sorted by this data. The default
    /// contains only the type's name and the displayed text.
    ///
    /// Equal data must have equal hashes; see [`static_hash`](Self::static_hash).
    fn static_data(&self) -> StaticData {
        StaticData::opaque::<Self>(format!("{}", Shown(self)))
    }

    /// Returns the value of this type that `data` represents. The default returns `None`.
    fn from_static_data(data: &StaticData) -> Option<Self> {
        let _ = data;
        None
    }
}

struct Shown<'a, T>(&'a T);
impl<T: StaticValue> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.static_show(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_shown_by_their_types() {
        type Higher = for<'a> fn(&'a str, &String) -> Option<&'a str>;
        assert_eq!(
            function_type::<Higher>().unwrap(),
            "fn(&str, &String) -> Option<&str>"
        );
        assert_eq!(
            function_type::<fn(i32) -> Vec<u8>>().unwrap(),
            "fn(i32) -> Vec<u8>"
        );
        assert_eq!(function_type::<fn()>().unwrap(), "fn()");
        assert_eq!(function_type::<String>(), None);
        assert_eq!(function_type::<Option<fn()>>(), None);
    }
}
