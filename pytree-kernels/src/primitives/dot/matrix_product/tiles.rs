//! Blocks of bf16 for the matrix instructions of x86-64 (AMX), which multiply two tiles of 16 × 32 numbers at once.
//!
//! On one core of a Sapphire Rapids, they do 15 times as many operations in a second as the fused multiplications of f32. They add
//! the terms in order, and treat a subnormal factor or sum as 0. Stable Rust has no functions for them, so they are written in
//! assembly. Linux permits a process to use their registers when the process asks for it.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

use pytree_base::bug::expect_some;

use self::processor::Registers;
pub(super) use self::processor::are_available;
use super::Write;
use super::half::{Blocks, Matrix};
use crate::base::instructions::arch;
use crate::base::prefetch::prefetch;

/// The number of lines of a tile.
const LINES: usize = 16;

/// The number of pairs of neighbouring terms of a line of a tile. A pair is a `u32`, whose lower half is the first term.
const PAIRS: usize = 16;

/// The number of pairs of a tile. A tile of the left operand has a row after the other. One of the right operand has the first pair of each
/// column, then the second pair of each column, and so on.
const TILE: usize = LINES * PAIRS;

/// Blocks that consist of tiles. Neighbouring tiles are those of the same lines.
pub(super) struct Tiles;

impl Blocks for Tiles {
    type Source = u16;
    type Element = u32;

    const UNIT: usize = 32;

    fn lay_out_left(matrix: &Matrix<'_, u16>, block: &mut [u32]) {
        arch().dispatch(Layout {
            matrix,
            block,
            is_right: false,
        });
    }

    fn lay_out_right(matrix: &Matrix<'_, u16>, block: &mut [u32]) {
        arch().dispatch(Layout {
            matrix,
            block,
            is_right: true,
        });
    }

    fn multiply(
        [rows, columns, steps]: [usize; 3],
        left: &[u32],
        right: &[u32],
        sums: &mut [f32],
        write: Write,
    ) {
        let count = steps.div_ceil(2 * PAIRS);
        let registers = Registers::new();
        let (left, right) = (left.as_chunks::<TILE>().0, right.as_chunks::<TILE>().0);
        // Two lines of tiles of each operand at once: each tile is then used twice.
        for column in (0..columns).step_by(2 * LINES) {
            for row in (0..rows).step_by(2 * LINES) {
                let lines = [(left, row), (right, column)]
                    .map(|(tiles, line)| &tiles[line / LINES * count..][..2 * count]);
                let sums = &mut sums[row * columns + column..];
                registers.multiply(lines, count, sums, columns, write == Write::Add);
            }
        }
    }
}

/// Lays out lines of an operand as tiles.
struct Layout<'a> {
    matrix: &'a Matrix<'a, u16>,
    block: &'a mut [u32],
    is_right: bool,
}

impl pulp::WithSimd for Layout<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        let ((lines, by_line), (steps, _)) = (self.matrix.lines, self.matrix.steps);
        let tiles = steps.div_ceil(2 * PAIRS);
        if by_line > 1 || !self.is_right {
            for line in (0..lines).step_by(LINES) {
                (0..tiles).for_each(|tile| self.lay_out(line, tile));
            }
            return;
        }
        // A cache line has elements of many lines, so all lines at some steps are laid out before the next steps.
        for tile in 0..tiles {
            let mut line = 0;
            while line < lines {
                let is_whole = line + 2 * LINES <= lines && (tile + 1) * 2 * PAIRS <= steps;
                line += if is_whole {
                    self.lay_out_across(line, tile);
                    2 * LINES
                } else {
                    self.lay_out(line, tile);
                    LINES
                };
            }
        }
    }
}

