//! Recurrent layers: what lengths, carries and directions mean, and mistakes with their messages.

use pytree_core::graph;
use pytree_nn::{Bidirectional, GruCell, LstmCell, RecurrentCell, Rngs, Rnn, SimpleCell};
use pytree_transform::{DType, Tensor, ix, jit};

use crate::layers::assert_near;

fn rnn() -> (Rnn<GruCell>, Tensor) {
    let mut rngs = Rngs::new(0);
    let rnn = Rnn::new(GruCell::new(3, 4, &mut rngs));
    (rnn, rngs.normal(DType::F32, [2, 6, 3]))
}

#[test]
fn padding_does_not_change_the_last_carry() {
    let (rnn, x) = rnn();
    let lengths = Tensor::from([4, 6]);
    let (carry, _) = rnn.run(&x, None, Some(&lengths));
    let (short, _) = rnn.run(&x.index(ix![0, ..4]), None, None);
    assert_near(&carry.index(ix![0]), &short);
    let (whole, _) = rnn.run(&x.index(ix![1]), None, None);
    assert_near(&carry.index(ix![1]), &whole);

    let (none, _) = rnn.run(&x, None, Some(&Tensor::from([0, 1])));
    assert_eq!(none.index(ix![0]), Tensor::zeros(DType::F32, [4]));
}

#[test]
fn sequence_in_two_parts_is_the_whole() {
    let mut rngs = Rngs::new(0);
    let rnn = Rnn::new(LstmCell::new(3, 4, &mut rngs));
    let x = rngs.normal(DType::F32, [2, 6, 3]);
    let whole = jit(|(rnn, x): (Rnn<LstmCell>, Tensor)| rnn.run(&x, None, None));
    let ((memory, hidden), y) = whole((rnn.clone(), x.clone()));
    let (first, start) = rnn.run(&x.index(ix![.., ..2]), None, None);
    let (second, end) = rnn.run(&x.index(ix![.., 2..]), Some(&first), None);
    assert_near(&Tensor::concatenate(&[start, end], 1), &y);
    assert_near(&second.0, &memory);
    assert_near(&second.1, &hidden);
}

#[test]
fn both_directions_see_the_whole_sequence() {
    let mut rngs = Rngs::new(0);
    let both = Bidirectional::new(
        SimpleCell::new(1, 2, &mut rngs),
        SimpleCell::new(1, 2, &mut rngs),
    );
    let x = rngs.normal(DType::F32, [5, 1]);
    let backward = Rnn {
        reverse: true,
        keep_order: true,
        ..Rnn::new(both.backward.cell.clone())
    };
    let y = both.forward(&x);
    assert_near(&y.index(ix![.., 2..]), &backward.forward(&x));
    assert_near(&y.index(ix![.., ..2]), &both.forward.forward(&x));
}

#[test]
fn wrong_input_is_an_error_with_the_fix() {
    let (rnn, x) = rnn();
    let error = |outcome: Result<_, pytree_nn::InputError>| -> String {
        let outcome: Result<(Tensor, Tensor), _> = outcome;
        outcome.unwrap_err().to_string()
    };
    let narrow = x.index(ix![.., .., ..2]);
    let message = error(rnn.try_run(&narrow, None, None));
    assert!(
        message.starts_with("GruCell::step: x is f32[2,2], expected T[*batch in] with in = 3 (from input: f32[3,12] as T[in 3*hidden])"),
        "{message}"
    );
    let message = error(rnn.try_run(&x.index(ix![0, 0]), None, None));
    assert!(
        message.starts_with(
            "Rnn expects x: [batch.., time, inputs], found f32[3]; add the missing axes to x"
        ),
        "{message}"
    );
    let message = error(rnn.try_run(&x, None, Some(&Tensor::from([4, 6, 1]))));
    assert!(
        message.starts_with(
            "Rnn expects lengths: i32[2], one for each sequence of the batch, found i32[3]"
        ),
        "{message}"
    );
    let carry = Tensor::zeros(DType::F32, [2, 5]);
    let message = error(rnn.try_run(&x, Some(&carry), None));
    assert!(message.contains("carry is f32[2,5]"), "{message}");
}

#[test]
fn parameters_of_cells_are_counted() {
    let mut rngs = Rngs::new(0);
    let count = |leaves: Vec<Tensor>| leaves.iter().map(Tensor::len).sum::<usize>();
    let lstm = LstmCell::new(3, 5, &mut rngs);
    assert_eq!(count(graph::flatten(&lstm).0), 4 * (3 * 5 + 5 * 5 + 5));
    let gru = GruCell::new(3, 5, &mut rngs);
    assert_eq!(count(graph::flatten(&gru).0), 3 * (3 * 5 + 5 * 5 + 5));
    assert_eq!(gru.initial_carry(&[7, 2]).shape(), [7, 2, 5]);
}
