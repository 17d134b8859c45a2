//! Laws of `jit`, `vmap`, `grad`, `jvp` and `vjp`, alone and two deep, on random programs.

use proptest::prelude::*;
use pytree::{DType, Tensor, grad, jit, jvp, vjp, vmap};

use crate::cases;
use crate::close::{assert_close, numbers};
use crate::programs::{
    Program, long_programs, long_smooth_programs, noise, short_programs, smooth_programs,
};

/// Tensors one stack of examples each, along this axis.
fn stacked(examples: &[Vec<Tensor>], axis: isize) -> Vec<Tensor> {
    let column = |position: usize| {
        examples
            .iter()
            .map(|example| example[position].clone())
            .collect::<Vec<_>>()
    };
    (0..examples[0].len())
        .map(|position| Tensor::stack(&column(position), axis))
        .collect()
}

/// Tensors with elements that nobody else holds.
fn copied(tensors: &[Tensor]) -> Vec<Tensor> {
    tensors
        .iter()
        .map(|tensor| Tensor::from(tensor.to_ndarray::<f64>().unwrap()))
        .collect()
}

/// Tensors of random numbers with the shapes of others.
fn noise_like(tensors: &[Tensor], seed: u64) -> Vec<Tensor> {
    tensors
        .iter()
        .zip(seed..)
        .map(|(tensor, seed)| noise(tensor.dtype(), tensor.shape(), seed))
        .collect()
}

fn compiled(program: &Program) -> pytree::Jit<Vec<Tensor>, Vec<Tensor>> {
    let program = program.clone();
    jit(move |inputs: Vec<Tensor>| program.run(&inputs))
}

fn gradient(program: &Program, inputs: &Vec<Tensor>) -> Vec<Tensor> {
    grad(|inputs: &Vec<Tensor>| program.loss(inputs))(inputs)
        .leaves()
        .to_vec()
}

/// The product of the Hessian of the loss with a direction, forward over reverse.
fn curvature(program: &Program, inputs: &Vec<Tensor>, direction: &Vec<Tensor>) -> Vec<Tensor> {
    jvp(
        |inputs: &Vec<Tensor>| gradient(program, inputs),
        inputs,
        direction,
    )
    .1
}

fn inner(left: &[Tensor], right: &[Tensor]) -> Tensor {
    left.iter()
        .zip(right)
        .fold(Tensor::from(0.0_f64), |sum, (left, right)| {
            sum + (left * right).sum()
        })
}

/// The sum of |a b| over all elements: what the rounding of their inner product is relative to.
fn weight(left: &[Tensor], right: &[Tensor]) -> f64 {
    let products = left
        .iter()
        .zip(right)
        .flat_map(|(left, right)| numbers(&(left * right)));
    products.map(f64::abs).sum()
}

/// The laws of first derivatives of a program.
fn check_derivatives(program: &Program) {
    let inputs = program.inputs(DType::F64, 0);
    let direction = noise_like(&inputs, 7);
    let run = |inputs: &Vec<Tensor>| program.run(inputs);
    let (results, tangents) = jvp(run, &inputs, &direction);
    assert_close("the value under jvp", &results, &program.run(&inputs));
    let cotangents = noise_like(&results, 11);
    let (results, pullback) = vjp(run, &inputs);
    assert_close("the value under vjp", &results, &program.run(&inputs));
    let pulled = pullback.call(&cotangents).leaves().to_vec();
    let (forward, backward) = (inner(&cotangents, &tangents), inner(&pulled, &direction));
    let difference = (forward.item::<f64>() - backward.item::<f64>()).abs();
    let scale = weight(&cotangents, &tangents) + weight(&pulled, &direction) + 1.0;
    assert!(
        difference <= 1e-11 * scale,
        "⟨v, J u⟩ = {forward}, ⟨Jᵀ v, u⟩ = {backward}"
    );

    let compiled = compiled(program);
    let (results, through) = jvp(&*compiled_as_function(&compiled), &inputs, &direction);
    assert_close(
        "the value under jvp of jit",
        &results,
        &program.run(&inputs),
    );
    assert_close("jvp of jit", &through, &tangents);
    let (_, pullback) = vjp(&*compiled_as_function(&compiled), &inputs);
    assert_close("vjp of jit", pullback.call(&cotangents).leaves(), &pulled);
}

