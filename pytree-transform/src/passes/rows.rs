//! Keeps the gradient of a table as the rows that were read.
//!
//! The gradient of `table.take(ids)` is a sum of rows that are scattered into zeros of the table's size. This pass follows such a value
//! through the program as **rows**: their distinct positions, their elements, and the [`Background`] of all other elements. An equation
//! that computes each row of its result from the same rows of its operands is computed for the listed rows alone. A sum of several such
//! values lists the rows of all of them. The sum of all elements adds the listed rows, in the order of the sum over the whole table. If
//! the background is an input of the program, for instance a table minus its update, the listed rows are written in the memory of the
//! input. So a training step costs the rows that it reads, and not the table.
//!
//! The equations of the whole tables stay, and dead code is removed afterwards. If one of them stays needed, the gradient is computed as a
//! whole, and [`dense`] gives a warning.
//!
//! All bits are those of the whole table, with two exceptions: rows that are not listed stay as they are even where the whole program
//! would multiply their zeros by an infinite number or NaN, and a row of -0 stays, where the whole program would add 0.

mod background;
mod dense;
mod operations;
mod scattered;

use std::sync::Arc;

use hashbrown::HashMap;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::narrow::is_narrow;
use pytree_kernels::loops::elementwise::{Binary, Elementwise, Unary};
use pytree_kernels::loops::gather::Outside;
use pytree_kernels::loops::reduction::Reduction;
use smallvec::{SmallVec, smallvec};

use self::background::{Background, Rows};
use self::operations::RowOperation;
use self::scattered::{are_few, scattered};
use crate::base::error::or_panic;
use crate::primitives::convert::Convert;
use crate::primitives::create::{Broadcast, Full, known_scalar};
use crate::primitives::gather::{Scatter, ScatterAdd, Take};
use crate::primitives::reduce::{Reduce, Sum};
use crate::primitives::shape::Reshape;
use crate::primitives::slice::Concatenate;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// How many equations are followed from a value to the tables from which its rows are computed.
const DEEPEST: usize = 16;

/// Replaces the gradients of tables by their rows.
pub(super) fn rows(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut equations = jaxpr.equations.iter();
    if !equations.any(|equation| scattered(&jaxpr, equation).is_some()) {
        return jaxpr;
    }
    let mut is_own = vec![false; jaxpr.variables.len()];
    jaxpr
        .inputs
        .iter()
        .for_each(|input| is_own[input.index()] = true);
    let constants = jaxpr.constants.iter();
    let numbers = constants.filter_map(|(variable, it)| Some((*variable, known_scalar(it)?)));
    let mut pass = Pass {
        makers: jaxpr.makers(),
        numbers: numbers.collect(),
        equations: std::mem::take(&mut jaxpr.equations),
        rows: HashMap::new(),
        at: HashMap::new(),
        positions: HashMap::new(),
        is_own,
        done: Vec::new(),
        jaxpr,
    };
    for equation in pass.equations.clone() {
        pass.replace(equation);
    }
    let Pass {
        mut jaxpr,
        done,
        rows,
        ..
    } = pass;
    jaxpr.equations = done;
    let jaxpr = added_in_place(jaxpr.without_dead_code());
    dense::warn_of_dense(&jaxpr, &rows);
    jaxpr
}

struct Pass {
    jaxpr: Jaxpr,
    /// The equations before the pass, and for each variable, the position of its equation among them.
    equations: Vec<Equation>,
    makers: Vec<Option<usize>>,
    numbers: HashMap<Variable, f64>,
    rows: HashMap<Variable, Rows>,
    /// The rows of a variable at positions.
    at: HashMap<(Variable, Variable), Variable>,
    /// The distinct positions of indices, and the place of each index among them.
    positions: HashMap<(Variable, usize, Outside), [Variable; 2]>,
    /// For each variable of the given jaxpr, whether it is an input, or an input with other rows.
    is_own: Vec<bool>,
    done: Vec<Equation>,
}

