//! The claims about the cases of the table, and about the primitives of a package.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pytree_transform::{Jaxpr, Tensor, grad, jit, jvp, make_jaxpr};

use crate::gradients::batches::{choices, mapped, one_by_one, stacked};
use crate::gradients::case::Case;
use crate::gradients::derivatives::{
    Function, curvature, difference, floats, inner, loss, pulled, pushed, slope, with_floats,
};
use crate::gradients::record;
use crate::gradients::sample::{Random, Tolerance};
use crate::gradients::table::table;

/// A case with sampled operands, a direction and weights.
struct Sample<'t> {
    case: &'t Case,
    operands: Vec<Tensor>,
    direction: Vec<Tensor>,
    weights: Tensor,
    tolerance: Tolerance,
}

/// Tests a claim for each case, and then lists all cases that violate it.
fn over_the_table(claim: impl Fn(&Sample<'_>)) {
    let mut wrong = Vec::new();
    for (case, seed) in table().iter().zip(0..) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut random = Random(seed);
            let operands = case.sample(&mut random);
            let direction = floats(&operands).iter().map(|x| random.like(x)).collect();
            let weights = random.like(&(case.function)(&operands));
            let tolerance = case.precision.tolerance();
            claim(&Sample {
                case,
                operands,
                direction,
                weights,
                tolerance,
            });
        }));
        if outcome.is_err() {
            wrong.push(case.name);
        }
    }
    assert!(wrong.is_empty(), "it does not hold for {wrong:?}");
}

fn assert_close(what: &str, found: &[Tensor], expected: &[Tensor], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.info(), expected.info(), "{what}");
        let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
        let greatest = expected
            .iter()
            .fold(1.0_f64, |greatest, x| greatest.max(x.abs()));
        for (found, expected) in found.iter().zip(expected) {
            let close = (found - expected).abs() <= tolerance * greatest;
            assert!(close, "{what}: found {found}, expected {expected}");
        }
    }
}

impl Sample<'_> {
    fn f(&self) -> Function<'_> {
        &self.case.function
    }

    /// Asserts that two computations of the same values agree.
    fn assert_same(&self, what: &str, found: &[Tensor], expected: &[Tensor]) {
        let what = format!("{}: {what}", self.case.name);
        assert_close(&what, found, expected, self.tolerance.order);
    }

    /// Asserts that a derivative agrees with the difference of a function along the direction.
    fn assert_slope(&self, found: &[Tensor], function: impl Fn(&[Tensor]) -> Vec<Tensor>) {
        let Tolerance {
            step,
            difference: tolerance,
            ..
        } = self.tolerance;
        let expected = difference(function, &self.operands, &self.direction, step);
        assert_close(self.case.name, found, &expected, tolerance);
    }

    /// Returns three examples: the operands, and two others.
    fn examples(&self) -> Vec<Vec<Tensor>> {
        let others = [1000, 1001].map(|seed| self.case.sample(&mut Random(seed)));
        std::iter::once(self.operands.clone())
            .chain(others)
            .collect()
    }

    /// Asserts that `vmap` of a function is the stack of its results for the examples.
    fn assert_maps(&self, f: impl Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync) {
        let examples = self.examples();
        for choice in choices(&self.operands) {
            let found = mapped(&f, &stacked(&examples, &choice), &choice);
            let expected = one_by_one(&f, &examples, &choice);
            self.assert_same(&format!("mapped over {choice:?}"), &found, &expected);
        }
    }
}

#[test]
fn forward_mode_agrees_with_finite_differences() {
    over_the_table(|sample| {
        let tangent = pushed(sample.f(), &sample.operands, &sample.direction);
        sample.assert_slope(&[tangent], |x| vec![sample.f()(x)]);
    });
}

#[test]
fn forward_mode_keeps_the_value() {
    over_the_table(|sample| {
        let of_floats = |x: &Vec<Tensor>| sample.f()(&with_floats(&sample.operands, x));
        let (value, _) = jvp(of_floats, &floats(&sample.operands), &sample.direction);
        assert_eq!(value, sample.f()(&sample.operands));
    });
}

#[test]
fn reverse_mode_is_transpose_of_forward_mode() {
    over_the_table(|sample| {
        let Sample {
            operands,
            direction,
            weights,
            ..
        } = sample;
        let forward = (pushed(sample.f(), operands, direction) * weights).sum();
        let backward = inner(&pulled(sample.f(), operands, weights), direction);
        sample.assert_same("⟨Jᵀ v, u⟩ and ⟨v, J u⟩", &[backward], &[forward]);
    });
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    over_the_table(|sample| {
        let Sample {
            operands,
            direction,
            weights,
            ..
        } = sample;
        let found = curvature(sample.f(), operands, direction, weights);
        sample.assert_slope(&found, |x| slope(sample.f(), x, weights));
    });
}

