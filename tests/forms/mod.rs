//! Input that the derives accept, one form per file. Each file must compile, and asserts that the derive found
//! the fields.

#![allow(
    clippy::pedantic,
    clippy::type_complexity,
    dead_code,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    reason = "the forms are those that users write, and most of their items are never read"
)]

mod collections;
mod const_parameters;
mod containers;
mod defaults_of_parameters;
mod empty_structs;
mod enums;
mod generic_bounds_inferred;
mod module_object;
mod named_struct;
pub mod other_attributes;
mod raw_identifiers;
mod recursive;
mod renamed_crate;
mod shadowed_names;
mod static_leaf_collection;
mod through_facade;
mod tuple_struct;
mod visibility;
mod where_clauses;
