//! Laws of the passes on random programs: what they compute stays, to the bit, and so do its derivatives.

use proptest::prelude::*;
use pytree::transform::{each_pass, verify};
use pytree::{DType, Jaxpr, Tensor, jvp, make_jaxpr, vjp};

use crate::laws::cases;
use crate::laws::close::{assert_close, assert_sums_close};
use crate::laws::programs::{Program, noise, short_programs, smooth_programs};

/// A program as it is recorded, and after each pass alone and all of them.
fn rewritten(program: &Program, inputs: &[Tensor]) -> (Jaxpr, Vec<(&'static str, Jaxpr)>) {
    let p = program.clone();
    let jaxpr = make_jaxpr(move |inputs: Vec<Tensor>| p.run(&inputs))(inputs.to_vec());
    assert_eq!(verify(&jaxpr), Ok(()), "{jaxpr}");
    let all: Vec<_> = each_pass(&jaxpr).collect();
    for (name, optimized) in &all {
        assert_eq!(verify(optimized), Ok(()), "{name}: {optimized}");
        assert!(
            optimized.equations().len() <= jaxpr.equations().len(),
            "{name}"
        );
    }
    (jaxpr, all)
}

/// The bits of all elements, every NaN being one.
fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    let of = |tensor: &Tensor| match tensor.dtype() {
        DType::F64 => {
            let element = |x: f64| if x.is_nan() { f64::NAN } else { x }.to_bits();
            tensor.to_vec::<f64>().into_iter().map(element).collect()
        }
        _ => {
            let wide = tensor.convert(DType::F64).to_vec::<f64>();
            let element = |x: f64| if x.is_nan() { f64::NAN } else { x }.to_bits();
            wide.into_iter().map(element).collect()
        }
    };
    tensors.iter().map(of).collect()
}

fn noise_like(tensors: &[Tensor], seed: u64) -> Vec<Tensor> {
    let pairs = tensors.iter().zip(seed..);
    pairs
        .map(|(tensor, seed)| noise(tensor.dtype(), tensor.shape(), seed))
        .collect()
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn each_pass_keeps_every_bit(program in short_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let expected = bits(&program.run(&inputs));
        let (jaxpr, passes) = rewritten(&program, &inputs);
        prop_assert_eq!(bits(&jaxpr.evaluate(&inputs)), expected.clone(), "recorded {}", jaxpr);
        for (name, optimized) in passes {
            prop_assert_eq!(
                bits(&optimized.evaluate(&inputs)), expected.clone(),
                "{}: {}\n{}", name, jaxpr, optimized
            );
        }
    }

    #[test]
    fn each_pass_keeps_every_bit_of_narrower_floats(program in short_programs()) {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let inputs = program.inputs(dtype, 0);
            let (jaxpr, passes) = rewritten(&program, &inputs);
            let expected = bits(&jaxpr.evaluate(&inputs));
            for (name, optimized) in passes {
                prop_assert_eq!(
                    bits(&optimized.evaluate(&inputs)), expected.clone(),
                    "{} in {}", name, dtype
                );
            }
        }
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
    fn each_pass_keeps_derivatives(program in smooth_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let direction = noise_like(&inputs, 7);
        let (jaxpr, passes) = rewritten(&program, &inputs);
        let run = |inputs: &Vec<Tensor>| jaxpr.evaluate(inputs);
        let (results, tangents) = jvp(run, &inputs, &direction);
        let cotangents = noise_like(&results, 11);
        let pulled = vjp(run, &inputs).1.call(&cotangents).leaves().to_vec();
        for (name, optimized) in passes {
            let run = |inputs: &Vec<Tensor>| optimized.evaluate(inputs);
            assert_close(name, &jvp(run, &inputs, &direction).1, &tangents);
            let found = vjp(run, &inputs).1.call(&cotangents).leaves().to_vec();
            assert_close(name, &found, &pulled);
            assert_sums_close(name, (&found, &direction), (&cotangents, &tangents));
        }
    }

    #[test]
    fn derivatives_are_finite_differences(program in smooth_programs()) {
        let inputs = program.inputs(DType::F64, 0);
        let direction = noise_like(&inputs, 7);
        let (_, passes) = rewritten(&program, &inputs);
        let (_, optimized) = &passes[passes.len() - 1];
        let along = |step: f64| -> Vec<Tensor> {
            let moved: Vec<Tensor> = inputs
                .iter()
                .zip(&direction)
                .map(|(input, direction)| input + direction * step)
                .collect();
            optimized.evaluate(&moved)
        };
        let run = |inputs: &Vec<Tensor>| optimized.evaluate(inputs);
        let (_, tangents) = jvp(run, &inputs, &direction);
        let here = optimized.evaluate(&inputs);
        let slope = |step: f64| -> Vec<Tensor> {
            let pairs = along(step).into_iter().zip(&here);
            pairs.map(|(there, here)| (there - here) / step).collect()
        };
        // At a kink or a jump the slopes to both sides differ, or those of two steps; elsewhere they are the
        // derivative.
        let [ahead, behind, near] = [1e-5, -1e-5, 5e-6].map(slope);
        for (((ahead, behind), near), tangent) in ahead.iter().zip(&behind).zip(&near).zip(&tangents) {
            let [ahead, behind, near, tangent] =
                [ahead, behind, near, tangent].map(|tensor| tensor.to_vec::<f64>());
            for (element, tangent) in tangent.into_iter().enumerate() {
                let scale = 1.0 + tangent.abs();
                let (ahead, behind, near) = (ahead[element], behind[element], near[element]);
                if (ahead - behind).abs() < 1e-3 * scale && (ahead - near).abs() < 1e-3 * scale {
                    let slope = f64::midpoint(ahead, behind);
                    prop_assert!((slope - tangent).abs() < 1e-4 * scale, "{slope} {tangent}");
                }
            }
        }
    }
}
