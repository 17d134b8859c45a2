//! What the scheduler knows of a jaxpr: the views, and the maker and the readers of each value.
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::fold::Fold;
use pytree_kernels::base::narrow::wide;
use pytree_kernels::base::pattern::Pattern;
use pytree_kernels::fused::Level;
use pytree_kernels::loops::elementwise::Elementwise;
use smallvec::SmallVec;

use super::kernel::FusedKernel;
use super::views::{View, view};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// The maximum number of views of a chain that the planner follows one by one to find the nearest value in memory. In a
/// longer chain, the planner jumps to the source of the chain. So the planning time is linear in the length of the
/// jaxpr.
const NEAR: usize = 32;

/// One step of a schedule.
pub(super) enum Scheduled {
    /// A single equation, given by its position in the jaxpr.
    One(usize),
    /// Several equations in one kernel.
    Kernel(Box<FusedKernel>),
}

impl Scheduled {
    /// Returns the variables that the step reads from memory.
    pub(super) fn inputs<'a>(&'a self, jaxpr: &'a Jaxpr) -> &'a [Variable] {
        match self {
            Self::One(position) => &jaxpr.equations[*position].inputs,
            Self::Kernel(kernel) => &kernel.inputs,
        }
    }

    /// Returns the variables that the step writes to memory.
    pub(super) fn outputs<'a>(&'a self, jaxpr: &'a Jaxpr) -> &'a [Variable] {
        match self {
            Self::One(position) => &jaxpr.equations[*position].outputs,
            Self::Kernel(kernel) => &kernel.outputs,
        }
    }
}

/// Where a kernel finds the value of a variable.
pub(super) enum Resolved {
    Constant(f64),
    /// A value that is in memory, or is computed by an equation that is not a view.
    Value {
        base: Variable,
        pattern: Pattern,
    },
}

/// The role of an equation in a kernel.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Elementwise(Elementwise, Level),
    /// Reduces each row to one number.
    Rows(Fold),
    /// Reduces all rows to one row.
    Columns {
        fold: Fold,
        period: usize,
    },
}

/// The floats that an equation reads or returns.
#[derive(Clone, Copy)]
pub(super) enum Class {
    /// Floats that a kernel holds as this type.
    Floats(DType),
    NoFloats,
}

/// The state of the scheduler.
pub(super) struct Planner<'j> {
    pub(super) jaxpr: &'j Jaxpr,
    /// For each equation, the view that is its result. `None` if the result is not a view.
    pub(super) views: Vec<Option<View>>,
    /// For each variable, the source of its chain of reshapes, or the variable itself.
    pub(super) roots: Vec<Variable>,
    /// For each variable, the equation that computes it (`makers`), and the equations that read it (`readers`).
    pub(super) makers: Vec<Option<usize>>,
    pub(super) readers: Vec<SmallVec<[u32; 2]>>,
    pub(super) is_output: Vec<bool>,
    /// For each variable, whether it is an input, a constant or the result of a step that is already scheduled.
    pub(super) available: Vec<bool>,
    pub(super) taken: Vec<bool>,
    pub(super) scheduled: Vec<Scheduled>,
}

impl<'j> Planner<'j> {
    pub(super) fn new(jaxpr: &'j Jaxpr) -> Self {
        let variables = jaxpr.variables.len();
        let mut planner = Self {
            jaxpr,
            views: jaxpr
                .equations
                .iter()
                .map(|equation| view(jaxpr, equation))
                .collect(),
            roots: Vec::new(),
            makers: jaxpr.makers(),
            readers: vec![SmallVec::new(); variables],
            is_output: vec![false; variables],
            available: vec![false; variables],
            taken: vec![false; jaxpr.equations.len()],
            scheduled: Vec::with_capacity(jaxpr.equations.len()),
        };
        let constants = jaxpr.constants.iter().map(|(variable, _)| variable);
        for variable in jaxpr.inputs.iter().chain(constants) {
            planner.available[variable.index()] = true;
        }
        for output in &jaxpr.outputs {
            planner.is_output[output.index()] = true;
        }
        for (equation, position) in jaxpr.equations.iter().zip(0_u32..) {
            for input in &equation.inputs {
                planner.readers[input.index()].push(position);
            }
        }
        planner.keep_conversions();
        planner.roots = planner.roots();
        planner
    }

