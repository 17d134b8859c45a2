//! Computes once what several equations compute.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Replacements;
use crate::base::array::{Array, Data};
use crate::tensor::jaxpr::{Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// Constants with more elements are compared by where they are in memory.
const MOST_ELEMENTS: usize = 64;

/// What an equation computes: primitive and operands.
type Key = (Arc<dyn Primitive>, SmallVec<[Variable; 4]>);

/// Lets the first of several equations with the same primitive, parameters and operands stand for all of
/// them. Constants of the same bits are one, too. Effects are never merged.
pub(crate) fn common_subexpressions(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut replacements = Replacements::none(&jaxpr);
    let mut constants: HashMap<String, Variable> = HashMap::new();
    for (variable, tensor) in &jaxpr.constants {
        if let Some(array) = tensor.array() {
            match constants.entry(bits(array)) {
                Entry::Occupied(first) => replacements.replace(*variable, *first.get()),
                Entry::Vacant(place) => {
                    place.insert(*variable);
                }
            }
        }
    }
    let mut known: HashMap<Key, usize> = HashMap::new();
    for position in 0..jaxpr.equations.len() {
        replacements.in_inputs(&mut jaxpr.equations[position]);
        let equation = &jaxpr.equations[position];
        if equation.primitive.has_effect() {
            continue;
        }
        let key = (Arc::clone(&equation.primitive), equation.inputs.clone());
        match known.entry(key) {
            Entry::Occupied(first) => {
                let first = &jaxpr.equations[*first.get()];
                for (output, by) in equation.outputs.iter().zip(&first.outputs) {
                    replacements.replace(*output, *by);
                }
            }
            Entry::Vacant(place) => {
                place.insert(position);
            }
        }
    }
    replacements.in_outputs(&mut jaxpr);
    jaxpr
}

/// What small constants share exactly if they are the same, down to the signs of zeros and the bits of NaN.
fn bits(array: &Array) -> String {
    if array.info.len() > MOST_ELEMENTS {
        return format!("{:p}", std::ptr::from_ref(array));
    }
    let elements: Vec<u64> = match &array.data {
        Data::F32(elements) => elements.iter().map(|x| u64::from(x.to_bits())).collect(),
        Data::F64(elements) => elements.iter().map(|x| x.to_bits()).collect(),
        Data::I64(elements) => elements.iter().map(|x| x.cast_unsigned()).collect(),
        Data::I32(elements) => elements
            .iter()
            .map(|x| u64::from(x.cast_unsigned()))
            .collect(),
        Data::U32(elements) => elements.iter().map(|&x| u64::from(x)).collect(),
        Data::Bool(elements) => elements.iter().map(|&x| u64::from(x)).collect(),
    };
    format!("{} {elements:?}", array.info)
}
