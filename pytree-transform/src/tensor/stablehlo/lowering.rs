//! The lowering of a jaxpr. The rule of each equation's primitive lowers the equation.

use std::panic::Location;

use pytree_base::bug::{expect_some, pairs};
use pytree_core::leaf::NumberKind;
use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::narrow;
use pytree_kernels::loops::elementwise::{Binary, Elementwise, Unary};
use smallvec::SmallVec;

use crate::base::error::TensorError;
use crate::tensor::device::MeshAxes;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{Equation, INPUTS, Jaxpr, OPERAND, OUTPUT, RESULTS, constant_array};
use crate::tensor::primitive::{Lowered, Outputs, Primitive};
use crate::tensor::stablehlo::block::{Block, CurrentEquation, Value};
use crate::tensor::stablehlo::module::{FunctionKey, Module, StableHlo};
use crate::tensor::stablehlo::partitioning::Partitioning;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, in_rule};

/// Returns the kind of integers whose conversion gives the upper bits that a primitive reads, or `None` if it reads none.
/// Shifts to the right and `population_count` read zeros, and an arithmetic shift reads copies of the sign.
fn upper_bits(primitive: &dyn Primitive) -> Option<NumberKind> {
    match primitive.elementwise()? {
        Elementwise::Binary(Binary::ShiftRight) | Elementwise::Unary(Unary::PopulationCount) => {
            Some(NumberKind::Unsigned)
        }
        Elementwise::Binary(Binary::ShiftRightArithmetic) => Some(NumberKind::Signed),
        _ => None,
    }
}

impl Jaxpr {
    /// Returns a module of StableHLO that computes the same results as the jaxpr, as input for XLA and other compilers.
    ///
    /// Each recorded function that the jaxpr calls, and each body of a loop or branch, becomes a function of the
    /// module. So a function that is used several times is written once. A collective over a named axis combines
    /// replicas of the module; see [`StableHlo::replica_axes`].
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, make_jaxpr};
    /// let jaxpr = make_jaxpr(|x: Tensor| x.exp())(Tensor::from(1.0_f32));
    /// let module = jaxpr.to_stablehlo();
    /// let operation = r#"%1 = "stablehlo.exponential"(%0) : (tensor<f32>) -> tensor<f32>"#;
    /// assert!(module.text_without_locations().contains(operation));
    /// assert!(module.text().contains(&format!("{operation} loc(#line0)")));
    /// ```
    ///
    /// # Panics
    /// Panics if StableHLO cannot express an equation, for instance a callback. The message names the equation's source
    /// line.
    #[panicking_twin(to_stablehlo, Lowering)]
    pub fn try_to_stablehlo(&self) -> Result<StableHlo, TensorError> {
        self.to_module(None)
    }

    /// Returns the module of StableHLO with the shardings of its inputs. XLA divides the work among the devices of a mesh.
    pub(crate) fn to_partitioned_stablehlo(
        &self,
        partitioning: Partitioning,
    ) -> Result<StableHlo, TensorError> {
        self.to_module(Some(partitioning))
    }

    fn to_module(&self, partitioning: Option<Partitioning>) -> Result<StableHlo, TensorError> {
        let lines = self.equations.iter().map(|equation| equation.line);
        let equation = CurrentEquation {
            primitive: "jaxpr",
            line: lines.clone().next().unwrap_or(Location::caller()),
        };
        let inputs: Vec<AbstractArray> = self.inputs().into_iter().cloned().collect();
        let module = Module::new(MeshAxes::new(self.batch_axes.clone()), partitioning);
        module.finish(inputs, equation, |block, arguments| {
            block.lower(self, arguments)
        })
    }
}

