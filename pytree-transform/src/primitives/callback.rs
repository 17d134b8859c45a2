//! The primitive that calls a function of the host with the values of tensors.

use std::hash::{Hash, Hasher};
use std::iter::once;
use std::panic::Location;
use std::sync::Arc;

use pytree_kernels::base::bits::with_bits;

use crate::primitives::create::broadcast_in_dim;
use crate::primitives::prelude::*;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::primitive::Applied;
use crate::tensor::trace::{bind, current_line};

/// A function of the host: it gets concrete values, and the position of the example in a batch.
pub(crate) type HostFunction = dyn Fn(&[Tensor], &[usize]) -> Vec<Tensor> + Send + Sync;

/// What a transformation may assume of a function of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purity {
    /// The results depend on the operands alone, and calls have no effect: a program may call the function never, once or
    /// several times.
    Pure,
    /// Each call counts, in the order of the program.
    Effect,
    /// As `Effect`, and without results: derivatives call the function with the values, without tangents.
    Observer,
}

/// Calls a function of the host with the values of its operands.
#[derive(Clone)]
pub(crate) struct HostCall {
    pub(crate) name: &'static str,
    pub(crate) function: Arc<HostFunction>,
    /// The dtypes and shapes of the results of one call.
    pub(crate) results: Arc<[AbstractArray]>,
    pub(crate) purity: Purity,
    /// Whether one call computes a whole batch. Otherwise the function is called for each example.
    pub(crate) takes_batches: bool,
    /// Whether the first operand is a condition: a bool for each example, which says whether the function is called. The results of a
    /// call that is not made are zeros.
    pub(crate) has_condition: bool,
    /// The lengths of the leading batch axes.
    pub(crate) batch: Vec<usize>,
    /// Where the user made the call, for messages.
    pub(crate) line: &'static Location<'static>,
}

impl HostCall {
    /// Returns the dtypes and shapes of the results, with the batch axes.
    fn batched_results(&self) -> impl Iterator<Item = AbstractArray> {
        let batch = &self.batch;
        self.results
            .iter()
            .map(|info| AbstractArray::new(info.dtype, [batch, &info.shape[..]].concat()))
    }

    /// Returns a call in place of an effect that has happened, whose results nothing has saved: a program that needs them panics.
    pub(crate) fn refused(name: &'static str, results: Arc<[AbstractArray]>) -> Self {
        let line = current_line();
        let refuse = move |_: &[Tensor], _: &[usize]| -> Vec<Tensor> {
            panic!(
                "cannot run the `{name}` at {line} again to compute the tangents of its `while_loop`: the effect has happened; use `jvp`, which runs the loop once"
            )
        };
        Self {
            name,
            function: Arc::new(refuse),
            results,
            purity: Purity::Pure,
            takes_batches: true,
            has_condition: false,
            batch: Vec::new(),
            line,
        }
    }

    /// Calls the function, and checks its results.
    fn called(
        &self,
        values: &[Tensor],
        position: &[usize],
        expected: &[AbstractArray],
    ) -> Vec<Tensor> {
        let results = (self.function)(values, position);
        let found: Vec<&AbstractArray> = results.iter().map(Tensor::info).collect();
        assert!(
            found.iter().copied().eq(expected),
            "the function of the `{}` at {} returned {}: expected {}",
            self.name,
            self.line,
            listed(&found),
            listed(&expected.iter().collect::<Vec<_>>())
        );
        results
    }
}

fn listed(infos: &[&AbstractArray]) -> String {
    if infos.is_empty() {
        return "no results".to_owned();
    }
    let infos: Vec<String> = infos.iter().map(ToString::to_string).collect();
    infos.join(", ")
}

impl PartialEq for HostCall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.function, &other.function)
            && self.results == other.results
            && self.batch == other.batch
            && self.has_condition == other.has_condition
    }
}

impl Eq for HostCall {}

impl Hash for HostCall {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        Arc::as_ptr(&self.function).hash(hasher);
        self.batch.hash(hasher);
    }
}

impl fmt::Debug for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCall")
            .field("name", &self.name)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

/// Returns the example number `index` of a batch, without the batch axes.
fn example(array: &Array, batch_axes: usize, index: usize) -> Tensor {
    let shape = &array.shape()[batch_axes..];
    let length: usize = shape.iter().product();
    Tensor::from_array(with_bits!(array.dtype(), T => {
        let elements = &array.bits::<T>()[index * length..][..length];
        Array::from_bits(array.dtype(), shape, elements.to_vec())
    }))
}

