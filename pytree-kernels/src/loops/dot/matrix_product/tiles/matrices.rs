//! The matrix instructions of x86-64 (AMX), which multiply two tiles of 16 × 32 numbers at once.
//!
//! On one core of a Sapphire Rapids, they do 15 times as many operations in a second as the fused multiplications of f32. They add
//! the terms in order. Stable Rust has no functions for them, so they are written in assembly. Linux permits a process to use their
//! registers when the process asks for it.

#![allow(unsafe_code, reason = "the instructions have no functions")]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use super::instructions::{Instructions, LINES, Lines, Sums};

/// Returns whether the processor has the instructions, and the system permits the process to use them.
pub(super) fn are_available() -> bool {
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
        if !cfg!(target_os = "linux") || leaf(0).eax < 7 || leaf(7).edx & TILES != TILES {
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

impl Instructions for Registers {
    fn prepare() -> Self {
        assert!(are_available(), "a processor with matrix instructions");
        // SAFETY: the processor has the instruction, and the shapes are valid.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(readonly, nostack));
        }
        Self(())
    }

    fn multiply(&self, lines: &Lines<'_>, sums: &mut Sums<'_>, is_added: bool) {
        let Lines { left, right, count } = *lines;
        let width = sums.width;
        let row = width * size_of::<f32>();
        let sums = sums.elements.as_mut_ptr();
        // SAFETY: the registers have their shapes, and the caller has checked that there are two lines of tiles and 32 rows of sums.
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
