//! Checks of the numbers that a transformation is made with.
//!
//! With a number out of its range, updates would be NaN or would move parameters away from the minimum, without an error. So
//! the function that makes the transformation panics at the line of its caller.

use pytree_transform::Tensor;

use crate::schedules::Schedule;

/// Panics if a number, such as the limit of a clipping, is not finite or not above 0.
#[track_caller]
pub(super) fn positive(function: &str, name: &str, value: f64) {
    let is_allowed = value.is_finite() && value > 0.0;
    expect(is_allowed, function, name, "a finite number above 0", value);
}

/// Panics if a number, such as an ε, is negative or not finite.
#[track_caller]
pub(super) fn not_negative(function: &str, name: &str, value: f64) {
    let is_allowed = value.is_finite() && value >= 0.0;
    expect(is_allowed, function, name, NOT_NEGATIVE, value);
}

/// Panics if a number, such as a factor, is not finite.
#[track_caller]
pub(super) fn finite(function: &str, name: &str, value: f64) {
    expect(value.is_finite(), function, name, "a finite number", value);
}

/// Panics if the weight of an old mean or sum is not from 0 to 1.
#[track_caller]
pub(super) fn fraction(function: &str, name: &str, value: f64) {
    let is_allowed = (0.0..=1.0).contains(&value);
    expect(is_allowed, function, name, "a number from 0 to 1", value);
}

/// Panics if the weight of an old mean is negative or not below 1. With the weight 1, the correction of the bias divides
/// by 0.
#[track_caller]
pub(super) fn below_one(function: &str, name: &str, value: f64) {
    let is_allowed = (0.0..1.0).contains(&value);
    let range = "a number of at least 0 and below 1";
    expect(is_allowed, function, name, range, value);
}

/// Panics if a constant learning rate or weight decay is negative or not finite. Values of other schedules and traced
/// values are not checked.
#[track_caller]
pub(super) fn strength(function: &str, name: &str, schedule: &Schedule) {
    let Some(value) = known_number(schedule) else {
        return;
    };
    assert!(
        value.is_finite() && value >= 0.0,
        "cannot make `{function}`: expected {NOT_NEGATIVE} as `{name}`, found {value}; to go uphill, minimize the negative loss"
    );
}

/// Panics if a constant factor is not finite.
#[track_caller]
pub(super) fn finite_constant(function: &str, name: &str, schedule: &Schedule) {
    if let Some(value) = known_number(schedule) {
        finite(function, name, value);
    }
}

const NOT_NEGATIVE: &str = "a finite number of at least 0";

#[track_caller]
fn expect(is_allowed: bool, function: &str, name: &str, range: &str, value: f64) {
    assert!(
        is_allowed,
        "cannot make `{function}`: expected {range} as `{name}`, found {value}"
    );
}

