//! Saves and loads one checkpoint again and again: `writer PATH SECONDS NUMBER`; `writer PATH once` saves once, and
//! `writer PATH check` loads once.
//!
//! Each saved tensor holds one number only, so that a file of two writers is seen.

use std::time::{Duration, Instant};

use pytree::prelude::*;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, seconds, rest @ ..] = &arguments[..] else {
        panic!("usage: writer PATH SECONDS NUMBER");
    };
    if seconds == "once" {
        let state = Tensor::full(DType::F32, [1 << 20], 1.0);
        match checkpoint::save(path, &state) {
            Ok(()) => println!("saved"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    let zeros = Tensor::zeros(DType::F32, [1 << 16]);
    if seconds == "check" {
        checkpoint::load(path, &zeros).expect("the file is whole");
        return;
    }
    let number: f64 = rest[0].parse().expect("a number");
    let end = Instant::now() + Duration::from_secs(seconds.parse().expect("seconds"));
    let (mut saves, mut foreign) = (0, 0);
    while Instant::now() < end {
        checkpoint::save(path, &Tensor::full(DType::F32, [1 << 16], number))
            .expect("the save succeeds");
        saves += 1;
        let loaded = checkpoint::load(path, &zeros).expect("the file is whole");
        let numbers = loaded.to_vec::<f32>();
        assert!(
            numbers.iter().all(|number| *number == numbers[0]),
            "a file of two writers"
        );
        foreign += usize::from(f64::from(numbers[0]) != number);
    }
    println!("{saves} {foreign}");
}
