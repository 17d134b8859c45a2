//! Detects states that a compiled function changes but does not return, so that every call begins with the same state.
//!
//! In the recorded function, such a change is a computation from a state of the argument. The result of this
//! computation has the shape and dtype of the state, and is never used. One call alone does not show that the change is
//! lost, because a caller may pass a new random stream each time. So the second call gives the warning, if it receives
//! the same state as the first call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pytree_core::kind::RngState;
use pytree_core::{CollectionId, KeyPath, LeafKind};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::warning::{WarningKind, warn};
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::transformations::function::Origin;
use crate::transformations::signature::Signature;

/// The maximum number of states that the warning names.
const SHOWN: usize = 4;

/// The states that a compiled function changes without returning them.
pub(crate) struct Dropped {
    /// The key paths of the changed states.
    paths: Vec<KeyPath>,
    /// The positions of the leaves to compare between the first two calls. These are the states that the function
    /// changes, and the keys of the random streams whose counts the function changes. If the second call receives the
    /// same leaves as the first, the caller has lost the changes of the first call.
    watched: Vec<usize>,
    /// The leaves at the positions `watched` in the first call.
    first: Mutex<Option<Vec<Tensor>>>,
    is_decided: AtomicBool,
}

impl Dropped {
    /// Returns the states that a recorded function changes without returning them. Returns `None` if there are none.
    /// The jaxpr must still contain its dead code. The first inputs of the jaxpr are the leaves of the argument.
    pub(crate) fn find(signature: &Signature, jaxpr: &Jaxpr) -> Option<Box<Self>> {
        let kinds = signature.treedef.leaf_kinds();
        if !kinds.iter().copied().any(is_state) {
            return None;
        }
        let changed = changed_for_nothing(&kinds, jaxpr);
        if changed.is_empty() {
            return None;
        }
        let paths = signature.treedef.leaf_paths();
        let mut watched = changed.clone();
        let of_stream = LeafKind::State(CollectionId::of::<RngState>());
        for &leaf in &changed {
            let mut parent = paths[leaf].clone();
            parent.pop();
            if kinds[leaf] == Some(of_stream) {
                let is_beside = |other: &usize| {
                    kinds[*other] == Some(of_stream) && parent.is_prefix_of(&paths[*other])
                };
                watched.extend((0..paths.len()).filter(is_beside));
            }
        }
        Some(Box::new(Self {
            paths: changed
                .into_iter()
                .map(|leaf| paths[leaf].clone())
                .collect(),
            watched,
            first: Mutex::default(),
            is_decided: AtomicBool::new(false),
        }))
    }

    /// Compares the states of the first two calls, and warns if these states are equal.
    pub(crate) fn check(&self, origin: Origin, leaves: &[Tensor]) {
        if !self.is_decided.load(Ordering::Relaxed) {
            self.compare(origin, leaves);
        }
    }

    #[cold]
    fn compare(&self, origin: Origin, leaves: &[Tensor]) {
        let now = || self.watched.iter().map(|&leaf| leaves[leaf].clone());
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = first.take() else {
            *first = Some(now().collect());
            return;
        };
        drop(first);
        self.is_decided.store(true, Ordering::Relaxed);
        if now().eq(before) {
            warn(WarningKind::DroppedState, origin.line, || {
                self.message(origin)
            });
        }
    }

    fn message(&self, Origin { name, line }: Origin) -> String {
        let shown = self.paths.iter().take(SHOWN).map(KeyPath::or_root);
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if self.paths.len() > SHOWN {
            text = format!("{text} and {} more", self.paths.len() - SHOWN);
        }
        format!(
            "the function of `{name}` at {line} changes the states at {text} of its argument, but does not return them, so two calls began with the same states: random numbers are repeated and running statistics are not updated; compile the function with `jit_mut` and take the model by `&mut`, which writes the states back, or return the changed model; for evaluation, pass `eval(&model)`"
        )
    }
}

fn is_state(kind: Option<LeafKind>) -> bool {
    matches!(kind, Some(LeafKind::State(_)))
}

