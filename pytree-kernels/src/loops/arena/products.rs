//! Instructions of products.

use half::{bf16, f16};

use super::code::{Code, Instruction};
use super::moves::Source;
use super::values::{Place, Values};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::target::Target;
use crate::loops::dot::DotGeneral;
use crate::loops::dot::matrix_product::{Loops, SmallRows, Stored, prepared};

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
        if left.1.dtype == DType::F32 && self.rows(&loops, operands, result, code) {
            return true;
        }
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
        code.add(instruction);
        true
    }

    /// Adds a small product of f32 whose result has neighbouring elements. Returns false for other products.
    fn rows(
        &mut self,
        loops: &Loops,
        [left, right]: [Place; 2],
        result: Place,
        code: &mut Code,
    ) -> bool {
        let Some(mut rows) = SmallRows::of(loops) else {
            return false;
        };
        let (factors, mut lanes) = if rows.lanes_are_left {
            (right, left)
        } else {
            (left, right)
        };
        if rows.lane.lanes != 1 {
            let (sources, width) = rows.laid_out();
            let info = AbstractArray::new(DType::F32, [sources.len()]);
            if !Self::are_fixed(&info) {
                return false;
            }
            let copy = self.place(&info);
            let sources: Vec<Source> = sources.into_iter().map(|at| (lanes, at)).collect();
            self.moved(&sources, copy, code.before_or_here(&[lanes], self));
            (lanes, rows.lane.lanes, rows.depth.lanes) = (copy, 1, width);
        }
        let [factors, lanes, to] = [factors, lanes, result].map(|place| self.target::<f32>(place));
        code.add(if rows.is_thin {
            multiplied_rows::<true>(rows, factors, lanes, to)
        } else {
            multiplied_rows::<false>(rows, factors, lanes, to)
        });
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
        Instruction::new(move |_| {
            let (left, right) = (left.0.slice(0, left.1), right.0.slice(0, right.1));
            product(left, right, Target::new(to.slice_mut(0, count)));
        })
    }
}

fn multiplied_rows<const IS_THIN: bool>(
    rows: SmallRows,
    factors: Target<'static, f32>,
    lanes: Target<'static, f32>,
    result: Target<'static, f32>,
) -> Instruction {
    Instruction::leaf(
        #[inline(always)]
        move |_| {
            // SAFETY: the memory of each value has a block after each element, and no reference to the elements exists.
            #[allow(unsafe_code, reason = "instructions share the memory of values")]
            unsafe {
                rows.multiply::<IS_THIN>(factors.first(), lanes.first(), result.first());
            }
        },
    )
}
