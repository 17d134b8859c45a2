//! The mistakes of fields, one trait each, with the messages that rustc reports.
//!
//! The derive evaluates `CHECK` of each trait with the answer of [`Probe`](crate::module::field::Probe) as the const
//! argument. `CHECK` exists only for `false`, so a field with the mistake does not compile.

macro_rules! mistakes {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident { message: $message:literal, label: $label:literal, $(note: $note:literal),+ $(,)? }
    )*) => {$(
        $(#[doc = $doc])*
        #[diagnostic::on_unimplemented(message = $message, label = $label, $(note = $note),+)]
        pub trait $name<const MISTAKEN: bool> {
            /// Exists only if the field does not have the mistake.
            const CHECK: () = ();
        }
        #[diagnostic::do_not_recommend]
        impl<T: ?Sized> $name<false> for T {}
    )*};
}

mistakes! {
    /// Float arrays without an attribute.
    ArrayNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is not",
    }
    /// Float numbers without an attribute.
    NumberNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is a leaf that is not, `#[r#static]` if it is part of the model's structure",
    }
    /// Leaves without a gradient and without an attribute.
    LeafNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "mark a leaf that is not trained",
        note: "write `#[state]` or `#[state(Collection)]` on the field",
    }
    /// Integers and flags without an attribute.
    IntegerNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it a leaf or part of the structure?",
        note: "write `#[state]` or `#[state(Collection)]` on the field if it is a leaf, `#[r#static]` if it is part of the model's structure; a number that changes in a model that `jit` traces, such as a step counter, is a `Tensor` with `#[state]`, created by `Tensor::from(0)`",
    }
    /// Static values without an attribute: sizes, names, settings.
    StaticNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it part of the structure?",
        note: "write `#[r#static]` on the field if it is part of the model's structure; a number that changes, such as a step counter, is a leaf with `#[state]`: a `Tensor`, created by `Tensor::from(0)`, if `jit` is to trace the model without tracing it anew for each value, or else an `i32`, `u32` or another type of a fixed size",
    }
    /// All other types without an attribute.
    OtherNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "not a module, nor a container of modules",
        note: "a field that mixes modules and leaves must be split; one that holds modules has them by `#[derive(Module)]` on their type, `Shared` instead of `Rc` or `Arc`, or `#[module_object]` on the trait of a box",
        note: "write `#[r#static]` on the field if it is part of the model's structure",
    }
    /// A module as a parameter.
    ParamOfModule {
        message: "`{Self}` is a module and cannot be `#[param]`",
        label: "its own fields have kinds",
        note: "remove `#[param]`: a module needs no attribute",
    }
    /// An integer as a parameter.
    ParamNotFloat {
        message: "`{Self}` cannot be `#[param]`: it is not differentiable",
        label: "no gradient of it exists",
        note: "write `#[state]` instead; a number that is part of the model's structure is `#[r#static]`",
    }
    /// All other types as a parameter.
    ParamNotLeaf {
        message: "`{Self}` cannot be `#[param]`: it does not hold floats",
        label: "parameters are tensors, float arrays, float numbers, and containers of them",
        note: "write `#[r#static]` instead if it is part of the model's structure",
        note: "a type of your own becomes a module by `#[derive(Module)]`, a plain container by `#[derive(Pytree)]`",
    }
    /// A module as a state.
    StateOfModule {
        message: "`{Self}` is a module and cannot be `#[state]`",
        label: "its own fields have kinds",
        note: "remove `#[state]`: a module needs no attribute",
    }
    /// All other types as a state.
    StateNotLeaf {
        message: "`{Self}` cannot be `#[state]`: it does not hold arrays or numbers of a fixed size",
        label: "states are tensors, arrays, numbers, and containers of them",
        note: "write `#[r#static]` instead if it is part of the model's structure",
        note: "a type of your own becomes a leaf by `#[derive(Leaf)]`, a plain container by `#[derive(Pytree)]`",
    }
    /// A module as a static field.
    StaticOfModule {
        message: "`{Self}` is a module and cannot be `#[r#static]`: it holds arrays",
        label: "would be invisible to every transformation",
        note: "remove `#[r#static]`: a module needs no attribute",
    }
    /// Arrays or references in a static field.
    StaticOfArrays {
        message: "`{Self}` cannot be `#[r#static]`: it holds arrays or references",
        label: "they are leaves",
        note: "write `#[param]` instead if it is trained, `#[state]` or `#[state(Collection)]` if it is not",
    }
    /// Arrays or references in a type that derives `Static`.
    StaticTypeOfArrays {
        message: "`{Self}` cannot be in a static type: it holds arrays or references",
        label: "they are leaves",
        note: "derive `Module` or `Pytree` instead of `Static`",
    }
    /// A static field whose values cannot be compared.
    StaticNotComparable {
        message: "`{Self}` cannot be `#[r#static]`: a treedef cannot compare it",
        label: "needs `Static`",
        note: "write `#[derive(Static, Clone)]` on its type, or `#[derive(Clone, PartialEq, Eq, Hash, Debug)]`; it must be `Send + Sync` too",
        note: "instead of a closure, use a function pointer: `fn(&Tensor) -> Tensor`",
    }
    /// A field of a plain container that is not a pytree.
    ChildNotPytree {
        message: "`{Self}` is not a pytree",
        label: "a field of a pytree is a pytree",
        note: "derive `Pytree`, `Module` or `Leaf` on its type, or write `#[r#static]` on the field",
    }
}