impl Layout<'_> {
    /// Returns the position of the tile with a line.
    #[inline(always)]
    fn place(&self, line: usize, tile: usize) -> usize {
        line / LINES * self.matrix.steps.0.div_ceil(2 * PAIRS) + tile
    }

    /// Lays out two tiles of the right operand, whose lines are neighbours in memory.
    #[inline(always)]
    fn lay_out_across(&mut self, line: usize, tile: usize) {
        let Matrix {
            elements,
            steps: (_, by_step),
            ..
        } = *self.matrix;
        let places = [line, line + LINES].map(|line| self.place(line, tile));
        let (tiles, _) = self.block.as_chunks_mut::<TILE>();
        let mut targets = expect_some(tiles.get_disjoint_mut(places).ok(), "two tiles");
        let source = &elements[line + tile * 2 * PAIRS * by_step..];
        for pair in 0..PAIRS {
            let [first, second]: [[u16; 2 * LINES]; 2] = [2 * pair, 2 * pair + 1].map(|step| {
                // The steps of a tile are so far apart that the processor does not request the next ones by itself.
                let next = (step + 2 * PAIRS) * by_step;
                if let Some(next) = source.get(next..next + 2 * LINES) {
                    prefetch(next);
                }
                whole(&source[step * by_step..])
            });
            for (half, target) in targets.iter_mut().enumerate() {
                let numbers: [u32; LINES] = std::array::from_fn(|at| {
                    joined(first[half * LINES + at], second[half * LINES + at])
                });
                target.as_chunks_mut().0[pair] = numbers;
            }
        }
    }

    /// Lays out one tile.
    #[inline(always)]
    fn lay_out(&mut self, line: usize, tile: usize) {
        let Matrix {
            elements,
            lines: (lines, by_line),
            steps: (steps, by_step),
        } = *self.matrix;
        let lines = LINES.min(lines - line);
        let step = 2 * PAIRS * tile;
        let steps = (2 * PAIRS).min(steps - step);
        let source = &elements[line * by_line + step * by_step..];
        let place = self.place(line, tile);
        let (targets, _) = self.block.as_chunks_mut::<TILE>();
        let (target, _) = targets[place].as_chunks_mut::<PAIRS>();
        let is_whole = steps == 2 * PAIRS;
        let mut block = [[0; PAIRS]; LINES];
        let mut is_by_lines = true;
        if is_whole && by_step == 1 {
            for (line, block) in block[..lines].iter_mut().enumerate() {
                let line: [u16; 2 * PAIRS] = whole(&source[line * by_line..]);
                *block = std::array::from_fn(|pair| joined(line[2 * pair], line[2 * pair + 1]));
            }
        } else if is_whole && by_line == 1 && lines == LINES {
            is_by_lines = false;
            for (pair, block) in block.iter_mut().enumerate() {
                let [first, second]: [[u16; LINES]; 2] =
                    [2 * pair, 2 * pair + 1].map(|step| whole(&source[step * by_step..]));
                *block = std::array::from_fn(|line| joined(first[line], second[line]));
            }
        } else {
            for (line, block) in block[..lines].iter_mut().enumerate() {
                let bits = |step: usize| {
                    if step < steps {
                        source[line * by_line + step * by_step]
                    } else {
                        0
                    }
                };
                let pair = |pair: usize| joined(bits(2 * pair), bits(2 * pair + 1));
                *block = std::array::from_fn(pair);
            }
        }
        for first in 0..LINES {
            for second in 0..PAIRS {
                target[first][second] = if is_by_lines == self.is_right {
                    block[second][first]
                } else {
                    block[first][second]
                };
            }
        }
    }
}

/// Returns the first elements of a slice. An array has no bounds checks and overlaps nothing, so loops over it become vectors.
#[inline(always)]
fn whole<const N: usize>(elements: &[u16]) -> [u16; N] {
    *expect_some(elements.first_chunk(), "whole lines of a tile")
}

