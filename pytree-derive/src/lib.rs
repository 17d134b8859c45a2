//! The procedural macros of pytree.
//!
//! Each macro has the same phases, one per file. `read` reads the item into an `input`, `attributes` parses its attributes,
//! `check` checks rules across fields, `expand` generates the traits of pytrees and modules, and `kinds`
//! generates the checks of each field's kind. For an item with errors, `fallback` generates all messages and
//! empty implementations, so that one mistake causes one error.
//!
//! Each macro exists twice: under its own name for users of `pytree-core`, and with the prefix `Facade` for users of
//! `pytree`, which re-exports the macro without the prefix. The two macros generate code with different paths; see
//! `paths`.

mod attributes;
mod axes;
mod check;
mod collection;
mod debug_print;
mod defaults;
mod errors;
mod expand;
mod fallback;
mod function;
mod input;
mod kinds;
mod leaf;
mod module_object;
mod panicking_twin;
mod paths;
mod read;
mod shape_language;
mod shapes;
mod statics;
#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test and names the line"
)]
mod tests;
mod tree;
mod types;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::attributes::kind::Macro;
use crate::paths::Entry;

/// Declares two derive macros: one for users of `pytree-core`, one for users of `pytree`.
macro_rules! derives {
    ($(
        $(#[doc = $doc:literal])*
        $expand:path: $core:ident = $core_function:ident, $facade:ident = $facade_function:ident, $attributes:tt;
    )*) => {$(
        derives! { @one [$(#[doc = $doc])*] $expand, Entry::Core, $core, $core_function, $attributes }
        derives! { @one [$(#[doc = $doc])*] $expand, Entry::Facade, $facade, $facade_function, $attributes }
    )*};
    (@one [$(#[doc = $doc:literal])*] $expand:path, $entry:expr, $name:ident, $function:ident, [$($attribute:ident)*]) => {
        $(#[doc = $doc])*
        #[proc_macro_derive($name, attributes($($attribute),*))]
        pub fn $function(input: TokenStream) -> TokenStream {
            $expand(&parse_macro_input!(input as DeriveInput), $entry).into()
        }
    };
}

derives! {
    /// Implements the traits of a module for a struct or enum: a pytree whose leaves all have a kind.
    ///
    /// The attribute of a field determines the kind of the field:
    /// - `#[param]` or `#[param(Collection)]`: the leaves are trained.
    /// - `#[state]` or `#[state(Collection)]`: the leaves are not trained.
    /// - `#[r#static]` or `#[module(static)]`: the field is part of the structure.
    /// - No attribute: the field is a module or a container of modules.
    ///
    /// `#[module(stacked = "expert")]` names the axis by which a field of modules is stacked: all its arrays have a further leading
    /// axis. See the page on shapes.
    ///
    /// `#[module(recursive)]` marks a field whose type contains the item through another type: a `Block` has layers, and a
    /// layer has blocks. Mark one field of such a circle of types, otherwise rustc reports E0275, "overflow evaluating the
    /// requirement". A type that names the item itself needs no mark. `#[module(crate = path)]` on the item sets the path
    /// of the crate.
    module: Module = module_core, FacadeModule = module_facade, [param state r#static module pytree];

    /// Implements the traits of a pytree for a struct or enum: a plain container, whose fields have no kind.
    ///
    /// A field is a child, unless it has the attribute `#[r#static]` or `#[pytree(static)]`. A field with this
    /// attribute is part of the structure. `#[pytree(crate = path)]` on the item sets the path of the crate.
    ///
    /// `#[pytree(recursive)]` marks a field whose type contains the item through another type: a `Branch` has leaves, and
    /// a leaf has branches. Mark one field of such a circle of types, otherwise rustc reports E0275, "overflow evaluating
    /// the requirement". A type that names the item itself needs no mark.
    pytree: Pytree = pytree_core, FacadePytree = pytree_facade, [param state r#static module pytree];

    /// Implements the traits of a static value: values are compared, hashed and shown by their fields.
    statics::expand: Static = static_core, FacadeStatic = static_facade, [pytree];

    /// Implements the traits of a leaf. The type must be `Clone + Debug + Send + Sync`.
    ///
    /// The leaf may be a `#[state]`, and with `#[leaf(param)]` on the item also a `#[param]`. If you implement the trait yourself, the macro
    /// `leaf_field!` allows the type as a field instead.
    leaf::expand: Leaf = leaf_core, FacadeLeaf = leaf_facade, [pytree leaf];

    /// Implements the traits of a collection for a unit struct. A collection of states is used in
    /// `#[state(Collection)]`, and a collection of parameters in `#[param(Collection)]`.
    ///
    /// `#[collection(parent = Type)]` on the item names its parent. Filters for the parent also accept the leaves of
    /// the collection. If the parent is `pytree::kind::Param` or a descendant of `Param`, the collection contains
    /// parameters. Otherwise it contains states.
    collection::expand: Collection = collection_core, FacadeCollection = collection_facade, [pytree collection];
}

fn module(input: &DeriveInput, entry: Entry) -> proc_macro2::TokenStream {
    expand::expand(input, Macro::Module, entry)
}

fn pytree(input: &DeriveInput, entry: Entry) -> proc_macro2::TokenStream {
    expand::expand(input, Macro::Pytree, entry)
}

/// Builds a dynamic tree. The first group of the input is the path of the crate. `tree!` calls this macro.
#[doc(hidden)]
#[proc_macro]
pub fn tree_of_tokens(input: TokenStream) -> TokenStream {
    tree::expand(input.into()).into()
}

/// Prints tensors when their values are known. The first group of the input is the path of the crate. `debug_print!` calls
/// this macro.
#[doc(hidden)]
#[proc_macro]
pub fn debug_print_of_tokens(input: TokenStream) -> TokenStream {
    debug_print::expand(input.into()).into()
}

/// Makes `Box<dyn Trait>` a module, so that a field can be a `Vec<Box<dyn Layer>>`. Write the attribute above the
/// trait.
///
/// A type that implements the trait must be a module, `Clone`, `Send` and `Sync`. The boxes implement `Clone` and
/// `Debug`, and unflatten to their original types. `#[module_object(crate = path)]` sets the path of the crate.
#[proc_macro_attribute]
pub fn module_object(arguments: TokenStream, item: TokenStream) -> TokenStream {
    module_object::expand(arguments.into(), &item.into(), Entry::Core).into()
}

/// Makes `Box<dyn Trait>` a module: [`macro@module_object`] for users of `pytree`.
#[proc_macro_attribute]
pub fn facade_module_object(arguments: TokenStream, item: TokenStream) -> TokenStream {
    module_object::expand(arguments.into(), &item.into(), Entry::Facade).into()
}

/// Checks the shapes of a function's arguments and result against named axes.
///
/// `#[shapes(x = "... in", return = "... out")]` compares `x` before the body runs, and the result after the body. In a
/// method, the shapes can also use the axis names of fields, such as `in` and `out` of `#[param("in out")] weight`.
/// Each of these names stands for the length of its axis.
///
/// A wrong argument causes a panic at the caller's line, and a wrong result causes a panic at the function's line. A
/// function that returns a `Result` does not panic, and returns an error.
///
/// `_` skips a value. `("batch in", "batch")` describes a tuple. `crate = path` sets the path of the crate.
#[proc_macro_attribute]
pub fn shapes(arguments: TokenStream, item: TokenStream) -> TokenStream {
    shapes::attribute(arguments.into(), item.into(), Entry::Core).into()
}

/// Checks the shapes of a function: [`macro@shapes`] for users of `pytree`.
#[proc_macro_attribute]
pub fn facade_shapes(arguments: TokenStream, item: TokenStream) -> TokenStream {
    shapes::attribute(arguments.into(), item.into(), Entry::Facade).into()
}

/// Checks the shapes of a closure's arguments and result, as [`macro@shapes`] does for a function:
/// `shaped!(x = "batch in", return = "batch", |x: &Tensor| x.sum(-1))`.
#[proc_macro]
pub fn shaped(input: TokenStream) -> TokenStream {
    shapes::closure(input.into(), Entry::Core).into()
}

/// Checks the shapes of a closure: [`shaped!`] for users of `pytree`.
#[proc_macro]
pub fn facade_shaped(input: TokenStream) -> TokenStream {
    shapes::closure(input.into(), Entry::Facade).into()
}

/// Implements `Default` for a struct of options. `#[default(value)]` gives the default of a field. A field without this
/// attribute has the default of its type. Only the crates of pytree use this derive.
#[doc(hidden)]
#[proc_macro_derive(Defaults, attributes(default))]
pub fn defaults(input: TokenStream) -> TokenStream {
    defaults::expand(&parse_macro_input!(input as DeriveInput)).into()
}

/// Generates a function that panics from a function that returns a `Result`. The panic has the message of the
/// error and the line of the caller.
///
/// Only the crates of pytree use this attribute: `#[panicking_twin(sort, Axis | DType)]` on `try_sort` generates
/// `sort`. The documentation in the source becomes the documentation of `sort`, and has a section `# Panics`. The
/// documentation of `try_sort` is generated. This documentation lists the error variants `Axis` and `DType`, or repeats
/// the section `# Errors` of the source. The attributes `#[must_use]` and `#[doc(alias)]` are for `sort` alone, which is
/// `#[must_use]` in any case if it returns `Self`. Both functions are `#[track_caller]`. A function that calls functions
/// that panic is `composed`, as in `#[panicking_twin(norm, composed, Axis)]`: it returns an error where the system refuses
/// memory to one of them.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn panicking_twin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    panicking_twin::expand(arguments.into(), item.into()).into()
}