impl Block<'_> {
    /// Calls the function of a recorded body. Writes the function at its first use.
    pub(crate) fn call_body(
        &mut self,
        name: &str,
        body: &Jaxpr,
        operands: &[Value],
    ) -> Result<Vec<Value>, TensorError> {
        let key = FunctionKey::Body(std::ptr::from_ref(body).addr());
        self.call_function(key, name, operands, |block, arguments| {
            block.lower(body, arguments)
        })
    }

    /// Writes what a function of tensors computes, and returns the values of its results. The function is recorded as under
    /// [`jit`](crate::jit), so it must not read elements, and must not use tensors of an outer transformation.
    ///
    /// # Errors
    /// Returns an error if an operation of the function has no form in StableHLO.
    pub fn computed(
        &mut self,
        operands: &[Value],
        function: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Result<Vec<Value>, TensorError> {
        let infos: Vec<AbstractArray> = operands.iter().map(|it| it.info.clone()).collect();
        let outer = self.current();
        let (jaxpr, captured, ()) = stage(Recorder::MakeJaxpr, &infos, |tensors| {
            (in_rule(outer.line, || function(&tensors)), ())
        });
        if let Some(tensor) = captured.first() {
            return Err(self.refused(
                operands,
                format!(
                    "its lowering rule uses a traced {} of an outer transformation",
                    tensor.info()
                ),
                "compute from the operands only",
            ));
        }
        let results = self.lower(&jaxpr, operands)?;
        self.keep(jaxpr);
        self.begin(outer);
        Ok(results)
    }

    /// Writes the equations of a jaxpr.
    fn lower(&mut self, jaxpr: &Jaxpr, arguments: &[Value]) -> Result<Vec<Value>, TensorError> {
        let mut values: Vec<Option<Value>> = vec![None; jaxpr.variables.len()];
        for (variable, argument) in pairs(&jaxpr.inputs, arguments, INPUTS) {
            values[variable.index()] = Some(argument.clone());
        }
        for (variable, tensor) in &jaxpr.constants {
            values[variable.index()] = Some(self.constant(tensor, constant_array(tensor)));
        }
        for equation in &jaxpr.equations {
            self.begin(CurrentEquation {
                primitive: equation.primitive.name(),
                line: equation.line,
            });
            let operands: SmallVec<[Value; 4]> = equation
                .inputs
                .iter()
                .map(|input| expect_some(values[input.index()].clone(), OPERAND))
                .collect();
            let infos: Outputs<&AbstractArray> = equation
                .outputs
                .iter()
                .map(|&output| jaxpr.info(output))
                .collect();
            let results = self.lower_equation(equation, &operands, &infos)?;
            for (output, result) in pairs(&equation.outputs, results, RESULTS) {
                debug_assert_eq!(
                    result.info,
                    *jaxpr.info(*output),
                    "{}",
                    equation.primitive.name()
                );
                values[output.index()] = Some(result);
            }
        }
        let outputs = jaxpr.outputs.iter();
        Ok(outputs
            .map(|output| expect_some(values[output.index()].clone(), OUTPUT))
            .collect())
    }

    fn lower_equation(
        &mut self,
        equation: &Equation,
        operands: &[Value],
        infos: &[&AbstractArray],
    ) -> Lowered {
        let primitive = &equation.primitive;
        // Empty results need no computation. StableHLO does not allow some operations on empty tensors, so no rule gets
        // them.
        let is_empty = infos.iter().all(|info| info.is_empty());
        if is_empty && !infos.is_empty() && !primitive.has_effect() {
            return Ok(infos.iter().map(|info| self.number(info, 0.0)).collect());
        }
        // The products of such floats are exact in f32, so the sums are the same without the conversion.
        let halves: Option<SmallVec<[Value; 4]>> = operands.iter().map(Value::half).collect();
        let operands = match &halves {
            Some(halves)
                if primitive.multiplies_narrow_floats()
                    && halves.iter().all(|it| it.dtype() == halves[0].dtype()) =>
            {
                halves
            }
            _ => operands,
        };
        let is_narrow = |operand: &Value| narrow::is_narrow(operand.dtype());
        if !operands.iter().any(is_narrow) || primitive.accepts_narrow() {
            return primitive.lower(self, operands, infos);
        }
        self.lower_widened(&**primitive, operands, infos)
    }

    /// Lowers a primitive on widened operands, and converts each result to its dtype. So the module computes in the
    /// same dtypes as our kernels, and rounds at the same operations; see
    /// [`evaluate`](crate::tensor::evaluation::evaluate). Products read their operands as they are, because a GPU
    /// multiplies floats of 16 bits many times as fast as f32.
    fn lower_widened(
        &mut self,
        primitive: &dyn Primitive,
        operands: &[Value],
        infos: &[&AbstractArray],
    ) -> Lowered {
        let wide = operands
            .iter()
            .map(|it| AbstractArray::new(narrow::wide(it.dtype()), &it.info.shape))
            .collect::<SmallVec<[AbstractArray; 4]>>();
        let wide = primitive.abstract_evaluation(&wide.iter().collect::<SmallVec<[_; 4]>>())?;
        let wide: Outputs<&AbstractArray> = wide.iter().collect();
        let kind = upper_bits(primitive);
        let are_multiplied = primitive.multiplies_narrow_floats();
        let operands: SmallVec<[Value; 4]> = operands
            .iter()
            .map(|it| {
                if are_multiplied && it.dtype().is_float() {
                    it.clone()
                } else {
                    self.widened(it, kind)
                }
            })
            .collect();
        let results = primitive.lower(self, &operands, &wide)?;
        let results = pairs(infos, results, RESULTS);
        Ok(results
            .map(|(info, result)| self.converted(&result, info.dtype))
            .collect())
    }

    /// Converts a value of a narrow dtype to the dtype in which kernels compute. `kind` is that of [`upper_bits`].
    fn widened(&mut self, operand: &Value, kind: Option<NumberKind>) -> Value {
        let dtype = operand.dtype();
        if !narrow::is_narrow(dtype) {
            return operand.clone();
        }
        // A conversion to a wider integer copies the sign bit if the dtype of the operand is signed. For other upper
        // bits, first convert to the signed or unsigned dtype of the same width, which keeps the bits.
        let kind = kind.filter(|kind| !dtype.is_float() && *kind != dtype.kind());
        let extended = kind.and_then(|kind| dtype.with_kind(kind));
        let wide = match extended {
            Some(same_bits) => {
                let bits = self.converted(operand, same_bits);
                self.converted(&bits, narrow::wide(same_bits))
            }
            None => operand.clone(),
        };
        self.converted(&wide, narrow::wide(dtype))
    }
}