#[test]
fn second_derivatives_agree_in_all_modes() {
    over_the_table(|sample| {
        let Sample {
            operands,
            direction,
            weights,
            ..
        } = sample;
        let (f, x) = (sample.f(), floats(operands));
        let expected = curvature(f, operands, direction, weights);

        let slope_at = |x: &Vec<Tensor>| slope(f, &with_floats(operands, x), weights);
        let backward = grad(|x: &Vec<Tensor>| inner(&slope_at(x), direction))(&x);
        sample.assert_same("reverse over reverse", backward.leaves(), &expected);

        let loss_at = |x: &Vec<Tensor>| loss(f, &with_floats(operands, x), weights);
        let along = |x: &Vec<Tensor>| jvp(loss_at, x, direction).1;
        let backward = grad(along)(&x);
        sample.assert_same("reverse over forward", backward.leaves(), &expected);

        let (twice, expected) = (jvp(along, &x, direction).1, inner(&expected, direction));
        sample.assert_same("forward over forward", &[twice], &[expected]);
    });
}

/// The operands, the direction and the weights.
type Point = (Vec<Tensor>, Vec<Tensor>, Tensor);

/// Returns the value and all derivatives.
fn everything(f: Function<'_>, (operands, direction, weights): &Point) -> Vec<Tensor> {
    let mut results = vec![f(operands), pushed(f, operands, direction)];
    results.extend(pulled(f, operands, weights));
    results.extend(slope(f, operands, weights));
    results.extend(curvature(f, operands, direction, weights));
    results
}

#[test]
fn jit_keeps_values_and_derivatives() {
    over_the_table(|sample| {
        let function = sample.case.function;
        let Sample {
            operands,
            direction,
            weights,
            ..
        } = sample;
        let point = (operands.clone(), direction.clone(), weights.clone());
        let expected = everything(&function, &point);

        let compiled = jit(move |x: Vec<Tensor>| function(&x));
        let found = everything(&|x: &[Tensor]| compiled(x.to_vec()), &point);
        sample.assert_same("jit inside", &found, &expected);

        let outside = jit(move |point: Point| everything(&function, &point));
        sample.assert_same("jit outside", &outside(point.clone()), &expected);

        let both = jit(move |point: Point| {
            let inside = jit(move |x: Vec<Tensor>| function(&x));
            everything(&|x: &[Tensor]| inside(x.to_vec()), &point)
        });
        sample.assert_same("jit inside and outside", &both(point), &expected);
    });
}

#[test]
fn vmap_is_the_stack_of_the_examples() {
    over_the_table(|sample| sample.assert_maps(|x| vec![(sample.case.function)(x)]));
}

#[test]
fn nested_vmap_is_stack_of_batches() {
    over_the_table(|sample| {
        let f = |x: &[Tensor]| vec![(sample.case.function)(x)];
        let mut examples = sample.examples();
        let inner = choices(&sample.operands);
        // Every choice occurs on either side, and so do pairs of different choices.
        let outer = inner.iter().rev().chain(&inner);
        for (inner, outer) in inner.iter().chain(&inner).zip(outer) {
            let batches: Vec<Vec<Tensor>> = (0..2)
                .map(|_| {
                    examples.rotate_left(1);
                    stacked(&examples, inner)
                })
                .collect();
            let of_batch = |x: &[Tensor]| mapped(&f, x, inner);
            let found = mapped(&of_batch, &stacked(&batches, outer), outer);
            let expected = one_by_one(&of_batch, &batches, outer);
            sample.assert_same(
                &format!("mapped over {inner:?} in {outer:?}"),
                &found,
                &expected,
            );
        }
    });
}

#[test]
fn batches_of_length_one_and_zero_work() {
    over_the_table(|sample| {
        let f = |x: &[Tensor]| vec![(sample.case.function)(x)];
        let example = [sample.operands.clone()];
        for choice in choices(&sample.operands) {
            let batch = stacked(&example, &choice);
            let expected = one_by_one(&f, &example, &choice);
            sample.assert_same("a batch of one", &mapped(&f, &batch, &choice), &expected);
            let none: Vec<Tensor> = batch
                .iter()
                .zip(&choice)
                .map(|(operand, axis)| match axis {
                    Some(axis) => emptied(operand, *axis),
                    None => operand.clone(),
                })
                .collect();
            let found = mapped(&f, &none, &choice).swap_remove(0);
            assert_eq!(
                found.info(),
                emptied(&expected[0], 0).info(),
                "{}",
                sample.case.name
            );
        }
    });
}

/// Returns an empty tensor: the shape of `tensor` with length 0 along `axis`.
fn emptied(tensor: &Tensor, axis: isize) -> Tensor {
    let mut shape = tensor.shape().to_vec();
    let axis = usize::try_from(axis).unwrap_or(shape.len() - 1);
    shape[axis] = 0;
    Tensor::zeros(tensor.dtype(), shape)
}

#[test]
fn vmap_of_derivatives_is_stack_of_examples() {
    over_the_table(|sample| {
        let function = &sample.case.function;
        sample.assert_maps(|x| vec![pushed(function, x, &sample.direction)]);
        sample.assert_maps(|x| pulled(function, x, &sample.weights));
    });
}

