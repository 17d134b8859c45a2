//! Random programs with effects in nested control flow: transformed for a batch, each example has the effects that it has alone.
//!
//! The reference is the program itself, run for each example without `vmap` and `jit`. The effects of an example are compared as a
//! sequence, and those of several examples as multisets: nothing else is promised of their order, except in `order.rs`.
//! `PYTREE_FUZZ_FROM` and `PYTREE_FUZZ_SECONDS` run other programs, and more of them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pytree_transform::extend::{Primitive, Tangents, apply};
use pytree_transform::{
    AbstractArray, DType, Tensor, TensorError, cond, custom_jvp, custom_vjp, debug_callback,
    error_if, grad, io_callback, jit, jvp, pure_callback, remat, scan, switch, vmap, while_loop,
};

/// One step of a program. The program maps a number to a number; a tag, which it passes on, names the example.
#[derive(Clone, Debug)]
enum Step {
    Wave,
    /// A callback without a result.
    Note,
    /// A callback with a result.
    Ask,
    /// A primitive of another crate that has an effect.
    Own,
    Cond(Block, Block),
    Switch([Block; 3]),
    While(Block),
    Scan(Block),
    Jit(Block),
    Remat(Block),
    CustomJvp(Block),
    CustomVjp(Block),
}

type Block = Arc<Vec<(usize, Step)>>;

/// The tag of an example, and its number.
type State = (Tensor, Tensor);

/// An effect: the number of the step, the tag of the example, and the value.
type Event = (usize, u64, String);

static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());

fn record(id: usize, values: &[Tensor]) {
    let (tag, x) = (values[0].item::<f64>(), values[1].item::<f64>());
    // A fused kernel may round differently.
    let event = (
        id,
        tag as u64,
        format!("{x:.9}").replace("-0.000000000", "0.000000000"),
    );
    EVENTS.lock().unwrap().push(event);
}

fn note(id: usize, tag: &Tensor, x: &Tensor) {
    debug_callback(&[tag, x], move |values| record(id, values));
}

/// `sin`, which notes its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Own(usize);

impl Primitive for Own {
    fn name(&self) -> &'static str {
        "noted_sin"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[1].clone()])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        record(self.0, operands);
        vec![operands[1].sin()]
    }
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let (tag, x) = (&primals[0], &primals[1]);
        note(self.0 + 7000, tag, x);
        let tangent = tangents[1].as_ref().map(|tangent| x.cos() * tangent);
        (apply(self, &[tag, x]), vec![tangent])
    }
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id={}", self.0)
    }
    fn has_effect(&self) -> bool {
        true
    }
}

fn run(block: &Block, (tag, x): &State) -> Tensor {
    let mut x = x.clone();
    for (id, step) in block.iter() {
        x = step.run(*id, tag, &x);
    }
    x
}

/// Checks that `reached` holds, in both ways in which the host can.
fn check(x: &Tensor, reached: &Tensor) -> Tensor {
    let x = error_if(x, &!reached, "not reached");
    let same = |values: &[Tensor]| {
        assert!(values[1].item::<bool>(), "not reached");
        vec![values[0].clone()]
    };
    let operands = [&x.stop_gradient(), reached];
    let same = pure_callback(&operands, &[AbstractArray::new(DType::F64, [])], same).remove(0);
    &x + (same - x.stop_gradient())
}

