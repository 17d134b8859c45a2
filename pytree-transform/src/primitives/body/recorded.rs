//! A recorded function, how its derivative is computed, and the functions that are derived from it.
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use pytree_base::bug::expect_next;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::AbstractArray;

use super::cache::Cache;
use crate::base::axis_names::AxisName;
use crate::base::error::TensorError;
use crate::jaxpr::{debug_verify, run_checked};
use crate::primitives::body::program::{Compile, Program, Slots};
use crate::tensor::checks;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::{BatchAxis, Primitive};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::Recorder;

/// How the derivative of a recorded function is computed.
#[derive(Clone)]
pub(crate) enum Derivative {
    /// Differentiates the equations of the function and stores the residuals.
    Recorded,
    /// Differentiates the equations of the function and runs them again in the derivative. The policy selects the
    /// values that are stored and not recomputed.
    Recomputed(RematPolicy),
    /// Uses the user's rule. The rule covers the first inputs; the other inputs are tensors that the function captured.
    Given(GivenRule),
}

impl Derivative {
    fn may_call_host(&self) -> bool {
        match self {
            Self::Recorded | Self::Recomputed(_) => false,
            Self::Given(given) => given.rule.known().is_none_or(Linearized::may_call_host),
        }
    }

    /// Returns the derivative of the function [`under_condition`](Body::under_condition).
    pub(super) fn under_condition(&self, is_input: bool) -> Self {
        match self {
            Self::Recorded | Self::Recomputed(_) => self.clone(),
            Self::Given(given) => Self::Given(given.under_condition(is_input)),
        }
    }
}

/// A derivative rule that the user supplied.
#[derive(Clone)]
pub(crate) struct GivenRule {
    pub(crate) rule: Arc<Rule>,
    /// The number of inputs that are arguments of the function; the other inputs were captured.
    pub(crate) arguments: usize,
    /// Whether the rule computes tangents. The rule of a `custom_vjp` computes only cotangents.
    pub(crate) forward: bool,
}

/// A recorded function with its cached derivations.
pub(crate) struct Body {
    pub(crate) recorder: Recorder,
    /// The name of the user's function, as displayed jaxprs write it. Empty for a derived function without a name.
    pub(crate) label: String,
    pub(crate) jaxpr: Jaxpr,
    /// Whether the function has effects besides computing its results, such as printing.
    pub(crate) has_effect: bool,
    /// Whether the function, or a function derived from it, may call a function of the user on the host. True for a function whose
    /// rule is not recorded yet.
    pub(crate) may_call_host: bool,
    /// Whether the function runs for all examples of a batch, of which some do not reach it.
    pub(super) is_partial: bool,
    /// The names of the batch axes that the collectives in the jaxpr use.
    pub(crate) axis_names: Vec<AxisName>,
    pub(super) derivative: Derivative,
    /// Compiles the jaxpr for the executor that runs the function.
    pub(super) compile: Compile,
    program: OnceLock<Arc<dyn Program>>,
    pub(super) derivations: Derivations,
}

impl Body {
    /// Creates the body of a function without a name.
    pub(crate) fn new(recorder: Recorder, jaxpr: Jaxpr, compile: Compile) -> Arc<Self> {
        Self::named(recorder, String::new(), jaxpr, compile)
    }

    /// Creates the body of a function with the name `label`, which displayed jaxprs write.
    pub(crate) fn named(
        recorder: Recorder,
        label: String,
        jaxpr: Jaxpr,
        compile: Compile,
    ) -> Arc<Self> {
        Self::build(recorder, label, jaxpr, Derivative::Recorded, compile, false)
    }

    /// Creates a body like [`new`](Self::new), but with `derivative` instead of the derivative of the equations.
    pub(crate) fn with_derivative(
        recorder: Recorder,
        jaxpr: Jaxpr,
        derivative: Derivative,
        compile: Compile,
    ) -> Arc<Self> {
        Self::build(recorder, String::new(), jaxpr, derivative, compile, false)
    }

    /// Creates a body for a jaxpr that a transformation derived from this body.
    pub(crate) fn derived(&self, jaxpr: Jaxpr) -> Arc<Self> {
        self.derived_with(jaxpr, Derivative::Recorded)
    }

    /// Creates a body like [`derived`](Self::derived), but with `derivative` instead of the derivative of the
    /// equations.
    pub(super) fn derived_with(&self, jaxpr: Jaxpr, derivative: Derivative) -> Arc<Self> {
        Self::build(
            self.recorder,
            self.label.clone(),
            jaxpr,
            derivative,
            self.compile,
            self.is_partial,
        )
    }

