//! The writer of one function: its values, its operations, and the regions of its operations.

use std::fmt::{self, Write as _};
use std::panic::Location;

use pytree_base::bug::bug;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use smallvec::SmallVec;

use crate::base::error::TensorError;
use crate::tensor::device::MeshAxes;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stablehlo::literals::{self, Literal};
use crate::tensor::stablehlo::module::{FunctionKey, Module};
use crate::tensor::stablehlo::types::{write_number, write_type};

/// A value of a module of StableHLO: the result of an operation, or an argument of a function or a region.
#[derive(Clone, Debug)]
pub struct Value {
    /// The index of the value, as in its name `%3`. The index is unique in a function, including the regions of the
    /// function's operations.
    number: usize,
    pub(crate) info: AbstractArray,
    /// The index and the dtype of the bf16 or f16 that was converted to this f32.
    half: Option<(usize, DType)>,
}

impl Value {
    /// Stores that the value is `source` in another dtype.
    pub(super) fn converted_from(mut self, source: &Self) -> Self {
        let is_half = matches!(source.dtype(), DType::BF16 | DType::F16);
        if is_half && self.dtype() == DType::F32 {
            self.half = Some((source.number, source.dtype()));
        }
        self
    }

    /// Returns the bf16 or f16 that was converted to this f32.
    pub(super) fn half(&self) -> Option<Self> {
        let (number, dtype) = self.half?;
        let info = AbstractArray::new(dtype, self.shape());
        Some(Self {
            number,
            info,
            half: None,
        })
    }

    /// Returns the dtype and the shape.
    pub fn info(&self) -> &AbstractArray {
        &self.info
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.info.shape
    }

    pub(crate) fn dtype(&self) -> DType {
        self.info.dtype
    }

    pub(crate) fn rank(&self) -> usize {
        self.info.rank()
    }
}

/// The text of a function, without source lines. `marks` stores the positions of the source lines.
#[derive(Debug, Default)]
pub(super) struct FunctionText {
    pub(super) text: String,
    /// For each operation, the position in the text after the operation, and the index of its source line in the
    /// module's list of source lines.
    pub(super) marks: Vec<(usize, u32)>,
}

/// Writes the operations of a function of StableHLO, for the lowering rule of a [`Primitive`](crate::extend::Primitive).
pub struct Block<'m> {
    module: &'m mut Module,
    function: FunctionText,
    values: usize,
    /// The number of regions that enclose the next operation.
    depth: usize,
    /// The constants of the module that the function takes as arguments, after the other arguments.
    pub(super) constants: Vec<(usize, Value)>,
    equation: CurrentEquation,
    line_number: u32,
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Block")
    }
}

/// The equation whose operations are written, for messages and locations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentEquation {
    pub(crate) primitive: &'static str,
    pub(crate) line: &'static Location<'static>,
}

impl<'m> Block<'m> {
    pub(super) fn new(module: &'m mut Module, equation: CurrentEquation) -> Self {
        let line_number = module.line_number(equation.line);
        Self {
            module,
            function: FunctionText::default(),
            values: 0,
            depth: 0,
            constants: Vec::new(),
            equation,
            line_number,
        }
    }

    pub(super) fn finish(self) -> (FunctionText, Vec<(usize, Value)>) {
        (self.function, self.constants)
    }

    /// Begins the operations of another equation.
    pub(super) fn begin(&mut self, equation: CurrentEquation) {
        if !std::ptr::eq(self.equation.line, equation.line) {
            self.line_number = self.module.line_number(equation.line);
        }
        self.equation = equation;
    }

    /// Returns the equation whose operations are written.
    pub(super) fn current(&self) -> CurrentEquation {
        self.equation
    }

    /// Keeps a recorded jaxpr until the module is finished, because the addresses of its bodies identify functions.
    pub(super) fn keep(&mut self, jaxpr: Jaxpr) {
        self.module.recorded.push(jaxpr);
    }

    /// Returns the named axes of the replicas of the module.
    pub(crate) fn mesh(&self) -> &MeshAxes {
        &self.module.mesh
    }

    /// Returns the axes of the mesh among whose devices the compiler divides the module, or `None` if it does not.
    pub(crate) fn partition_mesh(&self) -> Option<&MeshAxes> {
        let partitioning = self.module.partitioning.as_ref();
        partitioning.map(|partitioning| &partitioning.mesh)
    }

