//! The rules of [`Implicit`], whose derivatives compute with other primitives.

use std::fmt;

use pytree_transform::extend::{Block, Examples, Operand, Primitive, Tangents, Value, apply};
use pytree_transform::{AbstractArray, Tensor, TensorError};

use crate::primitives::implicit::Implicit;
use crate::primitives::least_squares::{Decomposition, lyapunov, tangent_of};
use crate::primitives::lu_solve::LuSolve;
use crate::primitives::matrices::{
    Cotangents, Infos, Lowered, adjoint, batch_of_all, diagonal, known, not_linear, product, sum_of,
};
use crate::primitives::svd::Svd;

impl Implicit {
    /// Returns whether the result is linear in the last operand.
    fn is_linear(self) -> bool {
        matches!(self, Self::Lyapunov | Self::LeastSquares { .. })
    }

    /// Returns the result for another last operand, in which the variant is linear. `operands` are those after the first.
    fn linear(self, operands: &[Tensor], right: &Tensor) -> Tensor {
        let (matrix, others) = (&operands[0], &operands[1..]);
        match self {
            Self::LeastSquares { is_transposed } => {
                Decomposition::from_operands(others).solve(is_transposed, matrix, right)
            }
            _ => lyapunov(matrix, &others[0], &others[1], right),
        }
    }

    /// Returns the derivative of `result` along the tangent of `A`.
    fn tangent(self, result: &Tensor, operands: &[Tensor], tangent: &Tensor) -> Tensor {
        let matrix = &operands[1];
        let others = &operands[2..];
        match self {
            // Jacobi's formula: tr(A⁻¹ A').
            Self::LogDeterminant => {
                let solve = LuSolve {
                    is_transposed: false,
                };
                let quotient = solve.apply([matrix, &others[0], &others[2], tangent]);
                diagonal(&quotient).sum_axes(-1)
            }
            // The tangents of the singular values are the diagonal of `Uᵀ A' V`.
            Self::Singular(1) => {
                let [u, s, v_t] = [0, 1, 2].map(|place| &others[place]);
                let vectors =
                    |position, value| Self::Singular(position).apply(value, matrix, &[u, s, v_t]);
                let moved = product(&adjoint(&vectors(0, u)), tangent);
                diagonal(&product(&moved, &adjoint(&vectors(2, v_t))))
            }
            Self::Singular(position) => {
                tangent_of(|a| apply(&Svd, &[a]).remove(position), matrix, tangent)
            }
            Self::Projector => {
                let decomposition = Decomposition::from_operands(others);
                decomposition.projector_tangent(result, matrix, tangent)
            }
            Self::Lyapunov => {
                let right = product(tangent, result) + product(result, tangent);
                -self.linear(&operands[1..], &right)
            }
            Self::LeastSquares { is_transposed } => {
                let decomposition = Decomposition::from_operands(others);
                let right = &others[others.len() - 1];
                decomposition.tangent(is_transposed, matrix, right, result, tangent)
            }
        }
    }
}

impl Primitive for Implicit {
    fn name(&self) -> &'static str {
        "implicit"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        Ok(vec![operands[0].clone()])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        vec![operands[0].clone()]
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let results = apply(self, &primals.iter().collect::<Vec<_>>());
        let of_matrix = tangents[1]
            .as_ref()
            .map(|tangent| self.tangent(&results[0], primals, tangent));
        let of_right = match tangents.last() {
            Some(Some(tangent)) if self.is_linear() => Some(self.linear(&primals[1..], tangent)),
            _ => None,
        };
        (results, vec![sum_of(of_right, of_matrix)])
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Operand]) -> Cotangents {
        if !self.is_linear() {
            not_linear(self)
        }
        let adjoint = match *self {
            Self::LeastSquares { is_transposed } => Self::LeastSquares {
                is_transposed: !is_transposed,
            },
            other => other,
        };
        let mut pulled = vec![None; operands.len()];
        let last = operands.len() - 1;
        let known = operands[1..last]
            .iter()
            .map(|operand| known(operand).clone());
        let known: Vec<Tensor> = known.collect();
        pulled[last] = cotangents[0]
            .as_ref()
            .map(|cotangent| adjoint.linear(&known, cotangent));
        pulled
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples {
        batch_of_all(self, operands, axes, size)
    }

    fn lower(&self, _: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Ok(vec![operands[0].clone()])
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogDeterminant => write!(f, "function=log_determinant"),
            Self::Singular(position) => write!(f, "function=singular position={position}"),
            Self::Projector => write!(f, "function=projector"),
            Self::Lyapunov => write!(f, "function=lyapunov"),
            Self::LeastSquares { is_transposed } => {
                write!(f, "function=least_squares transpose_a={is_transposed}")
            }
        }
    }
}
