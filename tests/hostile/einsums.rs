//! Subscripts of `einsum`.

use pytree::einsum;
use pytree::prelude::*;

use crate::{call, fuzz};

const PIECES: [&str; 22] = [
    "i", "j", "k", "i", "j", "k", "ii", "ij", "ijk", ",", ",", "->", "->", "...", "...", ".", " ",
    "-", ">", "é", "Z", "",
];

const RESULTS: [&str; 8] = ["", "->", "->i", "->ij", "->kj", "->ii", "->...", "->z"];

#[test]
fn subscripts_are_understood_or_refused() {
    fuzz("subscripts_are_understood_or_refused", |random| {
        let mut operands = Vec::new();
        let mut subscripts = String::new();
        // Half of them fit their operands, but for an accident.
        let fits = random.one_in(2);
        let lengths = [2, 3, 1];
        for at in 0..random.below(5) {
            let rank = random.below(5);
            let letters: Vec<usize> = (0..rank).map(|_| random.below(3)).collect();
            let shape: Vec<usize> = letters
                .iter()
                .map(|&letter| {
                    if fits {
                        lengths[letter]
                    } else {
                        random.below(4)
                    }
                })
                .collect();
            let dtype = if random.one_in(20) {
                DType::I32
            } else {
                DType::F32
            };
            operands.push(Tensor::ones(dtype, shape));
            subscripts.push_str(if at == 0 { "" } else { "," });
            subscripts.extend(letters.iter().map(|&letter| ['i', 'j', 'k'][letter]));
        }
        if fits {
            subscripts.push_str(random.pick::<&str>(&RESULTS));
        } else {
            subscripts = random.text(&PIECES, 10);
        }
        let operands: Vec<&Tensor> = operands.iter().collect();
        let panicking = call(file!(), || einsum(&subscripts, &operands));
        let failing = pytree::try_einsum(&subscripts, &operands);
        assert_eq!(panicking.is_some(), failing.is_ok(), "{subscripts:?}");
        if let Err(error) = failing {
            assert!(!error.to_string().is_empty());
        }
    });
}
