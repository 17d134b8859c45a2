//! A case of the table: a function of tensors, and the domains of its operands.

use pytree_transform::Tensor;

use crate::gradients::sample::{Domain, Precision};

/// A function of the table.
pub struct Case {
    pub name: &'static str,
    /// The domain and the shape of each operand.
    pub operands: Vec<(Domain, &'static [usize])>,
    pub function: fn(&[Tensor]) -> Tensor,
    pub precision: Precision,
}

pub fn case<const N: usize>(
    name: &'static str,
    operands: [(Domain, &'static [usize]); N],
    function: fn(&[Tensor]) -> Tensor,
) -> Case {
    let (operands, precision) = (operands.to_vec(), Precision::Double);
    Case {
        name,
        operands,
        function,
        precision,
    }
}
