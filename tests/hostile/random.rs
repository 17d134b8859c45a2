//! Random numbers of a seed, and random changes of bytes.

/// SplitMix64, from Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound that is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    pub fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A text of pieces.
    pub fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.below(most + 1))
            .map(|_| *self.pick(pieces))
            .collect()
    }

    /// Numbers at the edges of their types, and small ones.
    pub fn edge(&mut self) -> i64 {
        let edges = [
            i64::MIN,
            i64::MIN + 1,
            i64::MAX,
            i64::from(i32::MIN),
            i64::from(i32::MAX),
            1 << 32,
            1 << 48,
        ];
        match self.below(4) {
            0 => *self.pick(&edges),
            _ => self.below(13) as i64 - 6,
        }
    }

    /// Changes a few bytes: flips, replaces, inserts, removes, repeats and cuts off.
    pub fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(16)).min(bytes.len());
            match self.below(7) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.bits() as u8,
                2 => bytes[at] = *self.pick(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'9']),
                3 => bytes.insert(at, self.bits() as u8),
                4 => drop(bytes.drain(at..end)),
                5 => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes.truncate(at),
            }
        }
    }
}
