//! Worker threads, sums, memory, suggestions and files, with stand-ins for what they need of the library. They are built in
//! a second or two, and so are their mutants.

#![allow(dead_code, unused_imports)]

#[path = "../../../pytree-store/src/files/mod.rs"]
pub mod files;
#[path = "../../../pytree-kernels/src/base/fold.rs"]
pub mod fold;
#[path = "../../../pytree-kernels/src/base/memory.rs"]
pub mod memory;
#[path = "../../../pytree-base/src/suggest.rs"]
pub mod suggest;
#[path = "../../../pytree-kernels/src/base/threads.rs"]
pub mod threads;

pub mod base {
    pub use super::memory;

    pub mod dtype {
        pub trait ArrayElement: Copy + Default {}
        impl<T: Copy + Default> ArrayElement for T {}
    }

    pub mod combine {
        pub trait Combine<T>: Copy {
            const IS_WIDE: bool = false;
            const START: T;
            fn combine(left: T, right: T) -> T;
        }

        #[derive(Clone, Copy)]
        pub struct Sum;

        macro_rules! sums {
            ($($number:ty: $zero:expr, $plus:path;)*) => {$(
                impl Combine<$number> for Sum {
                    const START: $number = $zero;
                    fn combine(left: $number, right: $number) -> $number {
                        $plus(left, right)
                    }
                }
            )*};
        }
        sums! {
            f32: 0.0, std::ops::Add::add;
            i64: 0, i64::wrapping_add;
            u32: 0, u32::wrapping_add;
        }
    }

    pub mod instructions {
        macro_rules! leaf_if {
            ($is_wide:expr => $($body:tt)*) => {{
                $($body)*
            }};
        }
        pub(crate) use leaf_if;
    }

    pub mod array {
        pub fn reused<T: Copy + Default>(length: usize) -> Vec<T> {
            vec![T::default(); length]
        }
        pub fn give_back<T>(_: Vec<T>) {}
    }
}
