//! A dataset that computes its examples.

use pytree::data::{Batches, LastBatch, Source, SourceError};
use pytree::prelude::*;

/// Pieces of a wave, and what a leaky sum of each ends with: `x: [8]` and `y: [1]`.
#[derive(Debug)]
pub struct Waves {
    pub count: usize,
    /// The position of an example that cannot be read.
    pub damaged: Option<usize>,
}

impl Source for Waves {
    type Example = (Tensor, Tensor);

    fn count(&self) -> usize {
        self.count
    }

    fn example(&self, position: usize) -> Result<Self::Example, SourceError> {
        if self.damaged == Some(position) {
            return Err(format!("wave {position} is damaged").into());
        }
        let x: Vec<f32> = (0..8)
            .map(|time| (position as f32 * 0.3 + time as f32 * 0.7).sin())
            .collect();
        let y = x.iter().fold(0.0, |sum, x| sum * 0.8 + x);
        Ok((Tensor::from(x), Tensor::from([y])))
    }
}

#[test]
fn batches_are_those_of_the_source() {
    let waves = || Waves {
        count: 10,
        damaged: None,
    };
    let batches = Batches::from_source(waves(), 4)
        .shuffle(&Key::new(0))
        .prefetch(2);
    let shapes: Vec<Vec<usize>> = batches.epoch(0).map(|(x, _)| x.shape().to_vec()).collect();
    assert_eq!(shapes, [[4, 8], [4, 8], [2, 8]]);
    let whole = Batches::from_source(waves(), 4).last_batch(LastBatch::Drop);
    let (x, y) = whole.epoch(0).nth(1).unwrap();
    assert_eq!(x.index(ix![1]), waves().example(5).unwrap().0);
    assert_eq!(y.shape(), [4, 1]);
}

#[test]
fn error_of_an_example_is_returned() {
    let batches = Batches::from_source(
        Waves {
            count: 10,
            damaged: Some(6),
        },
        4,
    );
    let batches: Vec<_> = batches.try_epoch(0).unwrap().collect();
    let [Ok(_), Err(error)] = &batches[..] else {
        panic!("{batches:?}");
    };
    let message = error.to_string();
    assert!(message.contains("wave 6 is damaged"), "{message}");
}
