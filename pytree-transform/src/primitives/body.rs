//! Recorded functions, and what transformations make of them.
//!
//! A body is a jaxpr with what was derived from it so far: its batch, its JVP, its split into a known and a
//! linear part, its transpose. A call, a branch and the body of a loop are bodies. A loop needs its carry to
//! stay of one kind, so a derivation can be told to force outputs: to give them a batch axis, a tangent
//! or a cotangent although they would have none.

mod given;
pub(crate) mod program;
pub(crate) mod remat;
pub(crate) mod tape;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::base::array::Array;
use crate::base::axis_names::AxisName;
use crate::base::dtype::AbstractArray;
use crate::base::error::or_panic;
use crate::jaxpr::{debug_verify, run_checked};
use crate::primitives::body::program::{Compile, Program, Slots};
use crate::primitives::body::remat::RematPolicy;
use crate::primitives::body::tape::{linearize, transpose_jaxpr};
use crate::primitives::call::call;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::tensor::checks::{self};
use crate::tensor::jaxpr::{Builder, Jaxpr, Variable};
use crate::tensor::primitive::Linear;
use crate::tensor::trace::{Interpreter, Payload, Trace};

/// Records a function of tensors; `name` is the transformation that messages name. Gives the traced tensors
/// that it captured from levels below, too: they are the last inputs of the jaxpr.
pub(crate) fn stage<R>(
    name: &'static str,
    inputs: &[AbstractArray],
    run: impl FnOnce(Vec<Tensor>) -> (Vec<Tensor>, R),
) -> (Jaxpr, Vec<Tensor>, R) {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let trace = Trace::begin(Interpreter::Stage(Rc::clone(&builder), name));
    let tensors = inputs
        .iter()
        .map(|info| {
            let variable = builder.borrow_mut().input(info.clone());
            trace.tensor(info.clone(), Payload::Stage(variable))
        })
        .collect();
    let (results, rest) = run(tensors);
    let outputs = results
        .iter()
        .map(|result| match or_panic(trace.payload(result)) {
            Some(Payload::Stage(variable)) => *variable,
            _ => builder.borrow_mut().constant(result),
        })
        .collect();
    drop(results);
    drop(trace);
    let (jaxpr, captured) = builder.take().finish(outputs);
    (jaxpr, captured, rest)
}

/// Gives every recorded function, as its last inputs, the traced tensors that any of them captured; `given`
/// inputs they have in common.
pub(crate) fn with_all_captured(
    given: usize,
    recorded: Vec<(Jaxpr, Vec<Tensor>)>,
) -> (Vec<Jaxpr>, Vec<Tensor>) {
    let mut seen = HashSet::new();
    let captured = recorded.iter().flat_map(|(_, captured)| captured);
    let all: Vec<Tensor> = captured
        .filter(|tensor| seen.insert(tensor.handle()))
        .cloned()
        .collect();
    let jaxprs = recorded
        .into_iter()
        .map(|(mut jaxpr, captured)| {
            let own = jaxpr.inputs.split_off(given);
            let mut inputs = HashMap::new();
            for (tensor, input) in captured.iter().zip(own) {
                inputs.entry(tensor.handle()).or_insert(input);
            }
            for tensor in &all {
                let known = inputs.get(&tensor.handle()).copied();
                let input = known.unwrap_or_else(|| jaxpr.unused_input(tensor.info().clone()));
                jaxpr.inputs.push(input);
            }
            jaxpr
        })
        .collect();
    (jaxprs, all)
}

/// Where the derivative of a recorded function comes from.
#[derive(Clone)]
pub(crate) enum Derivative {
    /// From its equations; what they need is kept.
    Recorded,
    /// From its equations, which run again for it; the policy says what is kept nevertheless.
    Recomputed(RematPolicy),
    /// From a rule that the user gave for the first inputs; the others were captured.
    Given(GivenRule),
}

/// The derivative that a user gave.
#[derive(Clone)]
pub(crate) struct GivenRule {
    /// For tangents of all floats among the arguments; all floats among the results have one.
    pub(crate) split: Arc<Linearized>,
    /// The number of inputs that are arguments.
    pub(crate) arguments: usize,
    /// Whether tangents can be computed: those of a `custom_vjp` can only be transposed.
    pub(crate) forward: bool,
}

