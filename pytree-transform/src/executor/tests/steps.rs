//! Steps of kernels: factors, chains, and results that a step writes to memory.

use super::{Function, check, kernels, recorded};
use crate::executor::planner::Scheduled;
use crate::executor::schedule::schedule;
use crate::tensor::Tensor;

/// The operations of arithmetic.
const OPERATIONS: [fn(&Tensor, &Tensor) -> Tensor; 4] = [
    |left, right| left + right,
    |left, right| left - right,
    |left, right| left * right,
    |left, right| left / right,
];

#[test]
fn chains_round_like_single_operations() {
    // The results of tanh need all digits of a float, so each operation of a chain rounds.
    let chains: Function = |x| {
        let [a, b, c] = [0, 1, 2].map(|input| x[input].tanh());
        let pairs = OPERATIONS.iter().flat_map(|first| {
            let second = OPERATIONS.iter();
            second.flat_map(|second| {
                [
                    second(&first(&a, &b), &c),
                    second(&c, &first(&a, &b)),
                    second(&first(&a, &c), &first(&b, &c)),
                ]
            })
        });
        pairs.collect()
    };
    for length in [1, 100, 513, 5000] {
        check(&[&[length], &[length], &[length]], chains);
    }
    // A value that is read twice is not part of a chain.
    let (kernels, _) = kernels(&recorded(&[&[8], &[8]], |x| {
        let sum = &x[0] + &x[1];
        vec![&sum * &sum / &x[1]]
    }));
    assert_eq!(kernels, ["8 elements: add, mul, div"]);
}

#[test]
fn factors_round_like_single_operations() {
    // One factor is a constant, and the other is an element of an input that is broadcast.
    let factors: Function = |x| {
        let [a, b, c] = [0, 1, 2].map(|input| x[input].tanh());
        let rate = x[3].exp();
        let pairs = OPERATIONS.iter().flat_map(|first| {
            let (a, b, c, rate) = (&a, &b, &c, &rate);
            let second = OPERATIONS.iter();
            second.flat_map(move |second| {
                [
                    first(&(a * 0.1), b),
                    first(a, &(rate * b)),
                    (first(a, b) * 0.3).tanh(),
                    second(&(first(&(a * 0.9), &(b * rate)) * 0.7), &(c * 1.1)),
                    second(&(c * rate), &(first(a, b) * 0.7)),
                ]
            })
        });
        pairs.collect()
    };
    for length in [1, 100, 513, 5000] {
        check(&[&[length], &[length], &[length], &[]], factors);
    }
}

/// Returns the number of steps of the only kernel of a function.
fn steps(shapes: &[&[usize]], function: Function) -> usize {
    check(shapes, function);
    let scheduled = schedule(&recorded(shapes, function));
    let [Scheduled::Kernel(kernel)] = &scheduled[..] else {
        panic!("expected one kernel, found {} steps", scheduled.len());
    };
    format!("{kernel:?}").matches("Step { work").count()
}

#[test]
fn only_products_that_one_step_reads_become_factors() {
    let steps = |function| steps(&[&[8], &[8]], function);
    assert_eq!(steps(|x| vec![&x[0] * 0.5 - &x[1] * 0.25]), 1);
    assert_eq!(steps(|x| vec![(&x[0] * 0.5).exp()]), 1);
    // A product of a product has two roundings. The second one is the factor.
    assert_eq!(steps(|x| vec![(&x[0] * 0.1 * 0.3).exp()]), 2);
    // The product is also a result.
    let stored: Function = |x| {
        let scaled = &x[0] * 0.1;
        vec![scaled.exp(), scaled]
    };
    assert_eq!(steps(stored), 2);
    // Two steps read the product.
    let read_twice: Function = |x| {
        let scaled = &x[0] * 0.1;
        vec![scaled.exp() - scaled.tanh()]
    };
    assert_eq!(steps(read_twice), 4);
}

#[test]
fn negations_squares_and_halves_are_arithmetic() {
    let steps = |function| steps(&[&[200], &[200]], function);
    assert_eq!(steps(|x| vec![-&x[0] + &x[1]]), 1);
    assert_eq!(steps(|x| vec![&x[1] * -x[0].tanh()]), 2);
    // The negation has a factor of its own.
    assert_eq!(steps(|x| vec![&x[1] + -(&x[0] * 0.3)]), 2);
    assert_eq!(steps(|x| vec![x[0].square() + &x[1]]), 1);
    assert_eq!(steps(|x| vec![(&x[0] / 4.0).exp()]), 1);
    assert_eq!(steps(|x| vec![(&x[0] / 6.0).exp()]), 2);
}

