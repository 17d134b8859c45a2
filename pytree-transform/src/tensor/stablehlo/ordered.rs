//! Maxima and minima between devices, which keep NaN.
//!
//! XLA recognises the maximum or minimum of two floats in a reduction between devices, and replaces it by an operation of the
//! communication library. This operation loses NaN: that of CPUs is `std::max`, and NCCL documents no rule. A body that is
//! not recognised is no way out, because CPUs refuse it. So the extremum is taken of integers that have the order of the
//! floats, in which NaN is beyond infinity. This costs some elementwise operations, which XLA fuses, and no message
//! more. A second reduction of flags would be a second message.

use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::base::error::TensorError;
use crate::tensor::stablehlo::block::{Block, Value};
use crate::tensor::stablehlo::types::Bound;

impl Block<'_> {
    /// Applies `reduce`, which takes maxima or minima of elements, to floats, and keeps NaN between devices. `reduce` gets
    /// integers in the order of the floats. Values of other dtypes are passed to `reduce` as they are.
    pub(crate) fn extremum_with_nan(
        &mut self,
        bound: Bound,
        operands: &[&Value],
        reduce: impl FnOnce(&mut Self, &[Value]) -> Result<Value, TensorError>,
    ) -> Result<Value, TensorError> {
        let dtype = operands.first().map_or(DType::I32, |first| first.dtype());
        if !dtype.is_float() {
            let operands: Vec<Value> = operands.iter().map(|&operand| operand.clone()).collect();
            return reduce(self, &operands);
        }
        let mut keys = Vec::with_capacity(operands.len());
        for operand in operands {
            keys.push(self.ordered_integers(operand, bound));
        }
        let extremum = reduce(self, &keys)?;
        Ok(self.floats_of_integers(&extremum, dtype))
    }

    /// Returns integers in the order of floats, in which -0.0 is below 0.0. Each NaN is beyond the infinity of the bound.
    fn ordered_integers(&mut self, value: &Value, bound: Bound) -> Value {
        // Communication libraries have no integers of 16 bits.
        let wide = match value.dtype() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let value = self.converted(value, wide);
        let is_nan = self.is_not_a_number(&value);
        // The sign of a NaN decides at which end of the order the NaN is.
        let sign = match bound {
            Bound::Greatest => 1.0,
            Bound::Least => -1.0,
        };
        let nan = self.number_like(&value, f64::NAN.copysign(sign));
        let value = self.selection(&is_nan, &nan, &value);
        let bits = self.same_bits(&value);
        self.order_switched(&bits)
    }

    /// Returns the floats of [`ordered_integers`](Self::ordered_integers).
    fn floats_of_integers(&mut self, keys: &Value, dtype: DType) -> Value {
        let bits = self.order_switched(keys);
        let value = self.same_bits(&bits);
        self.converted(&value, dtype)
    }

    /// Flips all bits below the sign of negative integers, which reverses their order. The function is its own inverse.
    fn order_switched(&mut self, bits: &Value) -> Value {
        let width = if bits.dtype() == DType::I64 { 64 } else { 32 };
        let count = self.number_like(bits, f64::from(width - 1));
        let sign = self.binary("stablehlo.shift_right_arithmetic", bits, &count);
        let one = self.number_like(bits, 1.0);
        let mask = self.binary("stablehlo.shift_right_logical", &sign, &one);
        self.binary("stablehlo.xor", bits, &mask)
    }

    /// Converts between floats and integers of the same width, without a change of the bits.
    fn same_bits(&mut self, value: &Value) -> Value {
        let dtype = match value.dtype() {
            DType::F64 => DType::I64,
            DType::I64 => DType::F64,
            DType::I32 => DType::F32,
            _ => DType::I32,
        };
        let result = AbstractArray::new(dtype, &value.info.shape);
        let none = format_args!("");
        self.operation("stablehlo.bitcast_convert", &[value], none, result)
    }
}