/// A recorded function with what was derived from it so far.
pub(crate) struct Body {
    pub(crate) name: &'static str,
    /// The name of the user's function, as jaxprs show it; none for what was derived without one.
    pub(crate) label: String,
    pub(crate) jaxpr: Jaxpr,
    /// Whether running it does something besides computing results.
    pub(crate) has_effect: bool,
    /// The names of the batch axes that its operations work over.
    pub(crate) axis_names: Vec<AxisName>,
    derivative: Derivative,
    /// The executor that runs it.
    compile: Compile,
    program: OnceLock<Arc<dyn Program>>,
    batched: Cache<BatchKey, Batched>,
    pushed: Cache<(Vec<bool>, Vec<bool>), Pushed>,
    linearized: Cache<(Vec<bool>, Vec<bool>), Linearized>,
    transposed: Cache<TransposeKey, Transposed>,
}

/// What was derived once, by what it depends on. The lock is never held while something is derived.
struct Cache<K, V>(Mutex<HashMap<K, Arc<V>>>);

impl<K: Eq + Hash, V> Cache<K, V> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    fn get(&self, key: K, derive: impl FnOnce(&K) -> V) -> Arc<V> {
        if let Some(known) = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
        {
            return Arc::clone(known);
        }
        let derived = Arc::new(derive(&key));
        Arc::clone(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key)
                .or_insert(derived),
        )
    }
}

/// Over which axis each input is mapped, the length of the batch axis, its name, if operations of the function work
/// over it, and what is forced.
type BatchKey = (Vec<Option<usize>>, usize, Option<AxisName>, Vec<bool>);

/// Which inputs are unknown, which outputs have a cotangent, and what is forced.
type TransposeKey = (Vec<bool>, Vec<bool>, Vec<bool>);

/// The function of a batch; for each output, whether it has the batch axis in front.
pub(crate) struct Batched {
    pub(crate) body: Arc<Body>,
    pub(crate) mapped: Vec<bool>,
}

/// The function's values followed by its tangents, from its inputs followed by the tangents of the active
/// ones; for each output, whether it has a tangent.
pub(crate) struct Pushed {
    pub(crate) body: Arc<Body>,
    pub(crate) has_tangent: Vec<bool>,
}

/// The function's values followed by the residuals, and its tangents from those of the active inputs
/// followed by the residuals.
#[derive(Clone, Debug)]
pub(crate) struct Linearized {
    pub(crate) known: Arc<Body>,
    pub(crate) linear: Arc<Body>,
    pub(crate) outputs: usize,
    /// For each output, whether it has a tangent.
    pub(crate) has_tangent: Vec<bool>,
    /// The known part without the residuals that are inputs.
    brief: Arc<Body>,
    /// For each residual, the input it is, if it is one.
    forwarded: Vec<Option<usize>>,
}

impl Linearized {
    pub(crate) fn new(
        known: Arc<Body>,
        linear: Arc<Body>,
        outputs: usize,
        has_tangent: Vec<bool>,
    ) -> Self {
        let jaxpr = &known.jaxpr;
        let inputs = jaxpr.input_positions();
        let input = |output: &Variable| inputs[output.index()];
        let forwarded: Vec<Option<usize>> = jaxpr.outputs[outputs..].iter().map(input).collect();
        let computed = forwarded.iter().enumerate();
        let kept: Vec<usize> = (0..outputs)
            .chain(
                computed
                    .filter(|(_, input)| input.is_none())
                    .map(|(position, _)| outputs + position),
            )
            .collect();
        let brief = if kept.len() == jaxpr.outputs.len() {
            Arc::clone(&known)
        } else {
            known.rearranged(&(0..jaxpr.inputs.len()).collect::<Vec<usize>>(), &kept)
        };
        Self {
            known,
            linear,
            outputs,
            has_tangent,
            brief,
            forwarded,
        }
    }

    /// Calls the known part: the results, and the residuals. Those that are inputs are not computed.
    #[track_caller]
    pub(crate) fn call_known(&self, inputs: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
        let mut results = call(&self.brief, inputs);
        let mut computed = results.split_off(self.outputs).into_iter();
        let residuals = self
            .forwarded
            .iter()
            .filter_map(|input| match input {
                Some(input) => Some(inputs[*input].clone()),
                None => computed.next(),
            })
            .collect();
        (results, residuals)
    }
}

