//! Chooses the order of equations, and groups equations into fused kernels.
//!
//! The equations of a kernel have the same number of elements, of any dtypes. A kernel holds all floats in one dtype: either f64, or
//! f32 for f32 and half-precision floats.
//!
//! A kernel may reduce rows of its elements and continue with one number for each row, so a softmax or a normalisation
//! is one kernel. A kernel may also reduce all rows to one row, or all elements to one number. No later step of the
//! kernel may read the result of such a reduction.
//!
//! An equation joins an earlier kernel if its operands are computed before or in that kernel. So unrelated equations in
//! between do not split a kernel.

use hashbrown::{HashMap, HashSet};
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::narrow::Half;
use pytree_kernels::base::pattern::Pattern;
use pytree_kernels::fused::Level;
use smallvec::SmallVec;

use super::builder::FusedBuilder;
use super::kernel::{FusedKernel, followed};
use super::planner::{Class, Planner, Resolved, Role, Scheduled};
use super::views::{Direction, View, direction};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// The number of equations that are searched for further members of a kernel, after the first equation of the kernel.
/// This number keeps the planning time linear in the length of the jaxpr.
const WINDOW: usize = 256;

/// The longest row, in elements, that a kernel reduces. The first-level cache must hold several rows.
const LONGEST_ROW: usize = 4096;

/// The maximum number of elements of a row, if a kernel reduces all rows, element by element, to a single row.
const LONGEST_TOTAL: usize = 16_384;

/// The greatest number of elements of a kernel with equations that have nothing to do with each other. Such a kernel saves the
/// overhead of several short kernels.
const LONGEST_UNRELATED: usize = 2048;

/// The equations of a kernel under construction.
struct Group {
    length: usize,
    row: Option<usize>,
    float: Option<DType>,
    members: Vec<(usize, Role)>,
    /// The variables that the equations of the group compute. Later equations of the group can read these variables
    /// from registers.
    inside: HashMap<Variable, Level>,
}

/// Orders the equations of a jaxpr, and groups chains of equations into kernels.
pub(super) fn schedule(jaxpr: &Jaxpr) -> Vec<Scheduled> {
    let mut planner = Planner::new(jaxpr);
    let small = planner.small();
    let (first, then): (Vec<usize>, Vec<usize>) =
        (0..jaxpr.equations.len()).partition(|&position| small[position]);
    for start in first.into_iter().chain(then) {
        if !planner.taken[start] && planner.views[start].is_none() {
            planner.take(start);
        }
    }
    jaxpr
        .outputs
        .iter()
        .for_each(|&output| planner.materialize(output));
    planner.scheduled
}

