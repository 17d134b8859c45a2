//! Subscripts of `einsum`, with operands of all ranks.

#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use pytree::einsum;
use pytree::prelude::*;

/// Reads operands, then the subscripts: the rest of the bytes.
fn input(bytes: &mut Unstructured<'_>) -> Result<(Vec<Tensor>, String)> {
    let mut operands = Vec::new();
    for _ in 0..bytes.int_in_range(0..=4)? {
        let rank = bytes.int_in_range(0..=4)?;
        let lengths = (0..rank).map(|_| bytes.int_in_range(0..=3));
        let shape = lengths.collect::<Result<Vec<usize>>>()?;
        let dtype = if bytes.ratio(1, 20)? {
            DType::I32
        } else {
            DType::F32
        };
        operands.push(Tensor::ones(dtype, shape));
    }
    let rest = bytes.bytes(bytes.len())?;
    Ok((operands, String::from_utf8_lossy(rest).into_owned()))
}

fuzz_target!(
    init: pytree_fuzz::await_panics(),
    |bytes: &[u8]| {
        let Ok((operands, subscripts)) = input(&mut Unstructured::new(bytes)) else {
            return;
        };
        let operands: Vec<&Tensor> = operands.iter().collect();
        let panicking = pytree_fuzz::call(file!(), || einsum(&subscripts, &operands));
        let failing = pytree::try_einsum(&subscripts, &operands);
        assert_eq!(panicking.is_some(), failing.is_ok(), "{subscripts:?}");
    }
);
