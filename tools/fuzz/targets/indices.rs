//! Indices of tensors: read, written and taken.

#![no_main]

use std::ops::Bound;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use pytree::indexing::Index;
use pytree::prelude::*;
use pytree_fuzz::{call, edge};

fn index(bytes: &mut Unstructured<'_>) -> Result<Index> {
    let start = |bytes: &mut Unstructured<'_>| -> Result<Option<isize>> {
        Ok(if bytes.ratio(1, 3)? {
            None
        } else {
            Some(edge(bytes)? as isize)
        })
    };
    let end = |bytes: &mut Unstructured<'_>| -> Result<Bound<isize>> {
        Ok(match bytes.int_in_range(0..=8)? {
            0..3 => Bound::Unbounded,
            3..5 => Bound::Included(edge(bytes)? as isize),
            _ => Bound::Excluded(edge(bytes)? as isize),
        })
    };
    Ok(match bytes.int_in_range(0..=7)? {
        0 | 1 => Index::At(edge(bytes)? as isize),
        2 => Index::Ellipsis,
        3 => Index::NewAxis,
        _ => Index::Range {
            start: start(bytes)?,
            end: end(bytes)?,
            step: edge(bytes)? as isize,
        },
    })
}

fn check(bytes: &mut Unstructured<'_>) -> Result<()> {
    let rank = bytes.int_in_range(0..=3)?;
    let lengths = (0..rank).map(|_| bytes.int_in_range(0..=3));
    let shape = lengths.collect::<Result<Vec<usize>>>()?;
    let x = Tensor::ones(DType::F32, shape);
    let count = bytes.int_in_range(0..=4)?;
    let indices = (0..count)
        .map(|_| index(bytes))
        .collect::<Result<Vec<Index>>>()?;
    let read = call(file!(), || x.index(&indices));
    assert_eq!(
        read.is_some(),
        x.try_index(&indices).is_ok(),
        "{indices:?} of {x:?}"
    );
    let written = call(file!(), || x.at(&indices).set(2.0_f32));
    if let (Some(read), Some(written)) = (read, written) {
        assert!(read.len() <= x.len(), "{indices:?} of {x:?}");
        let numbers = written.to_vec::<f32>();
        let twos = numbers.iter().filter(|&&number| number == 2.0).count();
        assert_eq!(twos, read.len(), "{indices:?} of {x:?}");
    }
    let count = bytes.int_in_range(0..=3)?;
    let positions = (0..count).map(|_| Ok(edge(bytes)? as i32));
    let positions = Tensor::new([count], positions.collect::<Result<Vec<i32>>>()?);
    let axis = edge(bytes)? as isize;
    let taken = call(file!(), || x.take(&positions, axis));
    assert_eq!(taken.is_some(), x.try_take(&positions, axis).is_ok());
    let _ = call(file!(), || x.at_indices(&positions, axis).add(1.0_f32));
    Ok(())
}

fuzz_target!(
    init: pytree_fuzz::await_panics(),
    |bytes: &[u8]| {
        let _ = check(&mut Unstructured::new(bytes));
    }
);
