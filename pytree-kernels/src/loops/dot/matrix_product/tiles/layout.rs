//! The layout of whole tiles in vector registers.

#![allow(unsafe_code, reason = "the functions of instructions take pointers")]
use std::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_cvtepu16_epi32, _mm512_loadu_si512, _mm512_or_si512,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_slli_epi32, _mm512_storeu_si512,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use pytree_base::bug::expect_some;

use super::instructions::{LINES, PAIRS};
use crate::base::prefetch::prefetch;

/// The distance in elements between a line of a tile and the elements of the line that are requested meanwhile.
const AHEAD: usize = 8 * PAIRS;

/// What is expected of the elements of a tile.
const WHOLE: &str = "whole lines of a tile";

/// A tile of numbers, of which the neighbours in memory are those of a line, or else those of a step.
pub(super) struct WholeTile<'a> {
    pub(super) elements: &'a [u16],
    /// The distance between neighbouring lines, or else between neighbouring steps.
    pub(super) stride: usize,
    pub(super) is_by_lines: bool,
    /// Whether the memory of the next tile is requested. The tile may be in the cache lines of its neighbour.
    pub(super) is_requested: bool,
}

impl WholeTile<'_> {
    /// Writes the pairs of each line, or else each pair of all lines.
    pub(super) fn lay_out(&self, target: &mut [[u32; PAIRS]; LINES], are_of_lines: bool) {
        assert!(
            is_x86_feature_detected!("avx512f"),
            "a processor with instructions for bf16 has wide vectors"
        );
        // SAFETY: the processor has the instructions.
        unsafe { self.lay_out_wide(target, are_of_lines) };
    }

    #[target_feature(enable = "avx512f")]
    fn lay_out_wide(&self, target: &mut [[u32; PAIRS]; LINES], are_of_lines: bool) {
        let rows = if self.is_by_lines {
            self.lines()
        } else {
            self.steps()
        };
        let is_turned = self.is_by_lines != are_of_lines;
        let rows = if is_turned { transposed(rows) } else { rows };
        for line in 0..LINES {
            // SAFETY: the array is as long as the register.
            unsafe { _mm512_storeu_si512(target[line].as_mut_ptr().cast(), rows[line]) };
        }
    }

    /// Requests the memory of an element that is read later.
    #[inline]
    fn request(&self, position: usize) {
        if let Some(element) = self.elements.get(position..=position)
            && self.is_requested
        {
            prefetch(element);
        }
    }

    /// Returns the pairs of each line.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lines(&self) -> [__m512i; LINES] {
        let mut rows = [_mm512_setzero_si512(); LINES];
        for (line, row) in rows.iter_mut().enumerate() {
            let start = line * self.stride;
            self.request(start + AHEAD);
            let pairs: &[u16; 2 * PAIRS] = expect_some(self.elements[start..].first_chunk(), WHOLE);
            // SAFETY: the array is as long as the register.
            *row = unsafe { _mm512_loadu_si512(pairs.as_ptr().cast()) };
        }
        rows
    }

    /// Returns each pair of all lines.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn steps(&self) -> [__m512i; PAIRS] {
        let mut rows = [_mm512_setzero_si512(); PAIRS];
        for (pair, row) in rows.iter_mut().enumerate() {
            let (first, second) = (self.step(2 * pair), self.step(2 * pair + 1));
            *row = _mm512_or_si512(first, _mm512_slli_epi32::<16>(second));
        }
        rows
    }

    /// Returns the numbers of all lines at a step.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn step(&self, step: usize) -> __m512i {
        // The steps of a tile are so far apart that the processor does not request the next ones by itself.
        self.request((step + 2 * PAIRS) * self.stride);
        let elements = self.elements[step * self.stride..].first_chunk();
        let numbers: &[u16; LINES] = expect_some(elements, WHOLE);
        // SAFETY: the array is as long as the register.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(numbers.as_ptr().cast())) }
    }
}

/// Returns the columns of a tile: exchanges the off-diagonal blocks of 1, 2, 4 and 8 numbers in turn.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(mut rows: [__m512i; LINES]) -> [__m512i; PAIRS] {
    for at in (0..LINES).step_by(2) {
        let (first, second) = (rows[at], rows[at + 1]);
        rows[at] = _mm512_unpacklo_epi32(first, second);
        rows[at + 1] = _mm512_unpackhi_epi32(first, second);
    }
    for at in (0..LINES).step_by(4) {
        let [first, second, third, fourth] = [rows[at], rows[at + 1], rows[at + 2], rows[at + 3]];
        rows[at] = _mm512_unpacklo_epi64(first, third);
        rows[at + 1] = _mm512_unpackhi_epi64(first, third);
        rows[at + 2] = _mm512_unpacklo_epi64(second, fourth);
        rows[at + 3] = _mm512_unpackhi_epi64(second, fourth);
    }
    // Quarter `q` of row `4 r + c` has column `4 q + c` of rows `4 r` to `4 r + 3`.
    for column in 0..4 {
        let (first, second) = (rows[column], rows[column + 4]);
        let (third, fourth) = (rows[column + 8], rows[column + 12]);
        // The quarters 0 and 2 of two registers, and the quarters 1 and 3.
        let low = [
            _mm512_shuffle_i32x4::<0b10_00_10_00>(first, second),
            _mm512_shuffle_i32x4::<0b10_00_10_00>(third, fourth),
        ];
        let high = [
            _mm512_shuffle_i32x4::<0b11_01_11_01>(first, second),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(third, fourth),
        ];
        rows[column] = _mm512_shuffle_i32x4::<0b10_00_10_00>(low[0], low[1]);
        rows[column + 4] = _mm512_shuffle_i32x4::<0b10_00_10_00>(high[0], high[1]);
        rows[column + 8] = _mm512_shuffle_i32x4::<0b11_01_11_01>(low[0], low[1]);
        rows[column + 12] = _mm512_shuffle_i32x4::<0b11_01_11_01>(high[0], high[1]);
    }
    rows
}
