//! The deterministic data of the benchmarks. The benchmark programs in other languages compute the same numbers.

#![allow(
    clippy::cast_possible_truncation,
    reason = "the definition of the data says how numbers are cut, and lengths are small"
)]

/// Returns a pseudo-random word for a counter.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the pseudo-random word at position `index` of a stream.
pub(crate) fn word(stream: u64, index: u64) -> u64 {
    mix(((stream << 32).wrapping_add(index).wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Returns `count` numbers, uniform in [-bound, bound).
pub(crate) fn uniform(stream: u64, count: usize, bound: f32) -> Vec<f32> {
    (0..count as u64)
        .map(|index| {
            let unit = (word(stream, index) >> 40) as f32 / 16_777_216.0;
            (2.0 * unit - 1.0) * bound
        })
        .collect()
}

/// Returns `count` class labels.
#[allow(dead_code, reason = "the digits example has labels of its own")]
pub(crate) fn labels(stream: u64, count: usize, classes: u64) -> Vec<i32> {
    (0..count as u64)
        .map(|index| (word(stream, index) % classes) as i32)
        .collect()
}

/// Returns the numbers in `0..count` in a pseudo-random order: number `i` is sorted by word `i` of the stream.
#[allow(dead_code, reason = "not every program that shares this file shuffles")]
pub(crate) fn permutation(stream: u64, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&index| (word(stream, index as u64), index));
    order
}

/// Returns the weight (`[inputs][outputs]`) and the bias of a linear layer. Each index `layer` gives other numbers.
pub(crate) fn linear(layer: u64, inputs: usize, outputs: usize) -> (Vec<f32>, Vec<f32>) {
    let bound = (1.0 / (inputs as f64).sqrt()) as f32;
    (
        uniform(100 + 2 * layer, inputs * outputs, bound),
        uniform(101 + 2 * layer, outputs, bound),
    )
}