impl Step {
    fn run(&self, id: usize, tag: &Tensor, x: &Tensor) -> Tensor {
        let state = (tag.clone(), x.clone());
        let of = |block: &Block| {
            let block = Arc::clone(block);
            move |state: &State| run(&block, state)
        };
        match self {
            Self::Wave => (x * 1.7 + 0.3 * id as f64).sin(),
            Self::Note => {
                note(id, tag, x);
                (x * 1.3 + 0.2).sin()
            }
            Self::Ask => {
                let answer = move |values: &[Tensor]| {
                    record(id, values);
                    vec![(&values[1] * 3.0).cos() + 0.1]
                };
                let scalar = AbstractArray::new(DType::F64, []);
                let operands = [&tag.stop_gradient(), &x.stop_gradient()];
                let answer = io_callback(&operands, &[scalar], answer).remove(0);
                (x * answer + 0.4).sin()
            }
            Self::Own => apply(&Own(id), &[tag, &(x * 1.9)]).remove(0),
            Self::Cond(first, second) => {
                let holds = x.greater(0.2);
                cond(
                    &holds,
                    |(tag, x): State| run(first, &(tag, check(&x, &x.greater(0.2)))),
                    |(tag, x)| run(second, &(tag, check(&x, &x.less_equal(0.2)))),
                    state,
                )
            }
            Self::Switch([a, b, c]) => {
                let index = (x * 3.0).floor().convert(DType::I32);
                let taken = |at: i32| index.clip(0, 2).equal(at);
                switch(
                    &index,
                    &[
                        &|(tag, x): State| run(a, &(tag, check(&x, &taken(0)))),
                        &|(tag, x)| run(b, &(tag, check(&x, &taken(1)))),
                        &|(tag, x)| run(c, &(tag, check(&x, &taken(2)))),
                    ],
                    state,
                )
            }
            Self::While(block) => {
                let bound = (x.abs() * 3.3).floor().stop_gradient();
                let (_, _, last) = while_loop(
                    |(n, tag, x): &(Tensor, Tensor, Tensor)| {
                        note(id, tag, x);
                        n.less(&bound)
                    },
                    |(n, tag, x)| {
                        let x = check(&x, &n.less(&bound));
                        let x = run(block, &(tag.clone(), x));
                        (n + 1.0, tag, x)
                    },
                    (Tensor::from(0.0_f64), tag.clone(), x.clone()),
                );
                (x + last.stop_gradient() * 0.5).sin()
            }
            Self::Scan(block) => {
                let step = |(tag, x): State, w: Tensor| {
                    let x = run(block, &(tag.clone(), x + &w));
                    ((tag, x.clone()), x)
                };
                let ((_, x), each) = scan(step, state, Tensor::from([0.3_f64, -0.5]));
                (x + each.sum()).sin()
            }
            Self::Jit(block) => {
                let f = of(block);
                jit(move |state: State| f(&state))(state)
            }
            Self::Remat(block) => remat(of(block))(&state),
            Self::CustomJvp(block) => {
                let f = of(block);
                let rule = move |state: &State, tangent: &State| {
                    note(id, &state.0, &state.1);
                    (f(state), &tangent.1 * state.1.cos())
                };
                custom_jvp(of(block), rule)(&state)
            }
            Self::CustomVjp(block) => {
                let f = of(block);
                let forward = move |state: &State| (f(state), state.clone());
                let backward = move |(tag, x): State, cotangent: Tensor| {
                    note(id, &tag, &x);
                    (Tensor::zeros_like(&tag), cotangent * x.cos())
                };
                custom_vjp(of(block), forward, backward)(&state)
            }
        }
    }
}

/// Random choices of a seed (Steele et al., "Fast splittable pseudorandom number generators", 2014).
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A program of nested blocks with at most `depth` levels. `ids` is the number of its steps. A loop has no `custom_vjp`, because
    /// its tangents are computed in forward mode.
    fn block(&mut self, depth: u64, in_loop: bool, ids: &mut usize) -> Block {
        let count = 1 + self.below(2);
        let steps = (0..count).map(|_| {
            *ids += 1;
            let id = *ids;
            let kinds = [5, if in_loop { 15 } else { 16 }];
            let kind = self.below(kinds[usize::from(depth > 0)]);
            let in_loop = in_loop || matches!(kind, 9 | 10);
            let mut block = || self.block(depth - 1, in_loop, ids);
            let step = match kind {
                0 => Step::Wave,
                1 | 2 => Step::Note,
                3 => Step::Ask,
                4 => Step::Own,
                5..=7 => Step::Cond(block(), block()),
                8 => Step::Switch([block(), block(), block()]),
                9 | 10 => Step::While(block()),
                11 => Step::Scan(block()),
                12 => Step::Jit(block()),
                13 => Step::Remat(block()),
                14 => Step::CustomJvp(block()),
                _ => Step::CustomVjp(block()),
            };
            (id, step)
        });
        Arc::new(steps.collect())
    }
}

/// Runs a function, and returns its result and its effects.
fn observed<R>(function: impl FnOnce() -> R) -> (R, Vec<Event>) {
    EVENTS.lock().unwrap().clear();
    let result = function();
    (result, std::mem::take(&mut *EVENTS.lock().unwrap()))
}

type Function = Arc<dyn Fn(State) -> Tensor + Send + Sync>;

/// The functions of one example: the program and its derivatives.
fn functions(block: &Block) -> Vec<(&'static str, Function)> {
    let f: Function = {
        let block = Arc::clone(block);
        Arc::new(move |state| run(&block, &state))
    };
    let slope = |f: &Function| -> Function {
        let f = Arc::clone(f);
        Arc::new(move |(tag, x)| grad(|x: &Tensor| f((tag.clone(), x.clone())))(&x))
    };
    let first = slope(&f);
    let mut all = vec![
        ("the program", Arc::clone(&f)),
        ("its gradient", Arc::clone(&first)),
        ("its second derivative", slope(&first)),
    ];
    if !format!("{block:?}").contains("CustomVjp") {
        let tangent = move |(tag, x): State| {
            let f = |x: &Tensor| f((tag.clone(), x.clone()));
            jvp(f, &x, &Tensor::from(1.0_f64)).1
        };
        all.push(("its tangent", Arc::new(tangent)));
    }
    all
}

/// The number of effects that are not of a rule: derivatives add no others.
fn without_rules(block: &Block, events: &[Event]) -> Vec<Event> {
    fn rules(block: &Block, found: &mut Vec<usize>) {
        for (id, step) in block.iter() {
            match step {
                Step::CustomJvp(inner) | Step::CustomVjp(inner) => {
                    found.push(*id);
                    rules(inner, found);
                }
                Step::Cond(a, b) => [a, b].iter().for_each(|it| rules(it, found)),
                Step::Switch(all) => all.iter().for_each(|it| rules(it, found)),
                Step::While(it) | Step::Scan(it) | Step::Jit(it) | Step::Remat(it) => {
                    rules(it, found);
                }
                _ => {}
            }
        }
    }
    let mut of_rules = Vec::new();
    rules(block, &mut of_rules);
    let is_own = |(id, _, _): &&Event| *id < 7000 && !of_rules.contains(id);
    events.iter().filter(is_own).cloned().collect()
}

