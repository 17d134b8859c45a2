//! Lets kernels follow products and convolutions, both called products here: a kernel that adds a bias, applies an activation or updates a parameter runs on each part of a
//! product as soon as the part is computed, on the same thread.

use smallvec::SmallVec;

use super::kernel::followed;
use super::planner::Scheduled;
use crate::tensor::jaxpr::Jaxpr;

/// Joins each product with the first step that reads its result, if this step is a kernel that can follow the product. The kernel
/// moves to the place of the product, whose operands are in the caches there.
///
/// The product moves down instead, past the steps that read an input of the kernel. So the kernel may still write its results over
/// its inputs: the gradient of a layer's input needs the weights that an optimizer's update overwrites.
pub(super) fn join_products(jaxpr: &Jaxpr, mut scheduled: Vec<Scheduled>) -> Vec<Scheduled> {
    if !scheduled.iter().any(|step| product(jaxpr, step).is_some()) {
        return scheduled;
    }
    let mut uses = Uses::new(jaxpr, &scheduled);
    // For each step that stays a step of its own: after which step it runs, and whether it moved.
    let mut places: Vec<Option<(usize, bool)>> = (0..scheduled.len())
        .map(|place| Some((place, false)))
        .collect();
    for reader in 0..scheduled.len() {
        let Scheduled::Kernel(kernel) = &scheduled[reader] else {
            continue;
        };
        // All other inputs exist before the latest one.
        let latest = kernel
            .inputs
            .iter()
            .max_by_key(|input| uses.makers[input.index()]);
        let Some((output, maker)) =
            latest.and_then(|latest| Some((*latest, uses.makers[latest.index()]?)))
        else {
            continue;
        };
        let readers = &uses.readers[output.index()];
        let equation =
            product(jaxpr, &scheduled[maker]).filter(|_| readers.first() == Some(&reader));
        let Some(equation) = equation else {
            continue;
        };
        let overwritten = kernel.overwritten();
        let before = overwritten.filter_map(|input| {
            let readers = uses.readers[input.index()].iter().rev();
            readers.copied().find(|&other| other < reader)
        });
        let place = before.max().map_or(maker, |other| other.max(maker));
        let is_kept = readers.len() > 1 || uses.is_output[output.index()];
        if let Scheduled::Kernel(kernel) = &mut scheduled[reader]
            && kernel.follow(jaxpr, &jaxpr.equations[equation], is_kept)
        {
            // A step that reads the product must not move before this kernel.
            uses.makers[output.index()] = Some(reader);
            places[maker] = None;
            places[reader] = Some((place, true));
        }
    }
    let mut placed: Vec<((usize, bool), Scheduled)> = places
        .into_iter()
        .zip(scheduled)
        .filter_map(|(place, step)| Some((place?, step)))
        .collect();
    placed.sort_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, step)| step).collect()
}

/// The steps that compute and read each variable.
struct Uses {
    makers: Vec<Option<usize>>,
    /// In ascending order.
    readers: Vec<SmallVec<[usize; 2]>>,
    is_output: Vec<bool>,
}

impl Uses {
    fn new(jaxpr: &Jaxpr, scheduled: &[Scheduled]) -> Self {
        let variables = jaxpr.variables.len();
        let mut uses = Self {
            makers: vec![None; variables],
            readers: vec![SmallVec::new(); variables],
            is_output: vec![false; variables],
        };
        for output in &jaxpr.outputs {
            uses.is_output[output.index()] = true;
        }
        for (position, step) in scheduled.iter().enumerate() {
            for input in step.inputs(jaxpr) {
                uses.readers[input.index()].push(position);
            }
            for output in step.outputs(jaxpr) {
                uses.makers[output.index()] = Some(position);
            }
        }
        uses
    }
}

/// Returns the position of the equation of a step if it is a product.
fn product(jaxpr: &Jaxpr, step: &Scheduled) -> Option<usize> {
    let Scheduled::One(position) = *step else {
        return None;
    };
    followed(&*jaxpr.equations[position].primitive).map(|_| position)
}
