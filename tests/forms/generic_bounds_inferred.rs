//! Type parameters get the bounds that the kinds of their fields need, without bounds in the source.

use std::marker::PhantomData;

use pytree_core::{Module, Pytree, Static, tree};

#[derive(Module)]
struct Scale<T> {
    #[param]
    factor: T,
}

#[derive(Module)]
struct Everything<M, P, S, N, Q> {
    inner: M,
    others: Vec<Option<M>>,
    #[param]
    param: (P, Vec<P>),
    #[state]
    state: S,
    #[r#static]
    name: N,
    marker: PhantomData<Q>,
}

#[derive(Module)]
enum Either<A, B> {
    Left(A),
    Right { inner: B },
}

#[derive(Pytree)]
struct Pair<A, B>(A, B);

#[derive(Static, Clone)]
struct Setting<T> {
    value: T,
}

struct Unrelated;

fn count<M: Module>(model: &Scale<f32>, other: &Either<M, M>) -> usize {
    tree::any_leaves(model).len() + tree::any_leaves(other).len()
}

#[test]
fn bounds_of_parameters_are_inferred() {
    let everything = Everything {
        inner: Scale { factor: 1.0_f32 },
        others: Vec::new(),
        param: (1.0_f64, Vec::new()),
        state: 1_u8,
        name: Setting { value: "name" },
        marker: PhantomData::<Unrelated>,
    };
    assert_eq!(tree::any_leaves(&everything).len(), 3);
    let either = [
        Either::Left(Scale { factor: 1.0_f32 }),
        Either::Right {
            inner: Scale { factor: 1.0_f32 },
        },
    ];
    assert_eq!(count(&Scale { factor: 1.0 }, &either[0]), 2);
    assert_eq!(tree::any_leaves(&Pair(1_i32, Pair(2.0_f32, ()))).len(), 2);
}