fn compiled_as_function(
    compiled: &pytree::Jit<Vec<Tensor>, Vec<Tensor>>,
) -> Box<dyn Fn(&Vec<Tensor>) -> Vec<Tensor> + '_> {
    Box::new(|inputs| compiled(inputs.clone()))
}

/// Differentiating under `jit` and `jit` under differentiation change nothing.
fn check_jit_of_derivatives(program: &Program) {
    let inputs = program.inputs(DType::F64, 0);
    let direction = noise_like(&inputs, 7);
    let (slope, curved) = (
        gradient(program, &inputs),
        curvature(program, &inputs, &direction),
    );
    let (p, argument) = (program.clone(), inputs.clone());
    assert_close(
        "jit of grad",
        &jit(move |inputs: Vec<Tensor>| gradient(&p, &inputs))(argument),
        &slope,
    );
    let p = program.clone();
    let loss = jit(move |inputs: Vec<Tensor>| p.loss(&inputs));
    assert_close("grad of jit", grad(loss.clone())(&inputs).leaves(), &slope);
    let of_loss = move |inputs: &Vec<Tensor>| grad(loss.clone())(inputs).leaves().to_vec();
    assert_close(
        "jvp of grad of jit",
        &jvp(&of_loss, &inputs, &direction).1,
        &curved,
    );
    let p = program.clone();
    let of_both = jit(move |(inputs, direction): (Vec<Tensor>, Vec<Tensor>)| {
        curvature(&p, &inputs, &direction)
    });
    assert_close("jit of jvp of grad", &of_both((inputs, direction)), &curved);
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn jit_computes_what_the_program_does(program in long_programs(), dtype in prop::sample::select(vec![DType::F32, DType::F64])) {
        let inputs = program.inputs(dtype, 0);
        let expected = program.run(&inputs);
        let compiled = compiled(&program);
        assert_close("jit", &compiled(inputs.clone()), &expected);
        assert_close("the arguments after it", &inputs, &program.inputs(dtype, 0));
        let other = program.inputs(dtype, 1);
        assert_close("jit on other inputs", &compiled(program.inputs(dtype, 1)), &program.run(&other));
        assert_close("jit on the first again", &compiled(program.inputs(dtype, 0)), &expected);
        prop_assert_eq!(compiled.traces(), 1);
    }

    #[test]
    fn jit_takes_one_tensor_at_several_places(program in short_programs()) {
        let mut inputs = program.inputs(DType::F64, 0);
        inputs[4] = inputs[0].clone();
        let expected = program.run(&copied(&inputs));
        let compiled = compiled(&program);
        assert_close("jit", &compiled(inputs.clone()), &expected);
        drop(inputs.pop());
        let same = inputs[0].clone();
        inputs.push(same);
        assert_close("jit that may reuse", &compiled(inputs), &expected);
    }

    #[test]
    fn jit_of_jit_computes_what_the_program_does(program in short_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let inside = compiled(&program);
        let p = program.clone();
        let outside = jit(move |inputs: Vec<Tensor>| {
            let mut results = inside(inputs.clone());
            results.extend(p.run(&inputs));
            results
        });
        let expected = [program.run(&inputs), program.run(&inputs)].concat();
        assert_close("jit of jit", &outside(inputs), &expected);
    }

    #[test]
    fn vmap_is_the_stack_of_the_examples(
        program in short_programs(),
        mapped in prop::array::uniform5(any::<bool>()),
        count in 1..4_u64,
        last in any::<bool>(),
    ) {
        let mapped = if mapped.contains(&true) { mapped } else { [true; 5] };
        let first = program.inputs(DType::F64, 0);
        let choose = |chosen: bool, tensors: &[Tensor]| -> Vec<Tensor> {
            tensors.iter().zip(mapped).filter(|(_, mapped)| *mapped == chosen).map(|(tensor, _)| tensor.clone()).collect()
        };
        let whole = |part: &[Tensor]| -> Vec<Tensor> {
            let mut part = part.iter();
            first.iter().zip(mapped).map(|(other, mapped)| if mapped { part.next().unwrap() } else { other }.clone()).collect()
        };
        let examples: Vec<Vec<Tensor>> = (0..count).map(|example| choose(true, &program.inputs(DType::F64, example))).collect();
        let results: Vec<Vec<Tensor>> = examples.iter().map(|example| program.run(&whole(example))).collect();
        let expected = stacked(&results, 0);
        let axis = if last { -1 } else { 0 };
        let batch = stacked(&examples, axis as isize);
        let run = |part: Vec<Tensor>| program.run(&whole(&part));
        assert_close("vmap", &vmap(run).in_axes(axis)(batch.clone()), &expected);

        let inside = compiled(&program);
        let through = vmap(|part: Vec<Tensor>| inside(whole(&part))).in_axes(axis);
        assert_close("vmap of jit", &through(batch.clone()), &expected);

        let (p, rest) = (program.clone(), first.clone());
        let outside = jit(move |batch: Vec<Tensor>| {
            let whole = |part: &[Tensor]| -> Vec<Tensor> {
                let mut part = part.iter();
                rest.iter().zip(mapped).map(|(other, mapped)| if mapped { part.next().unwrap() } else { other }.clone()).collect()
            };
            vmap(|part: Vec<Tensor>| p.run(&whole(&part))).in_axes(axis)(batch)
        });
        assert_close("jit of vmap", &outside(batch), &expected);
    }

    #[test]
    fn reverse_mode_is_the_transpose_of_forward_mode(program in smooth_programs()) {
        check_derivatives(&program);
    }

    #[test]
    fn jit_and_grad_go_together(program in smooth_programs()) {
        check_jit_of_derivatives(&program);
    }

    #[test]
    fn second_derivatives_are_symmetric(program in smooth_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let (u, v) = (noise_like(&inputs, 7), noise_like(&inputs, 19));
        let (along_u, along_v) = (curvature(&program, &inputs, &u), curvature(&program, &inputs, &v));
        let difference = (inner(&along_u, &v).item::<f64>() - inner(&along_v, &u).item::<f64>()).abs();
        prop_assert!(difference <= 1e-11 * (weight(&along_u, &v) + weight(&along_v, &u) + 1.0), "{}", difference);
        let along = |inputs: &Vec<Tensor>| inner(&gradient(&program, inputs), &u);
        assert_close("reverse over reverse", grad(along)(&inputs).leaves(), &along_u);
    }

    #[test]
    fn vmap_and_grad_go_together(program in smooth_programs(), count in 1..4_u64) {
        let examples: Vec<Vec<Tensor>> = (0..count).map(|example| program.inputs(DType::F64, example)).collect();
        let gradients: Vec<Vec<Tensor>> = examples.iter().map(|inputs| gradient(&program, inputs)).collect();
        let (batch, expected) = (stacked(&examples, 0), stacked(&gradients, 0));
        let each = vmap(|inputs: Vec<Tensor>| gradient(&program, &inputs));
        assert_close("vmap of grad", &each(batch.clone()), &expected);

        let whole = |batch: &Vec<Tensor>| vmap(|inputs: Vec<Tensor>| program.loss(&inputs))(batch.clone()).sum();
        assert_close("grad of vmap", grad(whole)(&batch).leaves(), &expected);

        let p = program.clone();
        let outside = jit(move |batch: Vec<Tensor>| vmap(|inputs: Vec<Tensor>| gradient(&p, &inputs))(batch));
        assert_close("jit of vmap of grad", &outside(batch.clone()), &expected);

        let p = program.clone();
        let inside = jit(move |inputs: Vec<Tensor>| gradient(&p, &inputs));
        assert_close("vmap of jit of grad", &vmap(|inputs: Vec<Tensor>| inside(inputs))(batch.clone()), &expected);

        let p = program.clone();
        let loss = jit(move |inputs: Vec<Tensor>| p.loss(&inputs));
        let each = vmap(|inputs: Vec<Tensor>| grad(loss.clone())(&inputs).leaves().to_vec());
        assert_close("vmap of grad of jit", &each(batch), &expected);
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn derivatives_of_long_programs_keep_the_laws(program in long_smooth_programs()) {
        check_derivatives(&program);
        check_jit_of_derivatives(&program);
    }
}
