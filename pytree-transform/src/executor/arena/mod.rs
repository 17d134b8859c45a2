//! Runs small jaxprs as prepared instructions: the bodies of loops, with their loops, and functions outside of loops.
//!
//! The values of a program stay in memory between runs, so a run of small values costs little more than the arithmetic; see
//! [`pytree_kernels::loops::arena`]. A jaxpr with effects, or with so much work that fused kernels and threads are faster, has no such
//! program.

mod control;
mod equations;
mod places;
mod translator;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pytree_base::bug::pairs;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::loops::arena::{Code, Place, Values};

pub(super) use self::equations::may_run;
use self::translator::{Operand, Translator};
use crate::tensor::jaxpr::{INPUTS, Jaxpr};
use crate::tensor::primitive::Primitive;

/// A jaxpr as instructions, with the memory of its values.
struct Program {
    /// The primitive that the program evaluates. `None` if it runs a whole jaxpr.
    primitive: Option<Arc<dyn Primitive>>,
    values: Values,
    code: Code,
    inputs: Vec<Place>,
    outputs: Vec<(Place, AbstractArray)>,
}

/// The programs of a jaxpr that do not run: as many as ran at one time.
#[derive(Default)]
pub(super) struct Programs {
    idle: Mutex<Vec<Program>>,
    is_refused: AtomicBool,
}

impl Programs {
    /// Runs a jaxpr. Returns the operands if it has no program.
    pub(super) fn run(
        &self,
        jaxpr: &Jaxpr,
        operands: Vec<Arc<Array>>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        self.run_program(None, operands, |_| Program::of_jaxpr(jaxpr))
    }

    /// Evaluates a primitive. Returns the operands if it has no program.
    pub(super) fn evaluate(
        &self,
        primitive: &dyn Primitive,
        operands: Vec<Arc<Array>>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        self.run_program(Some(primitive), operands, |operands| {
            Program::of_primitive(primitive, operands)
        })
    }

    fn run_program(
        &self,
        primitive: Option<&dyn Primitive>,
        operands: Vec<Arc<Array>>,
        build: impl FnOnce(&[Arc<Array>]) -> Option<Program>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        if self.is_refused.load(Ordering::Relaxed) {
            return Err(operands);
        }
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut idle = idle();
            let is_wanted = |program: &Program| program.primitive.as_deref() == primitive;
            let found = idle.iter().rposition(is_wanted);
            found.map(|position| idle.swap_remove(position))
        };
        let Some(mut program) = found.or_else(|| build(&operands)) else {
            self.is_refused.store(true, Ordering::Relaxed);
            return Err(operands);
        };
        let results = program.run(operands);
        idle().push(program);
        Ok(results)
    }
}

impl Program {
    fn of_jaxpr(jaxpr: &Jaxpr) -> Option<Self> {
        let mut translator = Translator::default();
        let mut code = translator.values.code();
        let infos = jaxpr.inputs.iter().map(|&input| jaxpr.info(input));
        let inputs: Vec<Place> = infos.map(|info| translator.values.place(info)).collect();
        let outputs = translator.jaxpr(jaxpr, &inputs, &inputs, &mut code)?;
        let outputs = outputs.into_iter().zip(jaxpr.output_infos().cloned());
        Some(Self {
            primitive: None,
            outputs: outputs.collect(),
            values: translator.values,
            code,
            inputs,
        })
    }

    fn of_primitive(primitive: &dyn Primitive, operands: &[Arc<Array>]) -> Option<Self> {
        let mut translator = Translator::default();
        let mut code = translator.values.code();
        let infos: Vec<&AbstractArray> = operands.iter().map(|operand| &operand.info).collect();
        let inputs: Vec<Place> = infos
            .iter()
            .map(|info| translator.values.place(info))
            .collect();
        let results = primitive.abstract_evaluation(&infos).ok()?;
        let primitive = primitive.to_shared();
        let given = infos.iter().zip(&inputs);
        let given: Vec<Operand<'_>> = given
            .map(|(info, &place)| Operand {
                place,
                info,
                is_last: true,
            })
            .collect();
        let outputs = translator.equation(&primitive, &given, &results, &mut code)?;
        Some(Self {
            primitive: Some(primitive),
            outputs: outputs.into_iter().zip(results).collect(),
            values: translator.values,
            code,
            inputs,
        })
    }

    fn run(&mut self, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        for (&input, operand) in pairs(&self.inputs, operands, INPUTS) {
            self.values.set(input, operand);
        }
        self.code.run(&mut self.values);
        let outputs = self.outputs.iter();
        let results = outputs.map(|(output, info)| self.values.result(*output, info));
        let results = results.collect();
        self.values.release();
        results
    }
}
