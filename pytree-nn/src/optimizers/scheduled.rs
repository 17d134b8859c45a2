//! A schedule together with its count of updates.

use crate::optimizers::error::OptimizerError;
use crate::optimizers::prelude::*;

/// A schedule with the count of updates at which the schedule is evaluated. A constant schedule has no count, so a
/// compiled update does not compute a count.
#[derive(Module, Clone, Debug)]
pub(super) struct Scheduled {
    /// The number of updates: `u32[]`.
    #[state(OptState)]
    count: Option<Tensor>,
    schedule: Schedule,
}

impl Scheduled {
    pub(super) fn new(schedule: Schedule) -> Self {
        let count = schedule
            .as_constant()
            .is_none()
            .then(|| Tensor::from(0_u32));
        Self { count, schedule }
    }

    /// Returns an error if the schedule is a constant tensor whose number of elements is not 1.
    pub(super) fn check(&self) -> Result<(), OptimizerError> {
        match self.schedule.as_constant() {
            Some(value) if value.len() != 1 => Err(OptimizerError::LearningRate {
                found: value.info().clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Converts the schedule for the widest dtype of the parameters: see [`Schedule::for_parameters`].
    pub(super) fn init(&mut self, parameters: &Tree<Tensor>) {
        self.convert(widest(parameters.leaves()));
    }

    fn convert(&mut self, dtype: DType) {
        self.schedule = self.schedule.for_parameters(dtype);
        if let Some(value) = self.schedule.as_constant()
            && value.rank() > 0
        {
            self.schedule = Schedule::constant(value.reshape(()));
        }
    }

    /// Returns the value of the next update.
    pub(super) fn value(&self) -> Tensor {
        match (&self.count, self.schedule.as_constant()) {
            (_, Some(value)) => value.clone(),
            (Some(count), None) => self.schedule.at(count),
            (None, None) => self.schedule.value(0),
        }
    }

    /// Returns the value of the next update, and counts the update.
    pub(super) fn next(&mut self) -> Tensor {
        let value = self.value();
        if let Some(count) = &mut self.count {
            *count = &*count + 1;
        }
        value
    }

    /// Replaces the schedule. The count continues if neither the old nor the new schedule is a constant.
    pub(super) fn replace(&mut self, schedule: &Schedule) {
        let dtype = self.value().dtype();
        let count = self.count.take();
        *self = Self::new(schedule.clone());
        self.convert(dtype);
        if self.count.is_some() && count.is_some() {
            self.count = count;
        }
    }
}

/// Returns the widest dtype of the tensors.
pub(super) fn widest(tensors: &[Tensor]) -> DType {
    let dtypes = tensors.iter().map(Tensor::dtype);
    dtypes.max().unwrap_or(DType::F32)
}
