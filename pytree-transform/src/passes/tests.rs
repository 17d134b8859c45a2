//! Tests which equations each simplification rule changes, and which equations it leaves unchanged.

use std::sync::{Arc, Mutex};

use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::DType;

use super::{each_pass, optimize, optimize_for_host};
use crate::debug_callback;
use crate::ix;
use crate::jaxpr::verify;
use crate::primitives::body::Body;
use crate::primitives::body::program::{Program, Slots};
use crate::primitives::call::call;
use crate::primitives::control::scan::Scan;
use crate::primitives::gather::take;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::Recorder;

/// Records a function of one tensor with the shape and dtype of `x`.
fn recorded(x: &Tensor, function: impl FnOnce(&Tensor) -> Tensor) -> Jaxpr {
    let (jaxpr, _, ()) = stage(Recorder::MakeJaxpr, &[x.info().clone()], |inputs| {
        (vec![function(&inputs[0])], ())
    });
    jaxpr.without_dead_code()
}

/// Returns the names of the primitives that remain after all passes, for a function of a matrix.
fn left_of(function: impl Fn(&Tensor) -> Tensor + Send + Sync) -> Vec<&'static str> {
    left_of_given(
        function,
        Tensor::from([[1.0_f32, -0.0, 2.0], [f32::NAN, 3.0, f32::INFINITY]]),
    )
}

fn left_of_given(
    function: impl Fn(&Tensor) -> Tensor + Send + Sync,
    x: Tensor,
) -> Vec<&'static str> {
    let jaxpr = recorded(&x, function);
    let optimized = optimize(jaxpr.clone());
    assert_eq!(verify(&optimized), Ok(()));
    let (found, expected) = (
        optimized.evaluate(std::slice::from_ref(&x)),
        jaxpr.evaluate(&[x]),
    );
    let text = |tensors: &[Tensor]| format!("{:?}", tensors[0].array().map(|array| array.data()));
    assert_eq!(text(&found), text(&expected), "{jaxpr}\n{optimized}");
    optimized
        .equations
        .iter()
        .map(|equation| equation.primitive.name())
        .collect()
}

const NONE: [&str; 0] = [];

#[test]
fn no_ops_are_removed() {
    assert_eq!(left_of(|x| x * 1.0), NONE);
    assert_eq!(left_of(|x| 1.0 * x), NONE);
    assert_eq!(left_of(|x| x / 1.0), NONE);
    assert_eq!(left_of(|x| x - 0.0), NONE);
    assert_eq!(left_of(|x| x + -0.0), NONE);
    assert_eq!(left_of(|x| x.powi(1)), NONE);
    assert_eq!(left_of(|x| -(-x)), NONE);
    assert_eq!(left_of(|x| x.maximum(x)), NONE);
    assert_eq!(left_of(Tensor::stop_gradient), NONE);
    assert_eq!(left_of(|x| x.t().t()), NONE);
    assert_eq!(left_of(|x| x.reshape([6]).reshape([2, 3])), NONE);
    assert_eq!(
        left_of(|x| Tensor::concatenate(std::slice::from_ref(x), 0)),
        NONE
    );
    assert_eq!(left_of(|x| x.less(0.0).select(x, x)), NONE);
    assert_eq!(left_of_given(|x| !!x, Tensor::from([true, false])), NONE);
    assert_eq!(left_of_given(|x| x + 0, Tensor::from([1, -2])), NONE);
}

#[test]
fn choices_of_maxima_are_maxima() {
    assert_eq!(left_of(Tensor::relu), ["full", "max"]);
    let others: [fn(&Tensor) -> Tensor; 3] = [
        |x| x.greater(0.0).select(x, x.maximum(1.0)),
        |x| x.less(0.0).select(x, x.maximum(0.0)),
        |x| x.greater(0.0).select(x.maximum(0.0), x),
    ];
    for other in others {
        assert!(left_of(other).contains(&"select"));
    }
}

#[test]
fn bit_changing_rewrites_are_not_applied() {
    assert_eq!(
        left_of(|x| x + 0.0),
        ["full", "add"],
        "a negative zero becomes positive"
    );
    assert_eq!(left_of(|x| 0.0 - x), ["full", "sub"]);
    assert_eq!(
        left_of(|x| x * 0.0),
        ["full", "mul"],
        "an infinity becomes NaN"
    );
    assert_eq!(left_of(|x| x - x), ["sub"]);
    assert_eq!(left_of(|x| x / x), ["div"]);
    assert_eq!(
        left_of(|x| x.convert(DType::I32).convert(DType::F32)),
        ["convert_element_type", "convert_element_type"]
    );
    assert_eq!(left_of(|x| x.index(ix![1..])), ["slice"]);
}