#[test]
fn comparisons_that_only_choose_are_part_of_choices() {
    fn zeros(x: &[Tensor]) -> Tensor {
        Tensor::zeros_like(&x[0])
    }
    let steps = |function| steps(&[&[200], &[200]], function);
    assert_eq!(steps(|x| vec![x[0].less(&x[1]).select(&x[0], zeros(x))]), 1);
    // Two choices compute the comparison again.
    assert_eq!(
        steps(|x| {
            let is_less = x[0].less(&x[1]);
            let left = is_less.select(&x[0], zeros(x));
            vec![left, is_less.select(zeros(x), &x[1])]
        }),
        2
    );
    // The comparison is a result, too.
    assert_eq!(
        steps(|x| {
            let is_less = x[0].less(&x[1]);
            vec![is_less.select(&x[0], zeros(x)), is_less]
        }),
        2
    );
    // A conjunction or a disjunction becomes a choice between choices.
    assert_eq!(
        steps(|x| vec![(x[0].greater(-1.0) & x[1].less(1.0)).select(&x[0], x[1].tanh())]),
        3
    );
    assert_eq!(
        steps(|x| vec![(x[0].greater(1.0) | x[1].less(0.5)).select(&x[0], x[1].tanh())]),
        3
    );
    // No other operation of truth values does.
    assert_eq!(
        steps(|x| vec![
            x[0].greater(1.0)
                .bit_xor(x[1].less(0.5))
                .select(&x[0], &x[1])
        ]),
        4
    );
    // The conjunction is a result, too.
    assert_eq!(
        steps(|x| {
            let is_inside = x[0].greater(-1.0) & x[1].less(1.0);
            vec![is_inside.select(&x[0], &x[1]), is_inside]
        }),
        4
    );
}

#[test]
fn update_of_adam_has_five_steps() {
    let update: Function = |x| {
        let [p, m, v, g] = [0, 1, 2, 3].map(|input| &x[input]);
        let m = m * 0.9 + g * 0.1;
        let v = v * 0.999 + g * g * 0.001;
        let p = p + &m * 1.1 / ((&v * 1.2).sqrt() + 1e-8) * -0.001;
        vec![m, v, p]
    };
    assert_eq!(steps(&[&[8][..]; 4], update), 5);
}

/// Returns for each result of the only kernel of a function: the inputs whose memory a step may write the result to, or `None` if no
/// step can write it to memory.
fn direct(shapes: &[&[usize]], function: Function) -> Vec<String> {
    check(shapes, function);
    let scheduled = schedule(&recorded(shapes, function));
    let [Scheduled::Kernel(kernel)] = &scheduled[..] else {
        panic!("expected one kernel, found {} steps", scheduled.len());
    };
    let text = format!("{kernel:?}");
    let stores = text.split("direct: ").skip(1);
    let end = |store: &str| store.find(", level").expect("the next field");
    stores.map(|store| store[..end(store)].to_owned()).collect()
}

#[test]
fn steps_write_results_to_memory() {
    for length in [1, 63, 64, 200, 1024, 5000] {
        let shapes: [&[usize]; 3] = [&[length], &[length], &[length]];
        let direct = |function| direct(&shapes, function);
        // The result may have the memory of an operand of the same step.
        assert_eq!(
            direct(|x| vec![(&x[0] + &x[1]) * &x[2]]),
            ["Some([0, 1, 2])"]
        );
        assert_eq!(direct(|x| vec![(&x[0] * 0.5).exp()]), ["Some([0])"]);
        assert_eq!(
            direct(|x| vec![x[0].greater(&x[1]).select(&x[1], &x[0])]),
            ["Some([0, 1])"]
        );
        // A later step reads the first result from its memory.
        let read_again: Function = |x| {
            let y = (&x[0] * 0.5).exp();
            vec![y.clone(), y.tanh() * &x[1]]
        };
        assert_eq!(direct(read_again), ["Some([0])", "Some([1, 0])"]);
        // The first result may not have the memory of an operand that a later step reads.
        let needed: Function = |x| {
            let sum = (&x[0] + &x[1]).exp();
            vec![sum.clone(), sum.tanh() * &x[0] - &x[1] * &x[2]]
        };
        assert_eq!(direct(needed), ["Some([])", "Some([1, 0, 2])"]);
    }
    // A comparison is a result of its own.
    let compared: Function = |x| vec![x[0].greater(&x[1]), (&x[0] + 1.0).exp()];
    assert_eq!(
        direct(&[&[100], &[100]], compared),
        ["Some([])", "Some([0, 1])"]
    );
    // A later step reduces the rows of a result that is in memory.
    let reduced: Function = |x| {
        let y = (&x[0] * 0.5).exp();
        vec![y.clone(), y.sum_axes([1])]
    };
    assert_eq!(direct(&[&[20, 30]], reduced), ["Some([0])", "None"]);
}
