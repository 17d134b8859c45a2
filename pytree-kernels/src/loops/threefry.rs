//! Random bits: the block function of Threefry, JAX's counter-based generator (Salmon et al., "Parallel Random Numbers: As
//! Easy as 1, 2, 3", 2011).

use std::sync::Arc;

use crate::base::array::Array;
use crate::base::instructions::{leaf, load, store};
use crate::base::threads;

/// The rotations of a word in bits: four for the rounds of an even group, and four for the rounds of an odd group.
pub const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// The number of groups of four rounds.
pub const GROUPS: u8 = 5;
/// The constant that determines the third word of a key.
pub const PARITY: u32 = 0x1BD1_1BDA;

/// The number of counters that one loop computes.
const COUNTERS: usize = 64;
/// About how many nanoseconds one thread takes for a counter.
const NANOSECONDS: usize = 2;

/// Computes the block function for one key and one counter.
#[inline(always)]
pub fn block(key: [u32; 2], count: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = [
        count[0].wrapping_add(keys[0]),
        count[1].wrapping_add(keys[1]),
    ];
    let mut group = 0;
    while group < GROUPS {
        let turn = usize::from(group);
        let rotations = ROTATIONS[turn % 2];
        let mut round = 0;
        while round < rotations.len() {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotations[round]) ^ x[0];
            round += 1;
        }
        x[0] = x[0].wrapping_add(keys[(turn + 1) % 3]);
        x[1] = x[1]
            .wrapping_add(keys[(turn + 2) % 3])
            .wrapping_add(u32::from(group) + 1);
        group += 1;
    }
    x
}

/// Applies [`block`] to two arrays of keys and two arrays of counters. All have the same shape and the dtype u32. Returns the two
/// words of each result.
pub fn evaluate(key0: &Array, key1: &Array, count0: Arc<Array>, count1: Arc<Array>) -> [Array; 2] {
    let info = count0.info.clone();
    let keys = [key0.elements::<u32>(), key1.elements::<u32>()];
    let mut first = Array::into_elements::<u32>(count0);
    let mut second = Array::into_elements::<u32>(count1);
    let length = first.len();
    let part = length.div_ceil(threads::count()).next_multiple_of(COUNTERS);
    let counts = first
        .chunks_mut(part.max(1))
        .zip(second.chunks_mut(part.max(1)));
    let parts = counts.enumerate().map(|(position, counts)| {
        let start = position * part;
        (keys.map(|keys| &keys[start..]), counts)
    });
    threads::share(NANOSECONDS * length, parts.collect(), |(keys, counts)| {
        blocks(keys, counts);
    });
    [
        Array::new(&info.shape, first),
        Array::new(&info.shape, second),
    ]
}

/// Overwrites counters with the results for as many keys.
pub(crate) fn blocks([key0, key1]: [&[u32]; 2], (first, second): (&mut [u32], &mut [u32])) {
    leaf! {
        let length = first.len();
        let mut start = 0;
        while start < length {
            let end = length.min(start + COUNTERS);
            // Copies, because the compiler does not see that the four slices have no common elements.
            let mut words = [[0; COUNTERS]; 4];
            if end - start == COUNTERS {
                words = [
                    load(key0, start),
                    load(key1, start),
                    load(first, start),
                    load(second, start),
                ];
            } else {
                for at in start..end {
                    words[0][at - start] = key0[at];
                    words[1][at - start] = key1[at];
                    words[2][at - start] = first[at];
                    words[3][at - start] = second[at];
                }
            }
            let mut position = 0;
            while position < COUNTERS {
                let key = [words[0][position], words[1][position]];
                let [a, b] = block(key, [words[2][position], words[3][position]]);
                words[0][position] = a;
                words[1][position] = b;
                position += 1;
            }
            if end - start == COUNTERS {
                store(first, start, words[0]);
                store(second, start, words[1]);
            } else {
                for at in start..end {
                    first[at] = words[0][at - start];
                    second[at] = words[1][at - start];
                }
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_function_matches_random123() {
        // Expected values from `kat_vectors` of the Random123 library.
        assert_eq!(block([0, 0], [0, 0]), [0x6B20_0159, 0x99BA_4EFE]);
        assert_eq!(
            block([u32::MAX; 2], [u32::MAX; 2]),
            [0x1CB9_96FC, 0xBB00_2BE7]
        );
        assert_eq!(
            block([0x1319_8A2E, 0x0370_7344], [0x243F_6A88, 0x85A3_08D3]),
            [0xC492_3A9C, 0x483D_F7A0]
        );
    }
}
