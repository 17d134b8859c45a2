//! The coefficients of the error function (Cody, "Rational Chebyshev approximations for the error function", 1969): numerators and
//! denominators, the coefficient of the highest power first. `NEAR` has polynomials of x² for |x| ≤ 0.46875. `MIDDLE` has polynomials
//! of |x| for greater |x| up to 4. `FAR` has polynomials of 1/x² for |x| above 4.
#![allow(
    clippy::unreadable_literal,
    clippy::excessive_precision,
    reason = "coefficients stand as they were published"
)]

/// The numerator near 0.
pub(super) const NEAR_NUMERATOR: [f64; 5] = [
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
];
/// The denominator near 0.
pub(super) const NEAR_DENOMINATOR: [f64; 5] = [
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
];
/// The numerator in the middle.
pub(super) const MIDDLE_NUMERATOR: [f64; 9] = [
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
];
/// The denominator in the middle.
pub(super) const MIDDLE_DENOMINATOR: [f64; 9] = [
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
];
/// The numerator far from 0.
pub(super) const FAR_NUMERATOR: [f64; 6] = [
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
];
/// The denominator far from 0.
pub(super) const FAR_DENOMINATOR: [f64; 6] = [
    1.0,
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
];
