//! The program of a compiled function: the optimized jaxpr, its schedule and its memory.

use std::fmt;

use crate::executor::{Planned, plan};
use crate::passes::optimize_for_host;
use crate::tensor::jaxpr::{Jaxpr, Variable};

/// The program that a compiled function runs for arguments of one structure, shapes and dtypes. The display of a
/// `Lowered` shows the optimized jaxpr, the schedule and the memory.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jit};
/// let f = jit(|x: Tensor| (x.sin() * 2.0 + 1.0).sum());
/// let lowered = f.lower(&Tensor::from([1.0_f32, 2.0]));
/// let names: Vec<_> = lowered.jaxpr().equations().map(|equation| equation.name()).collect();
/// assert_eq!(names, ["sin", "full", "mul", "full", "add", "reduce_sum"]);
/// assert!(lowered.schedule()[0].fused, "one fused kernel");
/// assert_eq!(lowered.memory().inputs, 8);
/// println!("{lowered}");
/// ```
#[derive(Clone, Debug)]
pub struct Lowered {
    jaxpr: Jaxpr,
    schedule: Vec<LoweredStep>,
    memory: Memory,
}

/// A step of a schedule: one equation, or several equations that run in one fused kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredStep {
    /// The positions of the equations of this step in the jaxpr, in ascending order. If an earlier step already lists a
    /// chain of views, this step lists only the last view of the chain.
    pub equations: Vec<usize>,
    /// Whether the equations run in one fused kernel, which never writes intermediate values to memory.
    pub fused: bool,
    /// The number of tensors that the step reads.
    pub reads: usize,
    /// The number of tensors that the step writes.
    pub writes: usize,
}

/// The memory that a run of a compiled program needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The size of the inputs in bytes.
    pub inputs: usize,
    /// The size of the captured tensors and folded constants in bytes.
    pub constants: usize,
    /// The size of the outputs in bytes.
    pub outputs: usize,
    /// The largest total size, in bytes, of the results of steps that are in memory at the same time. The outputs are
    /// included. A run may need less memory, because an operation may write its result over an operand.
    pub peak: usize,
    /// The number of tensors that the steps write to memory.
    pub buffers: usize,
}

impl Lowered {
    pub(crate) fn new(recorded: &Jaxpr) -> Self {
        let jaxpr = optimize_for_host(recorded.clone());
        let planned = plan(&jaxpr);
        let memory = memory(&jaxpr, &planned);
        let mut between = Between::new(&jaxpr);
        let schedule = planned
            .iter()
            .map(|planned| step(&mut between, planned))
            .collect();
        Self {
            jaxpr,
            schedule,
            memory,
        }
    }

    /// Returns the optimized jaxpr, after all compiler passes.
    pub fn jaxpr(&self) -> &Jaxpr {
        &self.jaxpr
    }

    /// Returns the steps of the program in execution order.
    pub fn schedule(&self) -> &[LoweredStep] {
        &self.schedule
    }

    /// Returns the memory that a run needs.
    pub fn memory(&self) -> Memory {
        self.memory
    }
}

fn step(between: &mut Between<'_>, planned: &Planned) -> LoweredStep {
    let equations = match planned.single {
        Some(position) => {
            between.listed[position] = true;
            vec![position]
        }
        None => between.equations(&planned.inputs, &planned.outputs),
    };
    LoweredStep {
        equations,
        fused: planned.single.is_none(),
        reads: planned.inputs.len(),
        writes: planned.outputs.len(),
    }
}

/// A search for the equations that compute the outputs of each step from its inputs.
struct Between<'j> {
    jaxpr: &'j Jaxpr,
    makers: Vec<Option<usize>>,
    /// For each variable, the index of the last search that reached the variable. Each search has a new index, so this
    /// list need not be cleared between searches.
    met: Vec<usize>,
    search: usize,
    /// For each equation, whether a step already lists it. The search does not continue to the operands of a listed
    /// equation, so a chain of views is listed in full only once.
    listed: Vec<bool>,
}

impl<'j> Between<'j> {
    fn new(jaxpr: &'j Jaxpr) -> Self {
        Self {
            jaxpr,
            makers: jaxpr.makers(),
            met: vec![0; jaxpr.variables.len()],
            search: 0,
            listed: vec![false; jaxpr.equations.len()],
        }
    }

    /// Returns the positions of the equations that compute the outputs from the inputs, in ascending order.
    fn equations(&mut self, inputs: &[Variable], outputs: &[Variable]) -> Vec<usize> {
        self.search += 1;
        for input in inputs {
            self.met[input.index()] = self.search;
        }
        let mut found = Vec::new();
        let mut wanted = outputs.to_vec();
        while let Some(variable) = wanted.pop() {
            if std::mem::replace(&mut self.met[variable.index()], self.search) == self.search {
                continue;
            }
            if let Some(position) = self.makers[variable.index()] {
                found.push(position);
                if !std::mem::replace(&mut self.listed[position], true) {
                    wanted.extend_from_slice(&self.jaxpr.equations[position].inputs);
                }
            }
        }
        found.sort_unstable();
        // The search reaches an equation with several results once for each result.
        found.dedup();
        found
    }
}

fn memory(jaxpr: &Jaxpr, steps: &[Planned]) -> Memory {
    let bytes = |variable: &Variable| {
        let info = jaxpr.info(*variable);
        info.len() * info.dtype.bytes()
    };
    let mut last_use = vec![None; jaxpr.variables.len()];
    for (position, step) in steps.iter().enumerate() {
        for variable in &step.inputs {
            last_use[variable.index()] = Some(position);
        }
    }
    for output in &jaxpr.outputs {
        last_use[output.index()] = Some(usize::MAX);
    }
    let mut written = vec![false; jaxpr.variables.len()];
    let (mut live, mut peak) = (0, 0);
    for (position, step) in steps.iter().enumerate() {
        for output in &step.outputs {
            written[output.index()] = true;
            live += bytes(output);
        }
        peak = peak.max(live + step.scratch);
        for variable in step.inputs.iter().chain(&step.outputs) {
            let dead = last_use[variable.index()].is_none_or(|last| last <= position);
            if dead && std::mem::take(&mut written[variable.index()]) {
                live -= bytes(variable);
            }
        }
    }
    Memory {
        inputs: jaxpr.inputs.iter().map(bytes).sum(),
        constants: jaxpr
            .constants
            .iter()
            .map(|(variable, _)| bytes(variable))
            .sum(),
        outputs: jaxpr.outputs.iter().map(bytes).sum(),
        peak,
        buffers: steps.iter().map(|step| step.outputs.len()).sum(),
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.jaxpr)?;
        for (position, step) in self.schedule.iter().enumerate() {
            let names: Vec<&str> = step
                .equations
                .iter()
                .map(|&equation| self.jaxpr.equations[equation].primitive.name())
                .collect();
            writeln!(
                f,
                "step {position}: {}{} (reads {}, writes {})",
                if step.fused { "fused " } else { "" },
                names.join(", "),
                step.reads,
                step.writes
            )?;
        }
        let Memory {
            inputs,
            constants,
            outputs,
            peak,
            buffers,
        } = self.memory;
        write!(
            f,
            "memory: {inputs} bytes of inputs, {constants} of constants, {outputs} of outputs; at most {peak} for results, {buffers} buffers"
        )
    }
}