/// Stores the value of an example in a batch.
fn store(batch: &mut Array, index: usize, value: &Tensor) {
    let value = or_panic(value.value());
    let length = value.info.len();
    with_bits!(value.dtype(), T => {
        batch.bits_mut::<T>()[index * length..][..length].copy_from_slice(value.bits::<T>());
    });
}

/// Returns the position along each axis of the example number `index`.
fn position_of(batch: &[usize], mut index: usize) -> Vec<usize> {
    let mut position = vec![0; batch.len()];
    for (place, length) in position.iter_mut().zip(batch).rev() {
        *place = index % length;
        index /= length;
    }
    position
}

impl Primitive for HostCall {
    fn name(&self) -> &'static str {
        self.name
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(self.batched_results().collect())
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        // A result that nothing else holds is not copied.
        let array = |result: Tensor| {
            let array = Arc::clone(or_panic(result.value()));
            drop(result);
            Arc::unwrap_or_clone(array)
        };
        let mut conditions = operands.into_vec();
        let operands = conditions.split_off(usize::from(self.has_condition));
        let expected: Vec<AbstractArray> = self.batched_results().collect();
        let zeros = || expected.iter().map(Array::zeros).collect();
        if self.takes_batches || self.batch.is_empty() {
            if conditions
                .iter()
                .any(|it| !it.elements::<bool>().contains(&true))
            {
                return zeros();
            }
            let values: Vec<Tensor> = operands.into_iter().map(Tensor::from_shared).collect();
            let results = self.called(&values, &[], &expected);
            return results.into_iter().map(array).collect();
        }
        let mut results: Outputs<Array> = zeros();
        for index in 0..self.batch.iter().product() {
            if conditions.iter().any(|it| !it.elements::<bool>()[index]) {
                continue;
            }
            let values: Vec<Tensor> = operands
                .iter()
                .map(|operand| example(operand, self.batch.len(), index))
                .collect();
            let position = position_of(&self.batch, index);
            let found = self.called(&values, &position, &self.results);
            for (result, value) in results.iter_mut().zip(&found) {
                store(result, index, value);
            }
        }
        results
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        assert!(
            self.purity == Purity::Observer || tangents.iter().all(Option::is_none),
            "cannot differentiate the `{}` at {}: a function of the host has no derivative; give a rule by `custom_jvp` or `custom_vjp`, or stop the gradient of its operands with `.stop_gradient()`",
            self.name,
            self.line
        );
        alone(self, primals)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let first = operands
            .iter()
            .zip(axes)
            .map(|(operand, axis)| or_panic(batch_axis_first(operand, *axis, size)))
            .collect::<Vec<_>>();
        let mut batched = self.clone();
        batched.batch.insert(0, size);
        let results = or_panic(bind(&batched, &first.iter().collect::<Vec<_>>()));
        let axes = results.iter().map(|_| Some(0)).collect();
        (results, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Err(block.refused(
            operands,
            "a module runs outside of this program and cannot call one of its functions",
            "remove the call, the print or the check, or run the function on the host",
        ))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch.len() {
            0 => Ok(()),
            axes => write!(f, "batch_axes={axes}"),
        }?;
        match (self.has_condition, self.batch.len()) {
            (false, _) => Ok(()),
            (true, 0) => f.write_str("has_condition=True"),
            (true, _) => f.write_str(" has_condition=True"),
        }
    }

    fn has_effect(&self) -> bool {
        self.purity != Purity::Pure
    }

    fn has_result_of_effect(&self) -> bool {
        self.purity == Purity::Effect
    }

    fn may_call_host(&self) -> bool {
        true
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let Some(condition) = condition else {
            return match self.purity {
                Purity::Pure => bind(self, operands),
                Purity::Observer => Ok(Outputs::new()),
                Purity::Effect => bind(
                    &Self::refused(self.name, self.batched_results().collect()),
                    &[],
                ),
            };
        };
        let (own, operands) = operands.split_at(usize::from(self.has_condition));
        let mut condition = broadcast_in_dim(condition, &self.batch, &[])?;
        if let [own] = own {
            condition = *own & condition;
        }
        let call = Self {
            has_condition: true,
            ..self.clone()
        };
        let operands: Vec<&Tensor> = once(&condition).chain(operands.iter().copied()).collect();
        bind(&call, &operands)
    }

    fn can_fail(&self) -> bool {
        true
    }
}