impl Pass {
    fn replace(&mut self, equation: Equation) {
        let found = self
            .gradient(&equation)
            .or_else(|| self.joined(&equation))
            .or_else(|| self.mapped(&equation));
        if let Some(rows) = found {
            let output = equation.outputs[0];
            self.rows.insert(output, rows);
            self.at.insert((output, rows.positions), rows.elements);
            if let Background::Same(table) = rows.background
                && self.is_own[table.index()]
            {
                self.is_own[output.index()] = true;
                self.done.push(Equation {
                    primitive: Arc::new(Scatter::SET_ROWS),
                    inputs: smallvec![table, rows.positions, rows.elements],
                    ..equation
                });
                return;
            }
        }
        let sum = self.sum(&equation);
        self.done.push(sum.unwrap_or(equation));
    }

    /// Adds an equation with one result, and returns the variable of the result.
    fn push(
        &mut self,
        primitive: Arc<dyn Primitive>,
        inputs: &[Variable],
        like: &Equation,
    ) -> Variable {
        self.push_all(primitive, inputs, like)[0]
    }

    fn push_all(
        &mut self,
        primitive: Arc<dyn Primitive>,
        inputs: &[Variable],
        like: &Equation,
    ) -> SmallVec<[Variable; 1]> {
        let infos: Vec<&AbstractArray> = inputs.iter().map(|&it| self.jaxpr.info(it)).collect();
        let results = or_panic(primitive.abstract_evaluation(&infos)).into_iter();
        let jaxpr = &mut self.jaxpr;
        let outputs: SmallVec<[Variable; 1]> =
            results.map(|info| jaxpr.unused_input(info)).collect();
        self.done.push(Equation {
            primitive,
            inputs: inputs.into(),
            outputs: outputs.clone(),
            line: like.line,
        });
        outputs
    }

    /// Adds updates at indices, row by row. `outside` says what is done with indices out of range.
    fn summed(
        &mut self,
        updates: Variable,
        indices: Variable,
        (length, outside): (usize, Outside),
        like: &Equation,
    ) -> Rows {
        let known = self.positions.get(&(indices, length, outside)).copied();
        let [positions, places] = known.unwrap_or_else(|| {
            let distinct = RowOperation::Positions { length, outside };
            let found = self.push_all(Arc::new(distinct), &[indices], like);
            let found = [found[0], found[1]];
            self.positions.insert((indices, length, outside), found);
            found
        });
        let sums = ScatterAdd {
            axis: 0,
            length: self.jaxpr.info(indices).len(),
            outside: Outside::Drop,
            batch_axes: 0,
        };
        Rows {
            positions,
            elements: self.push(Arc::new(sums), &[updates, places], like),
            background: Background::Number(0.0),
        }
    }

    /// Returns the rows of a sum of rows that are added to zeros.
    fn gradient(&mut self, equation: &Equation) -> Option<Rows> {
        let scatter = *scattered(&self.jaxpr, equation)?;
        let [updates, indices] = equation.inputs[..] else {
            return None;
        };
        let range = (scatter.length, scatter.outside);
        Some(self.summed(updates, indices, range, equation))
    }

    /// Returns the rows of a sum or a difference of values with rows at other positions.
    fn joined(&mut self, equation: &Equation) -> Option<Rows> {
        let Some(Elementwise::Binary(binary @ (Binary::Add | Binary::Sub))) =
            equation.primitive.elementwise()
        else {
            return None;
        };
        let of = |place: usize| {
            let rows = self.rows.get(equation.inputs.get(place)?)?;
            (rows.background == Background::Number(0.0)).then_some(*rows)
        };
        let (left, right) = (of(0)?, of(1)?);
        let length = self.jaxpr.info(equation.outputs[0]).shape[0];
        let count = |rows: Rows| self.jaxpr.info(rows.positions).len();
        let is_other = left.positions != right.positions;
        if !is_other || !are_few(count(left) + count(right), length) {
            return None;
        }
        let added = match binary {
            Binary::Sub => self.push(Arc::new(Unary::Neg), &[right.elements], equation),
            _ => right.elements,
        };
        let join = || Arc::new(Concatenate { axis: 0 });
        let updates = self.push(join(), &[left.elements, added], equation);
        let indices = self.push(join(), &[left.positions, right.positions], equation);
        Some(self.summed(updates, indices, (length, Outside::Drop), equation))
    }