#[test]
fn consecutive_operations_are_joined() {
    let x = Tensor::ones(DType::F32, [2, 3, 4]);
    assert_eq!(
        left_of_given(|x| x.transpose([1, 2, 0]).transpose([1, 0, 2]), x.clone()),
        ["transpose"]
    );
    assert_eq!(
        left_of_given(|x| x.reshape([6, 4]).reshape([24]), x),
        ["reshape"]
    );
    let row = Tensor::from([1.0_f32, 2.0]);
    assert_eq!(
        left_of_given(|x| x.broadcast_to([3, 2]).broadcast_to([4, 3, 2]), row),
        ["broadcast_in_dim"]
    );
    assert_eq!(left_of(|x| x.powi(0)), ["full"]);
}

#[test]
fn products_absorb_transpositions_of_operands() {
    let x = Tensor::ones(DType::F32, [2, 3]);
    assert_eq!(
        left_of_given(|x| x.t().matmul(x), x.clone()),
        ["dot_general"]
    );
    assert_eq!(
        left_of_given(|x| x.matmul(&x.t()), x.clone()),
        ["dot_general"]
    );
    let stack = Tensor::ones(DType::F32, [2, 3, 4]);
    assert_eq!(
        left_of_given(|x| x.matmul(&x.transpose([0, 2, 1])), stack.clone()),
        ["dot_general"]
    );
    assert_eq!(
        left_of_given(
            |x| x.tensordot(&x.transpose([2, 1, 0]), (&[2], &[0])),
            stack
        ),
        ["transpose", "dot_general"],
        "the result's axes would change places"
    );
}

/// A program that runs the equations of a jaxpr one by one, without passes.
struct AsRecorded(Jaxpr);
impl Program for AsRecorded {
    fn run_in(&self, _: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        let operands: Vec<Tensor> = operands.into_iter().map(Tensor::from_shared).collect();
        let results = self.0.evaluate(&operands).into_iter();
        results.filter_map(Tensor::into_array).collect()
    }
    fn needed(&self) -> usize {
        0
    }
}

#[test]
fn equal_equations_are_merged() {
    assert_eq!(left_of(|x| x.sin() * x.sin()), ["sin", "mul"]);
    assert_eq!(
        left_of(|x| x.powi(2) * x.powi(3)).len(),
        3,
        "other parameters"
    );
    assert_eq!(left_of(|x| x.sin() * x.t().t().sin()), ["sin", "mul"]);
    assert_eq!(left_of(|x| (x - x.t().t()) + (x - x)), ["sub", "add"]);
    let a = Tensor::from([[1.0_f32, 2.0, 3.0]]);
    let b = Tensor::from([[1.0_f32, 2.0, 3.0]]);
    assert_eq!(
        left_of(move |x| (x * &a) + (x * &b)),
        ["mul", "add"],
        "equal constants are one"
    );
    let example = Tensor::from([[1.0_f32; 3]; 2]);
    let inner = Body::new(Recorder::Jit, recorded(&example, Tensor::sin), |jaxpr| {
        Arc::new(AsRecorded(jaxpr.clone()))
    });
    let inner = move |x: &Tensor| call(&inner, std::slice::from_ref(x)).remove(0);
    assert_eq!(left_of(move |x| inner(x) + inner(x)), ["jit", "add"]);
}

#[test]
fn constant_expressions_are_folded() {
    let table = Tensor::from([[1.0_f32, 2.0, 3.0]]);
    assert_eq!(left_of(move |x| x * table.exp().sum()), ["full", "mul"]);
    assert_eq!(
        left_of(|x| x + Tensor::eye(DType::F32, 3).index(ix![..2])),
        ["add"]
    );
    let filled = left_of(|x| x * (Tensor::full_like(x, 2.0) + 1.0));
    assert_eq!(
        filled,
        ["full", "mul"],
        "a result with equal elements is not stored"
    );
    let big = left_of_given(
        |x| x + Tensor::iota(DType::F32, [2000], 0).sin(),
        Tensor::ones(DType::F32, [2000]),
    );
    assert_eq!(big, ["iota", "sin", "add"], "big results are not stored");
}

/// Calls `callback` with the value of a tensor while the program runs.
fn see(x: &Tensor, callback: impl Fn(&[Tensor]) + Send + Sync + 'static) {
    debug_callback(&[x], callback);
}

