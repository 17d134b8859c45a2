//! Recurrent cells along a time axis: outputs, carries and gradients.

use pytree::nn::{
    Bidirectional, CellOptions, GruCell, InputError, LstmCell, RecurrentCell, Rnn, SimpleCell,
};
use pytree::prelude::*;
use serde_json::Value;

use crate::goldens::files::{dtype, read, tensor};
use crate::goldens::models::record_call;
use crate::goldens::tolerance::assert_close;

/// A cell of any kind, as the file names them. The carry is a list of tensors.
#[derive(Module, Clone, Debug, PartialEq)]
enum Cell {
    Lstm(LstmCell),
    Gru(GruCell),
    Simple(SimpleCell),
}

impl Cell {
    fn new(case: &Value, rngs: &mut Rngs) -> Self {
        let number = |name: &str| case[name].as_u64().unwrap() as usize;
        let (inputs, hidden) = (number("inputs"), number("hidden"));
        let options = CellOptions {
            param_dtype: dtype(case["dtype"].as_str().unwrap()),
            ..CellOptions::default()
        };
        match case["cell"].as_str().unwrap() {
            "LSTMCell" | "OptimizedLSTMCell" => {
                Self::Lstm(LstmCell::with_options(inputs, hidden, options, rngs))
            }
            "GRUCell" => Self::Gru(GruCell::with_options(inputs, hidden, options, rngs)),
            "SimpleCell" => Self::Simple(SimpleCell {
                residual: case["residual"] == true,
                ..SimpleCell::with_options(inputs, hidden, options, rngs)
            }),
            other => panic!("no cell `{other}`"),
        }
    }

    fn parameters(&mut self) -> [(&'static str, &mut Tensor); 3] {
        let (input, recurrent, bias) = match self {
            Self::Lstm(cell) => (&mut cell.input, &mut cell.recurrent, &mut cell.bias),
            Self::Gru(cell) => (&mut cell.input, &mut cell.recurrent, &mut cell.bias),
            Self::Simple(cell) => (&mut cell.input, &mut cell.recurrent, &mut cell.bias),
        };
        [("input", input), ("recurrent", recurrent), ("bias", bias)]
    }
}

impl RecurrentCell for Cell {
    type Carry = Vec<Tensor>;

    fn initial_carry(&self, batch: &[usize]) -> Vec<Tensor> {
        match self {
            Self::Lstm(cell) => {
                let (c, h) = cell.initial_carry(batch);
                vec![c, h]
            }
            Self::Gru(cell) => vec![cell.initial_carry(batch)],
            Self::Simple(cell) => vec![cell.initial_carry(batch)],
        }
    }

    fn try_step(
        &self,
        carry: &Vec<Tensor>,
        x: &Tensor,
    ) -> Result<(Vec<Tensor>, Tensor), InputError> {
        Ok(match self {
            Self::Lstm(cell) => {
                let ((c, h), y) = cell.try_step(&(carry[0].clone(), carry[1].clone()), x)?;
                (vec![c, h], y)
            }
            Self::Gru(cell) => {
                let (carry, y) = cell.try_step(&carry[0], x)?;
                (vec![carry], y)
            }
            Self::Simple(cell) => {
                let (carry, y) = cell.try_step(&carry[0], x)?;
                (vec![carry], y)
            }
        })
    }
}

/// One or two cells, and how they run.
#[derive(Module, Clone, Debug)]
struct Layer {
    cells: Vec<Rnn<Cell>>,
}

impl Layer {
    fn run(
        &self,
        x: &Tensor,
        carries: Option<&[Vec<Tensor>]>,
        lengths: Option<&Tensor>,
    ) -> (Vec<Vec<Tensor>>, Tensor) {
        if let [rnn] = &self.cells[..] {
            let (carry, y) = rnn.run(x, carries.map(|carries| &carries[0]), lengths);
            return (vec![carry], y);
        }
        let [forward, backward] = [0, 1].map(|at| self.cells[at].clone());
        let time_major = forward.time_major;
        let mut both = Bidirectional::new(forward.cell, backward.cell);
        (both.forward.time_major, both.backward.time_major) = (time_major, time_major);
        let carries = carries.map(|carries| (carries[0].clone(), carries[1].clone()));
        let ((forward, backward), y) = both.run(x, carries.as_ref(), lengths);
        (vec![forward, backward], y)
    }
}

/// Weights of the outputs and of the carries in the loss.
type Weights = (Tensor, Vec<Vec<Tensor>>);
type Given = (
    Layer,
    Tensor,
    Option<Vec<Vec<Tensor>>>,
    Option<Tensor>,
    Weights,
);
/// With respect to the parameters, the input and the carries.
type Gradients = (Vec<Tensor>, Tensor, Vec<Tensor>);
type Results = (Tensor, Vec<Vec<Tensor>>, Gradients);

fn loss(
    (layer, x, carries): &(Layer, Tensor, Option<Vec<Vec<Tensor>>>),
    lengths: Option<&Tensor>,
    (of_y, of_carries): &Weights,
) -> Tensor {
    let (last, y) = layer.run(x, carries.as_deref(), lengths);
    let parts = last.iter().flatten().zip(of_carries.iter().flatten());
    parts.fold((y * of_y).sum(), |sum, (part, weights)| {
        sum + (part * weights).sum()
    })
}

fn step((layer, x, carries, lengths, weights): Given) -> Results {
    let (last, y) = layer.run(&x, carries.as_deref(), lengths.as_ref());
    let given = (layer, x, carries);
    let gradient = grad(|given: &(Layer, Tensor, Option<Vec<Vec<Tensor>>>)| {
        loss(given, lengths.as_ref(), &weights)
    })(&given);
    let (of_layer, of_x, of_carries) = gradient;
    let (of_layer, of_carries) = (of_layer.leaves().to_vec(), of_carries.leaves().to_vec());
    (y, last, (of_layer, of_x, of_carries))
}

fn carries(value: &Value) -> Vec<Vec<Tensor>> {
    let lists = value.as_array().unwrap().iter();
    lists
        .map(|list| list.as_array().unwrap().iter().map(tensor).collect())
        .collect()
}

fn assert_carries(what: &str, found: &[Vec<Tensor>], expected: &Value) {
    let expected = carries(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            assert_close(what, found, expected);
        }
    }
}

