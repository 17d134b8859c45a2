//! Laws of `jit`, `vmap`, `grad`, `jvp` and `vjp`, alone and two deep, on random programs.

use proptest::array::uniform5;
use proptest::prelude::*;
use pytree::transform::Jit;
use pytree::{DType, Filter, Tensor};
use pytree::{grad, jit, jvp, stack, unstack, value_and_grad, vjp, vmap};

use crate::laws::cases;
use crate::laws::close::{assert_close, assert_same_bits, assert_sums_close};
use crate::laws::programs::{
    Program, long_programs, long_smooth_programs, noise, short_programs, smooth_programs,
};

type Compiled = Jit<Vec<Tensor>, Vec<Tensor>>;

fn compiled(program: &Program) -> Compiled {
    let program = program.clone();
    jit(move |inputs: Vec<Tensor>| program.run(&inputs))
}

fn compiled_loss(program: &Program) -> Jit<Vec<Tensor>, Tensor> {
    let program = program.clone();
    jit(move |inputs: Vec<Tensor>| program.loss(&inputs))
}

fn examples(program: &Program, count: u64) -> Vec<Vec<Tensor>> {
    (0..count)
        .map(|example| program.inputs(DType::F64, example))
        .collect()
}

/// Tensors of random numbers with the shapes of others.
fn noise_like(tensors: &[Tensor], seed: u64) -> Vec<Tensor> {
    let pairs = tensors.iter().zip(seed..);
    pairs
        .map(|(tensor, seed)| noise(tensor.dtype(), tensor.shape(), seed))
        .collect()
}

fn gradient(program: &Program, inputs: &Vec<Tensor>) -> Vec<Tensor> {
    let slope = grad(|inputs: &Vec<Tensor>| program.loss(inputs))(inputs);
    slope.leaves().to_vec()
}

/// The product of the Hessian of the loss with a direction, forward over reverse.
fn curvature(program: &Program, inputs: &Vec<Tensor>, direction: &Vec<Tensor>) -> Vec<Tensor> {
    let slope = |inputs: &Vec<Tensor>| gradient(program, inputs);
    jvp(slope, inputs, direction).1
}

fn inner(left: &[Tensor], right: &[Tensor]) -> Tensor {
    let products = left
        .iter()
        .zip(right)
        .map(|(left, right)| (left * right).sum());
    products.fold(Tensor::from(0.0_f64), |sum, product| sum + product)
}

/// Forward mode, reverse mode and both through `jit` agree.
fn check_derivatives(program: &Program) {
    let inputs = program.inputs(DType::F64, 0);
    let direction = noise_like(&inputs, 7);
    let run = |inputs: &Vec<Tensor>| program.run(inputs);
    let expected = program.run(&inputs);

    let (results, tangents) = jvp(run, &inputs, &direction);
    assert_close("the value under jvp", &results, &expected);
    let (results, pullback) = vjp(run, &inputs);
    assert_close("the value under vjp", &results, &expected);
    let cotangents = noise_like(&results, 11);
    let pulled = pullback.call(&cotangents).leaves().to_vec();
    assert_sums_close(
        "⟨Jᵀ v, u⟩ = ⟨v, J u⟩",
        (&pulled, &direction),
        (&cotangents, &tangents),
    );

    let compiled = compiled(program);
    let (results, through_jit) = jvp(compiled.clone(), &inputs, &direction);
    assert_close("the value under jvp of jit", &results, &expected);
    assert_close("jvp of jit", &through_jit, &tangents);
    let (_, pullback) = vjp(compiled, &inputs);
    assert_close("vjp of jit", pullback.call(&cotangents).leaves(), &pulled);
}

/// Differentiating under `jit` and `jit` under differentiation change nothing.
fn check_jit_of_derivatives(program: &Program) {
    let inputs = program.inputs(DType::F64, 0);
    let direction = noise_like(&inputs, 7);
    let slope = gradient(program, &inputs);
    let curved = curvature(program, &inputs, &direction);

    let p = program.clone();
    let outside = jit(move |inputs: Vec<Tensor>| gradient(&p, &inputs));
    assert_same_bits("jit of grad", &outside(inputs.clone()), &slope);

    let loss = compiled_loss(program);
    let (value, found) = value_and_grad(loss.clone())(&inputs);
    assert_close(
        "value under grad of jit",
        &[value],
        &[program.loss(&inputs)],
    );
    assert_close("grad of jit", found.leaves(), &slope);

    let of_loss = |inputs: &Vec<Tensor>| grad(loss.clone())(inputs).leaves().to_vec();
    let (_, found) = jvp(of_loss, &inputs, &direction);
    assert_close("jvp of grad of jit", &found, &curved);

    let p = program.clone();
    let outside = jit(move |(inputs, direction): (Vec<Tensor>, Vec<Tensor>)| {
        curvature(&p, &inputs, &direction)
    });
    assert_same_bits("jit of jvp of grad", &outside((inputs, direction)), &curved);
}

