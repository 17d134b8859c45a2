//! Transformations nested at random, against what they mean.
//!
//! A stack of transformations is applied to a function of one tensor twice: by the transformations
//! themselves, and by definition, where `jit` does nothing, `vmap` is a loop and a stack, and a gradient
//! is made of derivatives along each axis in forward mode.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use pytree::indexing::Index;
use pytree::{DType, Tensor, grad, hessian, jit, jvp, vmap};

use crate::laws::cases;
use crate::laws::close::assert_close;
use crate::laws::programs::{Program, noise, smooth_programs};

type Function = Arc<dyn Fn(Tensor) -> Tensor + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transformation {
    Jit,
    Vmap,
    /// The gradient of the sum.
    Grad,
    /// The derivative along a direction that depends on the place.
    Jvp,
}

fn direction(x: &Tensor) -> Tensor {
    x.cos() + 0.25
}

/// The transformation itself.
fn transformed(transformation: Transformation, f: Function) -> Function {
    match transformation {
        Transformation::Jit => {
            let f = jit(move |x: Tensor| f(x));
            Arc::new(move |x| f(x))
        }
        Transformation::Vmap => Arc::new(move |x| vmap(|x: Tensor| f(x))(x)),
        Transformation::Grad => Arc::new(move |x| grad(|x: &Tensor| f(x.clone()).sum())(&x)),
        Transformation::Jvp => {
            Arc::new(move |x| jvp(|x: &Tensor| f(x.clone()), &x, &direction(&x)).1)
        }
    }
}

/// What it means.
fn defined(transformation: Transformation, f: Function) -> Function {
    match transformation {
        Transformation::Jit => f,
        Transformation::Vmap => Arc::new(move |x| {
            let example = |number: usize| f(x.index([Index::from(number)]));
            Tensor::stack(&(0..x.shape()[0]).map(example).collect::<Vec<_>>(), 0)
        }),
        Transformation::Grad => Arc::new(move |x| {
            if x.is_empty() {
                return Tensor::zeros_like(&x);
            }
            let slope = |place: usize| {
                let towards = Tensor::from(place as i32)
                    .one_hot(x.len(), DType::F64)
                    .reshape(x.shape());
                jvp(|x: &Tensor| f(x.clone()).sum(), &x, &towards).1
            };
            Tensor::stack(&(0..x.len()).map(slope).collect::<Vec<_>>(), 0).reshape(x.shape())
        }),
        Transformation::Jvp => transformed(transformation, f),
    }
}

/// A function of the first input of a program, a matrix, with the others fixed.
fn base(program: &Program) -> Function {
    let (program, inputs) = (program.clone(), program.inputs(DType::F64, 0));
    Arc::new(move |x| {
        let mut inputs = inputs.clone();
        inputs[0] = x.clone();
        program.loss(&inputs) + (x * 0.5).sin().sum()
    })
}

/// Up to three transformations, innermost first. More than two derivatives take long by definition.
fn stacks() -> impl Strategy<Value = Vec<Transformation>> {
    let one = select(vec![
        Transformation::Jit,
        Transformation::Jit,
        Transformation::Vmap,
        Transformation::Grad,
        Transformation::Jvp,
    ]);
    vec(one, 1..4).prop_filter("derivatives of order 3", |stack| {
        stack
            .iter()
            .filter(|one| matches!(one, Transformation::Grad | Transformation::Jvp))
            .count()
            < 3
    })
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn nested_transformations_do_what_they_mean(program in smooth_programs(), stack in stacks()) {
        let batches = stack.iter().filter(|one| **one == Transformation::Vmap).count();
        let mut shape = vec![2; batches];
        shape.extend_from_slice(program.inputs(DType::F64, 0)[0].shape());
        let x = noise(DType::F64, &shape, 5);
        let apply = |by: fn(Transformation, Function) -> Function| {
            stack.iter().fold(base(&program), |f, transformation| by(*transformation, f))
        };
        let (found, expected) = (apply(transformed)(x.clone()), apply(defined)(x));
        assert_close(&format!("{stack:?}"), &[found], &[expected]);
    }

}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn hessian_is_the_jacobian_of_grad(program in smooth_programs()) {
        let f = base(&program);
        let x = program.inputs(DType::F64, 0).swap_remove(0);
        let of_gradient = defined(Transformation::Grad, Arc::clone(&f));
        let column = |place: usize| {
            let towards = Tensor::from(place as i32).one_hot(x.len(), DType::F64).reshape(x.shape());
            jvp(|x: &Tensor| of_gradient(x.clone()), &x, &towards).1
        };
        let found = hessian(|x: &Tensor| f(x.clone()))(&x);
        let compiled = { let f = Arc::clone(&f); jit(hessian(move |x: &Tensor| f(x.clone())))(x.clone()) };
        if x.is_empty() {
            prop_assert!(found.is_empty() && compiled.is_empty());
        } else {
            let expected = Tensor::stack(&(0..x.len()).map(column).collect::<Vec<_>>(), 0).reshape(found.shape());
            assert_close("hessian", &[found.clone(), compiled], &[expected.clone(), expected]);
        }
    }
}