    /// Returns the error for an operation that StableHLO cannot express. The message has the operation, its source line, the
    /// problem, and how to change the program.
    pub fn refused(
        &self,
        operands: &[Value],
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> TensorError {
        TensorError::Lowering {
            operation: self.equation.primitive,
            line: self.equation.line,
            found: operands
                .iter()
                .map(|operand| operand.info.clone())
                .collect(),
            problem: problem.into().into(),
            fix: fix.into().into(),
        }
    }

    /// Creates a value that no operation defines yet.
    pub(super) fn value(&mut self, info: AbstractArray) -> Value {
        let number = self.values;
        self.values += 1;
        Value {
            number,
            info,
            half: None,
        }
    }

    /// Writes an operation with one result, for instance `stablehlo.cholesky` with the attributes `lower = true`. `attributes` is the
    /// text between the braces.
    pub fn operation(
        &mut self,
        name: &str,
        operands: &[&Value],
        attributes: fmt::Arguments<'_>,
        result: AbstractArray,
    ) -> Value {
        let result = self.value(result);
        self.open(std::slice::from_ref(&result), name, operands);
        self.close(std::slice::from_ref(&result), operands, attributes);
        result
    }

    /// Writes an operation with several results; see [`operation`](Self::operation).
    pub fn operation_of_many(
        &mut self,
        name: &str,
        operands: &[&Value],
        attributes: fmt::Arguments<'_>,
        results: impl IntoIterator<Item = AbstractArray>,
    ) -> Vec<Value> {
        let results: Vec<Value> = results.into_iter().map(|info| self.value(info)).collect();
        self.open(&results, name, operands);
        self.close(&results, operands, attributes);
        results
    }

    /// Writes an operation with regions. `write` calls [`region`](Self::region) for each region.
    pub(crate) fn operation_with_regions(
        &mut self,
        name: &str,
        operands: &[&Value],
        attributes: fmt::Arguments<'_>,
        results: impl IntoIterator<Item = AbstractArray>,
        write: impl FnOnce(&mut Self) -> Result<(), TensorError>,
    ) -> Result<Vec<Value>, TensorError> {
        let results: Vec<Value> = results.into_iter().map(|info| self.value(info)).collect();
        self.open(&results, name, operands);
        self.function.text.push_str(" (");
        write(self)?;
        self.function.text.push(')');
        self.close(&results, operands, attributes);
        Ok(results)
    }

    /// Writes one region of an operation. `write` maps the arguments of the region to its results.
    pub(crate) fn region(
        &mut self,
        arguments: impl IntoIterator<Item = AbstractArray>,
        write: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<(), TensorError> {
        let arguments: Vec<Value> = arguments.into_iter().map(|info| self.value(info)).collect();
        if !self.function.text.ends_with('(') {
            self.function.text.push_str(", ");
        }
        self.function.text.push_str("{\n");
        if !arguments.is_empty() {
            self.indent();
            self.function.text.push_str("^bb0(");
            self.declare(&arguments);
            self.function.text.push_str("):\n");
        }
        self.depth += 1;
        let results = write(self, &arguments)?;
        self.leave("stablehlo.return", &results);
        self.depth -= 1;
        self.indent();
        self.function.text.push('}');
        Ok(())
    }

    /// Writes the operation that ends a region or a function and returns `results`.
    pub(super) fn leave(&mut self, name: &str, results: &[Value]) {
        let results: SmallVec<[&Value; 4]> = results.iter().collect();
        self.open(&[], name, &results);
        self.close(&[], &results, format_args!(""));
    }

    /// Appends the arguments of a function or a region with their types.
    pub(super) fn declare(&mut self, arguments: &[Value]) {
        self.declare_with(arguments, |_, _| String::new());
    }

    /// Appends the arguments of a function with their types and attributes.
    pub(super) fn declare_with(
        &mut self,
        arguments: &[Value],
        attributes: impl Fn(usize, &AbstractArray) -> String,
    ) {
        for (position, argument) in arguments.iter().enumerate() {
            self.separate(position);
            self.name(argument);
            self.function.text.push_str(": ");
            write_type(&mut self.function.text, &argument.info);
            let attributes = attributes(position, &argument.info);
            self.function.text.push_str(&attributes);
        }
    }

    fn separate(&mut self, position: usize) {
        if position > 0 {
            self.function.text.push_str(", ");
        }
    }

    fn name(&mut self, value: &Value) {
        self.function.text.push('%');
        write_number(&mut self.function.text, value.number);
    }

    fn indent(&mut self) {
        for _ in 0..self.depth + 2 {
            self.function.text.push_str("  ");
        }
    }

    /// Writes the first part of an operation: its results, its name and its operands.
    fn open(&mut self, results: &[Value], name: &str, operands: &[&Value]) {
        self.indent();
        for (position, result) in results.iter().enumerate() {
            self.separate(position);
            self.name(result);
        }
        if !results.is_empty() {
            self.function.text.push_str(" = ");
        }
        self.function.text.push('"');
        self.function.text.push_str(name);
        self.function.text.push_str("\"(");
        for (position, operand) in operands.iter().enumerate() {
            self.separate(position);
            self.name(operand);
        }
        self.function.text.push(')');
    }

    /// Writes the last part of an operation: its attributes, and the types of its operands and results.
    fn close(&mut self, results: &[Value], operands: &[&Value], attributes: fmt::Arguments<'_>) {
        let text = &mut self.function.text;
        if attributes.as_str() != Some("") {
            text.push_str(" {");
            let _ = text.write_fmt(attributes);
            text.push('}');
        }
        text.push_str(" : (");
        for (position, operand) in operands.iter().enumerate() {
            self.separate(position);
            write_type(&mut self.function.text, &operand.info);
        }
        let text = &mut self.function.text;
        text.push_str(") -> ");
        match results {
            [result] => write_type(text, &result.info),
            results => {
                text.push('(');
                for (position, result) in results.iter().enumerate() {
                    self.separate(position);
                    write_type(&mut self.function.text, &result.info);
                }
                self.function.text.push(')');
            }
        }
        let end = self.function.text.len();
        self.function.marks.push((end, self.line_number));
        self.function.text.push('\n');
    }

    /// Writes a constant whose elements are all equal. `literal` is the element in the notation of StableHLO.
    pub(crate) fn splat(&mut self, info: &AbstractArray, literal: &str) -> Value {
        let literal = if info.is_empty() { "" } else { literal };
        let mut attribute = String::with_capacity(64);
        attribute.push_str("dense<");
        attribute.push_str(literal);
        attribute.push_str("> : ");
        write_type(&mut attribute, info);
        self.constant_operation(info, &attribute)
    }

    /// Writes a constant whose elements all equal `value`.
    pub(crate) fn filled<T: Literal>(&mut self, info: &AbstractArray, value: T) -> Value {
        let mut literal = String::new();
        value.write(&mut literal);
        self.splat(info, &literal)
    }

    /// Writes a constant whose elements all equal `value`, converted to the dtype like Rust's `as`.
    pub(crate) fn number(&mut self, info: &AbstractArray, value: f64) -> Value {
        self.splat(info, &literals::number(info.dtype, value))
    }

    /// Writes a constant with the dtype and shape of a value, whose elements all equal `number`.
    pub(crate) fn number_like(&mut self, value: &Value, number: f64) -> Value {
        self.number(&value.info, number)
    }

    fn constant_operation(&mut self, info: &AbstractArray, attribute: &str) -> Value {
        let attributes = format_args!("value = {attribute}");
        self.operation("stablehlo.constant", &[], attributes, info.clone())
    }

    /// Returns a constant of a jaxpr. A short constant becomes a literal, and a long constant becomes an argument of
    /// the function.
    pub(super) fn constant(&mut self, tensor: &Tensor, array: &Array) -> Value {
        if literals::is_literal(array) {
            return self.constant_operation(&array.info, &literals::dense(array));
        }
        let position = self.module.constant(tensor);
        self.constant_argument(position, &array.info)
    }

    /// Returns the argument of this function that holds a constant of the module.
    fn constant_argument(&mut self, position: usize, info: &AbstractArray) -> Value {
        let mut known = self.constants.iter();
        if let Some((_, value)) = known.find(|(known, _)| *known == position) {
            return value.clone();
        }
        let value = self.value(info.clone());
        self.constants.push((position, value.clone()));
        value
    }

    /// Calls a function of the module. If the module does not have the function yet, `write` writes it: `write` maps
    /// the arguments of the function to its results. All calls with the same key must have operands of the same dtypes
    /// and shapes.
    pub(super) fn call_function(
        &mut self,
        key: FunctionKey,
        name: &str,
        operands: &[Value],
        write: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<Vec<Value>, TensorError> {
        let known = self.module.functions.get(&key).copied();
        let function = if let Some(function) = known {
            function
        } else {
            let infos = operands.iter().map(|operand| &operand.info);
            self.module.define(key, name, infos, self.equation, write)?
        };
        let head = self.module.head(function);
        let (name, results) = (head.name.clone(), head.results.clone());
        let constants = head.constants.clone();
        let mut given: Vec<Value> = operands.to_vec();
        for (position, info) in constants {
            given.push(self.constant_argument(position, &info));
        }
        let given: Vec<&Value> = given.iter().collect();
        let attributes = format_args!("callee = @{name}");
        Ok(self.operation_of_many("func.call", &given, attributes, results))
    }

    /// Calls a function of the library. `write` writes the function at its first use with operands of these dtypes and
    /// shapes. A shared function keeps the text short if a primitive needs many operations and is used several times.
    pub(crate) fn call_shared(
        &mut self,
        name: &'static str,
        operands: &[Value],
        write: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<Vec<Value>, TensorError> {
        let infos = operands.iter().map(|operand| operand.info.clone());
        let key = FunctionKey::Shared(name, infos.collect());
        self.call_function(key, name, operands, write)
    }
}

/// Returns the single result of an operation.
pub(super) fn single(results: Vec<Value>) -> Value {
    let count = results.len();
    let Ok([value]) = <[Value; 1]>::try_from(results) else {
        bug(format_args!("one result of an operation, found {count}"))
    };
    value
}