/// The tensors that are chosen, and the whole with others in their place.
fn chosen(tensors: &[Tensor], choice: [bool; 5]) -> Vec<Tensor> {
    let pairs = tensors.iter().zip(choice).filter(|(_, chosen)| *chosen);
    pairs.map(|(tensor, _)| tensor.clone()).collect()
}

fn with_chosen(tensors: &[Tensor], choice: [bool; 5], part: &[Tensor]) -> Vec<Tensor> {
    let (mut whole, mut part) = (tensors.to_vec(), part.iter().cloned());
    for (tensor, _) in whole.iter_mut().zip(choice).filter(|(_, chosen)| *chosen) {
        *tensor = part.next().unwrap();
    }
    whole
}

fn choices() -> impl Strategy<Value = [bool; 5]> {
    uniform5(any::<bool>()).prop_filter("nothing is chosen", |choice| choice.contains(&true))
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn jit_computes_what_the_program_does(program in long_programs()) {
        let compiled = compiled(&program);
        for (dtype, example) in [(DType::F32, 0), (DType::F64, 0), (DType::F32, 1), (DType::F32, 0), (DType::BF16, 0), (DType::F16, 0)] {
            let inputs = program.inputs(dtype, example);
            assert_same_bits("jit", &compiled(inputs.clone()), &program.run(&inputs));
            assert_close("the arguments after it", &inputs, &program.inputs(dtype, example));
            assert_same_bits("jit that may reuse them", &compiled(inputs), &program.run(&program.inputs(dtype, example)));
        }
        prop_assert_eq!(compiled.traces(), 4);
    }

    #[test]
    fn jit_takes_one_tensor_at_several_places(program in short_programs()) {
        let mut inputs = program.inputs(DType::F64, 0);
        inputs[4] = program.inputs(DType::F64, 0).swap_remove(0);
        let expected = program.run(&inputs);
        inputs[4] = inputs[0].clone();
        assert_same_bits("jit", &compiled(&program)(inputs), &expected);
    }

    #[test]
    fn jit_of_jit_computes_what_program_does(program in short_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let (p, inside) = (program.clone(), compiled(&program));
        let outside = jit(move |inputs: Vec<Tensor>| [inside(inputs.clone()), p.run(&inputs)].concat());
        let expected = [program.run(&inputs), program.run(&inputs)].concat();
        assert_same_bits("jit of jit", &outside(inputs), &expected);
    }

    #[test]
    fn vmap_is_the_stack_of_the_examples(program in short_programs(), choice in choices(), count in 1..4_u64) {
        let examples = examples(&program, count);
        let whole = |part: &[Tensor]| with_chosen(&examples[0], choice, part);
        let parts: Vec<Vec<Tensor>> = examples.iter().map(|example| chosen(example, choice)).collect();
        let results: Vec<Vec<Tensor>> = parts.iter().map(|part| program.run(&whole(part))).collect();
        let (batch, expected) = (stack(&parts, 0), stack(&results, 0));
        for (member, part) in unstack(&batch).iter().zip(&parts) {
            assert_close("unstack of stack", member, part);
        }

        let inside = compiled(&program);
        for axis in [0, -1] {
            let batch: Vec<Tensor> = batch.iter().map(|tensor| tensor.move_axis(0, axis as isize)).collect();
            let each = vmap(|part: Vec<Tensor>| program.run(&whole(&part))).in_axes(axis);
            let batched = each(batch.clone());
            assert_close("vmap", &batched, &expected);
            let each = vmap(|part: Vec<Tensor>| inside(whole(&part))).in_axes(axis);
            assert_close("vmap of jit", &each(batch.clone()), &expected);
            let (p, rest) = (program.clone(), examples[0].clone());
            let outside = jit(move |batch: Vec<Tensor>| {
                vmap(|part: Vec<Tensor>| p.run(&with_chosen(&rest, choice, &part))).in_axes(axis)(batch)
            });
            assert_same_bits("jit of vmap", &outside(batch), &batched);
        }
    }

    #[test]
    fn vmap_of_no_examples_gives_no_results(program in short_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let empty = |tensors: &[Tensor]| -> Vec<Tensor> {
            let shapes = tensors.iter().map(|tensor| [&[0], tensor.shape()].concat());
            shapes.map(|shape| Tensor::zeros(DType::F64, shape)).collect()
        };
        let expected = empty(&program.run(&inputs));
        let compiled = compiled(&program);
        assert_close("vmap", &vmap(|inputs: Vec<Tensor>| program.run(&inputs))(empty(&inputs)), &expected);
        assert_close("vmap of jit", &vmap(compiled)(empty(&inputs)), &expected);
    }

    #[test]
    fn reverse_mode_is_transpose_of_forward_mode(program in smooth_programs()) {
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
        assert_sums_close("⟨H u, v⟩ = ⟨H v, u⟩", (&along_u, &v), (&along_v, &u));
        let slope_along_u = |inputs: &Vec<Tensor>| inner(&gradient(&program, inputs), &u);
        assert_close("reverse over reverse", grad(slope_along_u)(&inputs).leaves(), &along_u);
    }

    #[test]
    fn compiled_function_has_all_partial_derivatives(
        program in smooth_programs(),
        choices in [choices(), choices()],
    ) {
        let inputs = program.inputs(DType::F64, 0);
        let compiled = compiled(&program);
        for (choice, number) in choices.into_iter().zip(0..) {
            let run = |part: &Vec<Tensor>| program.run(&with_chosen(&inputs, choice, part));
            let run_compiled = |part: &Vec<Tensor>| compiled(with_chosen(&inputs, choice, part));
            let part = chosen(&inputs, choice);
            let direction = noise_like(&part, 7);
            let (expected, found) = (jvp(run, &part, &direction), jvp(run_compiled, &part, &direction));
            assert_close("jvp by some arguments", &found.1, &expected.1);

            let one = |results: Vec<Tensor>| results[number % results.len()].sin().sum();
            let expected = grad(|part: &Vec<Tensor>| one(run(part)))(&part);
            let found = grad(|part: &Vec<Tensor>| one(run_compiled(part)))(&part);
            assert_close("grad of one result", found.leaves(), expected.leaves());
        }
        prop_assert_eq!(compiled.traces(), 1);
    }

    #[test]
    fn gradient_by_filter_is_part_of_gradient(program in smooth_programs(), choice in choices()) {
        let inputs = program.inputs(DType::F64, 0);
        let expected = chosen(&gradient(&program, &inputs), choice);
        let places: Vec<String> = (0..5).filter(|&place| choice[place]).map(|place| format!("[{place}]")).collect();
        let filter = places.iter().fold(Filter::nothing(), |filter, place| filter | Filter::path(place));
        let found = grad(|inputs: &Vec<Tensor>| program.loss(inputs)).wrt(filter)(&inputs);
        prop_assert!(found.iter_with_path().all(|(path, _)| places.contains(&path.to_string())));
        for (place, expected) in places.iter().zip(&expected) {
            // What the loss does not depend on is absent or zeros.
            let found = found.get(place).cloned().unwrap_or_else(|_| Tensor::zeros_like(expected));
            assert_close("the gradient by a filter", &[found], std::slice::from_ref(expected));
        }
    }

    #[test]
    fn vmap_and_grad_go_together(program in smooth_programs(), count in 1..4_u64) {
        let examples = examples(&program, count);
        let gradients: Vec<Vec<Tensor>> = examples.iter().map(|inputs| gradient(&program, inputs)).collect();
        let (batch, expected) = (stack(&examples, 0), stack(&gradients, 0));

        let each = vmap(|inputs: Vec<Tensor>| gradient(&program, &inputs));
        let batched = each(batch.clone());
        assert_close("vmap of grad", &batched, &expected);

        let whole = |batch: &Vec<Tensor>| vmap(|inputs: Vec<Tensor>| program.loss(&inputs))(batch.clone()).sum();
        assert_close("grad of vmap", grad(whole)(&batch).leaves(), &expected);

        let p = program.clone();
        let outside = jit(move |batch: Vec<Tensor>| vmap(|inputs: Vec<Tensor>| gradient(&p, &inputs))(batch));
        assert_same_bits("jit of vmap of grad", &outside(batch.clone()), &batched);

        let p = program.clone();
        let inside = jit(move |inputs: Vec<Tensor>| gradient(&p, &inputs));
        let each = vmap(|inputs: Vec<Tensor>| inside(inputs));
        assert_close("vmap of jit of grad", &each(batch.clone()), &expected);

        let loss = compiled_loss(&program);
        let each = vmap(|inputs: Vec<Tensor>| grad(loss.clone())(&inputs).leaves().to_vec());
        assert_close("vmap of grad of jit", &each(batch.clone()), &expected);

        let whole = |batch: &Vec<Tensor>| vmap(loss.clone())(batch.clone()).sum();
        assert_close("grad of vmap of jit", grad(whole)(&batch).leaves(), &expected);
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
