//! The names of a collection and its ancestors are short enough to be held by a kind.

use pytree_core::kind::{BatchStat, Param};
use pytree_core::{Collection, Module};

#[derive(Collection)]
#[collection(parent = BatchStat)]
struct ExponentialMovingAverageOfAllBatches;

#[derive(Collection)]
#[collection(parent = Param)]
struct ParametersOfAdaptersThatHaveForty1Bytes;

#[derive(Collection)]
#[collection(parent = BatchStat)]
struct ExponentialMovingAverageOfEveryBatch2;

#[derive(Module)]
struct Model {
    #[state(ExponentialMovingAverageOfAllBatches)]
    fits: f32,
    #[state(ExponentialMovingAverageOfEveryBatch2)]
    does_not: f32,
}

fn main() {}
