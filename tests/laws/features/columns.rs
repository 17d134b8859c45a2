//! The columns of the table: what is done to a model.

use pytree::checkpoint::{self, Bytes};
use pytree::control::{cond_mut, fori_loop, scan, scan_mut, switch, while_loop};
use pytree::kind::Intermediate;
use pytree::nn::{capture, convert_floats};
use pytree::optim::{Optimizer, sgd};
use pytree::random::with_rngs;
use pytree::{
    Axes, DType, Filter, Tensor, TreeDef, diff, eval_shape, grad, graph, jit, jit_mut, jvp, lint,
    partition, remat, stack, unstack, value_and_grad, value_and_grad_mut, vjp, vmap, vmap_mut,
};

use super::rows::{Plain, Row};
use super::{Outside, close, leaf, same_values};

type Make = fn() -> Row;

macro_rules! columns {
    ($($name:ident),* $(,)?) => {
        /// The name of each column, and its check.
        pub const COLUMNS: &[(&str, fn(Make))] = &[$((stringify!($name), $name)),*];
    };
}
columns! {
    eager, jitted, jitted_mut, grad_mut, grad_of, remat_of, jvp_of, vjp_of, vmap_of, vmapped_mut,
    scanned_mut, scanned, while_looped, fori_looped, cond_mut_of, switched, updated_in_one_branch,
    split_and_merged, part_updated, popped, captured, saved_and_loaded, diffed, linted, exported,
    stacked, structure_in_bytes, shapes_evaluated, streams_replaced, floats_converted,
}

fn x(seed: i32) -> Tensor {
    Tensor::from([[0.5_f32, -1.0, 2.0], [0.25, 1.0, -0.5]]) * f64::from(seed + 1)
}

/// The three inputs of a loop, stacked.
fn inputs() -> Tensor {
    Tensor::stack(&[x(0), x(1), x(2)], 0)
}

fn trained() -> Filter {
    Filter::param() & Filter::path_contains("bias")
}

/// Runs the program without a feature on some inputs. Returns the model and the outputs.
fn expected(seeds: &[i32]) -> (Plain, Vec<Tensor>) {
    let mut plain = Plain::new();
    let outputs = seeds.iter().map(|&seed| plain.forward(&x(seed))).collect();
    (plain, outputs)
}

fn loss(y: &Tensor) -> Tensor {
    (y.square() * 0.5 + y).sum()
}

/// The gradient of the loss with respect to the bias, without a feature.
fn expected_gradient() -> Tensor {
    let slope = grad(|bias: &Tensor| {
        let mut plain = Plain {
            bias: bias.clone(),
            ..Plain::new()
        };
        loss(&plain.forward(&x(0)))
    });
    slope(&Plain::new().bias)
}

/// Runs an in-place function on a model, and checks the values and the identities afterwards.
fn in_place(make: Make, seeds: &[i32], run: impl FnOnce(&mut Row) -> Vec<Tensor>) -> Row {
    let mut row = make();
    let outside = Outside::of(&row);
    let outputs = run(&mut row);
    let (plain, of_plain) = expected(seeds);
    same_values(&row, &plain);
    for (found, expected) in outputs.iter().zip(&of_plain) {
        close("output", found, expected);
    }
    outside.check(&row, "-");
    row
}

fn eager(make: Make) {
    in_place(make, &[0, 1], |row| {
        vec![row.forward(&x(0)), row.forward(&x(1))]
    });
}

fn jitted(make: Make) {
    let run = jit(|(mut row, x): (Row, Tensor)| {
        let y = row.forward(&x);
        (row, y)
    });
    in_place(make, &[0, 1], |row| {
        let (next, y) = run((row.clone(), x(0)));
        let (next, z) = run((next, x(1)));
        *row = next;
        vec![y, z]
    });
}

fn jitted_mut(make: Make) {
    let run = jit_mut(|(row, x): (&mut Row, Tensor)| row.forward(&x));
    in_place(make, &[0, 1], |row| {
        vec![run((row, x(0))), run((row, x(1)))]
    });
}

