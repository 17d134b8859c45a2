//! Functions of whole numbers.

/// Returns the greatest common divisor of two numbers. That of a number and 0 is the number.
pub(crate) fn greatest_common_divisor(left: usize, right: usize) -> usize {
    let (mut divisor, mut rest) = (left, right);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    divisor
}

/// Returns the least common multiple of two numbers, or `None` if it overflows.
pub(crate) fn least_common_multiple(left: usize, right: usize) -> Option<usize> {
    (left / greatest_common_divisor(left, right).max(1)).checked_mul(right)
}