#[track_caller]
fn close(what: &str, found: &Tensor, expected: &[f64]) {
    let found = found.to_vec::<f64>();
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(is_close),
        "{what}: found {found:?}, expected {expected:?}"
    );
}

/// Checks that each example has its effects, in their order.
#[track_caller]
fn same(what: &str, events: &[Event], expected: &[Vec<Event>]) {
    for (tag, expected) in expected.iter().enumerate() {
        let of_tag = events.iter().filter(|(_, its, _)| *its == tag as u64);
        let of_tag: Vec<Event> = of_tag.cloned().collect();
        assert_eq!(&of_tag, expected, "{what}, example {tag}");
    }
}

fn mapped(f: &Function) -> Function {
    let f = Arc::clone(f);
    Arc::new(move |states| vmap(|state: State| f(state))(states))
}

fn compile(f: &Function) -> Function {
    let f = Arc::clone(f);
    let compiled = jit(move |states: State| f(states));
    Arc::new(move |(tags, xs)| compiled((tags, xs)))
}

fn check_program(seed: u64) {
    let mut choices = Choices(seed);
    let depth = 1 + choices.below(3);
    let block = choices.block(depth, false, &mut 0);
    // Shown if the test fails.
    println!("seed {seed}: {block:?}");
    let numbers: Vec<f64> = (0..4)
        .map(|_| choices.below(4000) as f64 / 1000.0 - 2.0)
        .collect();
    let tags = Tensor::from([0.0_f64, 1.0, 2.0, 3.0]);
    let xs = Tensor::from(numbers.clone());
    let mut primal: Vec<Vec<Event>> = Vec::new();
    for (name, f) in functions(&block) {
        let what = |way: &str| format!("seed {seed}: {way} of {name}: {block:?}");
        let alone = |f: &Function, tag: usize| {
            let state = (Tensor::from(tag as f64), Tensor::from(numbers[tag]));
            let (value, events) = observed(|| f(state));
            (value.item::<f64>(), events)
        };
        let (values, expected): (Vec<f64>, Vec<Vec<Event>>) =
            (0..4).map(|tag| alone(&f, tag)).unzip();
        let own: Vec<_> = expected
            .iter()
            .map(|it| without_rules(&block, it))
            .collect();
        if primal.is_empty() {
            primal.clone_from(&own);
        }
        // A derivative runs the effects of the function once, and those of rules.
        if name != "its second derivative" || !format!("{block:?}").contains("Custom") {
            assert_eq!(own, primal, "{}", what("alone"));
        }

        let compiled = compile(&f);
        for tag in 0..4 {
            let (value, events) = alone(&compiled, tag);
            close(&what("jit"), &Tensor::from([value]), &[values[tag]]);
            assert_eq!(events, expected[tag], "{}", what("jit"));
        }
        let nested: Function = {
            let f = mapped(&mapped(&f));
            Arc::new(move |(tags, xs)| f((tags.reshape([2, 2]), xs.reshape([2, 2]))).reshape([4]))
        };
        let ways = [
            ("vmap", mapped(&f)),
            ("jit of vmap", compile(&mapped(&f))),
            ("vmap of jit", mapped(&compiled)),
            ("vmap of vmap", Arc::clone(&nested)),
            ("jit of vmap of vmap", compile(&nested)),
        ];
        for (way, f) in ways {
            let (found, events) = observed(|| f((tags.clone(), xs.clone())));
            close(&what(way), &found, &values);
            same(&what(way), &events, &expected);
        }
        if name == "the program" {
            let sum = |f: Function| {
                let tags = tags.clone();
                move |xs: &Tensor| f((tags.clone(), xs.clone())).sum()
            };
            let slopes = functions(&block).remove(1).1;
            let (values, expected): (Vec<f64>, Vec<Vec<Event>>) =
                (0..4).map(|tag| alone(&slopes, tag)).unzip();
            for (way, f) in [
                ("grad of vmap", mapped(&f)),
                ("grad of jit of vmap", compile(&mapped(&f))),
            ] {
                let (found, events) = observed(|| grad(sum(f))(&xs));
                close(&what(way), &found, &values);
                same(&what(way), &events, &expected);
            }
        }
    }
}

#[test]
fn examples_have_the_effects_that_they_have_alone() {
    let of_variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = of_variable("PYTREE_FUZZ_FROM").unwrap_or(0);
    let limit = Duration::from_secs(of_variable("PYTREE_FUZZ_SECONDS").unwrap_or(5));
    let start = Instant::now();
    let mut count = 0;
    while count < 5 || start.elapsed() < limit {
        check_program(first + count);
        count += 1;
    }
    eprintln!("{count} programs");
}