#[test]
fn vmap_of_second_derivatives_is_a_stack() {
    over_the_table(|sample| {
        let function = &sample.case.function;
        sample.assert_maps(|x| curvature(function, x, &sample.direction, &sample.weights));
    });
}

#[test]
fn vmap_and_jit_compose() {
    over_the_table(|sample| {
        let (function, weights) = (sample.case.function, sample.weights.clone());
        let compiled = jit(move |x: Vec<Tensor>| function(&x));
        sample.assert_maps(|x| vec![compiled(x.to_vec())]);
        let compiled = jit(move |x: Vec<Tensor>| slope(&function, &x, &weights));
        sample.assert_maps(|x| compiled(x.to_vec()));
    });
}

#[test]
fn derivative_of_vmap_is_stack_of_derivatives() {
    over_the_table(|sample| {
        let (function, examples) = (&sample.case.function, sample.examples());
        let choice = vec![Some(0); sample.operands.len()];
        let batch = stacked(&examples, &choice);
        let weights = Tensor::stack(&vec![sample.weights.clone(); examples.len()], 0);
        let whole = |x: &[Tensor]| mapped(&|x| vec![function(x)], x, &choice).swap_remove(0);
        let found = slope(&whole, &batch, &weights);
        let of_example = |x: &[Tensor]| slope(function, x, &sample.weights);
        let expected = one_by_one(&of_example, &examples, &choice);
        sample.assert_same("grad of vmap", &found, &expected);
    });
}

/// Adds the strings that the `name` methods return, in the sources of a folder and its subfolders.
fn add_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_names(&path, names);
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        for method in source.split("fn name(&self) -> &'static str {").skip(1) {
            let body = method.split("\n    }\n").next().unwrap();
            names.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
}

/// Returns the names of all primitives.
pub fn names_in_the_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/primitives");
    add_names(&folder, &mut names);
    names
}

/// Asserts that the table records each of these primitives. `of_examples` returns jaxprs that a case recorded inside of a `vmap`.
pub fn assert_covered(mut missing: BTreeSet<String>, of_examples: impl Fn() -> String) {
    for case in table() {
        let compiled = jit(move |x: Vec<Tensor>| (case.function)(&x));
        let jaxpr = compiled.jaxpr(&case.sample(&mut Random(0))).to_string() + &of_examples();
        let holds = |name: &str, end| jaxpr.contains(&format!("= {name}{end}"));
        missing.retain(|name| !holds(name, " ") && !holds(name, "["));
    }
    assert!(missing.is_empty(), "no case of the table has {missing:?}");
}

#[test]
fn equations_record_their_source_line() {
    let mut lines = std::collections::BTreeMap::new();
    for case in table() {
        let jaxpr =
            make_jaxpr(move |x: Vec<Tensor>| (case.function)(&x))(case.sample(&mut Random(0)));
        for equation in jaxpr.equations() {
            let line = equation.line();
            if !line.file().contains("tests/gradients/") {
                lines.insert(line.to_string(), format!("{}: {equation:?}", case.name));
            }
        }
    }
    assert!(lines.is_empty(), "{lines:#?}");
}

/// Adds the names of all primitives of a jaxpr and of its bodies.
fn add_primitives(jaxpr: &Jaxpr, names: &mut BTreeSet<String>) {
    for equation in jaxpr.equations() {
        names.insert(equation.name().to_owned());
        for (_, body) in equation.bodies() {
            add_primitives(body, names);
        }
    }
}

/// Lowers and records the cases of the table, and asserts that they have each primitive of the package. The others are those in
/// `elsewhere`, and those in `on_host`, which have no form in StableHLO.
pub fn assert_lowered(elsewhere: &[&str], on_host: &[&str]) {
    let mut missing = names_in_the_sources();
    for &name in elsewhere.iter().chain(on_host) {
        assert!(missing.remove(name), "{name}");
    }
    let names = RefCell::new(BTreeSet::new());
    let group = RefCell::new(record::Group::new(4));
    over_the_table(|sample| {
        let function = sample.case.function;
        let (weights, direction) = (sample.weights.clone(), sample.direction.clone());
        let program = move |x: &[Tensor]| {
            let slopes = slope(&function, x, &weights);
            let curvatures = curvature(&function, x, &direction, &weights);
            let along = pushed(&function, x, &direction);
            [vec![function(x), along], slopes, curvatures].concat()
        };
        let compiled = jit({
            let program = program.clone();
            move |x: Vec<Tensor>| program(&x)
        });
        let mut own_names = BTreeSet::new();
        add_primitives(&compiled.jaxpr(&sample.operands), &mut own_names);
        if on_host.iter().any(|&name| own_names.contains(name)) {
            return;
        }
        names.borrow_mut().extend(own_names);
        compiled.stablehlo(&sample.operands);
        let mut group = group.borrow_mut();
        group.add(sample.case.name, &sample.operands, program);
    });
    missing.retain(|name| !names.borrow().contains(name));
    assert!(missing.is_empty(), "no lowered case has {missing:?}");
}
