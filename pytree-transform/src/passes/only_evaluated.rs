//! The rules that a primitive of the executor does not have.

/// Writes the rules of a primitive that only a pass for the host writes and only the executor reads: after differentiation, batching
/// and lowering, which use the recorded program.
macro_rules! only_evaluated {
    () => {
        fn jvp(
            &self,
            _: &[$crate::tensor::Tensor],
            _: &[Option<$crate::tensor::Tensor>],
        ) -> $crate::tensor::primitive::WithTangents {
            pytree_base::bug::bug("a primitive to be evaluated only")
        }

        fn transpose(
            &self,
            _: &[Option<$crate::tensor::Tensor>],
            _: &[$crate::tensor::primitive::Linear],
        ) -> $crate::tensor::primitive::Cotangents {
            pytree_base::bug::bug("a primitive to be evaluated only")
        }

        fn batch(
            &self,
            _: &[$crate::tensor::Tensor],
            _: &[Option<usize>],
            _: &$crate::tensor::primitive::BatchAxis,
        ) -> $crate::tensor::primitive::Batched {
            pytree_base::bug::bug("a primitive to be evaluated only")
        }

        fn lower(
            &self,
            _: &mut $crate::tensor::stablehlo::Block<'_>,
            _: &[$crate::tensor::stablehlo::Value],
            _: &$crate::tensor::primitive::Infos<'_>,
        ) -> $crate::tensor::primitive::Lowered {
            pytree_base::bug::bug("a primitive to be evaluated only")
        }
    };
}

pub(super) use only_evaluated;