    pub(super) fn build(
        recorder: Recorder,
        label: String,
        jaxpr: Jaxpr,
        derivative: Derivative,
        compile: Compile,
        is_partial: bool,
    ) -> Arc<Self> {
        let jaxpr = recorded(jaxpr);
        Arc::new(Self {
            recorder,
            label,
            has_effect: jaxpr.has_effect(),
            may_call_host: derivative.may_call_host()
                || jaxpr
                    .equations
                    .iter()
                    .any(|equation| equation.primitive.may_call_host()),
            is_partial,
            axis_names: jaxpr.axis_names(),
            jaxpr,
            derivative,
            compile,
            program: OnceLock::new(),
            derivations: Derivations::default(),
        })
    }

    /// Runs the function on arrays.
    pub(crate) fn run(&self, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        self.run_in(&mut Slots::new(), operands)
    }

    /// Runs the function like [`run`](Self::run), and reuses the slots of an earlier run.
    pub(crate) fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        if checks::active() {
            let run = || run_checked(&self.jaxpr, operands);
            return if self.is_partial {
                checks::quietly(run)
            } else {
                run()
            };
        }
        self.compiled().run_in(slots, operands)
    }

    fn compiled(&self) -> &dyn Program {
        &**self.program.get_or_init(|| (self.compile)(&self.jaxpr))
    }

    /// Evaluates a loop over the function; see [`Program::evaluate_small`].
    pub(crate) fn evaluate_small(
        &self,
        primitive: &dyn Primitive,
        operands: Vec<Arc<Array>>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        if checks::active() {
            return Err(operands);
        }
        self.compiled().evaluate_small(primitive, operands)
    }

    /// Returns how many bytes a run of the function needs at most at a time, beside its operands.
    pub(crate) fn needed(&self) -> usize {
        self.compiled().needed()
    }

    /// Stores a compiled program of the jaxpr for later runs. Does nothing if the body already has a program.
    pub(crate) fn share(&self, program: Arc<dyn Program>) {
        // An error means that the body already has a program. This program computes the same results, so ignore the
        // error.
        let _ = self.program.set(program);
    }

    /// Writes a call of the function to a module of StableHLO.
    pub(crate) fn lower_call(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
    ) -> Result<Vec<Value>, TensorError> {
        let label = if self.label.is_empty() {
            self.recorder.name()
        } else {
            &self.label
        };
        block.call_body(label, &self.jaxpr, operands)
    }

    pub(crate) fn input_infos(&self) -> Vec<AbstractArray> {
        let inputs = self.jaxpr.inputs.iter();
        inputs
            .map(|&input| self.jaxpr.info(input).clone())
            .collect()
    }

    /// Returns the function with only the inputs at `inputs` and the outputs at `outputs`, in this order. The kept
    /// outputs must not depend on an omitted input.
    pub(crate) fn rearranged(&self, inputs: &[usize], outputs: &[usize]) -> Arc<Self> {
        let mut jaxpr = self.jaxpr.clone();
        jaxpr.inputs = inputs.iter().map(|&at| self.jaxpr.inputs[at]).collect();
        jaxpr.outputs = outputs.iter().map(|&at| self.jaxpr.outputs[at]).collect();
        if inputs.len() < self.jaxpr.inputs.len() {
            jaxpr = jaxpr.only_needed();
        }
        self.derived(jaxpr)
    }

    /// Returns the positions of the inputs on which the outputs at `outputs` depend.
    pub(crate) fn needed_inputs(&self, outputs: &[usize]) -> Vec<usize> {
        let outputs = outputs.iter().map(|&at| self.jaxpr.outputs[at]);
        let needed = self.jaxpr.needed_by(outputs);
        (0..self.jaxpr.inputs.len())
            .filter(|&at| needed[self.jaxpr.inputs[at].index()])
            .collect()
    }
}

/// Returns the names of the batch axes that the collectives of these functions use, without duplicates.
pub(crate) fn all_axis_names<'b>(bodies: impl IntoIterator<Item = &'b Arc<Body>>) -> Vec<AxisName> {
    let mut names = Vec::new();
    for name in bodies.into_iter().flat_map(|body| &body.axis_names) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The expected jaxprs when the bodies of a primitive are replaced, as text for the panic message of a library bug.
pub(crate) const BODIES: &str = "as many jaxprs as the primitive has bodies";

/// Returns the jaxpr for a primitive with a single body.
#[track_caller]
pub(crate) fn single_body(bodies: Vec<Jaxpr>) -> Jaxpr {
    expect_next(&mut bodies.into_iter(), BODIES)
}

/// Removes equations that no output needs from a recorded jaxpr.
fn recorded(jaxpr: Jaxpr) -> Jaxpr {
    debug_verify(&jaxpr, "recording");
    let jaxpr = jaxpr.without_dead_code();
    debug_verify(&jaxpr, "dead code");
    jaxpr
}

impl PartialEq for Body {
    /// Compares bodies by identity.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        std::ptr::hash(self, hasher);
    }
}

