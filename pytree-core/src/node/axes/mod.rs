//! Named axes: the patterns that describe shapes, and the scope in which their names have lengths.
//!
//! A [`ShapePattern`] is a constant that a macro generates from a text such as `"batch heads*head_dim"`. A [`Scope`]
//! binds a name to a length at the first occurrence of the name, and compares every later occurrence with this length.
//! The names in a module's fields are bound before the names in the arguments of a function. So a message can name the
//! field that determines a length.
//!
//! Named axes describe arrays and decide nothing: they are part of the bytes of a treedef, and not of its equality, its hash or its
//! content hash, and no transformation compares them. A comparison of shapes allocates nothing unless it fails. Then the same
//! comparisons run again in a scope that records each shape for the message.

mod bindings;
mod capture;
mod names;
mod pattern;
mod report;
mod roles;
mod running;
mod scope;

pub use self::bindings::Owner;
pub(crate) use self::capture::{Capture, Capturing, name_of_type, returned};
pub use self::names::names;
pub(crate) use self::pattern::axes_of;
pub use self::pattern::{
    AxisPattern, ElementPattern, Expression, Operator, Rest, ShapePattern, Step,
};
pub use self::roles::{AxisRole, Roles, StaticFields};
pub(crate) use self::running::name_of_function;
pub use self::running::{Running, describe_running};
pub use self::scope::Scope;