impl Planner<'_> {
    /// Finds the equations on small tensors that do not depend on larger tensors, for example the equations of a
    /// learning rate or a bias correction. These equations run first, so that they do not split a kernel that needs
    /// their results.
    fn small(&self) -> Vec<bool> {
        const FEW: usize = 16;
        let few = |variable: Variable| self.jaxpr.info(variable).len() <= FEW;
        let mut ready = self.available.clone();
        let mut small = Vec::with_capacity(self.jaxpr.equations.len());
        for equation in &self.jaxpr.equations {
            let is_small = equation
                .inputs
                .iter()
                .all(|&input| few(input) && ready[input.index()])
                && equation.outputs.iter().all(|&output| few(output))
                // Equations with effects stay in the order of the program. So do collectives, because all processes
                // must communicate in the same order.
                && !equation.primitive.has_effect()
                && equation.primitive.axis_names().is_empty();
            if is_small {
                equation
                    .outputs
                    .iter()
                    .for_each(|output| ready[output.index()] = true);
            }
            small.push(is_small);
        }
        small
    }

    /// Schedules the kernel that begins with the equation `start`, or this equation alone if no kernel can contain it.
    fn take(&mut self, start: usize) {
        let Some(group) = self.group(start) else {
            return self.alone(start);
        };
        let pays = group.members.len() > 1
            || self.reads_view(start)
            || self.reads_product(start)
            || self.is_half(start);
        if !pays {
            return self.alone(start);
        }
        let kernel = self.build(&group);
        self.scheduled.push(Scheduled::Kernel(Box::new(kernel)));
        for (position, _) in group.members {
            self.done(position);
        }
    }

    /// Returns whether the result of an equation has a half-precision dtype. A kernel converts such values tile by
    /// tile, and a single equation converts whole arrays.
    fn is_half(&self, position: usize) -> bool {
        let mut outputs = self.jaxpr.equations[position].outputs.iter();
        outputs.any(|&output| Half::of(self.jaxpr.info(output).dtype).is_some())
    }

    fn reads_view(&self, position: usize) -> bool {
        let inputs = &self.jaxpr.equations[position].inputs;
        inputs.iter().any(|&input| self.view_of(input).is_some())
    }

    /// Returns whether an equation reads the result of a product, which a kernel can follow.
    fn reads_product(&self, position: usize) -> bool {
        self.jaxpr.equations[position].inputs.iter().any(|&input| {
            let maker = self.makers[input.index()].map(|maker| &self.jaxpr.equations[maker]);
            maker.is_some_and(|maker| followed(&*maker.primitive).is_some())
        })
    }

    fn alone(&mut self, position: usize) {
        for &input in &self.jaxpr.equations[position].inputs {
            self.materialize(input);
        }
        self.one(position);
    }

    fn one(&mut self, position: usize) {
        self.scheduled.push(Scheduled::One(position));
        self.done(position);
    }

    fn done(&mut self, position: usize) {
        self.taken[position] = true;
        self.jaxpr.equations[position]
            .outputs
            .iter()
            .for_each(|output| self.available[output.index()] = true);
    }

    /// Schedules the equations that write a view to memory. If the view depends on other views, schedules these views
    /// first.
    fn materialize(&mut self, variable: Variable) {
        let mut makers: SmallVec<[usize; 4]> = SmallVec::new();
        let mut variable = Some(variable);
        while let Some(shown) = variable {
            let (Some(view), Some(maker)) = (self.view_of(shown), self.makers[shown.index()])
            else {
                break;
            };
            makers.push(maker);
            variable = match view {
                View::Of { source, .. } => Some(source),
                View::Constant(_) => None,
            };
        }
        makers.into_iter().rev().for_each(|maker| self.one(maker));
    }

    /// Returns the equations of the kernel that begins with the equation `start`, or `None` if no kernel can contain
    /// this equation.
    fn group(&mut self, start: usize) -> Option<Group> {
        // If the first equation reads a repetition of a repetition, the inner repetition must be in memory. So first
        // write to memory the values that the equation reads.
        let bases: SmallVec<[Variable; 4]> = self.jaxpr.equations[start]
            .inputs
            .iter()
            .filter_map(|&input| match self.resolve(input) {
                Resolved::Value { base, .. } => Some(base),
                Resolved::Constant(_) => None,
            })
            .collect();
        let first = &self.jaxpr.equations[start];
        let length = match first.primitive.reduction() {
            Some(_) => self.jaxpr.info(*first.inputs.first()?).len(),
            None => self.jaxpr.info(*first.outputs.first()?).len(),
        };
        let mut group = Group {
            length,
            row: None,
            float: None,
            members: Vec::new(),
            inside: HashMap::new(),
        };
        self.class(first)?;
        bases.into_iter().for_each(|base| self.materialize(base));
        if !self.join(&mut group, start) {
            return None;
        }
        let end = self.jaxpr.equations.len().min(start + WINDOW);
        for position in start + 1..end {
            if !self.taken[position] && self.views[position].is_none() {
                self.join(&mut group, position);
            }
        }
        self.follow(&mut group, end);
        if group.length > LONGEST_UNRELATED {
            self.keep_related(&mut group);
        }
        Some(group)
    }

    /// Adds equations from the position `start` on which alone read a value of the group. So this value is never in memory, and the
    /// result of such an equation does not need more. An optimizer computes the updates of all parameters before it adds the first
    /// one: in a large model, the addition is far away.
    fn follow(&self, group: &mut Group, start: usize) {
        let mut member = 0;
        while let Some(&(position, _)) = group.members.get(member) {
            let output = self.jaxpr.equations[position].outputs[0];
            if let Some(reader) = self.only_reader(output)
                && reader >= start
                && !self.taken[reader]
                && self.bytes(self.jaxpr.equations[reader].outputs[0]) <= self.bytes(output)
            {
                self.join(group, reader);
            }
            member += 1;
        }
    }

    /// Removes the equations that have nothing to do with the first equation of the group: no chain of values that one equation
    /// computes and another one reads, or that both read, leads to them. In a kernel with the others, they would write their
    /// results to memory earlier than necessary.
    fn keep_related(&self, group: &mut Group) {
        let mut sets = DisjointSets::new(group.members.len());
        let mut known: HashMap<Variable, usize> = HashMap::new();
        for (member, (position, _)) in group.members.iter().enumerate() {
            let equation = &self.jaxpr.equations[*position];
            for &input in &equation.inputs {
                if let Resolved::Value { base, pattern } = self.resolve(input)
                    && (pattern == Pattern::Same || group.inside.contains_key(&base))
                {
                    sets.join(member, *known.entry(base).or_insert(member));
                }
            }
            sets.join(member, *known.entry(equation.outputs[0]).or_insert(member));
        }
        let first = sets.find(0);
        let mut member = 0..;
        group.members.retain(|_| {
            member
                .next()
                .is_some_and(|member| sets.find(member) == first)
        });
        let outputs: HashSet<Variable> = group
            .members
            .iter()
            .map(|&(position, _)| self.jaxpr.equations[position].outputs[0])
            .collect();
        group
            .inside
            .retain(|variable, _| outputs.contains(variable));
        let has_rows = |(_, role): &(usize, Role)| matches!(role, Role::Rows(_));
        if !group.members.iter().any(has_rows) {
            group.row = None;
        }
    }

    /// Adds an equation to a group and returns true. Returns false if the equation does not fit the group.
    fn join(&self, group: &mut Group, position: usize) -> bool {
        let equation = &self.jaxpr.equations[position];
        let float = match self.class(equation) {
            Some(Class::Floats(dtype)) => Some(dtype),
            Some(Class::NoFloats) => None,
            None => return false,
        };
        if group.float.is_some() && float.is_some() && group.float != float {
            return false;
        }
        let Some(role) = self.role(group, equation) else {
            return false;
        };
        group.float = group.float.or(float);
        group.members.push((position, role));
        let output = equation.outputs[0];
        match role {
            Role::Elementwise(_, level) => {
                group.inside.insert(output, level);
            }
            Role::Rows(_) => {
                let operand = self.jaxpr.info(equation.inputs[0]).len();
                group.row = Some(operand / self.jaxpr.info(output).len());
                group.inside.insert(output, Level::Row);
            }
            Role::Columns { .. } => {}
        }
        true
    }

    /// Returns the role of an equation in a group, or `None` if the equation does not fit the group.
    fn role(&self, group: &Group, equation: &Equation) -> Option<Role> {
        if let Some((fold, axes)) = equation.primitive.reduction() {
            let operand = equation.inputs[0];
            let info = self.jaxpr.info(operand);
            if info.len() != group.length || !self.readable(group, operand, Level::Element) {
                return None;
            }
            return match direction(&info.shape, axes)? {
                Direction::Rows { length }
                    if length <= LONGEST_ROW && group.row.is_none_or(|row| row == length) =>
                {
                    Some(Role::Rows(fold))
                }
                Direction::Rows { length } if length == group.length => {
                    Some(Role::Columns { fold, period: 1 })
                }
                Direction::Columns { period } if period <= LONGEST_TOTAL => {
                    Some(Role::Columns { fold, period })
                }
                _ => None,
            };
        }
        let elementwise = equation.primitive.elementwise()?;
        let length = self.jaxpr.info(equation.outputs[0]).len();
        let level = if length == group.length {
            Level::Element
        } else if group.row.is_some_and(|row| length * row == group.length) {
            Level::Row
        } else {
            return None;
        };
        let mut inputs = equation.inputs.iter();
        inputs
            .all(|&input| self.readable(group, input, level))
            .then_some(Role::Elementwise(elementwise, level))
    }

    /// Returns whether a kernel can read a variable as values of `level` (one number for each element, or for each
    /// row).
    fn readable(&self, group: &Group, variable: Variable, level: Level) -> bool {
        let Resolved::Value { base, pattern } = self.resolve(variable) else {
            return true;
        };
        match (group.inside.get(&base), pattern) {
            (Some(&inside), Pattern::Same) => inside == level,
            (Some(Level::Row), Pattern::Stretch { times }) => {
                level == Level::Element && group.row == Some(times)
            }
            (Some(_), _) => false,
            (None, _) => self.available[base.index()],
        }
    }

    /// Returns whether an equation that is not one of the members reads a variable, directly or through views.
    fn is_needed(&self, members: &HashSet<usize>, variable: Variable) -> bool {
        let mut shown: SmallVec<[Variable; 8]> = smallvec::smallvec![variable];
        while let Some(variable) = shown.pop() {
            if self.is_output[variable.index()] {
                return true;
            }
            for &reader in &self.readers[variable.index()] {
                let reader = reader as usize;
                if self.taken[reader] || members.contains(&reader) {
                    continue;
                }
                if self.views[reader].is_none() {
                    return true;
                }
                shown.push(self.jaxpr.equations[reader].outputs[0]);
            }
        }
        false
    }

    fn build(&self, group: &Group) -> FusedKernel {
        // A group without floats has no float dtype, so any float dtype works.
        let float = group.float.unwrap_or(DType::F32);
        let mut builder = FusedBuilder::new(self, float, group.length, group.row.unwrap_or(1));
        for &(position, role) in &group.members {
            builder.add(&self.jaxpr.equations[position], role);
        }
        let members: HashSet<usize> = group.members.iter().map(|member| member.0).collect();
        for &(position, role) in &group.members {
            let output = self.jaxpr.equations[position].outputs[0];
            if !matches!(role, Role::Columns { .. }) && self.is_needed(&members, output) {
                builder.store(output);
            }
        }
        builder.finish()
    }
}

/// Numbers, divided into sets without common numbers.
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    /// Puts each number below `count` into a set of its own.
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    /// Returns the number that stands for the set of a number.
    fn find(&mut self, mut number: usize) -> usize {
        while self.0[number] != number {
            self.0[number] = self.0[self.0[number]];
            number = self.0[number];
        }
        number
    }

    fn join(&mut self, left: usize, right: usize) {
        let (left, right) = (self.find(left), self.find(right));
        self.0[left.max(right)] = left.min(right);
    }
}
