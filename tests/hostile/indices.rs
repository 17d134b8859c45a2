//! Indices of tensors, at the edges of their types too.

use std::ops::Bound;

use pytree::indexing::{Index, Step};
use pytree::prelude::*;

use crate::random::Random;
use crate::{call, fuzz};

fn index(random: &mut Random) -> Index {
    let start = |random: &mut Random| (!random.one_in(3)).then(|| random.edge() as isize);
    let end = |random: &mut Random| match random.below(9) {
        0..3 => Bound::Unbounded,
        3..5 => Bound::Included(random.edge() as isize),
        _ => Bound::Excluded(random.edge() as isize),
    };
    match random.below(8) {
        0 | 1 => Index::At(random.edge() as isize),
        2 => Index::Ellipsis,
        3 => Index::NewAxis,
        _ => Index::Range {
            start: start(random),
            end: end(random),
            step: random.edge() as isize,
        },
    }
}

#[test]
fn indices_are_read_and_written_or_refused() {
    fuzz("indices_are_read_and_written_or_refused", |random| {
        let shape: Vec<usize> = (0..random.below(4)).map(|_| random.below(4)).collect();
        let x = Tensor::ones(DType::F32, shape);
        let indices: Vec<Index> = (0..random.below(5)).map(|_| index(random)).collect();
        let read = call(file!(), || x.index(&indices));
        assert_eq!(
            read.is_some(),
            x.try_index(&indices).is_ok(),
            "{indices:?} of {x:?}"
        );
        if let Some(read) = &read {
            assert!(read.len() <= x.len(), "{indices:?} of {x:?}");
        }
        let written = call(file!(), || x.at(&indices).set(2.0_f32));
        if let (Some(read), Some(written)) = (read, written) {
            let twos = written
                .to_vec::<f32>()
                .iter()
                .filter(|&&number| number == 2.0)
                .count();
            assert_eq!(twos, read.len(), "{indices:?} of {x:?}");
        }
        let positions: Vec<i32> = (0..random.below(4)).map(|_| random.edge() as i32).collect();
        let positions = Tensor::new([positions.len()], positions);
        let axis = random.edge() as isize;
        let taken = call(file!(), || x.take(&positions, axis));
        assert_eq!(taken.is_some(), x.try_take(&positions, axis).is_ok());
        let _ = call(file!(), || x.at_indices(&positions, axis).add(1.0_f32));
    });
}

#[test]
fn longest_steps_meet_one_element() {
    let x = Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    for step in [3, 1 << 40, isize::MAX] {
        assert_eq!(x.index(ix![Step(.., step), 0]), Tensor::from([1.0_f32]));
        assert_eq!(x.index(ix![Step(.., -step), 0]), Tensor::from([4.0_f32]));
        assert_eq!(x.index(ix![0, Step(1.., step)]), Tensor::from([2.0_f32]));
        let written = x.at(ix![Step(.., step)]).set(0.0_f32);
        assert_eq!(written.index(ix![.., 0]), Tensor::from([0.0_f32, 4.0]));
    }
    assert_eq!(
        x.index(ix![Step(.., isize::MIN), 0]),
        Tensor::from([4.0_f32])
    );
}
