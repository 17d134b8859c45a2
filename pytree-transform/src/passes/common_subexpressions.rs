//! Merges equations that compute the same results.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::{Bits, with_bits};
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::replacements::Replacements;
use crate::tensor::jaxpr::{Equation, Jaxpr};

/// The maximum number of elements of a constant that is compared by value. Larger constants are compared by address.
const MOST_ELEMENTS: usize = 64;

/// Merges equations with the same primitive, parameters and operands: the results of the first equation replace the
/// results of the others. Constants with the same bits are also merged. Equations with effects and collectives are never
/// merged.
///
/// The hash tables have their full capacity from the start, because growing a table would hash all entries again.
pub(crate) fn common_subexpressions(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut replacements = Replacements::none(&jaxpr);
    merge_constants(&jaxpr, &mut replacements);
    merge_equations(&mut jaxpr, &mut replacements);
    replacements.in_outputs(&mut jaxpr);
    jaxpr
}

/// Merges equal constants. A table holds, for each value, the position of the first constant with this value.
fn merge_constants(jaxpr: &Jaxpr, replacements: &mut Replacements) {
    let mut first: HashTable<usize> = HashTable::with_capacity(jaxpr.constants.len());
    let hasher = DefaultHashBuilder::default();
    let constant = |position: usize| jaxpr.constants[position].1.array().map(Constant::of);
    let hash = |&position: &usize| hasher.hash_one(constant(position));
    for (position, (variable, _)) in jaxpr.constants.iter().enumerate() {
        let of_this = constant(position);
        let is_same = |&known: &usize| of_this.is_some() && constant(known) == of_this;
        match first.entry(hash(&position), is_same, hash) {
            Entry::Occupied(known) => {
                replacements.replace(*variable, jaxpr.constants[*known.get()].0);
            }
            Entry::Vacant(place) => {
                place.insert(position);
            }
        }
    }
}

/// Merges equal equations. A table holds, for each group of equal equations, the position of the first equation.
fn merge_equations(jaxpr: &mut Jaxpr, replacements: &mut Replacements) {
    let mut first: HashTable<usize> = HashTable::with_capacity(jaxpr.equations.len());
    let hasher = DefaultHashBuilder::default();
    let hash = |equation: &Equation| hasher.hash_one((&equation.primitive, &equation.inputs));
    for position in 0..jaxpr.equations.len() {
        replacements.in_inputs(&mut jaxpr.equations[position]);
        let equation = &jaxpr.equations[position];
        // Processes may hold different constants. If equal operands of collectives were merged, a process with equal
        // constants would communicate less often than the others.
        if equation.primitive.has_effect() || !equation.primitive.axis_names().is_empty() {
            continue;
        }
        let is_same = |&known: &usize| {
            let known = &jaxpr.equations[known];
            known.inputs == equation.inputs && *known.primitive == *equation.primitive
        };
        match first.entry(hash(equation), is_same, |&known| {
            hash(&jaxpr.equations[known])
        }) {
            Entry::Occupied(known) => {
                let known = &jaxpr.equations[*known.get()];
                for (output, by) in equation.outputs.iter().zip(&known.outputs) {
                    replacements.replace(*output, *by);
                }
            }
            Entry::Vacant(place) => {
                place.insert(position);
            }
        }
    }
}

/// The key of a constant. Two keys are equal only if the constants are the same bit for bit, including the signs of
/// zeros and the bits of NaN.
#[derive(PartialEq, Eq, Hash)]
enum Constant<'j> {
    /// A constant of few elements, by its dtype, shape and bits.
    Bits(&'j AbstractArray, SmallVec<[u64; 4]>),
    /// A constant of many elements, by its address.
    Address(*const Array),
}

impl<'j> Constant<'j> {
    fn of(array: &'j Arc<Array>) -> Self {
        if array.info.len() > MOST_ELEMENTS {
            return Self::Address(Arc::as_ptr(array));
        }
        let bits = with_bits!(array.dtype(), T => array.bits::<T>().iter().map(|&bits| bits.to_u64()).collect());
        Self::Bits(&array.info, bits)
    }
}
