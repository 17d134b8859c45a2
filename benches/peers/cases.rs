//! The cases of `benches/training.rs` and the digits, for the programs of burn and candle.

#[path = "../../examples/digits/workload.rs"]
mod workload;

pub(crate) use workload::{labels, linear, permutation, uniform};

pub const LEARNING_RATE: f64 = 1e-3;

/// The widths of the layers of an MLP, and the number of examples in a batch.
pub fn mlp(case: &str) -> ([usize; 4], usize) {
    match case {
        "C1" => ([64, 128, 128, 10], 64),
        "C2" => ([784, 512, 512, 10], 128),
        "C3" => ([784, 2048, 2048, 10], 256),
        _ => panic!("expected C1, C2, C3 or C4, found `{case}`"),
    }
}

/// The transformer of case C4.
pub mod c4 {
    pub const BATCH: usize = 8;
    pub const TOKENS: usize = 64;
    pub const WIDTH: usize = 256;
    pub const HEADS: usize = 4;
    pub const EACH: usize = WIDTH / HEADS;
    pub const HIDDEN: usize = 1024;
    pub const CLASSES: usize = 256;
    pub const BLOCKS: u64 = 2;
    pub const EPSILON: f64 = 1e-5;
}

/// The scanned digits in the order of `digits --workload-d`: the first `TRAINING` are trained on.
pub struct Digits {
    pub images: Vec<[f32; 64]>,
    pub digits: Vec<i32>,
}

const IMAGES: usize = 1797;
pub const TRAINING: usize = 1437;

pub fn digits() -> Digits {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/data/digits.csv"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<i32>> = text
        .lines()
        .map(|line| {
            line.split(',')
                .map(|field| field.parse().unwrap())
                .collect()
        })
        .collect();
    let order = permutation(900, IMAGES);
    let image = |row: &usize| std::array::from_fn(|pixel| rows[*row][pixel] as f32 / 16.0);
    Digits {
        images: order.iter().map(image).collect(),
        digits: order.iter().map(|row| rows[*row][64]).collect(),
    }
}

impl Digits {
    /// Returns the pixels and the digits of some images.
    pub fn part(&self, rows: &[usize]) -> (Vec<f32>, Vec<i32>) {
        let pixels = rows.iter().flat_map(|&row| self.images[row]).collect();
        (pixels, rows.iter().map(|&row| self.digits[row]).collect())
    }

    /// Returns the rows of each batch of 30 epochs.
    pub fn batches(&self) -> impl Iterator<Item = Vec<usize>> {
        (0..30).flat_map(|epoch| {
            let order = permutation(1000 + epoch, TRAINING);
            let batches: Vec<Vec<usize>> = order.chunks_exact(64).map(<[usize]>::to_vec).collect();
            batches
        })
    }

    /// Returns the rows of the images that are not trained on.
    pub fn test(&self) -> Vec<usize> {
        (TRAINING..IMAGES).collect()
    }

    /// Prints the part of the test images for which a digit is right.
    pub fn print_accuracy(&self, found: impl IntoIterator<Item = i32>) {
        let right = found.into_iter().zip(&self.digits[TRAINING..]);
        let count = right.filter(|(found, digit)| found == *digit).count();
        println!(
            "test accuracy: {:.4}",
            count as f64 / (IMAGES - TRAINING) as f64
        );
    }
}
