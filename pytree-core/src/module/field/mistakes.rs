//! The mistakes that a field can have: one trait for each mistake, with the message that rustc reports.
//!
//! The derive evaluates `CHECK` of each trait with a result of [`Probe`](crate::module::field::Probe) as the const
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
    /// A field of float arrays has no attribute.
    ArrayNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is not",
    }
    /// A field of float numbers has no attribute.
    NumberNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is a leaf that is not, `#[r#static]` if it is part of the model's structure",
    }
    /// A field of leaves that have no gradient has no attribute.
    LeafNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "mark a leaf that is not trained",
        note: "write `#[state]` or `#[state(Collection)]` on the field",
    }
    /// A field of integers, sizes or flags has no attribute.
    IntegerNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it a leaf or part of the structure?",
        note: "write `#[r#static]` on the field if it is part of the model's structure",
        note: "a number that changes is a leaf: `#[state] step: Tensor`, which begins as `Tensor::from(0)`; a model without tensors has an `i64` or `u64`",
    }
    /// A field of static values, such as names or settings, has no attribute.
    StaticNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it part of the structure?",
        note: "write `#[r#static]` on the field if it is part of the model's structure",
    }
    /// A field has no attribute, and its type has no derive or is of another crate.
    TypeNeedsDerive {
        message: "`{Self}` is not a module, and a field of it has no kind",
        label: "which part of the model is it?",
        note: "if it is a part of the model, write `#[derive(Module)]` on the type `{Self}`",
        note: "if it is part of the structure, as a setting is, write `#[r#static]` on the field and `#[derive(Static, Clone)]` on the type",
        note: "wrap a type of another crate in a type of your own",
    }
    /// A field mixes modules, leaves and static values in one tuple or container.
    FieldMixesKinds {
        message: "`{Self}` mixes values of several kinds, so the field has no kind",
        label: "its parts need different attributes",
        note: "give each part a field of its own, or move them to a struct that derives `Module`: there a module has no attribute, a leaf has `#[param]` or `#[state]`, and a static value has `#[r#static]`",
    }
    /// The type of a field is an `Arc` or an `Rc`.
    CountedNeedsShared {
        message: "`{Self}` cannot be a field: the first update would separate its copies",
        label: "write `Shared` instead",
        note: "`Shared<T>` is an `Arc<T>` that stays shared in every transformation, `Ref<T>` is one that can also be written",
    }
    /// The type of a field is a `Cell`, a `RefCell`, a `Mutex` or an `RwLock`.
    CellNeedsRef {
        message: "`{Self}` cannot be a field: no transformation would see what is written to it",
        label: "write `Ref` instead",
        note: "`Ref<T>` is a value that is written through `&self`; with `&mut self` a plain field suffices",
    }
    /// The type of a field is a box of a trait that has no `#[module_object]`.
    ObjectNeedsAttribute {
        message: "`{Self}` is not a module: its trait has no `#[module_object]`",
        label: "holds a value of any type that implements the trait",
        note: "write `#[module_object]` above the trait, and `Box<dyn Trait>` in the field, without an attribute",
    }
    /// The type of a field is a boxed closure.
    FieldOfClosure {
        message: "`{Self}` cannot be a field: closures cannot be compared",
        label: "a treedef compares what is not a leaf",
        note: "write a function pointer: `#[r#static] activation: fn(&Tensor) -> Tensor`; it accepts a function, and a closure that captures nothing",
        note: "what a closure captures belongs in fields of a struct with a method, or in the variants of an enum that derives `Static`",
    }
    /// A field marked `#[param]` is a module.
    ParamOfModule {
        message: "`{Self}` is a module and cannot be `#[param]`",
        label: "its own fields have kinds",
        note: "remove `#[param]`: a module needs no attribute",
    }
    /// A field marked `#[param]` holds integers.
    ParamNotFloat {
        message: "`{Self}` cannot be `#[param]`: it is not differentiable",
        label: "no gradient of it exists",
        note: "write `#[state]` instead; a number that is part of the model's structure is `#[r#static]`",
    }
    /// A field marked `#[param]` has any other type that cannot be a parameter.
    ParamNotLeaf {
        message: "`{Self}` cannot be `#[param]`: it does not hold floats",
        label: "parameters are tensors, float arrays, float numbers, and containers of them",
        note: "write `#[r#static]` instead if it is part of the model's structure",
        note: "a type of your own becomes a module by `#[derive(Module)]`, a plain container by `#[derive(Pytree)]`",
    }
    /// A field marked `#[state]` is a module.
    StateOfModule {
        message: "`{Self}` is a module and cannot be `#[state]`",
        label: "its own fields have kinds",
        note: "remove `#[state]`: a module needs no attribute",
    }
    /// A field marked `#[state]` holds sizes.
    StateOfSize {
        message: "`{Self}` cannot be `#[state]`: it has another size on another machine",
        label: "is it a counter or part of the structure?",
        note: "a number that changes is a `Tensor`: `#[state] step: Tensor`, which begins as `Tensor::from(0)`; a model without tensors has an `i64` or `u64`",
        note: "write `#[r#static]` instead if it is part of the model's structure",
    }
    /// A field marked `#[state]` has any other type that cannot be a state.
    StateNotLeaf {
        message: "`{Self}` cannot be `#[state]`: it does not hold arrays or numbers of a fixed size",
        label: "states are tensors, arrays, numbers, and containers of them",
        note: "write `#[r#static]` instead if it is part of the model's structure",
        note: "a type of your own becomes a leaf by `#[derive(Leaf)]`, a plain container by `#[derive(Pytree)]`",
    }
    /// A field marked `#[r#static]` is a module.
    StaticOfModule {
        message: "`{Self}` is a module and cannot be `#[r#static]`: it holds arrays",
        label: "would be invisible to every transformation",
        note: "remove `#[r#static]`: a module needs no attribute",
    }
    /// A field marked `#[r#static]` holds arrays or references.
    StaticOfArrays {
        message: "`{Self}` cannot be `#[r#static]`: it holds arrays, shared nodes or references",
        label: "they are leaves",
        note: "write `#[param]` instead if it is trained, `#[state]` or `#[state(Collection)]` if it is not",
    }
    /// A field of a type that derives `Static` holds arrays or references.
    StaticTypeOfArrays {
        message: "`{Self}` cannot be in a static type: it holds arrays, shared nodes or references",
        label: "they are leaves",
        note: "derive `Module` or `Pytree` instead of `Static`",
    }
    /// The values of a field marked `#[r#static]` cannot be compared.
    StaticNotComparable {
        message: "`{Self}` cannot be `#[r#static]`: a treedef cannot compare it",
        label: "needs `Static`",
        note: "write `#[derive(Static, Clone)]` on its type, or `#[derive(Clone, PartialEq, Eq, Hash, Debug)]`; it must be `Send + Sync` too",
        note: "a closure becomes a function pointer: `fn(&Tensor) -> Tensor`",
    }
    /// A field of a type that derives `Pytree` is not a pytree.
    ChildNotPytree {
        message: "`{Self}` is not a pytree",
        label: "a field of a pytree is a pytree",
        note: "derive `Pytree`, `Module` or `Leaf` on its type, or write `#[r#static]` on the field",
    }
}
