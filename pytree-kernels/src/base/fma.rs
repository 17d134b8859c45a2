//! Fused multiply-adds: a product and a sum that are rounded once, with the same bits on every machine.

/// A number with a fused multiply-add.
pub(crate) trait Fma {
    /// Returns `self * factor + summand`, rounded once.
    fn fma(self, factor: Self, summand: Self) -> Self;
}

impl Fma for f32 {
    #[inline(always)]
    fn fma(self, factor: Self, summand: Self) -> Self {
        // Without the instruction, `mul_add` is a call, and a loop with a call is not vectorised.
        if cfg!(target_family = "wasm") {
            in_double_precision(self, factor, summand)
        } else {
            self.mul_add(factor, summand)
        }
    }
}

impl Fma for f64 {
    #[inline(always)]
    fn fma(self, factor: Self, summand: Self) -> Self {
        self.mul_add(factor, summand)
    }
}

/// Computes a fused multiply-add of f32 without branches. A product of two f32 is an exact f64. Their sum is rounded to odd (Boldo and
/// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008), so that rounding it again
/// to f32 gives the result that is rounded once.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the sum is rounded to f32")]
fn in_double_precision(left: f32, right: f32, summand: f32) -> f32 {
    let (product, summand) = (f64::from(left) * f64::from(right), f64::from(summand));
    let sum = product + summand;
    // The error of the sum, exactly. It is NaN if the sum is infinite or NaN.
    let rounded = sum - product;
    let error = (product - (sum - rounded)) + (summand - rounded);
    // If the last bit is even and there is an error, the odd neighbour on the side of the error is the result.
    let bits = sum.to_bits();
    let changes = u64::from(error.abs() > 0.0) & !bits & 1;
    let is_outward = u64::from((error > 0.0) == (sum > 0.0));
    let odd = bits.wrapping_add(changes.wrapping_mul(2 * is_outward).wrapping_sub(changes));
    f64::from_bits(odd) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_precision_gives_fused_results() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        };
        let special = [
            0.0,
            -0.0,
            1.0,
            f32::INFINITY,
            f32::MAX,
            f32::MIN_POSITIVE,
            1e-45,
            f32::NAN,
        ];
        for round in 0..400_000_u32 {
            let [a, b, c] = [(); 3].map(|()| next());
            // Any bits, near cancellation, subnormal results, and special numbers.
            let [a, b, c] = match round % 4 {
                0 => [a, b, c].map(f32::from_bits),
                1 => {
                    let [a, b] = [a, b].map(f32::from_bits);
                    [
                        a,
                        b,
                        f32::from_bits((-(a * b)).to_bits().wrapping_add(c % 5)),
                    ]
                }
                2 => [
                    a & 0x80ff_ffff | 0x2000_0000,
                    b & 0x80ff_ffff | 0x1f00_0000,
                    c & 0x80ff_ffff,
                ]
                .map(f32::from_bits),
                _ => [a, b, c].map(|bits| special[bits as usize % special.len()]),
            };
            let (expected, found) = (a.mul_add(b, c), in_double_precision(a, b, c));
            let are_nan = expected.is_nan() && found.is_nan();
            assert!(
                are_nan || expected.to_bits() == found.to_bits(),
                "{a:e} {b:e} {c:e}: {expected:e} {found:e}"
            );
        }
    }
}