/// The cotangents of the unknown inputs from the known ones followed by the cotangents that there are; for
/// each unknown input, whether it has one.
pub(crate) struct Transposed {
    pub(crate) body: Arc<Body>,
    pub(crate) has_cotangent: Vec<bool>,
}

/// Whether an output is forced; a list that is too short forces nothing more.
fn forced(force: &[bool], position: usize) -> bool {
    force.get(position).copied().unwrap_or(false)
}

impl Body {
    /// The body of a function without a name that jaxprs show.
    pub(crate) fn new(name: &'static str, jaxpr: Jaxpr, compile: Compile) -> Arc<Self> {
        Self::with_derivative(name, String::new(), jaxpr, Derivative::Recorded, compile)
    }

    /// What a transformation derives from it.
    pub(crate) fn derived(&self, jaxpr: Jaxpr) -> Arc<Self> {
        self.derived_with(jaxpr, Derivative::Recorded)
    }

    /// As [`derived`](Self::derived), with another derivative than that of its equations.
    fn derived_with(&self, jaxpr: Jaxpr, derivative: Derivative) -> Arc<Self> {
        Self::with_derivative(
            self.name,
            self.label.clone(),
            jaxpr,
            derivative,
            self.compile,
        )
    }

    /// The body of a function with the name that jaxprs show, which may be empty.
    pub(crate) fn with_derivative(
        name: &'static str,
        label: String,
        jaxpr: Jaxpr,
        derivative: Derivative,
        compile: Compile,
    ) -> Arc<Self> {
        let jaxpr = recorded(jaxpr);
        Arc::new(Self {
            name,
            label,
            has_effect: jaxpr.has_effect(),
            axis_names: jaxpr.axis_names(),
            jaxpr,
            derivative,
            compile,
            program: OnceLock::new(),
            batched: Cache::new(),
            pushed: Cache::new(),
            linearized: Cache::new(),
            transposed: Cache::new(),
        })
    }

    /// Runs the function on concrete arrays.
    pub(crate) fn run(&self, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        self.run_in(&mut Slots::new(), operands)
    }