#[inline(always)]
fn joined(first: u16, second: u16) -> u32 {
    u32::from(first) | u32::from(second) << 16
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[allow(unsafe_code, reason = "the matrix instructions have no functions")]
mod processor {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;
    use std::sync::OnceLock;

    use super::LINES;

    /// Returns whether the processor has the instructions, and the system permits the process to use them.
    pub(in super::super) fn are_available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            /// The bits of tiles and of their products of bf16 in leaf 7.
            const TILES: u32 = 1 << 24 | 1 << 22;
            /// `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)` of Linux.
            const CALL: [i64; 3] = [158, 0x1023, 18];
            #[allow(
                unused_unsafe,
                reason = "the function is unsafe in the oldest compiler that is supported"
            )]
            // SAFETY: every processor of x86-64 has this instruction.
            let leaf = |number| unsafe { __cpuid_count(number, 0) };
            if leaf(0).eax < 7 || leaf(7).edx & TILES != TILES {
                return false;
            }
            let result: i64;
            // SAFETY: the call changes only what the process may use, and no memory. A system that does not know it returns an error.
            unsafe {
                asm!(
                    "syscall",
                    inlateout("rax") CALL[0] => result,
                    in("rdi") CALL[1],
                    in("rsi") CALL[2],
                    out("rcx") _,
                    out("r11") _,
                    options(nostack),
                );
            }
            result == 0
        })
    }

    /// The shapes of the eight tile registers: each has 16 lines of 64 bytes.
    #[repr(C, align(64))]
    struct Shapes {
        palette: [u8; 16],
        bytes: [u16; 16],
        lines: [u8; 16],
    }

    static SHAPES: Shapes = Shapes {
        palette: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        lines: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    /// The tile registers of this thread, which have their shapes until this value is dropped.
    pub(super) struct Registers(());

    impl Registers {
        pub(super) fn new() -> Self {
            assert!(are_available(), "a processor with matrix instructions");
            // SAFETY: the processor has the instruction, and the shapes are valid.
            unsafe {
                asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(readonly, nostack));
            }
            Self(())
        }

        /// Multiplies two times two lines of `count` tiles. Writes 32 × 32 sums, whose rows are `width` elements apart, or adds to them.
        ///
        /// # Panics
        /// Panics if an operand has other tiles than two lines of them, or if the sums are outside of `sums`.
        #[allow(
            clippy::unused_self,
            reason = "the registers have their shapes while `self` exists"
        )]
        pub(super) fn multiply(
            &self,
            [left, right]: [&[[u32; super::TILE]]; 2],
            count: usize,
            sums: &mut [f32],
            width: usize,
            is_added: bool,
        ) {
            let is_inside = sums.len() >= (2 * LINES - 1) * width + 2 * LINES;
            assert!(
                is_inside && count > 0 && [left, right].iter().all(|it| it.len() == 2 * count),
                "whole tiles and sums"
            );
            let row = width * size_of::<f32>();
            let sums = sums.as_mut_ptr();
            // SAFETY: the registers have their shapes, and the assertion above keeps all reads and writes within the slices.
            unsafe {
                asm!(
                    "test {is_added:e}, {is_added:e}",
                    "jz 2f",
                    "tileloadd tmm0, [{upper} + {row}*1]",
                    "tileloadd tmm1, [{upper} + {row}*1 + 64]",
                    "tileloadd tmm2, [{lower} + {row}*1]",
                    "tileloadd tmm3, [{lower} + {row}*1 + 64]",
                    "jmp 3f",
                    "2:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "3:",
                    "tileloadd tmm4, [{left} + {line}*1]",
                    "tileloadd tmm6, [{right} + {line}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{next_right} + {line}*1]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{next_left} + {line}*1]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "add {left}, 1024",
                    "add {right}, 1024",
                    "add {next_left}, 1024",
                    "add {next_right}, 1024",
                    "dec {count}",
                    "jnz 3b",
                    "tilestored [{upper} + {row}*1], tmm0",
                    "tilestored [{upper} + {row}*1 + 64], tmm1",
                    "tilestored [{lower} + {row}*1], tmm2",
                    "tilestored [{lower} + {row}*1 + 64], tmm3",
                    is_added = in(reg) u32::from(is_added),
                    upper = in(reg) sums,
                    lower = in(reg) sums.add(LINES * width),
                    row = in(reg) row,
                    line = in(reg) 64_usize,
                    left = inout(reg) left.as_ptr() => _,
                    next_left = inout(reg) left[count..].as_ptr() => _,
                    right = inout(reg) right.as_ptr() => _,
                    next_right = inout(reg) right[count..].as_ptr() => _,
                    count = inout(reg) count => _,
                    out("tmm0") _,
                    out("tmm1") _,
                    out("tmm2") _,
                    out("tmm3") _,
                    out("tmm4") _,
                    out("tmm5") _,
                    out("tmm6") _,
                    out("tmm7") _,
                    options(nostack),
                );
            }
        }
    }

    impl Drop for Registers {
        fn drop(&mut self) {
            // SAFETY: the processor has the instruction.
            unsafe { asm!("tilerelease", options(nomem, nostack)) };
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod processor {
    pub(in super::super) fn are_available() -> bool {
        false
    }

    /// The tile registers, which this processor does not have.
    pub(super) struct Registers;

    impl Registers {
        pub(super) const fn new() -> Self {
            Self
        }

        pub(super) fn multiply(
            &self,
            _: [&[[u32; super::TILE]]; 2],
            _: usize,
            _: &mut [f32],
            _: usize,
            _: bool,
        ) {
            pytree_base::bug::bug("a processor with matrix instructions")
        }
    }
}