    /// Makes each conversion whose result is needed in memory an equation instead of a view, because the kernel that computes the
    /// operand can then write the result.
    fn keep_conversions(&mut self) {
        for (position, equation) in self.jaxpr.equations.iter().enumerate() {
            let is_conversion = matches!(
                equation.primitive.elementwise(),
                Some(Elementwise::Convert(_))
            );
            if !is_conversion || self.views[position].is_none() {
                continue;
            }
            let result = equation.outputs[0].index();
            let reads_elements = |&reader: &u32| {
                let reader = &self.jaxpr.equations[reader as usize];
                self.class(reader).is_some()
            };
            if self.is_output[result] || !self.readers[result].iter().all(reads_elements) {
                self.views[position] = None;
            }
        }
    }

    fn roots(&self) -> Vec<Variable> {
        let mut roots: Vec<Variable> = self.jaxpr.all_variables().collect();
        for (equation, view) in self.jaxpr.equations.iter().zip(&self.views) {
            if let Some(View::Of {
                source,
                pattern: Pattern::Same,
            }) = view
            {
                roots[equation.outputs[0].index()] = roots[source.index()];
            }
        }
        roots
    }

    /// Returns the view that defines a variable, or `None` if the variable is in memory or is not a view.
    pub(super) fn view_of(&self, variable: Variable) -> Option<View> {
        if self.available[variable.index()] {
            return None;
        }
        self.makers[variable.index()].and_then(|maker| self.views[maker])
    }

    /// Follows views from a variable to their source.
    pub(super) fn resolve(&self, mut variable: Variable) -> Resolved {
        let mut pattern = Pattern::Same;
        let mut seen = 0;
        loop {
            seen += 1;
            if seen % NEAR == 0 && !self.available[variable.index()] {
                variable = self.roots[variable.index()];
            }
            match self.view_of(variable) {
                Some(View::Constant(value)) => return Resolved::Constant(value),
                Some(View::Of {
                    source,
                    pattern: Pattern::Same,
                }) => variable = source,
                Some(View::Of {
                    source,
                    pattern: outer,
                }) if pattern == Pattern::Same => {
                    (variable, pattern) = (source, outer);
                }
                // A kernel cannot repeat a value that is itself a repetition, so it reads the inner repetition from
                // memory.
                Some(View::Of { .. }) | None => {
                    return Resolved::Value {
                        base: variable,
                        pattern,
                    };
                }
            }
        }
    }

    pub(super) fn bytes(&self, variable: Variable) -> usize {
        let info = self.jaxpr.info(variable);
        info.len() * info.dtype.bytes()
    }

    /// Returns the only equation that reads a variable, directly or through views. Returns `None` for outputs.
    pub(super) fn only_reader(&self, mut variable: Variable) -> Option<usize> {
        loop {
            let &[reader] = &*self.readers[variable.index()] else {
                return None;
            };
            let reader = reader as usize;
            if self.is_output[variable.index()] {
                return None;
            }
            if self.views[reader].is_none() {
                return Some(reader);
            }
            variable = self.jaxpr.equations[reader].outputs[0];
        }
    }

    /// Returns the class of an equation, or `None` if no kernel can contain the equation.
    pub(super) fn class(&self, equation: &Equation) -> Option<Class> {
        let output = equation.outputs.first()?;
        let mut variables = equation.inputs.iter().chain([output]);
        let floats = |variable: &Variable| {
            let dtype = self.jaxpr.info(*variable).dtype;
            dtype.is_float().then(|| wide(dtype))
        };
        if equation.primitive.reduction().is_some() {
            return floats(output).map(Class::Floats);
        }
        equation.primitive.elementwise()?;
        // A kernel of f32 also holds half-precision floats, so it can convert between these dtypes.
        let float = variables.clone().find_map(floats);
        variables
            .all(|variable| floats(variable).is_none_or(|other| Some(other) == float))
            .then_some(float.map_or(Class::NoFloats, Class::Floats))
    }
}
