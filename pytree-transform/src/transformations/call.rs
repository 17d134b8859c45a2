//! The call of a compiled function as a primitive.
//!
//! Under other transformations a jitted function is one equation. Its rules apply the transformation to
//! the recorded function once and call the result; what they make is cached. The JVP splits into a known
//! part, which also gives the residuals, and a linear part, so one rule serves forward and reverse mode.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use smallvec::SmallVec;

use crate::array::Array;
use crate::axis_names::AxisName;
use crate::debug::checks::{self, run_checked};
use crate::dtype::AbstractArray;
use crate::error::{TensorError, or_panic};
use crate::jaxpr::{Builder, Jaxpr, debug_verify};
use crate::passes::{dead_code, optimize};
use crate::primitive::{Collective, Linear, Operands, Outputs, Primitive};
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::trace::{Interpreter, Payload, Trace, bind};
use crate::transformations::differentiate::{linearize, transpose_jaxpr};
use crate::transformations::executor::Executable;

/// Records a function of tensors. Gives the traced tensors that it captured from levels below, too: they
/// are the last inputs of the jaxpr.
pub(crate) fn stage<R>(
    inputs: &[AbstractArray],
    run: impl FnOnce(Vec<Tensor>) -> (Vec<Tensor>, R),
) -> (Jaxpr, Vec<Tensor>, R) {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let trace = Trace::begin(Interpreter::Stage(Rc::clone(&builder)));
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

/// A recorded function with what was derived from it so far.
pub(crate) struct Body {
    pub(crate) name: &'static str,
    /// The name of the user's function, as jaxprs show it; none for what was derived without one.
    label: String,
    pub(crate) jaxpr: Jaxpr,
    /// The names of the batch axes that its operations work over.
    pub(crate) axis_names: Vec<AxisName>,
    /// Whether running it does something besides computing results.
    pub(crate) has_effect: bool,
    executable: OnceLock<Executable>,
    batched: Cache<BatchKey, Batched>,
    linearized: Cache<Vec<bool>, Linearized>,
    transposed: Cache<(Vec<bool>, Vec<bool>), Transposed>,
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

/// Over which axis each input is mapped, the length of the batch axis, and its name, if operations of the function
/// work over it.
type BatchKey = (Vec<Option<usize>>, usize, Option<AxisName>);

/// The function of a batch; for each output, whether it has the batch axis in front.
struct Batched {
    body: Arc<Body>,
    mapped: Vec<bool>,
}

/// The function's values with the residuals, and its tangents from those of its inputs and the residuals.
struct Linearized {
    known: Arc<Body>,
    linear: Arc<Body>,
    outputs: usize,
    /// For each output, whether it has a tangent.
    has_tangent: Vec<bool>,
}

/// The cotangents of the unknown inputs; for each, whether it has one.
struct Transposed {
    body: Arc<Body>,
    has_cotangent: Vec<bool>,
}

impl Body {
    /// The body of a function with the name that jaxprs show, which may be empty.
    pub(crate) fn new(name: &'static str, label: String, jaxpr: Jaxpr) -> Arc<Self> {
        let jaxpr = recorded(jaxpr);
        Arc::new(Self {
            name,
            label,
            has_effect: jaxpr.has_effect(),
            axis_names: jaxpr.axis_names(),
            jaxpr,
            executable: OnceLock::new(),
            batched: Cache::new(),
            linearized: Cache::new(),
            transposed: Cache::new(),
        })
    }

    /// Runs the function on concrete arrays.
    pub(crate) fn run(&self, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        if checks::active() {
            return run_checked(&self.jaxpr, operands);
        }
        self.executable
            .get_or_init(|| Executable::new(&optimize(self.jaxpr.clone())))
            .run(operands)
    }

    /// What a transformation derives from it.
    fn derived(&self, jaxpr: Jaxpr) -> Arc<Self> {
        Self::new(self.name, self.label.clone(), jaxpr)
    }

    fn input_infos(&self) -> Vec<AbstractArray> {
        self.jaxpr
            .inputs
            .iter()
            .map(|&input| self.jaxpr.info(input).clone())
            .collect()
    }

    fn batched(
        &self,
        axes: &[Option<usize>],
        size: usize,
        name: Option<&AxisName>,
    ) -> Arc<Batched> {
        let key = (axes.to_vec(), size, name.cloned());
        self.batched.get(key, |(_, _, name)| {
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
            let (jaxpr, _, mapped) = stage(&infos, |tensors| {
                let name = name.clone();
                let trace = Trace::begin(Interpreter::Batch { size, name });
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
                let mapped: Vec<bool> = unbatched.iter().map(|(_, axis)| axis.is_some()).collect();
                let results = unbatched
                    .into_iter()
                    .map(|(value, axis)| match axis {
                        Some(_) => or_panic(batch_axis_first(&value, axis, size)),
                        None => value,
                    })
                    .collect();
                (results, mapped)
            });
            Batched {
                body: self.derived(jaxpr),
                mapped,
            }
        })
    }

    fn linearized(&self, active: &[bool]) -> Arc<Linearized> {
        self.linearized.get(active.to_vec(), |_| {
            let (known, _, (linear, outputs, has_tangent)) =
                stage(&self.input_infos(), |tensors| {
                    let (mut primals, tape, ()) =
                        linearize(&tensors, active, |inputs| (self.jaxpr.apply(&inputs), ()));
                    let has_tangent = tape
                        .outputs
                        .iter()
                        .map(Option::is_some)
                        .collect::<Vec<bool>>();
                    let outputs = primals.len();
                    let (linear, residuals) = tape.into_jaxpr();
                    primals.extend(residuals);
                    (primals, (linear, outputs, has_tangent))
                });
            Linearized {
                known: self.derived(known),
                linear: self.derived(linear),
                outputs,
                has_tangent,
            }
        })
    }

    fn transposed(&self, unknown: &[bool], has_cotangent: &[bool]) -> Arc<Transposed> {
        self.transposed
            .get((unknown.to_vec(), has_cotangent.to_vec()), |_| {
                let inputs = self.input_infos();
                let mut infos: Vec<AbstractArray> = inputs
                    .iter()
                    .zip(unknown)
                    .filter(|(_, unknown)| !**unknown)
                    .map(|(info, _)| info.clone())
                    .collect();
                infos.extend(
                    self.jaxpr
                        .output_infos()
                        .zip(has_cotangent)
                        .filter(|(_, has)| **has)
                        .map(|(info, _)| info.clone()),
                );
                let (jaxpr, _, has_cotangent) = stage(&infos, |tensors| {
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
                        .zip(unknown)
                        .filter(|(_, unknown)| **unknown)
                        .map(|(result, _)| result)
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

/// A recorded jaxpr without what nothing needs.
fn recorded(jaxpr: Jaxpr) -> Jaxpr {
    debug_verify(&jaxpr, "recording");
    let jaxpr = dead_code(jaxpr);
    debug_verify(&jaxpr, "dead code");
    jaxpr
}

impl fmt::Debug for Body {
    /// By its address: bodies are the same if they are one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} {:p})", self.name, std::ptr::from_ref(self))
    }
}

/// The call of a recorded function.
#[derive(Clone, Debug)]
pub(crate) struct Call(pub(crate) Arc<Body>);

/// The results of a call on tensors of whatever levels.
#[track_caller]
pub(crate) fn call(body: &Arc<Body>, operands: &[Tensor]) -> Vec<Tensor> {
    let operands: Vec<&Tensor> = operands.iter().collect();
    or_panic(bind(&Call(Arc::clone(body)), &operands)).into_vec()
}

impl Primitive for Call {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn abstract_evaluation(
        &self,
        _: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        Ok(self.0.jaxpr.output_infos().cloned().collect())
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        self.0
            .run(operands.into_vec())
            .into_iter()
            .map(Arc::unwrap_or_clone)
            .collect()
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        if !active.contains(&true) {
            let results = call(&self.0, primals);
            let none = results.iter().map(|_| None).collect();
            return (results.into_iter().collect(), none);
        }
        let split = self.0.linearized(&active);
        let mut results = call(&split.known, primals);
        let residuals = results.split_off(split.outputs);
        let inputs: Vec<Tensor> = tangents
            .iter()
            .flatten()
            .cloned()
            .chain(residuals)
            .collect();
        let mut tangents = call(&split.linear, &inputs).into_iter();
        let tangents = split
            .has_tangent
            .iter()
            .map(|&has| if has { tangents.next() } else { None })
            .collect();
        (results.into_iter().collect(), tangents)
    }

    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Linear],
    ) -> SmallVec<[Option<Tensor>; 2]> {
        let unknown: Vec<bool> = operands.iter().map(Linear::is_unknown).collect();
        let has_cotangent: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
        let transposed = self.0.transposed(&unknown, &has_cotangent);
        let inputs: Vec<Tensor> = operands
            .iter()
            .filter_map(|operand| match operand {
                Linear::Known(tensor) => Some(tensor.clone()),
                Linear::Unknown(_) => None,
            })
            .chain(cotangents.iter().flatten().cloned())
            .collect();
        let mut results = call(&transposed.body, &inputs).into_iter();
        let mut has = transposed.has_cotangent.iter();
        unknown
            .iter()
            .map(|&unknown| {
                if unknown && has.next() == Some(&true) {
                    results.next()
                } else {
                    None
                }
            })
            .collect()
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        self.call_batched(operands, axes, size, None)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.label.is_empty() {
            return Ok(());
        }
        write!(f, "name={}", self.0.label)
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![("jaxpr", &self.0.jaxpr)]
    }

    fn has_effect(&self) -> bool {
        self.0.has_effect
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }

    fn collective(&self) -> Option<&dyn Collective> {
        (!self.0.axis_names.is_empty()).then_some(self as &dyn Collective)
    }
}

impl Collective for Call {
    fn axis_names(&self) -> &[AxisName] {
        &self.0.axis_names
    }

    fn batch_named(
        &self,
        name: &AxisName,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        self.call_batched(operands, axes, size, Some(name))
    }
}

impl Call {
    fn call_batched(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
        name: Option<&AxisName>,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let batched = self.0.batched(axes, size, name);
        let results = call(&batched.body, operands).into_iter().collect();
        let mapped = batched.mapped.iter();
        (results, mapped.map(|&mapped| mapped.then_some(0)).collect())
    }
}
