//! Early stopping: whether a metric still improves.

use pytree_core::Module;
use pytree_core::kind::Metric;
use pytree_transform::Tensor;

use pytree_store::Goal;

/// What a value means for a training run; see [`EarlyStopping::update`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The value is the best so far.
    Improved,
    /// The value is not better, and there is patience left.
    Wait,
    /// The value is not better, and there is no patience left.
    Stop,
}

/// Decides when a metric no longer improves, and remembers its best value.
///
/// The run should stop after `patience` values in a row without an improvement, as in Keras and PyTorch Lightning. A value
/// improves if it is better than the best value by more than the minimal change (0 by default). NaN never improves.
///
/// It is a pytree whose leaves are states, so a checkpoint stores it and a resumed run stops at the same step. The best value
/// is the leaf `lowest` or `highest`, so a checkpoint cannot be loaded into an early stopping with the other goal.
///
/// # Examples
/// ```
/// use pytree_io::training::{EarlyStopping, Goal};
/// let losses = [0.9, 0.5, 0.6, 0.4995, 0.7, 0.1];
/// let mut stopping = EarlyStopping::new(Goal::Minimize, 3).minimal_change(0.001);
/// for (epoch, loss) in (0..).zip(losses) {
///     stopping.update(epoch, loss);
///     if stopping.should_stop() {
///         break;
///     }
/// }
/// assert_eq!(stopping.best(), Some((1, 0.5)));
/// ```
#[doc(alias = "flax.training.early_stopping.EarlyStopping")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct EarlyStopping {
    #[r#static]
    goal: Goal,
    #[r#static]
    patience: usize,
    #[r#static]
    minimal_change: f64,
    /// The best value, if the goal is to minimize. Before the first, the worst possible value: infinity. A checkpoint stores
    /// no static values, so the names of the two leaves tell the goals apart.
    #[state(Metric)]
    lowest: Option<Tensor>,
    /// The best value, if the goal is to maximize. Before the first, negative infinity.
    #[state(Metric)]
    highest: Option<Tensor>,
    #[state(Metric, "i64[]")]
    best_step: Tensor,
    /// The number of values since the best.
    #[state(Metric, "i64[]")]
    waited: Tensor,
}

impl EarlyStopping {
    /// Creates an early stopping that accepts `patience - 1` values in a row without an improvement.
    ///
    /// # Panics
    /// If `patience` is 0.
    #[track_caller]
    pub fn new(goal: Goal, patience: usize) -> Self {
        assert!(
            patience > 0,
            "EarlyStopping expects a patience of at least 1, found 0; it is the number of values without improvement after which a run stops"
        );
        Self {
            goal,
            patience,
            minimal_change: 0.0,
            lowest: (goal == Goal::Minimize).then(|| Tensor::scalar(goal.worst())),
            highest: (goal == Goal::Maximize).then(|| Tensor::scalar(goal.worst())),
            best_step: Tensor::scalar(0_i64),
            waited: Tensor::scalar(0_i64),
        }
    }

    /// Sets the change by which a value must be better than the best value.
    ///
    /// # Panics
    /// If the change is negative or NaN.
    #[must_use]
    #[track_caller]
    pub fn minimal_change(self, change: f64) -> Self {
        assert!(
            change >= 0.0,
            "EarlyStopping expects a minimal change of at least 0, found {change}"
        );
        Self {
            minimal_change: change,
            ..self
        }
    }

    /// Takes the value of the metric at a step or epoch, as `f32` or `f64`.
    ///
    /// # Panics
    /// If the state is traced.
    #[track_caller]
    pub fn update(&mut self, step: usize, value: impl Into<f64>) -> Verdict {
        let value = value.into();
        if self.goal.gain(value, self.best_value()) > self.minimal_change {
            let place = self.lowest.as_mut().or(self.highest.as_mut());
            if let Some(place) = place {
                *place = Tensor::scalar(value);
            }
            self.best_step = Tensor::scalar(i64::try_from(step).unwrap_or(i64::MAX));
            self.waited = Tensor::scalar(0_i64);
            return Verdict::Improved;
        }
        self.waited = Tensor::scalar(self.waited.item::<i64>().saturating_add(1));
        if self.should_stop() {
            Verdict::Stop
        } else {
            Verdict::Wait
        }
    }