fn grad_mut(make: Make) {
    in_place(make, &[0], |row| {
        let both = value_and_grad_mut(|row: &mut Row| {
            let y = row.forward(&x(0));
            (loss(&y), y)
        });
        let ((_, y), gradient) = both.wrt(trained())(row);
        close("gradient", &leaf(&gradient, "bias"), &expected_gradient());
        vec![y]
    });
}

fn grad_of(make: Make) {
    let both = value_and_grad(|row: &Row| loss(&row.clone().forward(&x(0)))).wrt(trained());
    let (value, gradient) = both(&make());
    close("loss", &value, &loss(&expected(&[0]).1[0]));
    close("gradient", &leaf(&gradient, "bias"), &expected_gradient());
}

fn remat_of(make: Make) {
    let forward = remat(|row: &Row| row.clone().forward(&x(0)));
    let gradient = grad(|row: &Row| loss(&forward(row))).wrt(trained())(&make());
    close("gradient", &leaf(&gradient, "bias"), &expected_gradient());
}

fn jvp_of(make: Make) {
    let row = make();
    let paths = graph::structure(&row).leaf_paths();
    let mut paths = paths.iter().map(ToString::to_string);
    let tangent = graph::map(&row, |leaf: &Tensor| {
        let is_bias = paths.next().is_some_and(|path| path.ends_with("bias"));
        if is_bias && leaf.dtype().is_float() {
            Tensor::ones_like(leaf)
        } else {
            Tensor::zeros_like(leaf)
        }
    });
    let (y, slope) = jvp(|row: &Row| row.clone().forward(&x(0)), &row, &tangent);
    let program = |bias: &Tensor| {
        Plain {
            bias: bias.clone(),
            ..Plain::new()
        }
        .forward(&x(0))
    };
    let bias = Plain::new().bias;
    let expected = jvp(program, &bias, &Tensor::ones_like(&bias));
    close("output", &y, &expected.0);
    close("tangent", &slope, &expected.1);
}

fn vjp_of(make: Make) {
    let (y, pullback) = vjp(|row: &Row| row.clone().forward(&x(0)), &make());
    let program = |bias: &Tensor| {
        Plain {
            bias: bias.clone(),
            ..Plain::new()
        }
        .forward(&x(0))
    };
    let (expected, of_expected) = vjp(program, &Plain::new().bias);
    close("output", &y, &expected);
    let gradient = pullback.call(&y);
    close(
        "cotangent",
        &leaf(&gradient, "bias"),
        &of_expected.call(&expected),
    );
}

/// Stacks the states of a model along a batch axis.
fn with_batches(row: &Row) -> (Row, Axes) {
    let kinds = graph::structure(row).leaf_kinds();
    let mut kinds = kinds.into_iter();
    let batched = graph::map(row, |leaf: &Tensor| {
        let is_state = kinds.next().flatten().is_some_and(|kind| kind.is_state());
        if is_state {
            Tensor::stack(&[leaf, leaf, leaf], 0)
        } else {
            leaf.clone()
        }
    });
    let axes = [(Filter::any_state(), Some(0)), (Filter::everything(), None)];
    (batched, Axes::filter(axes))
}

fn vmap_of(make: Make) {
    let (row, axes) = with_batches(&make());
    let run = vmap(|(mut row, x): (Row, Tensor)| row.forward(&x)).in_axes((axes, 0));
    let outputs = unstack(&run((row, inputs())));
    for (seed, y) in outputs.iter().enumerate() {
        close("output", y, &expected(&[seed as i32]).1[0]);
    }
}

fn vmapped_mut(make: Make) {
    let (mut row, axes) = with_batches(&make());
    let outside = Outside::of(&row);
    let run = vmap_mut(|(row, x): (&mut Row, Tensor)| row.forward(&x)).in_axes((axes, 0));
    let outputs = unstack(&run((&mut row, inputs())));
    outside.check(&row, "-");
    let (means, counts) = (unstack(&leaf(&row, "mean")), unstack(&leaf(&row, "count")));
    for (seed, y) in outputs.iter().enumerate() {
        let (plain, outputs) = expected(&[seed as i32]);
        close("output", y, &outputs[0]);
        close("mean", &means[seed], &plain.mean);
        close("count", &counts[seed], &plain.count);
    }
}