#[test]
fn effects_keep_order_and_are_not_merged() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of = |name: &'static str| {
        let seen = Arc::clone(&seen);
        move |_: &[Tensor]| seen.lock().unwrap().push(name)
    };
    let (first, second) = (of("first"), of("second"));
    let x = Tensor::from(1.0_f32);
    let jaxpr = recorded(&x, |x| {
        let unused = x.sin();
        see(&unused, first);
        see(x, second.clone());
        see(x, second);
        x.cos()
    });
    for (name, optimized) in each_pass(&jaxpr) {
        assert_eq!(optimized.equations().len(), 5, "{name}");
    }
    assert!(seen.lock().unwrap().is_empty(), "recording prints nothing");
    optimize(jaxpr).evaluate(&[x]);
    assert_eq!(*seen.lock().unwrap(), ["first", "second", "second"]);
}

#[test]
fn sums_of_padded_parts_become_concatenations() {
    let part = |x: &Tensor, from: isize, to: isize| {
        let part = x.index(ix![.., from..to]);
        part.pad(0.0_f32, [(0, 0, 0), (from, 3 - to, 0)])
    };
    let joined = ["slice", "slice", "concatenate", "full", "add"];
    assert_eq!(left_of(|x| part(x, 0, 1) + part(x, 1, 3)), joined);
    assert_eq!(left_of(|x| part(x, 1, 3) + part(x, 0, 1)), joined);
    let three = left_of(|x| part(x, 2, 3) + part(x, 0, 1) + part(x, 1, 2));
    assert_eq!(three[3..], ["concatenate", "full", "add"]);
    // Integers have no negative zero.
    let integers = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let of_integers = |x: &Tensor| {
        let part = |from: isize, to: isize| {
            x.index(ix![.., from..to])
                .pad(0, [(0, 0, 0), (from, 3 - to, 0)])
        };
        part(0, 2) + part(2, 3)
    };
    let joined = ["slice", "slice", "concatenate"];
    assert_eq!(left_of_given(of_integers, integers), joined);
}

#[test]
fn other_sums_of_padded_arrays_stay() {
    let pads = |left: [isize; 2], right: [isize; 2]| {
        left_of(move |x| {
            let part = |[from, to]: [isize; 2]| {
                x.index(ix![.., from..to])
                    .pad(0.0_f32, [(0, 0, 0), (from, 3 - to, 0)])
            };
            part(left) + part(right)
        })
    };
    for overlapping_or_apart in [[[0, 2], [1, 3]], [[0, 1], [2, 3]], [[0, 1], [0, 1]]] {
        let [left, right] = overlapping_or_apart;
        assert!(
            !pads(left, right).contains(&"concatenate"),
            "{left:?} {right:?}"
        );
    }
    let other_value = left_of(|x| {
        let part = |from: isize, to: isize, value: f32| {
            x.index(ix![.., from..to])
                .pad(value, [(0, 0, 0), (from, 3 - to, 0)])
        };
        part(0, 1, 0.0) + part(1, 3, -0.0)
    });
    assert!(!other_value.contains(&"concatenate"));
}

#[test]
fn slices_of_quantized_weights_are_widened_alone() {
    let integers = Tensor::arange(DType::I8, 60).reshape([5, 3, 4]);
    let scales = [[1, 3, 4], [5, 1, 1], [5, 3, 1], [1, 1, 1]];
    let indices = [
        Tensor::from(3),
        Tensor::from([[0, 2], [4, 4]]),
        Tensor::from([-1, 7]),
    ];
    for (shape, axis) in scales
        .into_iter()
        .flat_map(|shape| [(shape, 0), (shape, 1)])
    {
        for indices in &indices {
            let count = shape.iter().product::<usize>();
            let scales = (Tensor::arange(DType::F32, count) + 0.3).reshape(shape);
            let operands = [integers.clone(), scales];
            let infos = operands.each_ref().map(|operand| operand.info().clone());
            let (jaxpr, _, ()) = stage(Recorder::MakeJaxpr, &infos, |inputs| {
                let weight = &inputs[1] * inputs[0].convert(DType::F32);
                (vec![take(&weight, indices, axis).unwrap()], ())
            });
            let optimized = optimize_for_host(jaxpr.clone());
            assert_eq!(verify(&optimized), Ok(()));
            let of = |jaxpr: &Jaxpr| jaxpr.evaluate(&operands);
            assert_eq!(of(&optimized), of(&jaxpr), "{shape:?} {axis} {indices}");
            let mut equations = optimized.equations.iter();
            let convert =
                equations.find(|equation| equation.primitive.name() == "convert_element_type");
            let output = optimized.info(convert.unwrap().outputs[0]);
            assert_eq!(*output, *optimized.outputs()[0], "{optimized}");
        }
    }
}

