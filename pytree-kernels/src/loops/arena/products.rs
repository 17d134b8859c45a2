//! Instructions of products.

use half::{bf16, f16};

use super::values::{Code, Instruction, Place, Values};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::target::Target;
use crate::loops::dot::DotGeneral;
use crate::loops::dot::matrix_product::{Loops, Stored, prepared};

impl Values {
    /// Adds a product of operands with these dtypes and shapes. Returns false if an operand must be laid out again first.
    pub fn product(
        &mut self,
        dot: &DotGeneral,
        [left, right]: [(Place, &AbstractArray); 2],
        result: Place,
        code: &mut Code,
    ) -> bool {
        let Some(loops) = dot.loops_of(left.1, right.1) else {
            return false;
        };
        let operands = [left.0, right.0];
        let instruction = match left.1.dtype {
            DType::F32 => self.multiplied::<f32>(loops, operands, result),
            DType::F64 => self.multiplied::<f64>(loops, operands, result),
            DType::BF16 => self.multiplied::<bf16>(loops, operands, result),
            DType::F16 => self.multiplied::<f16>(loops, operands, result),
            DType::I32 => self.multiplied::<i32>(loops, operands, result),
            DType::I64 => self.multiplied::<i64>(loops, operands, result),
            DType::U32 => self.multiplied::<u32>(loops, operands, result),
            _ => return false,
        };
        code.push(instruction);
        true
    }

    fn multiplied<T: Stored>(
        &self,
        loops: Loops,
        operands: [Place; 2],
        result: Place,
    ) -> Instruction {
        let [left, right] = operands.map(|operand| (self.target::<T>(operand), self.len(operand)));
        let (mut to, count) = (self.target::<T>(result), self.len(result));
        let product = prepared(loops);
        Box::new(move |_| {
            let (left, right) = (left.0.slice(0, left.1), right.0.slice(0, right.1));
            product(left, right, Target::new(to.slice_mut(0, count)));
        })
    }
}
