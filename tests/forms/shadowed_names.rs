//! Items of the user have names of primitive types and of the prelude: code of the macros names its own by absolute paths.

#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unused_macros,
    reason = "the items have names of the standard library"
)]
#![allow(
    clippy::result_large_err,
    reason = "the library defines the error type"
)]

macro_rules! shadow {
    ($($name:ident)*) => {$(
        #[derive(::std::fmt::Debug)]
        pub struct $name;
    )*};
}

mod items {
    shadow! {
        bool char str u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64
        String Vec Box Option Result Some None Ok Err
        Send Sync Sized Copy Fn FnMut FnOnce Drop
    }
    pub trait Clone {}
    pub trait Default {}
    pub trait PartialEq {}
    pub trait Eq {}
    pub trait Iterator {}
    pub trait IntoIterator {}
    pub trait DoubleEndedIterator {}
    pub trait ExactSizeIterator {}
    pub trait Extend {}
    pub trait From {}
    pub trait Into {}
    pub trait TryFrom {}
    pub trait TryInto {}
    pub trait AsRef {}
    pub trait AsMut {}
    pub trait ToOwned {}
    pub trait ToString {}
    pub trait Debug {}
    pub trait Display {}
    pub fn drop() {}
}

macro_rules! shadowed_macros {
    ($($name:ident)*) => {$(
        macro_rules! $name {
            ($d:tt) => { ::std::compile_error!("a macro of the user is called") };
        }
    )*};
}
shadowed_macros!(vec panic assert assert_eq matches unreachable format concat stringify write);

mod user {
    #[allow(unused_imports, reason = "some names are shadowed and not written")]
    use super::items::{
        AsMut, AsRef, Box, Clone, Copy, Debug, Default, Display, DoubleEndedIterator, Drop, Eq,
        Err, ExactSizeIterator, Extend, Fn, FnMut, FnOnce, From, Into, IntoIterator, Iterator,
        None, Ok, Option, PartialEq, Result, Send, Sized, Some, String, Sync, ToOwned, ToString,
        TryFrom, TryInto, Vec, bool, char, drop, f32, f64, i8, i16, i32, i64, i128, isize, str, u8,
        u16, u32, u64, u128, usize,
    };
    use ::core::primitive;
    use ::pytree::Tensor;
    use ::std::clone::Clone as _;

    #[derive(::pytree::Collection)]
    pub(super) struct Seen;

    #[derive(::pytree::Static, ::std::clone::Clone)]
    pub(super) struct Empty;

    #[derive(::pytree::Static, ::std::clone::Clone, ::std::fmt::Debug)]
    pub(super) enum Setting {
        Rate(primitive::f32),
        Name { name: ::std::string::String },
    }

    #[derive(::pytree::Leaf, ::std::clone::Clone, ::std::fmt::Debug)]
    pub(super) struct Key(pub(super) primitive::u32);

    #[derive(::pytree::Pytree, ::std::clone::Clone)]
    pub(super) struct Batch<T>(pub(super) T, pub(super) ::std::vec::Vec<Tensor>);

    #[::pytree::module_object]
    pub(super) trait Layer {
        fn apply(&self, x: &Tensor) -> Tensor;
    }

    #[derive(::pytree::Module, ::std::clone::Clone, ::std::fmt::Debug)]
    pub(super) struct Line<const N: primitive::usize> {
        #[param("out in")]
        pub(super) weight: Tensor,
        #[param("out")]
        pub(super) bias: ::std::option::Option<Tensor>,
        #[state(Seen)]
        pub(super) seen: Tensor,
        #[r#static]
        pub(super) is_used: primitive::bool,
    }

    impl<const N: primitive::usize> Line<N> {
        #[::pytree::shapes(x = "... in", return = "... out")]
        pub(super) fn forward(&self, x: &Tensor) -> Tensor {
            x.matmul(&self.weight.t())
        }

        #[::pytree::shapes(x = "T[... in]", return = "T[... out]")]
        pub(super) fn try_forward(
            &self,
            x: &Tensor,
        ) -> ::std::result::Result<Tensor, ::pytree::nn::InputError> {
            ::std::result::Result::Ok(x.matmul(&self.weight.t()))
        }
    }

    impl<const N: primitive::usize> Layer for Line<N> {
        fn apply(&self, x: &Tensor) -> Tensor {
            self.forward(x)
        }
    }

    #[derive(::pytree::Module, ::std::clone::Clone)]
    pub(super) enum Model {
        Stack {
            layers: ::std::vec::Vec<::std::boxed::Box<dyn Layer>>,
            #[state]
            key: Key,
            #[r#static]
            setting: Setting,
            next: ::std::option::Option<::std::boxed::Box<Model>>,
        },
        Nothing,
    }

    #[derive(::pytree::Module, ::std::clone::Clone, ::std::fmt::Debug)]
    pub(super) struct Unit;

    pub(super) fn model() -> Model {
        let line = Line::<2> {
            weight: Tensor::from([[1.0_f32, 2.0]]),
            bias: ::std::option::Option::None,
            seen: Tensor::from(0_u32),
            is_used: true,
        };
        ::pytree::debug::debug_print!("{}", line.seen);
        ::std::assert!(line.try_forward(&Tensor::from([1.0_f32, 2.0])).is_ok());
        let next = ::std::option::Option::Some(::std::boxed::Box::new(Model::Nothing));
        Model::Stack {
            layers: ::std::vec![::std::boxed::Box::new(line.clone())],
            key: Key(1),
            setting: Setting::Name {
                name: ::std::string::String::new(),
            },
            next,
        }
    }

    pub(super) fn others() -> (Batch<Tensor>, Setting, ::pytree::nn::Sequential) {
        let line = ::pytree::nn::Activation::Relu;
        let tree = ::pytree::tree!({"a": [Tensor::from(1), None], "b": (Tensor::from(2), {})});
        let _ = (tree, Empty, Unit);
        let batch = Batch(
            Tensor::from([1, 2]).index(::pytree::ix![1..]),
            ::std::vec::Vec::new(),
        );
        (batch, Setting::Rate(0.5), ::pytree::nn::sequential![line])
    }
}

#[test]
fn own_names_do_not_reach_generated_code() {
    use pytree::tree;
    let model = user::model();
    ::std::assert_eq!(tree::any_leaves(&model).len(), 3);
    let (batch, _, _) = user::others();
    ::std::assert_eq!(tree::leaves::<pytree::Tensor, _>(&batch).len(), 1);
    let user::Model::Stack { layers, key, .. } = model.clone() else {
        ::std::unreachable!("it is a stack")
    };
    ::std::assert_eq!(key.0, 1);
    let x = pytree::Tensor::from([1.0_f32, 2.0]);
    ::std::assert_eq!(layers[0].apply(&x), pytree::Tensor::from([5.0_f32]));
}
