//! The vector instruction of x86-64 that multiplies 16 pairs of bf16 and adds both products to 16 sums (`AVX512_BF16`).

#![allow(unsafe_code, reason = "the functions of instructions take pointers")]
use std::arch::x86_64::{
    __m512, __m512bh, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_storeu_ps,
};
use std::mem::transmute;

use pytree_base::bug::expect_some;

use super::instructions::{Instructions, LINES, Lines, PAIRS, Sums, TILE};

/// The number of rows whose sums are in registers at the same time.
const ROWS: usize = 8;

/// Returns whether the processor has the instruction.
pub(super) fn are_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

/// The vector registers, which need no preparation.
pub(super) struct Registers(());

impl Instructions for Registers {
    fn prepare() -> Self {
        assert!(are_available(), "a processor that multiplies pairs of bf16");
        Self(())
    }

    fn multiply(&self, lines: &Lines<'_>, sums: &mut Sums<'_>, is_added: bool) {
        let Lines { left, right, count } = *lines;
        let (first, second) = right.split_at(count);
        for (line, left) in left.chunks_exact(count).enumerate() {
            for part in 0..LINES / ROWS {
                let width = sums.width;
                let elements = &mut sums.elements[(line * LINES + part * ROWS) * width..];
                let mut rows = Sums { elements, width };
                // SAFETY: the processor has the instructions, because this value exists.
                unsafe { multiply_rows(left, part, [first, second], &mut rows, is_added) };
            }
        }
    }
}

/// Multiplies the rows of one part of a line of tiles by two lines of tiles. Writes `ROWS` rows of 32 sums, or adds to them.
#[target_feature(enable = "avx512f,avx512bf16")]
fn multiply_rows(
    left: &[[u32; TILE]],
    part: usize,
    right: [&[[u32; TILE]]; 2],
    sums: &mut Sums<'_>,
    is_added: bool,
) {
    let width = sums.width;
    let mut totals = [[_mm512_setzero_ps(); 2]; ROWS];
    if is_added {
        for row in 0..ROWS {
            let sums = &sums.elements[row * width..];
            totals[row] = [loaded(sums), loaded(&sums[LINES..])];
        }
    }
    let [firsts, seconds] = [&right[0][..left.len()], &right[1][..left.len()]];
    for tile in 0..left.len() {
        let rows: &[[u32; PAIRS]; ROWS] = &left[tile].as_chunks().0.as_chunks().0[part];
        let (first, second) = (firsts[tile].as_chunks().0, seconds[tile].as_chunks().0);
        for pair in 0..PAIRS {
            let (first, second) = (pairs(first[pair]), pairs(second[pair]));
            for row in 0..ROWS {
                let number = repeated(rows[row][pair]);
                totals[row][0] = _mm512_dpbf16_ps(totals[row][0], number, first);
                totals[row][1] = _mm512_dpbf16_ps(totals[row][1], number, second);
            }
        }
    }
    for row in 0..ROWS {
        for half in 0..2 {
            let target = sums.elements[row * width + half * LINES..].first_chunk_mut();
            let target: &mut [f32; LINES] = expect_some(target, WHOLE);
            // SAFETY: the array has as many numbers as the register.
            unsafe { _mm512_storeu_ps(target.as_mut_ptr(), totals[row][half]) };
        }
    }
}

/// What is expected of rows of sums.
const WHOLE: &str = "rows of whole vectors";

#[inline]
#[target_feature(enable = "avx512f")]
fn loaded(row: &[f32]) -> __m512 {
    let numbers: &[f32; LINES] = expect_some(row.first_chunk(), WHOLE);
    // SAFETY: the array has as many numbers as the register.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn pairs(bits: [u32; LINES]) -> __m512bh {
    // SAFETY: both types are 64 bytes of any value.
    unsafe { transmute(bits) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn repeated(pair: u32) -> __m512bh {
    // SAFETY: both types are 64 bytes of any value.
    unsafe { transmute(_mm512_set1_epi32(pair.cast_signed())) }
}