/// Returns the number of a constant schedule, or `None` if the schedule is not constant, or if its value is not known.
pub(super) fn known_number(schedule: &Schedule) -> Option<f64> {
    let value = schedule.as_constant()?;
    let narrow = |value: &Tensor| value.try_item::<f32>().ok().map(f64::from);
    value.try_item::<f64>().ok().or_else(|| narrow(value))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::{
        AdafactorOptions, AdamOptions, Chain, Momentum, NovogradOptions, RmsPropOptions,
        adafactor_with, adam, adam_with, adamw, adaptive_gradient_clip, clip_by_block_rms,
        clip_by_global_norm, clip_by_leaf_norm, clip_by_value, ema, novograd_with, rmsprop_with,
        scale, scale_by_schedule, sgd, sgd_momentum, signum,
    };

    /// Returns the message of the panic of `make`.
    fn refused(make: impl FnOnce() -> Chain) -> String {
        let panic = catch_unwind(AssertUnwindSafe(|| drop(make())));
        let payload = panic.err();
        let text = payload
            .as_ref()
            .and_then(|text| text.downcast_ref::<String>());
        text.cloned().unwrap_or_default()
    }

    #[test]
    fn limits_of_clipping_are_positive() {
        for (name, clip) in [
            (
                "clip_by_global_norm",
                clip_by_global_norm as fn(f64) -> Chain,
            ),
            ("clip_by_value", clip_by_value),
            ("clip_by_block_rms", clip_by_block_rms),
            ("clip_by_leaf_norm", clip_by_leaf_norm),
            ("adaptive_gradient_clip", adaptive_gradient_clip),
        ] {
            for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
                let text = refused(|| clip(value));
                let expected =
                    format!("cannot make `{name}`: expected a finite number above 0 as ");
                assert!(text.starts_with(&expected), "{name} {value}: {text}");
                assert!(text.ends_with(&format!("found {value}")), "{text}");
            }
        }
    }

    #[test]
    fn rates_and_decays_are_finite_and_not_negative() {
        assert_eq!(
            refused(|| sgd(-0.1)),
            "cannot make `scale_by_learning_rate`: expected a finite number of at least 0 as `learning_rate`, found -0.1; to go uphill, minimize the negative loss"
        );
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            let text = refused(|| adam(value));
            assert!(text.contains("as `learning_rate`, found"), "{text}");
            let text = refused(|| adafactor_with(value, AdafactorOptions::default()));
            assert!(text.contains("`adafactor_with`"), "{text}");
            let text = refused(|| adamw(0.1, value));
            assert!(text.contains("`add_decayed_weights`"), "{text}");
        }
        assert!(refused(|| sgd(f32::NAN)).contains("as `learning_rate`, found NaN"));
        for value in [f64::NAN, f64::NEG_INFINITY] {
            assert!(refused(|| scale(value)).contains("`scale`"));
            assert!(refused(|| scale_by_schedule(value)).contains("`scale_by_schedule`"));
        }
        assert_eq!(refused(|| scale(-1.0)), "");
        assert_eq!(refused(|| scale_by_schedule(-1.0)), "");
        assert_eq!(refused(|| sgd(0.0)), "");
    }

    #[test]
    fn weights_of_old_means_are_fractions() {
        for value in [-0.1, 1.5, f64::NAN, f64::INFINITY] {
            let text = refused(|| sgd_momentum(0.1, value, Momentum::Classical));
            let expected = "cannot make `trace`: expected a number from 0 to 1 as `decay`, found ";
            assert_eq!(text, format!("{expected}{value}"));
            assert!(refused(|| signum(0.1, value)).contains("`ema_with`"));
            let options = RmsPropOptions {
                momentum: Some((value, Momentum::Classical)),
                ..RmsPropOptions::default()
            };
            assert!(refused(|| rmsprop_with(0.1, options)).contains("`trace`"));
        }
        assert_eq!(refused(|| sgd_momentum(0.1, 1.0, Momentum::Classical)), "");
        // The correction of the bias would divide by 0.
        assert!(refused(|| ema(1.0)).contains("of at least 0 and below 1 as `decay`, found 1"));
        for value in [-0.1, 1.0, f64::NAN] {
            for name in ["beta1", "beta2"] {
                let mut options = AdamOptions::default();
                match name {
                    "beta1" => options.beta1 = value,
                    _ => options.beta2 = value,
                }
                let text = refused(|| adam_with(0.1, options));
                let expected = format!("at least 0 and below 1 as `{name}`, found {value}");
                assert!(text.ends_with(&expected), "{text}");
            }
        }
    }

    #[test]
    fn epsilons_are_finite_and_not_negative() {
        for value in [-1e-8, f64::NAN, f64::INFINITY] {
            let options = AdamOptions {
                epsilon: value,
                ..AdamOptions::default()
            };
            let text = refused(|| adam_with(0.1, options));
            assert!(text.contains("as `epsilon`, found"), "{text}");
            let options = NovogradOptions {
                epsilon_root: value,
                ..NovogradOptions::default()
            };
            let text = refused(|| novograd_with(0.1, options));
            assert!(text.contains("`scale_by_novograd`"), "{text}");
        }
    }

    #[test]
    fn panic_is_at_line_of_caller() {
        let line = std::sync::Arc::new(std::sync::Mutex::new(None));
        let seen = std::sync::Arc::clone(&line);
        let thread = std::thread::current().id();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == thread {
                let place = panic
                    .location()
                    .map(|place| (place.file().to_owned(), place.line()));
                if let Ok(mut seen) = seen.lock() {
                    *seen = place;
                }
            } else {
                before(panic);
            }
        }));
        let expected = line!() + 1;
        refused(|| adafactor_with(f64::NAN, AdafactorOptions::default()));
        let clipped = AdafactorOptions {
            clipping_threshold: Some(0.0),
            ..AdafactorOptions::default()
        };
        let place = line.lock().ok().and_then(|mut place| place.take());
        assert_eq!(place, Some((file!().to_owned(), expected)));
        let expected = line!() + 1;
        refused(|| adafactor_with(0.1, clipped));
        let place = line.lock().ok().and_then(|mut place| place.take());
        assert_eq!(place, Some((file!().to_owned(), expected)));
    }
}