    /// Returns the rows of an equation that computes each row from the same rows of its operands.
    fn mapped(&mut self, equation: &Equation) -> Option<Rows> {
        let listed = equation.inputs.iter().filter_map(|it| self.rows.get(it));
        let is_number = |rows: &&Rows| matches!(rows.background, Background::Number(_));
        let positions = listed
            .clone()
            .find(is_number)
            .or_else(|| listed.clone().next())?
            .positions;
        self.by_rows(equation, 0).filter(|(_, by_rows)| *by_rows)?;
        let elements = self.computed(equation, positions, 0)?;
        let background = self.background(equation, positions);
        let background = match background {
            Background::Same(other) => self.unrounded(equation, other),
            _ => background,
        };
        Some(Rows {
            positions,
            elements,
            background,
        })
    }

    /// Returns the sum of all elements of a value with rows.
    fn sum(&mut self, equation: &Equation) -> Option<Equation> {
        let sum: &Sum = equation.parameters()?;
        let rows = *self.rows.get(&equation.inputs[0])?;
        let info = self.jaxpr.info(equation.inputs[0]);
        let is_total = sum.axes.len() == info.rank() && sum.dtype.is_none();
        let is_wide = matches!(info.dtype, DType::F32 | DType::F64);
        let is_zero = rows.background == Background::Number(0.0);
        let length = info.shape[0];
        (is_total && is_wide && is_zero).then(|| Equation {
            primitive: Arc::new(RowOperation::Sum { length }),
            inputs: smallvec![rows.positions, rows.elements],
            ..equation.clone()
        })
    }

    /// Returns the rows of a variable at positions.
    fn rows_at(
        &mut self,
        variable: Variable,
        positions: Variable,
        like: &Equation,
        depth: usize,
    ) -> Variable {
        if let Some(&known) = self.at.get(&(variable, positions)) {
            return known;
        }
        let maker = self
            .makers
            .get(variable.index())
            .copied()
            .flatten()
            .filter(|_| depth < DEEPEST);
        let computed = maker.and_then(|maker| {
            let equation = self.equations[maker].clone();
            self.computed(&equation, positions, depth + 1)
        });
        let take = Take::clamped(0, 0);
        let found =
            computed.unwrap_or_else(|| self.push(Arc::new(take), &[variable, positions], like));
        self.at.insert((variable, positions), found);
        found
    }

    /// Computes the rows of the result of an equation from the rows of its operands. Returns `None` if they depend on other rows.
    fn computed(
        &mut self,
        equation: &Equation,
        positions: Variable,
        depth: usize,
    ) -> Option<Variable> {
        let (primitive, by_rows) = self.by_rows(equation, self.jaxpr.info(positions).len())?;
        let mut inputs = equation.inputs.clone();
        if by_rows {
            for input in &mut inputs {
                *input = self.rows_at(*input, positions, equation, depth);
            }
        }
        Some(self.push(primitive, &inputs, equation))
    }

    /// Returns the primitive that computes `count` rows of the result of an equation, and whether it reads rows of the operands or whole
    /// operands.
    fn by_rows(&self, equation: &Equation, count: usize) -> Option<(Arc<dyn Primitive>, bool)> {
        let result = self.jaxpr.info(*equation.outputs.first()?);
        let length = *result.shape.first()?;
        let operand = equation.inputs.first().map(|&it| self.jaxpr.info(it));
        let has_length =
            |info: Option<&AbstractArray>| info.and_then(|it| it.shape.first()) == Some(&length);
        let with_rows = || {
            let mut shape = result.shape.clone();
            shape[0] = count;
            shape
        };
        if equation.primitive.elementwise().is_some() {
            let mut inputs = equation.inputs.iter();
            let is_same = inputs.all(|&it| self.jaxpr.info(it).shape == result.shape);
            return is_same.then(|| (Arc::clone(&equation.primitive), true));
        }
        if let Some(full) = equation.parameters::<Full>() {
            let shape = with_rows();
            return Some((Arc::new(Full { shape, ..*full }), false));
        }
        if let Some(broadcast) = equation.parameters::<Broadcast>() {
            let by_rows = broadcast.axes.first() == Some(&0) && has_length(operand);
            let axes = broadcast.axes.clone();
            let shape = with_rows();
            return Some((Arc::new(Broadcast { shape, axes }), by_rows));
        }
        if equation.parameters::<Reshape>().is_some() {
            let reshape = Reshape { shape: with_rows() };
            return has_length(operand).then(|| (Arc::new(reshape) as _, true));
        }
        let reduce: &Reduce = equation.parameters()?;
        let keeps_rows = reduce.reduction != Reduction::Prod && !reduce.axes.contains(&0);
        keeps_rows.then(|| (Arc::clone(&equation.primitive), true))
    }

