//! Lets kernels follow products: a kernel that adds a bias, applies an activation or updates a parameter runs on each part of a
//! product as soon as the part is computed, on the same thread.

use std::any::Any;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::schedule::Scheduled;
use crate::primitives::dot::DotGeneral;
use crate::tensor::jaxpr::{Jaxpr, Variable};

/// The positions of the steps that read a product, in ascending order.
type Readers = SmallVec<[usize; 2]>;

/// Joins each product with the first step that reads its result, if this step is a kernel that can follow the product. The kernel
/// moves to the place of the product, whose operands are in the caches there.
pub(super) fn join_products(jaxpr: &Jaxpr, mut scheduled: Vec<Scheduled>) -> Vec<Scheduled> {
    // For each variable, the step that computes it.
    let mut makers: Vec<Option<usize>> = vec![None; jaxpr.variables.len()];
    let mut products: HashMap<Variable, (usize, Readers)> = HashMap::new();
    for (position, step) in scheduled.iter().enumerate() {
        for input in step.inputs(jaxpr) {
            if let Some((_, readers)) = products.get_mut(input) {
                readers.push(position);
            }
        }
        for output in step.outputs(jaxpr) {
            makers[output.index()] = Some(position);
        }
        if let Scheduled::One(equation) = *step
            && product(jaxpr, equation).is_some()
        {
            let output = jaxpr.equations[equation].outputs[0];
            products.insert(output, (equation, Readers::new()));
        }
    }
    // For each step that stays a step of its own, its new place.
    let mut places: Vec<Option<usize>> = (0..scheduled.len()).map(Some).collect();
    for (reader, step) in scheduled.iter_mut().enumerate() {
        let Scheduled::Kernel(kernel) = step else {
            continue;
        };
        // All other inputs exist before the latest one.
        let latest = kernel
            .inputs
            .iter()
            .max_by_key(|input| makers[input.index()]);
        let found = latest.and_then(|latest| Some((*latest, products.get(latest)?)));
        let Some((output, (equation, readers))) = found else {
            continue;
        };
        let equation = &jaxpr.equations[*equation];
        let is_kept = readers.len() > 1 || jaxpr.outputs.contains(&output);
        if readers.first() == Some(&reader) && kernel.follow(jaxpr, equation, is_kept) {
            let place = makers[output.index()];
            places[reader] = place;
            if let Some(place) = place {
                places[place] = None;
            }
        }
    }
    let mut placed: Vec<(usize, Scheduled)> = places
        .into_iter()
        .zip(scheduled)
        .filter_map(|(place, step)| Some((place?, step)))
        .collect();
    placed.sort_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, step)| step).collect()
}

/// Returns the primitive of an equation if it is a product.
fn product(jaxpr: &Jaxpr, equation: usize) -> Option<&DotGeneral> {
    let primitive: &dyn Any = &*jaxpr.equations[equation].primitive;
    primitive.downcast_ref::<DotGeneral>()
}