    /// As [`run`](Self::run), with the slots of an earlier run.
    pub(crate) fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        if checks::active() {
            return run_checked(&self.jaxpr, operands);
        }
        self.program
            .get_or_init(|| (self.compile)(&self.jaxpr))
            .run_in(slots, operands)
    }

    /// Runs it by this program of its jaxpr from now on, unless it has one.
    pub(crate) fn share(&self, program: Arc<dyn Program>) {
        // A program that it has already is as good.
        let _ = self.program.set(program);
    }

    pub(crate) fn input_infos(&self) -> Vec<AbstractArray> {
        let inputs = self.jaxpr.inputs.iter();
        inputs
            .map(|&input| self.jaxpr.info(input).clone())
            .collect()
    }

    /// The function with only these inputs and outputs, in this order. What it leaves out must not be needed.
    pub(crate) fn rearranged(&self, inputs: &[usize], outputs: &[usize]) -> Arc<Self> {
        let mut jaxpr = self.jaxpr.clone();
        jaxpr.inputs = inputs.iter().map(|&at| self.jaxpr.inputs[at]).collect();
        jaxpr.outputs = outputs.iter().map(|&at| self.jaxpr.outputs[at]).collect();
        if inputs.len() < self.jaxpr.inputs.len() {
            jaxpr = jaxpr.only_needed();
        }
        self.derived(jaxpr)
    }

    /// The inputs that some of the outputs depend on.
    pub(crate) fn needed_inputs(&self, outputs: &[usize]) -> Vec<usize> {
        let outputs = outputs.iter().map(|&at| self.jaxpr.outputs[at]);
        let needed = self.jaxpr.needed_by(outputs);
        (0..self.jaxpr.inputs.len())
            .filter(|&at| needed[self.jaxpr.inputs[at].index()])
            .collect()
    }

    /// The function of a batch along these axes.
    pub(crate) fn batched(
        &self,
        axes: &[Option<usize>],
        size: usize,
        name: Option<&AxisName>,
        force: &[bool],
    ) -> Arc<Batched> {
        let key = (axes.to_vec(), size, name.cloned(), force.to_vec());
        self.batched.get(key, |_| match &self.derivative {
            Derivative::Given(given) => given.batched(self, axes, (size, name), force),
            derivative => self.batch(axes, (size, name), force, derivative.clone()),
        })
    }

    /// Derives the function of a batch, whose derivative is given.
    pub(crate) fn batch(
        &self,
        axes: &[Option<usize>],
        (size, name): (usize, Option<&AxisName>),
        force: &[bool],
        derivative: Derivative,
    ) -> Batched {
        let infos: Vec<AbstractArray> = self
            .input_infos()
            .into_iter()
            .zip(axes)
            .map(|(mut info, axis)| {
                if let Some(axis) = axis {
                    info.shape.insert(*axis, size);
                }
                info
            })
            .collect();
        let (jaxpr, _, mapped) = stage(self.name, &infos, |tensors| {
            let trace = Trace::begin(Interpreter::Batch {
                size,
                name: name.cloned(),
            });
            let inputs: Vec<Tensor> = tensors
                .into_iter()
                .zip(axes)
                .map(|(tensor, axis)| match axis {
                    Some(axis) => trace.batched(tensor, *axis),
                    None => tensor,
                })
                .collect();
            let results = self.jaxpr.apply(&inputs);
            let unbatched: Vec<_> = results
                .iter()
                .map(|result| or_panic(trace.unbatched(result)))
                .collect();
            drop(trace);
            let mapped: Vec<bool> = unbatched
                .iter()
                .enumerate()
                .map(|(position, (_, axis))| axis.is_some() || forced(force, position))
                .collect();
            let results = unbatched
                .into_iter()
                .zip(&mapped)
                .map(|((value, axis), mapped)| {
                    if *mapped {
                        or_panic(batch_axis_first(&value, axis, size))
                    } else {
                        value
                    }
                })
                .collect();
            (results, mapped)
        });
        Batched {
            body: self.derived_with(jaxpr, derivative),
            mapped,
        }
    }

    /// The function with its tangents, for tangents of the active inputs.
    pub(crate) fn pushed(&self, active: &[bool], force: &[bool]) -> Arc<Pushed> {
        self.pushed.get((active.to_vec(), force.to_vec()), |_| {
            let mut infos = self.input_infos();
            let of_tangents: Vec<AbstractArray> = chosen(&infos, active).cloned().collect();
            infos.extend(of_tangents);
            let (jaxpr, _, has_tangent) = stage(self.name, &infos, |mut tensors| {
                let mut tangents = tensors.split_off(active.len()).into_iter();
                if let Derivative::Given(given) = &self.derivative {
                    return given.push(self, &tensors, tangents.collect(), active);
                }
                let trace = Trace::begin(Interpreter::Jvp);
                let duals: Vec<Tensor> = tensors
                    .into_iter()
                    .zip(active)
                    .map(|(primal, &active)| {
                        if active {
                            trace.dual(primal, tangents.next())
                        } else {
                            primal
                        }
                    })
                    .collect();
                let results = self.jaxpr.apply(&duals);
                let (mut values, tangents): (Vec<Tensor>, Vec<Option<Tensor>>) = results
                    .iter()
                    .map(|result| or_panic(trace.undual(result)))
                    .unzip();
                drop(trace);
                let tangents: Vec<Option<Tensor>> = tangents
                    .into_iter()
                    .enumerate()
                    .map(|(position, tangent)| {
                        let zeros = || Tensor::zeros_like(&values[position]);
                        tangent.or_else(|| forced(force, position).then(zeros))
                    })
                    .collect();
                let has_tangent: Vec<bool> = tangents.iter().map(Option::is_some).collect();
                values.extend(tangents.into_iter().flatten());
                (values, has_tangent)
            });
            Pushed {
                body: self.derived(jaxpr),
                has_tangent,
            }
        })
    }

    /// The function split into what is known without the tangents and what is linear in them.
    pub(crate) fn linearized(&self, active: &[bool], force: &[bool]) -> Arc<Linearized> {
        let key = (active.to_vec(), force.to_vec());
        self.linearized.get(key, |_| match &self.derivative {
            Derivative::Recorded => self.split(active, force),
            Derivative::Recomputed(policy) => policy.recomputed(&self.split(active, force)),
            Derivative::Given(given) => given.linearized(self, active),
        })
    }

    fn split(&self, active: &[bool], force: &[bool]) -> Linearized {
        let (known, _, (linear, outputs, has_tangent)) =
            stage(self.name, &self.input_infos(), |tensors| {
                let (mut primals, mut tape, ()) =
                    linearize(&tensors, active, |inputs| (self.jaxpr.apply(&inputs), ()));
                for (position, primal) in primals.iter().enumerate() {
                    if forced(force, position) {
                        tape.force(position, primal.info());
                    }
                }
                let has_tangent: Vec<bool> = tape.outputs.iter().map(Option::is_some).collect();
                let outputs = primals.len();
                let (linear, residuals) = tape.into_jaxpr();
                primals.extend(residuals);
                (primals, (linear, outputs, has_tangent))
            });
        let known = self.derived(known);
        Linearized::new(known, self.derived(linear), outputs, has_tangent)
    }

    /// The cotangents of the unknown inputs, for those of the outputs that have one.
    pub(crate) fn transposed(
        &self,
        unknown: &[bool],
        has_cotangent: &[bool],
        force: &[bool],
    ) -> Arc<Transposed> {
        let key = (unknown.to_vec(), has_cotangent.to_vec(), force.to_vec());
        self.transposed.get(key, |_| {
            let inputs = self.input_infos();
            let is_known: Vec<bool> = unknown.iter().map(|unknown| !unknown).collect();
            let results: Vec<AbstractArray> = self.jaxpr.output_infos().cloned().collect();
            let infos: Vec<AbstractArray> = chosen(&inputs, &is_known)
                .chain(chosen(&results, has_cotangent))
                .cloned()
                .collect();
            let (jaxpr, _, has_cotangent) = stage(self.name, &infos, |tensors| {
                let mut tensors = tensors.into_iter();
                let operands: Vec<Linear> = inputs
                    .iter()
                    .zip(unknown)
                    .map(|(info, &unknown)| {
                        let known = if unknown { None } else { tensors.next() };
                        known.map_or_else(|| Linear::Unknown(info.clone()), Linear::Known)
                    })
                    .collect();
                let cotangents: Vec<Option<Tensor>> = has_cotangent
                    .iter()
                    .map(|&has| if has { tensors.next() } else { None })
                    .collect();
                let results = transpose_jaxpr(&self.jaxpr, &operands, &cotangents);
                let wanted: Vec<Option<Tensor>> = results
                    .into_iter()
                    .zip(inputs.iter().zip(unknown))
                    .filter(|(_, (_, unknown))| **unknown)
                    .enumerate()
                    .map(|(position, (result, (info, _)))| {
                        let zeros = || Tensor::zeros(info.dtype, &info.shape);
                        result.or_else(|| forced(force, position).then(zeros))
                    })
                    .collect();
                let has = wanted.iter().map(Option::is_some).collect::<Vec<bool>>();
                (wanted.into_iter().flatten().collect(), has)
            });
            Transposed {
                body: self.derived(jaxpr),
                has_cotangent,
            }
        })
    }
}

