//! Random bits: the block function of Threefry, JAX's counter-based generator (Salmon et al., "Parallel Random Numbers: As
//! Easy as 1, 2, 3", 2011).

use std::sync::Arc;

use crate::base::array::Array;

/// The rotations of a word in bits: four for the rounds of an even group, and four for the rounds of an odd group.
pub const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// The number of groups of four rounds.
pub const GROUPS: u8 = 5;
/// The constant that determines the third word of a key.
pub const PARITY: u32 = 0x1BD1_1BDA;

/// Computes the block function for one key and one counter.
pub fn block(key: [u32; 2], count: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = [
        count[0].wrapping_add(keys[0]),
        count[1].wrapping_add(keys[1]),
    ];
    for group in 0..GROUPS {
        let turn = usize::from(group);
        for rotation in ROTATIONS[turn % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(turn + 1) % 3]);
        x[1] = x[1]
            .wrapping_add(keys[(turn + 2) % 3])
            .wrapping_add(u32::from(group) + 1);
    }
    x
}

/// Applies [`block`] to two arrays of keys and two arrays of counters. All have the same shape and the dtype u32. Returns the two
/// words of each result.
pub fn evaluate(key0: &Array, key1: &Array, count0: Arc<Array>, count1: Arc<Array>) -> [Array; 2] {
    let info = count0.info.clone();
    let (key0, key1) = (key0.elements::<u32>(), key1.elements::<u32>());
    let mut first = Array::into_elements::<u32>(count0);
    let mut second = Array::into_elements::<u32>(count1);
    let words = first.iter_mut().zip(&mut second).zip(key0.iter().zip(key1));
    words.for_each(|((first, second), (&key0, &key1))| {
        [*first, *second] = block([key0, key1], [*first, *second]);
    });
    [
        Array::new(&info.shape, first),
        Array::new(&info.shape, second),
    ]
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