fn layer_of(what: &str, case: &Value) -> Layer {
    let options = &case["options"];
    let parameters = case["parameters"].as_array().unwrap();
    let mut cells = Vec::new();
    for values in parameters {
        let mut rngs = Rngs::new(0);
        let mut cell = Cell::new(case, &mut rngs);
        if case["initial"].is_object() {
            let drawn = u64::from(rngs.stream_mut("default").unwrap().count().item::<u32>());
            assert_eq!(
                Some(drawn),
                case["initial"]["drawn"].as_u64(),
                "{what}: keys"
            );
            let [(_, input), (_, recurrent), _] = cell.parameters();
            assert_close(what, input, &tensor(&case["initial"]["input"]));
            assert_close(what, recurrent, &tensor(&case["initial"]["recurrent"]));
        }
        for (name, parameter) in cell.parameters() {
            assert_eq!(
                parameter.shape(),
                tensor(&values[name]).shape(),
                "{what}: {name}"
            );
            *parameter = tensor(&values[name]);
        }
        cells.push(Rnn {
            time_major: options["time_major"] == true,
            reverse: options["reverse"] == true,
            keep_order: options["keep_order"] == true,
            ..Rnn::new(cell)
        });
    }
    Layer { cells }
}

#[test]
fn recurrent_layers_are_as_in_flax() {
    let file = read("recurrent.json");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 32);
    let compiled = jit(step);
    for (number, case) in cases.iter().enumerate() {
        let what = format!("case {number}, {} {}", case["cell"], case["options"]);
        let initial = &case["initial_carry"];
        let given = (
            layer_of(&what, case),
            tensor(&case["x"]),
            (!initial.is_null()).then(|| carries(initial)),
            (!case["lengths"].is_null()).then(|| tensor(&case["lengths"])),
            (tensor(&case["weights"]), carries(&case["carry_weights"])),
        );
        record_call(&what, &compiled, &given);
        let expected = &case["gradients"];
        for (way, results) in [("", step(given.clone())), (" under jit", compiled(given))] {
            let what = format!("{what}{way}");
            let (y, last, (of_layer, of_x, of_carries)) = results;
            let (found, all) = (zeroed(&y, case), tensor(&case["y"]));
            assert_close(&format!("{what}: outputs"), &found, &zeroed(&all, case));
            assert_carries(&format!("{what}: carry"), &last, &case["carry"]);
            assert_close(&format!("{what}: input"), &of_x, &tensor(&expected["x"]));
            let of_cells = expected["parameters"].as_array().unwrap();
            assert_eq!(of_layer.len(), 3 * of_cells.len(), "{what}");
            let names = ["recurrent", "input", "bias"];
            for (number, found) in of_layer.iter().enumerate() {
                let name = names[number % 3];
                let expected = tensor(&of_cells[number / 3][name]);
                assert_close(&format!("{what}: gradient of {name}"), found, &expected);
            }
            let initial = &expected["initial_carry"];
            let initial = if initial.is_null() {
                Vec::new()
            } else {
                carries(initial).concat()
            };
            assert_eq!(of_carries.len(), initial.len(), "{what}");
            for (found, expected) in of_carries.iter().zip(&initial) {
                assert_close(&format!("{what}: gradient of the carry"), found, expected);
            }
        }
    }
}

/// The outputs whose weight in the loss is not 0: the outputs at padding mean nothing.
fn zeroed(y: &Tensor, case: &Value) -> Tensor {
    let weights = tensor(&case["weights"]);
    match case["lengths"].is_null() {
        true => y.clone(),
        false => weights.not_equal(0.0).select(y, Tensor::zeros_like(y)),
    }
}