/// The names of the batch axes that operations of some functions work over, each once.
pub(crate) fn all_axis_names<'b>(bodies: impl IntoIterator<Item = &'b Arc<Body>>) -> Vec<AxisName> {
    let mut names = Vec::new();
    for name in bodies.into_iter().flat_map(|body| &body.axis_names) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The items that a mask marks.
pub(crate) fn chosen<'a, T>(items: &'a [T], mask: &'a [bool]) -> impl Iterator<Item = &'a T> {
    items
        .iter()
        .zip(mask)
        .filter(|(_, chosen)| **chosen)
        .map(|(item, _)| item)
}

/// Items put back in the places that a mask marks; none elsewhere.
pub(crate) fn in_places<T>(items: impl IntoIterator<Item = T>, mask: &[bool]) -> Vec<Option<T>> {
    let mut items = items.into_iter();
    mask.iter()
        .map(|&marked| if marked { items.next() } else { None })
        .collect()
}

/// A recorded jaxpr without what nothing needs.
fn recorded(jaxpr: Jaxpr) -> Jaxpr {
    debug_verify(&jaxpr, "recording");
    let jaxpr = jaxpr.without_dead_code();
    debug_verify(&jaxpr, "dead code");
    jaxpr
}

impl fmt::Debug for Body {
    /// By its address: bodies are the same if they are one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} {:p})", self.name, std::ptr::from_ref(self))
    }
}
