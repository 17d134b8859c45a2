//! The mistakes that a field can have: one trait for each mistake, with the message that rustc reports.
//!
//! The derive evaluates `CHECK` of each trait with a result of [`mistakes`](crate::module::field::check::mistakes) as the
//! const argument. `CHECK` exists only for `false`, so a field with the mistake does not compile.

macro_rules! mistakes {
    (library: $library:literal, $(
        $(#[doc = $doc:literal])*
        $name:ident { message: $message:literal, label: $label:literal, $(note: $note:literal,)+ $(@ $of:ident,)? }
    )*) => {
        $(mistakes!(@ $($of $library)? [$(#[doc = $doc])*] $name $message $label $($note)+);)*

        /// The mistake that a type has, as a value.
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mistake {
            /// No mistake.
            None,
            $($(#[doc = $doc])* $name,)*
        }
    };
    (@ library $library:literal $docs:tt $name:ident $message:literal $label:literal $($note:literal)+) => {
        mistakes!(@ $docs $name $message $label $($note)+ $library);
    };
    (@ [$($doc:tt)*] $name:ident $message:literal $label:literal $($note:literal)+) => {
        $($doc)*
        #[diagnostic::on_unimplemented(message = $message, label = $label, $(note = $note),+)]
        pub trait $name<const MISTAKEN: bool> {
            /// Exists only if the field does not have the mistake.
            const CHECK: () = ();
        }
        #[diagnostic::do_not_recommend]
        impl<T: ?Sized> $name<false> for T {}
    };
}

mistakes! {
    library: "a type of another library needs its feature of `pytree-core`: `candle011` for candle's tensors, `candle_nn011` for its layers, `burn022` and `burn_nn022` for burn's; without a feature, wrap a leaf in `Opaque`",

    /// A field of float arrays has no attribute.
    ArrayNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is this field trained or not?",
        note: "write `#[param]` on the field if it is trained, and `#[state]` or `#[state(Collection)]` if it is not trained",
    }
    /// A field of float numbers has no attribute.
    NumberNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is this field trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is a leaf that is not trained, or `#[r#static]` if it is part of the model's structure",
    }
    /// A field of leaves that have no gradient has no attribute.
    LeafNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "a leaf that is not trained is a state",
        note: "write `#[state]` or `#[state(Collection)]` on the field",
    }
    /// A field of integers, sizes or flags has no attribute.
    IntegerNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is this field a leaf, or part of the structure?",
        note: "write `#[r#static]` on the field if it is part of the model's structure",
        note: "for a number that changes, use a `Tensor`: `#[state] step: Tensor`, initialized with `Tensor::from(0)`; in a model without tensors, use an `i64` or `u64`",
    }
    /// A field of static values, such as names or settings, has no attribute.
    StaticNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is this field part of the structure?",
        note: "write `#[r#static]` on the field if it is part of the model's structure",
    }
    /// A field has no attribute, and its type has no derive or belongs to another crate.
    TypeNeedsDerive {
        message: "`{Self}` is not a module, so a field of this type needs a kind",
        label: "is this field a submodule, or part of the structure?",
        note: "if the field is a submodule, write `#[derive(Module)]` on the type `{Self}`",
        note: "if the field is part of the structure, such as a setting, write `#[r#static]` on the field and `#[derive(Static, Clone)]` on its type",
        note: "if the type is from another crate, wrap it in a type of your own",
        @library,
    }
    /// A field mixes modules, leaves and static values in one tuple or container.
    FieldMixesKinds {
        message: "`{Self}` mixes values of several kinds, so no single attribute fits the field",
        label: "its parts need different attributes",
        note: "give each part its own field, or move the parts to a struct that derives `Module`; in this struct, write `#[param]` or `#[state]` on a leaf, `#[r#static]` on a static value, and no attribute on a module",
    }
    /// The type of a field is an `Arc` or an `Rc`.
    CountedNeedsShared {
        message: "`{Self}` cannot be a field: the first update would separate its copies",
        label: "use `Shared` instead",
        note: "a `Shared<T>` is like an `Arc<T>`, but stays shared in every transformation; use a `Ref<T>` if the value must also be written",
    }
    /// The type of a field is a `Cell`, a `RefCell`, a `Mutex` or an `RwLock`.
    CellNeedsRef {
        message: "`{Self}` cannot be a field: transformations would not see the values that are written to it",
        label: "use `Ref` instead",
        note: "a `Ref<T>` can be written through `&self`; if the method takes `&mut self`, a plain field is enough",
    }
    /// The type of a field is a box of a trait that has no `#[module_object]`.
    ObjectNeedsAttribute {
        message: "`{Self}` is not a module: its trait has no `#[module_object]`",
        label: "not every type that implements the trait is a module",
        note: "write `#[module_object]` above the trait, use `Box<dyn Trait>` as the type of the field, and write no attribute on the field",
    }
    /// The type of a field is a boxed closure.
    FieldOfClosure {
        message: "`{Self}` cannot be a field: closures cannot be compared",
        label: "a treedef must compare every value that is not a leaf",
        note: "use a function pointer: `#[r#static] activation: fn(&Tensor) -> Tensor`; it accepts a function, or a closure that captures nothing",
        note: "if the closure captures values, store them in the fields of a struct with a method, or in the variants of an enum that derives `Static`",
    }
    /// A field marked `#[param]` is a module.
    ParamOfModule {
        message: "`{Self}` is a module and cannot be `#[param]`",
        label: "each field of this module has its own kind",
        note: "remove `#[param]`: a field that is a module needs no attribute",
    }
    /// A field marked `#[param]` holds integers.
    ParamNotFloat {
        message: "`{Self}` cannot be `#[param]`: it is not differentiable",
        label: "a value of this type has no gradient",
        note: "write `#[state]` instead, or `#[r#static]` if the number is part of the model's structure",
        note: "if this is your own type, write `#[leaf(param)]` below its `#[derive(Leaf)]`, or `leaf_field!(param …)` if you implement `Leaf` yourself",
    }
    /// A field marked `#[param]` has any other type that cannot be a parameter.
    ParamNotLeaf {
        message: "`{Self}` cannot be `#[param]`: it does not hold floats",
        label: "parameters are tensors, float arrays, float numbers, and containers of them",
        note: "write `#[r#static]` instead if the field is part of the model's structure",
        note: "if this is your own type, write `#[derive(Module)]` on it to make it a module, `#[derive(Pytree)]` to make it a plain container, or `#[derive(Leaf)]` with `#[leaf(param)]` to make it a leaf",
        @library,
    }
    /// A field marked `#[state]` is a module.
    StateOfModule {
        message: "`{Self}` is a module and cannot be `#[state]`",
        label: "each field of this module has its own kind",
        note: "remove `#[state]`: a field that is a module needs no attribute",
    }
    /// A field marked `#[state]` holds a `usize` or an `isize`.
    StateOfSize {
        message: "`{Self}` cannot be `#[state]`: its size depends on the machine",
        label: "is this field a counter, or part of the structure?",
        note: "for a number that changes, use a `Tensor`: `#[state] step: Tensor`, initialized with `Tensor::from(0)`; in a model without tensors, use an `i64` or `u64`",
        note: "write `#[r#static]` instead if the field is part of the model's structure",
    }
    /// A field marked `#[state]` has any other type that cannot be a state.
    StateNotLeaf {
        message: "`{Self}` cannot be `#[state]`: it does not hold arrays or numbers of a fixed size",
        label: "states are tensors, arrays, numbers, and containers of them",
        note: "write `#[r#static]` instead if the field is part of the model's structure",
        note: "if this is your own type, write `#[derive(Leaf)]` on it to make it a leaf, or `#[derive(Pytree)]` to make it a plain container",
        @library,
    }
    /// A field marked `#[r#static]` is a module.
    StaticOfModule {
        message: "`{Self}` is a module and cannot be `#[r#static]`: it holds arrays",
        label: "no transformation would see its arrays",
        note: "remove `#[r#static]`: a field that is a module needs no attribute",
    }
    /// A field marked `#[r#static]` holds arrays or references.
    StaticOfArrays {
        message: "`{Self}` cannot be `#[r#static]`: it holds arrays, shared nodes or references",
        label: "transformations must see these values",
        note: "write `#[param]` instead if the field is trained, and `#[state]` or `#[state(Collection)]` if it is not trained",
    }
    /// A field of a type that derives `Static` holds arrays or references.
    StaticTypeOfArrays {
        message: "`{Self}` cannot be in a static type: it holds arrays, shared nodes or references",
        label: "transformations must see these values",
        note: "write `#[derive(Module)]` or `#[derive(Pytree)]` on the type instead of `#[derive(Static)]`",
    }
    /// The values of a field marked `#[r#static]` cannot be compared.
    StaticNotComparable {
        message: "`{Self}` cannot be `#[r#static]`: a treedef cannot compare its values",
        label: "a static value must be comparable",
        note: "write `#[derive(Static, Clone)]` or `#[derive(Clone, PartialEq, Eq, Hash, Debug)]` on its type, which must also be `Send + Sync`",
        note: "instead of a closure, use a function pointer: `fn(&Tensor) -> Tensor`",
        @library,
    }
    /// A field of a type that derives `Pytree` is not a pytree.
    ChildNotPytree {
        message: "`{Self}` is not a pytree",
        label: "each field of a pytree must be a pytree",
        note: "write `#[derive(Pytree)]`, `#[derive(Module)]` or `#[derive(Leaf)]` on the type of the field, or write `#[r#static]` on the field",
    }
}