#[test]
fn products_with_split_quantized_weights_read_the_integers() {
    let integers = Tensor::arange(DType::I8, 60).reshape([4, 3, 5]);
    let x = (Tensor::arange(DType::F32, 2 * 12).reshape([2, 2, 2, 3]) * 0.7).sin();
    let scales = [
        ([1, 1, 5], true),
        ([4, 3, 1], true),
        ([1, 1, 1], true),
        ([4, 1, 1], false),
        ([4, 3, 5], false),
    ];
    for (shape, is_read) in scales {
        let count = shape.iter().product::<usize>();
        let scales = (Tensor::arange(DType::F32, count) + 0.3).reshape(shape);
        let operands = [x.clone(), integers.clone(), scales];
        let infos = operands.each_ref().map(|operand| operand.info().clone());
        let (jaxpr, _, ()) = stage(Recorder::MakeJaxpr, &infos, |inputs| {
            let weight = inputs[1].convert(DType::F32) * &inputs[2];
            let weight = weight.reshape([2, 2, 3, 5]);
            (
                vec![inputs[0].tensordot(&weight, (&[1, 2, 3], &[0, 1, 2]))],
                (),
            )
        });
        let optimized = optimize_for_host(jaxpr.clone());
        assert_eq!(verify(&optimized), Ok(()));
        let of = |jaxpr: &Jaxpr| jaxpr.evaluate(&operands);
        assert_eq!(of(&optimized), of(&jaxpr), "{shape:?}");
        let mut equations = optimized.equations.iter();
        let reads = equations.any(|equation| equation.primitive.name() == "quantized_dot");
        assert_eq!(reads, is_read, "{optimized}");
    }
}

/// The weight of each product is transposed before the loop, once for equal products, and the bits stay the same.
#[test]
fn loops_transpose_their_constants_once() {
    let weight = (Tensor::arange(DType::F32, 96 * 80).reshape([96, 80]) * 0.37).sin();
    let steps = (Tensor::arange(DType::F32, 3 * 72 * 80).reshape([3, 72, 80]) * 0.11).sin();
    let first = Tensor::zeros(DType::F32, [72, 96]);
    let operands = [weight, steps, first];
    let infos = operands.each_ref().map(|operand| operand.info().clone());
    let (jaxpr, _, ()) = stage(Recorder::MakeJaxpr, &infos, |inputs| {
        let step = |sum: Tensor, step: Tensor| {
            let product = |x: &Tensor| x.matmul(&inputs[0].t());
            (sum + product(&step) * product(&step.tanh()), step.sum())
        };
        let (sum, sums) = crate::scan(step, inputs[2].clone(), inputs[1].clone());
        (vec![sum, sums], ())
    });
    let optimized = optimize_for_host(jaxpr.clone());
    assert_eq!(verify(&optimized), Ok(()));
    let names = optimized
        .equations
        .iter()
        .map(|equation| equation.primitive.name());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["transpose", "scan"],
        "{optimized}"
    );
    assert_eq!(optimized.evaluate(&operands), jaxpr.evaluate(&operands));
}

#[test]
fn loops_compute_only_what_is_read() {
    // The carry is (counter, x, y, z): x needs y of the iteration before, and nothing that is read needs the counter or z.
    let jaxpr = recorded(&Tensor::from([1.0_f32, 2.0, 3.0]), |xs| {
        let step = |(i, x, y, z): (Tensor, Tensor, Tensor, Tensor), e: Tensor| {
            ((&i + 1, &x * &y, y.sin(), &z + &e), (x + &e, z.cos()))
        };
        let [i, x, y] = [0.0_f32, 1.0, 2.0].map(Tensor::from);
        let ((_, x, _, _), (sums, _)) = crate::scan(step, (i.clone(), x, y, i), xs.clone());
        sums + x
    });
    let optimized = optimize_for_host(jaxpr.clone());
    assert_eq!(verify(&optimized), Ok(()));
    let scans = optimized.equations.iter();
    let scans: Vec<&Scan> = scans.filter_map(|it| it.parameters()).collect();
    assert_eq!(scans.len(), 1);
    assert_eq!((scans[0].constants, scans[0].carry), (0, 2));
    assert_eq!(scans[0].body.jaxpr.outputs.len(), 3);
    let x = [Tensor::from([0.5_f32, -1.0, 4.0])];
    assert_eq!(optimized.evaluate(&x), jaxpr.evaluate(&x));
}
