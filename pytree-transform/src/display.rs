//! How tensors print.
use std::fmt;
use crate::tensor::Tensor;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write_debug(self, f) }
}
pub(crate) fn write_debug(_tensor: &Tensor, _f: &mut fmt::Formatter<'_>) -> fmt::Result { unimplemented!() }
