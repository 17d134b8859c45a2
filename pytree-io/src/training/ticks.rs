//! The numbers at the axes of a picture.

/// The greatest number of steps between the first and the last number.
const STEPS: f64 = 6.0;

/// Returns round numbers from `low` to `high`, at distances of 1, 2 or 5 times a power of 10, and the number of digits behind the
/// point that they need.
pub(super) fn ticks(low: f64, high: f64) -> (Vec<f64>, usize) {
    let raw = (high - low) / STEPS;
    let power = 10.0_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= raw * (1.0 - 1e-9));
    let step = factor.unwrap_or(10.0) * power;
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let mut numbers = Vec::new();
    let mut number = first;
    while number <= last && numbers.len() < 20 {
        // The sum turns -0 into 0.
        numbers.push(number * step + 0.0);
        number += 1.0;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a small number"
    )]
    let digits = (-(step * 1.000_001).log10().floor()).clamp(0.0, 17.0) as usize;
    (numbers, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64) -> String {
        let (numbers, digits) = ticks(low, high);
        let texts = numbers.iter().map(|number| format!("{number:.digits$}"));
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(texts(0.0, 30.0), "0 5 10 15 20 25 30");
        assert_eq!(texts(0.03, 2.31), "0.5 1.0 1.5 2.0");
        assert_eq!(texts(0.91, 0.97), "0.91 0.92 0.93 0.94 0.95 0.96 0.97");
        assert_eq!(
            texts(-4e-5, 8e-5),
            "-0.00004 -0.00002 0.00000 0.00002 0.00004 0.00006 0.00008"
        );
        assert_eq!(texts(1.0, 2000.0), "500 1000 1500 2000");
    }
}
