//! The formula of weights that `tests/golden/pretrained_goldens.py` and `models_goldens.py` compute, too.

use std::collections::BTreeMap;

use pytree::Tensor;
use serde_json::Value;

use crate::goldens::files::lengths;

/// The checksum CRC-32 of a name, which begins the formula of its values.
fn crc32(name: &str) -> u32 {
    !name.bytes().fold(!0_u32, |mut sum, byte| {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg());
        }
        sum
    })
}

/// Numbers in [-1, 1): the finalizer of MurmurHash3, of the positions and a seed.
pub fn hashed(count: usize, seed: u32) -> impl Iterator<Item = f64> {
    (0..count as u32).map(move |position| {
        let mut x = position.wrapping_add(seed);
        x ^= x >> 16;
        x = x.wrapping_mul(0x85EB_CA6B);
        x ^= x >> 13;
        x = x.wrapping_mul(0xC2B2_AE35);
        x ^= x >> 16;
        f64::from(x) / 2.0_f64.powi(31) - 1.0
    })
}

fn value_of(name: &str, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let scale = (3.0 * *shape.first().unwrap_or(&1) as f64 / count as f64).sqrt();
    let number = |number: f64| match (name, shape.len()) {
        (name, _) if name.ends_with("running_var") => 1.0 + 0.5 * number,
        (_, 2..) => number * scale,
        (name, _) if name.ends_with(".weight") => 1.0 + 0.25 * number,
        _ => 0.25 * number,
    };
    let values = hashed(count, crc32(name)).map(|x| number(x) as f32);
    Tensor::new(shape, values.collect::<Vec<f32>>())
}

/// Returns tensors of the given names and shapes. The formula is of the names without `prefix`.
pub fn values(shapes: &Value, prefix: &str) -> BTreeMap<String, Tensor> {
    let shapes = shapes.as_object().unwrap().iter();
    let values = shapes.map(|(name, shape)| {
        let plain = name.strip_prefix(prefix).unwrap_or(name);
        let value = match name.ends_with("num_batches_tracked") {
            true => Tensor::from(7_i64),
            false => value_of(plain, &lengths(shape)),
        };
        (name.clone(), value)
    });
    values.collect()
}
