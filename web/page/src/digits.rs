//! The handwritten digits of the repository.

use pytree::data::csv::{self, CsvOptions};
use pytree::prelude::*;

/// Images `[count, 64]` with pixels from 0 to 1, and the digits that they show `[count]`.
pub(crate) type Examples = (Tensor, Tensor);

/// Returns training and test examples, in the random order of a key.
pub(crate) fn load(key: &Key) -> Result<[Examples; 2], csv::CsvError> {
    const TRAINING: usize = 1437;
    let file = include_str!("../../../examples/data/digits.csv");
    let table = csv::parse::<f32>(file, CsvOptions::default())?;
    let images = table.index(ix![.., ..64]) / 16.0;
    let digits = table.index(ix![.., 64]).convert(DType::I32);
    let order = key.permutation(digits.len());
    let parts = [order.index(ix![..TRAINING]), order.index(ix![TRAINING..])];
    Ok(parts.map(|part| (images.take(&part, 0), digits.take(&part, 0))))
}