    /// Returns whether there is no patience left.
    ///
    /// # Panics
    /// If the state is traced.
    #[track_caller]
    pub fn should_stop(&self) -> bool {
        usize::try_from(self.waited.item::<i64>()).is_ok_and(|waited| waited >= self.patience)
    }

    /// Returns the best value and its step, or `None` before the first value that is better than an infinity.
    ///
    /// # Panics
    /// If the state is traced.
    #[track_caller]
    pub fn best(&self) -> Option<(usize, f64)> {
        let best = self.best_value();
        let step = usize::try_from(self.best_step.item::<i64>()).unwrap_or(0);
        // The worst value never improves, so it is the initial value.
        (best.to_bits() != self.goal.worst().to_bits()).then_some((step, best))
    }

    #[track_caller]
    fn best_value(&self) -> f64 {
        match self.lowest.as_ref().or(self.highest.as_ref()) {
            Some(best) => best.item::<f64>(),
            None => self.goal.worst(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::checkpoint;

    fn verdicts(mut stopping: EarlyStopping, values: &[f64]) -> Vec<Verdict> {
        let values = (0..).zip(values);
        values
            .map(|(step, &value)| stopping.update(step, value))
            .collect()
    }

    #[test]
    fn run_stops_after_patience() {
        use Verdict::{Improved, Stop, Wait};
        let minimize = EarlyStopping::new(Goal::Minimize, 2);
        let found = verdicts(minimize.clone(), &[3.0, 2.0, 2.0, 1.0, 1.5, f64::NAN, 0.5]);
        assert_eq!(
            found,
            [Improved, Improved, Wait, Improved, Wait, Stop, Improved]
        );
        let found = verdicts(
            minimize.minimal_change(0.5),
            &[3.0, 2.5, 2.4, f64::NEG_INFINITY],
        );
        assert_eq!(found, [Improved, Wait, Improved, Improved]);
        let maximize = EarlyStopping::new(Goal::Maximize, 1);
        let found = verdicts(maximize, &[f64::NAN, 0.1, 0.2, 0.2, 0.3]);
        assert_eq!(found, [Stop, Improved, Improved, Stop, Improved]);
    }

    #[test]
    fn resumed_run_stops_at_the_same_step() {
        let new = EarlyStopping::new(Goal::Minimize, 3);
        let mut stopping = new.clone();
        for (step, value) in (0..).zip([1.0, 0.5, 0.7, 0.6]) {
            stopping.update(step, value);
        }
        let path = std::env::temp_dir().join(format!("pytree-stopping-{}", std::process::id()));
        checkpoint::save(&path, &stopping).unwrap();
        let mut loaded = checkpoint::load(&path, &new).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(loaded.best(), Some((1, 0.5)));
        assert_eq!(loaded.update(4, 0.8), Verdict::Stop);
        assert_eq!(new.best(), None);
    }

    #[test]
    fn other_goal_is_not_loaded() {
        let path = std::env::temp_dir().join(format!("pytree-goal-{}", std::process::id()));
        let mut stopping = EarlyStopping::new(Goal::Minimize, 3);
        stopping.update(0, 0.5);
        checkpoint::save(&path, &stopping).unwrap();
        let other = EarlyStopping::new(Goal::Maximize, 3);
        let message = checkpoint::load(&path, &other).unwrap_err().to_string();
        std::fs::remove_file(path).unwrap();
        let expected = "highest: expected f64[], but the file has no leaf with this name\n  lowest: found f64[], but";
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    #[should_panic(expected = "expects a patience of at least 1, found 0")]
    fn zero_patience_is_refused() {
        let _ = EarlyStopping::new(Goal::Minimize, 0);
    }
}