fn scanned_mut(make: Make) {
    in_place(make, &[0, 1, 2], |row| {
        unstack(&scan_mut(
            |row: &mut Row, x: Tensor| row.forward(&x),
            row,
            inputs(),
        ))
    });
}

fn scanned(make: Make) {
    in_place(make, &[0, 1, 2], |row| {
        let step = |mut row: Row, x: Tensor| {
            let y = row.forward(&x);
            (row, y)
        };
        let (after, outputs) = scan(step, row.clone(), inputs());
        *row = after;
        unstack(&outputs)
    });
}

fn while_looped(make: Make) {
    in_place(make, &[0, 0], |row| {
        let step = |(number, mut row): (Tensor, Row)| {
            let _ = row.forward(&x(0));
            (number + 1, row)
        };
        let start = (Tensor::from(0), row.clone());
        *row = while_loop(|(number, _)| number.less(2), step, start).1;
        Vec::new()
    });
}

fn fori_looped(make: Make) {
    in_place(make, &[0, 0], |row| {
        let step = |_, mut row: Row| {
            let _ = row.forward(&x(0));
            row
        };
        *row = fori_loop(0, 2, step, row.clone());
        Vec::new()
    });
}

fn cond_mut_of(make: Make) {
    for (chosen, seeds) in [(true, &[0][..]), (false, &[])] {
        in_place(make, seeds, |row| {
            let zeros = |_: &mut Row| Tensor::zeros(DType::F32, [2, 3]);
            vec![cond_mut(
                &Tensor::from(chosen),
                |row| row.forward(&x(0)),
                zeros,
                row,
            )]
        });
    }
}

fn switched(make: Make) {
    for (chosen, seeds) in [(0, &[][..]), (1, &[0]), (2, &[0, 1])] {
        in_place(make, seeds, |row| {
            let run = |mut row: Row, seeds: &[i32]| {
                for &seed in seeds {
                    let _ = row.forward(&x(seed));
                }
                row
            };
            *row = switch(
                &Tensor::from(chosen),
                &[&|row: Row| row, &|row| run(row, &[0]), &|row| {
                    run(row, &[0, 1])
                }],
                row.clone(),
            );
            Vec::new()
        });
    }
}

fn updated_in_one_branch(make: Make) {
    let step = jit_mut(
        |(row, optimizer, chosen): (&mut Row, &mut Optimizer<Row>, Tensor)| {
            let both = value_and_grad_mut(|row: &mut Row| loss(&row.forward(&x(0))));
            let (_, gradient) = both.wrt(trained())(row);
            let mut pair = (row.clone(), optimizer.clone());
            let update =
                |(row, optimizer): &mut (Row, Optimizer<Row>)| optimizer.update(row, &gradient);
            cond_mut(&chosen, update, |_| (), &mut pair);
            (*row, *optimizer) = pair;
        },
    );
    for chosen in [true, false] {
        let mut row = make();
        let mut optimizer = Optimizer::with_filter(&row, sgd(0.5), &trained());
        let outside = Outside::of(&row);
        step((&mut row, &mut optimizer, Tensor::from(chosen)));
        let (mut plain, _) = expected(&[0]);
        if chosen {
            plain.bias -= expected_gradient() * 0.5;
        }
        same_values(&row, &plain);
        outside.check(&row, "bias");
    }
}

fn split_and_merged(make: Make) {
    in_place_copy(make, |row| {
        let filters = [trained(), Filter::any_state(), Filter::everything()];
        let [bias, states, rest] = partition::split::<_, Tensor, 3>(row, filters).unwrap();
        partition::merge([rest, bias, states]).unwrap()
    });
}