/// Returns the positions of the changed states. From each of these states, the function computes a new value of the
/// same shape and dtype, and never uses this value.
fn changed_for_nothing(kinds: &[Option<LeafKind>], jaxpr: &Jaxpr) -> Vec<usize> {
    let count = jaxpr.variables.len();
    let (mut is_live, mut is_used) = (vec![false; count], vec![false; count]);
    for output in &jaxpr.outputs {
        is_live[output.index()] = true;
    }
    for equation in jaxpr.equations.iter().rev() {
        let has_live = equation
            .outputs
            .iter()
            .any(|output| is_live[output.index()]);
        let is_needed = has_live || equation.primitive.has_effect();
        for input in &equation.inputs {
            is_used[input.index()] = true;
            is_live[input.index()] |= is_needed;
        }
    }
    // For each variable, the leaf position of a state. A state has its own position. A variable that is dead and
    // computed from a state has the position of this state. Other variables have `None`.
    let mut origins: Vec<Option<usize>> = vec![None; count];
    for (leaf, (input, kind)) in jaxpr.inputs.iter().zip(kinds).enumerate() {
        if is_state(*kind) {
            origins[input.index()] = Some(leaf);
        }
    }
    let states: Vec<&AbstractArray> = input_infos(jaxpr);
    let mut changed = Vec::new();
    for equation in &jaxpr.equations {
        let found = origins_of_outputs(equation, jaxpr, &origins, &states);
        for (position, (&output, origin)) in equation.outputs.iter().zip(found).enumerate() {
            let at = output.index();
            if is_live[at] || passes_through(equation, position) {
                continue;
            }
            origins[at] = origin;
            if let Some(leaf) = origin
                && !is_used[at]
                && jaxpr.variables[at] == *states[leaf]
                && !changed.contains(&leaf)
            {
                changed.push(leaf);
            }
        }
    }
    changed.sort_unstable();
    changed
}

/// Returns the shape and dtype of each input.
fn input_infos(jaxpr: &Jaxpr) -> Vec<&AbstractArray> {
    let inputs = jaxpr.inputs.iter();
    inputs
        .map(|input| &jaxpr.variables[input.index()])
        .collect()
}

/// Returns, for each output of an equation, a state from which the output is computed. Prefers a state of the same
/// shape and dtype. Returns `None` if the output is computed from no state.
fn origins_of_outputs(
    equation: &Equation,
    within: &Jaxpr,
    origins: &[Option<usize>],
    states: &[&AbstractArray],
) -> Vec<Option<usize>> {
    let count = equation.outputs.len();
    let given: Vec<Option<usize>> = equation
        .inputs
        .iter()
        .map(|input| origins[input.index()])
        .collect();
    if given.iter().all(Option::is_none) {
        return vec![None; count];
    }
    let bodies = equation.primitive.bodies();
    let body = bodies.iter().find(|(_, body)| body.outputs.len() == count);
    let Some((_, body)) = body else {
        let nearest = |output: &Variable| {
            let info = &within.variables[output.index()];
            let of_states = || given.iter().copied().flatten();
            let alike = of_states().find(|&leaf| states[leaf] == info);
            alike.or_else(|| of_states().next())
        };
        return equation.outputs.iter().map(nearest).collect();
    };
    // The inputs of a body correspond to the last operands of the equation.
    let mut inside = vec![None; body.variables.len()];
    for (input, origin) in body.inputs.iter().rev().zip(given.iter().rev()) {
        inside[input.index()] = *origin;
    }
    for equation in &body.equations {
        let found = origins_of_outputs(equation, body, &inside, states);
        for (output, origin) in equation.outputs.iter().zip(found) {
            inside[output.index()] = origin;
        }
    }
    let outputs = body.outputs.iter();
    outputs.map(|output| inside[output.index()]).collect()
}

/// Returns whether an equation with bodies, such as a loop, returns an unchanged operand as its output at `position`.
fn passes_through(equation: &Equation, position: usize) -> bool {
    operand_behind(equation, position).is_some()
}

/// Returns the operand that the bodies of the equation return unchanged as the output at `position`. Returns `None` if
/// the bodies compute this output.
fn operand_behind(equation: &Equation, position: usize) -> Option<Variable> {
    let bodies = equation.primitive.bodies();
    let of_outputs = bodies
        .iter()
        .filter(|(_, body)| body.outputs.len() == equation.outputs.len());
    let mut operands = of_outputs.map(|(_, body)| {
        let input = input_behind(body, body.outputs[position])?;
        // The inputs of a body correspond to the last operands of the equation.
        let at = (equation.inputs.len() + input).checked_sub(body.inputs.len())?;
        equation.inputs.get(at).copied()
    });
    let first = operands.next()??;
    operands.all(|other| other == Some(first)).then_some(first)
}

/// If a variable is an unchanged input of the jaxpr, returns the position of that input.
fn input_behind(body: &Jaxpr, mut variable: Variable) -> Option<usize> {
    loop {
        if let Some(at) = body.inputs.iter().position(|input| *input == variable) {
            return Some(at);
        }
        variable = body.equations.iter().find_map(|equation| {
            let outputs = &mut equation.outputs.iter();
            let at = outputs.position(|output| *output == variable)?;
            operand_behind(equation, at)
        })?;
    }
}
