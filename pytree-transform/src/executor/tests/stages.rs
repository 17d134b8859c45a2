//! Steps that run side by side.

use super::{Function, check, product, recorded};
use crate::executor::planner::Scheduled;
use crate::executor::products::join_products;
use crate::executor::schedule::schedule;
use crate::executor::stages::{Share, Stage, arrange};

/// The steps of a function as text, one line for each stage.
fn staged(shapes: &[&[usize]], threads: usize, function: Function) -> (Vec<String>, Vec<Stage>) {
    let jaxpr = recorded(shapes, function);
    let (steps, stages) = arrange(&jaxpr, join_products(&jaxpr, schedule(&jaxpr)), threads);
    let mut known: Vec<_> = jaxpr
        .inputs
        .iter()
        .copied()
        .chain(jaxpr.constants.iter().map(|(variable, _)| *variable))
        .collect();
    for step in &steps {
        assert!(
            step.inputs(&jaxpr)
                .iter()
                .all(|input| known.contains(input)),
            "a step before its inputs"
        );
        known.extend(step.outputs(&jaxpr));
    }
    let text = |step: &Scheduled| match step {
        Scheduled::One(position) => jaxpr.equations[*position].primitive.name().to_owned(),
        Scheduled::Kernel(fused) => fused.kernel.to_string(),
    };
    let mut start = 0;
    let lines = stages.iter().map(|stage| {
        let line: Vec<String> = steps[start..stage.end].iter().map(text).collect();
        start = stage.end;
        line.join("; ")
    });
    (lines.collect(), stages)
}

#[test]
fn steps_that_need_no_results_of_each_other_form_a_stage() {
    // The gradients of a layer: neither product needs the other one.
    let gradients: Function =
        |x| vec![product(&x[0], &x[2], [0, 0]), product(&x[2], &x[1], [1, 1])];
    let shapes: [&[usize]; 3] = [&[64, 128], &[128, 128], &[64, 128]];
    let (lines, stages) = staged(&shapes, 2, gradients);
    assert_eq!(lines, ["dot_general; dot_general"]);
    let whole = |step| Share { step, pieces: 1 };
    assert_eq!(stages[0].shares, [whole(0), whole(1)]);
    check(&shapes, gradients);
    assert!(
        staged(&shapes, 1, gradients).1[0].shares.is_empty(),
        "one thread"
    );
    // The second product needs the first one.
    let (_, stages) = staged(&shapes, 2, |x| vec![x[0].matmul(&x[1]).matmul(&x[1])]);
    assert!(
        stages.iter().all(|stage| stage.shares.is_empty()),
        "{stages:?}"
    );
    // Short steps run before the stage.
    let with_short: Function = |x| {
        vec![
            product(&x[0], &x[2], [0, 0]),
            x[3].sin(),
            product(&x[2], &x[1], [1, 1]),
        ]
    };
    let (lines, _) = staged(&[shapes[0], shapes[1], shapes[2], &[100]], 2, with_short);
    assert_eq!(lines, ["sin", "dot_general; dot_general"]);
}

#[test]
fn stages_compute_the_same_bits() {
    // Products, updates and reductions of several lengths, in stages with steps that move elements.
    let function: Function = |x| {
        let mut results = Vec::new();
        for scale in 1..6 {
            let scaled = &x[0] * f64::from(scale);
            let slope = product(&scaled, &x[2], [0, 0]);
            results.extend([
                product(&x[2], &x[1], [1, 1]).tanh(),
                (&slope * 0.1).exp().sqrt() + &x[1],
                scaled.t(),
                slope.sum_axes([0]),
            ]);
        }
        results
    };
    let shapes: [&[usize]; 3] = [&[64, 128], &[128, 128], &[64, 128]];
    let (_, stages) = staged(&shapes, 2, function);
    assert!(
        stages.iter().any(|stage| !stage.shares.is_empty()),
        "{stages:?}"
    );
    (0..20).for_each(|_| check(&shapes, function));
}