/// Checks that a copy computes the same as the model.
fn in_place_copy(make: Make, copy: impl FnOnce(&Row) -> Row) {
    let mut row = make();
    let y = row.forward(&x(0));
    let mut copied = copy(&row);
    let z = copied.forward(&x(1));
    let (plain, outputs) = expected(&[0, 1]);
    same_values(&copied, &plain);
    close("output before", &y, &outputs[0]);
    close("output after", &z, &outputs[1]);
}

fn part_updated(make: Make) {
    let mut row = make();
    let outside = Outside::of(&row);
    let part = partition::filter::<_, Tensor>(&row, &trained()).map(|bias| bias + 1.0);
    partition::update(&mut row, &part).unwrap();
    outside.check(&row, "-");
    let mut plain = Plain {
        bias: Plain::new().bias + 1.0,
        ..Plain::new()
    };
    close("output", &row.forward(&x(0)), &plain.forward(&x(0)));
    same_values(&row, &plain);
}

fn popped(make: Make) {
    in_place(make, &[0, 1], |row| {
        let run = |seed| {
            let y = row.forward(&x(seed));
            partition::pop::<_, Tensor>(row, &Filter::state::<Intermediate>()).unwrap();
            y
        };
        [0, 1].map(run).to_vec()
    });
}

fn captured(make: Make) {
    in_place(make, &[0], |row| {
        vec![
            capture(row, &Filter::state::<Intermediate>(), |row| {
                row.forward(&x(0))
            })
            .0,
        ]
    });
}

fn saved_and_loaded(make: Make) {
    in_place_copy(make, |row| {
        let bytes = checkpoint::to_bytes(row).unwrap();
        let template = graph::map(row, |leaf: &Tensor| Tensor::zeros_like(leaf));
        checkpoint::load(Bytes(&bytes), &template).unwrap()
    });
}

fn diffed(make: Make) {
    let mut row = make();
    let other = make();
    assert!(diff(&row, &row).is_empty(), "{}", diff(&row, &row));
    assert!(diff(&row, &other).is_empty(), "{}", diff(&row, &other));
    let _ = row.forward(&x(0));
    assert!(diff(&row, &row).is_empty(), "{}", diff(&row, &row));
    assert!(!diff(&row, &other).is_empty());
}

fn linted(make: Make) {
    let mut row = make();
    let _ = row.forward(&x(0));
    let mistakes: Vec<String> = lint(&row)
        .iter()
        .filter(|finding| finding.is_mistake())
        .map(ToString::to_string)
        .collect();
    assert!(mistakes.is_empty(), "{mistakes:?}");
}

fn exported(make: Make) {
    let run = jit(|(mut row, x): (Row, Tensor)| row.forward(&x));
    let module = run.stablehlo(&(make(), x(0)));
    assert_eq!(module.outputs()[0].to_string(), "f32[2,3]");
    assert!(module.text().contains("stablehlo.tanh"));
}

fn stacked(make: Make) {
    in_place_copy(make, |row| {
        let members = unstack(&stack(&[row.clone(), row.clone()], 0));
        members.into_iter().next_back().unwrap()
    });
}

fn structure_in_bytes(make: Make) {
    in_place_copy(make, |row| {
        let (leaves, treedef) = graph::flatten::<Tensor, _>(row);
        let read = TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
        graph::unflatten(&read, leaves).unwrap_or_else(|error| panic!("{error}"))
    });
}

fn shapes_evaluated(make: Make) {
    let found = eval_shape(|row: &Row| row.clone().forward(&x(0)), &make());
    assert_eq!(found.leaves()[0].to_string(), "f32[2,3]");
}

fn streams_replaced(make: Make) {
    let row = in_place(make, &[0], |row| {
        let each = with_rngs(row, |stream| stream.clone());
        assert_eq!(graph::structure(&each), graph::structure(row));
        vec![row.forward(&x(0))]
    });
    let mut other = row.clone();
    let outside = Outside::of(&other);
    let _ = with_rngs(&mut other, |stream| stream.fork());
    outside.check(&other, "-");
}

fn floats_converted(make: Make) {
    in_place_copy(make, |row| {
        convert_floats(&convert_floats(row, DType::F64), DType::F32)
    });
}