impl fmt::Debug for Body {
    /// Also prints the address of the body, because bodies are compared by identity.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} {:p})", self.recorder, std::ptr::from_ref(self))
    }
}

/// A split function. The known part returns the outputs of the function, followed by the residuals (values that the
/// linear part needs). The linear part takes the tangents of the active inputs, followed by the residuals, and returns
/// the tangents of the outputs.
#[derive(Clone, Debug)]
pub(crate) struct Linearized {
    pub(crate) known: Arc<Body>,
    pub(crate) linear: Arc<Body>,
    pub(crate) outputs: usize,
    /// For each output, whether it has a tangent.
    pub(crate) has_tangent: Vec<bool>,
    /// The known part without the residuals that are inputs of the function.
    pub(super) brief: Arc<Body>,
    /// For each residual that is an input, the position of the input. `None` if the residual is computed.
    pub(super) forwarded: Vec<Option<usize>>,
}

/// A derivative rule that maps tangents of all float arguments to tangents of all float results.
///
/// The rule runs when the function is differentiated, once for each order of differentiation. The rule does not run when the function
/// is recorded, because the function may never be differentiated, and because the rule may call the function itself. The rule may
/// have captured tensors of a transformation that has finished by then: see `stand_ins`.
pub(crate) struct Rule {
    recorded: OnceLock<Linearized>,
    record: Option<Box<dyn Fn() -> Linearized + Send + Sync>>,
}

impl Rule {
    /// Creates a rule that is already recorded.
    pub(crate) fn recorded(split: Linearized) -> Self {
        Self {
            recorded: OnceLock::from(split),
            record: None,
        }
    }

    /// Creates a rule that is recorded by a call of `record` when it is first needed.
    pub(crate) fn when_needed(record: impl Fn() -> Linearized + Send + Sync + 'static) -> Self {
        Self {
            recorded: OnceLock::new(),
            record: Some(Box::new(record)),
        }
    }

    /// Returns the recorded rule. Records the rule first if necessary.
    pub(crate) fn get(&self) -> &Linearized {
        match (self.recorded.get(), &self.record) {
            (None, Some(record)) => {
                // No lock is held while the user's rule runs.
                let split = record();
                self.recorded.get_or_init(|| split)
            }
            (recorded, _) => pytree_base::bug::expect_some(recorded, "the rule to have run"),
        }
    }

    /// Returns the recorded rule, or `None` if it is not recorded yet.
    pub(crate) fn known(&self) -> Option<&Linearized> {
        self.recorded.get()
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.recorded).finish()
    }
}

/// The cached functions that were derived from one recorded function.
#[derive(Default)]
pub(super) struct Derivations {
    pub(super) batched: Cache<BatchKey, Batched>,
    pub(super) pushed: Cache<(Vec<bool>, Vec<bool>), Pushed>,
    pub(super) linearized: Cache<(Vec<bool>, Vec<bool>), Linearized>,
    pub(super) transposed: Cache<TransposeKey, Transposed>,
    pub(super) under_condition: Cache<bool, Arc<Body>>,
    pub(super) partial: Cache<(), Arc<Body>>,
}

/// The key of a batched function: the mapped axis of each input, the batch axis, and a flag for each output. The flag
/// forces a batch axis.
type BatchKey = (Vec<Option<usize>>, BatchAxis, Vec<bool>);

/// The key of a transpose. The lists of flags mark the unknown inputs, the outputs with a cotangent, the unknown inputs that must get a
/// cotangent, and the inputs whose cotangents are added to sums.
type TransposeKey = [Vec<bool>; 4];

/// A batched function. `mapped` marks the outputs that have a leading batch axis.
pub(crate) struct Batched {
    pub(crate) body: Arc<Body>,
    pub(crate) mapped: Vec<bool>,
}

/// The JVP of a function. The body takes the inputs, followed by the tangents of the active inputs (the inputs that
/// have a tangent). The body returns the outputs and their tangents. `has_tangent` marks the outputs that have a
/// tangent.
pub(crate) struct Pushed {
    pub(crate) body: Arc<Body>,
    pub(crate) has_tangent: Vec<bool>,
}

/// The transpose of a function. The body takes the known inputs, the cotangents of the outputs and the sums of cotangents of inputs, and
/// returns the cotangents of the unknown inputs. `has_cotangent` marks the unknown inputs that have a cotangent.
pub(crate) struct Transposed {
    pub(crate) body: Arc<Body>,
    pub(crate) has_cotangent: Vec<bool>,
}

/// Selects the intermediate values that [`remat`](crate::remat) stores for the derivative, besides the arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RematPolicy {
    /// Stores nothing and recomputes all values (JAX's `nothing_saveable`, and its default).
    #[default]
    Nothing,
    /// Stores the results of matrix products, which are the most expensive to recompute (`dots_saveable`).
    Dots,
    /// Stores all values, as without `remat` (`everything_saveable`).
    Everything,
}