    /// Returns the background of the result of an equation that is computed by rows.
    fn background(&self, equation: &Equation, positions: Variable) -> Background {
        let of = |variable: &Variable| {
            let rows = self.rows.get(variable);
            if let Some(rows) = rows.filter(|rows| rows.positions == positions) {
                return rows.background;
            }
            let maker = self.makers[variable.index()].map(|maker| &self.equations[maker]);
            match maker.and_then(Equation::parameters::<Full>) {
                Some(full) => Background::Number(full.value),
                None => match self.numbers.get(variable) {
                    Some(&number) => Background::Number(number),
                    None => Background::Same(*variable),
                },
            }
        };
        let mut operands = equation.inputs.iter();
        if equation.primitive.elementwise().is_some() {
            let operands = operands.map(|it| (self.jaxpr.info(*it).dtype, of(it)));
            let operands: SmallVec<[(DType, Background); 3]> = operands.collect();
            return Background::of(&*equation.primitive, &operands);
        }
        match operands.next().map(of) {
            Some(Background::Number(number)) => Background::Number(number),
            _ => Background::Other,
        }
    }

    /// Returns the background of an equation whose operand has the background `other`: a value that was widened, if the equation rounds it
    /// back.
    fn unrounded(&self, equation: &Equation, other: Variable) -> Background {
        let info = self.jaxpr.info(equation.outputs[0]);
        if self.jaxpr.info(other).dtype == info.dtype {
            return Background::Same(other);
        }
        let maker = self.makers[other.index()].map(|maker| &self.equations[maker]);
        let widened = self.jaxpr.info(other).dtype;
        let is_wider = widened.is_float() && widened.bytes() > info.dtype.bytes();
        let narrow = maker.filter(|maker| is_wider && maker.parameters::<Convert>().is_some());
        match narrow.map(|maker| maker.inputs[0]) {
            Some(narrow) if self.jaxpr.info(narrow).dtype == info.dtype => Background::Same(narrow),
            _ => Background::Other,
        }
    }
}

/// Adds rows in the memory of a table where they would be read, added to and written back.
fn added_in_place(mut jaxpr: Jaxpr) -> Jaxpr {
    let makers = jaxpr.makers();
    let mut readers = vec![0; jaxpr.variables.len()];
    let inputs = jaxpr.equations.iter().flat_map(|equation| &equation.inputs);
    inputs
        .chain(&jaxpr.outputs)
        .for_each(|input| readers[input.index()] += 1);
    let maker = |variable: Variable| {
        let only = makers[variable.index()].filter(|_| readers[variable.index()] == 1);
        only.map(|maker| &jaxpr.equations[maker])
    };
    let added = |equation: &Equation| {
        let set = equation.parameters::<Scatter>() == Some(&Scatter::SET_ROWS);
        let [table, positions, elements] = equation.inputs[..] else {
            return None;
        };
        if !set || is_narrow(jaxpr.info(table).dtype) {
            return None;
        }
        let sum = maker(elements).filter(|it| it.parameters() == Some(&Binary::Add))?;
        let is_read = |variable: Variable| {
            maker(variable).is_some_and(|it| {
                it.parameters::<Take>().is_some() && it.inputs[..] == [table, positions]
            })
        };
        let rows = match sum.inputs[..] {
            [left, right] if is_read(left) => right,
            [left, right] if is_read(right) => left,
            _ => return None,
        };
        Some(smallvec![table, positions, rows])
    };
    let found: Vec<Option<SmallVec<[Variable; 4]>>> = jaxpr.equations.iter().map(added).collect();
    for (equation, inputs) in jaxpr.equations.iter_mut().zip(found) {
        if let Some(inputs) = inputs {
            equation.primitive = Arc::new(RowOperation::Add);
            equation.inputs = inputs;
        }
    }
    jaxpr.without_dead_code()
}
