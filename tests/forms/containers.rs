//! Containers of modules need no attribute; containers of leaves have one.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use ndarray::{Array1, ArrayD};
use pytree_core::{Module, ModuleType, Partition, Shared, Tree};

#[derive(Module, Clone)]
struct Linear {
    #[param]
    weight: Array1<f32>,
}

type Matrices = Vec<ArrayD<f64>>;

#[derive(Module)]
struct Modules {
    pair: (Linear, Box<Linear>),
    array: [Linear; 2],
    optional: Option<Vec<Linear>>,
    hashed: HashMap<String, Linear>,
    sorted: BTreeMap<String, Linear>,
    tied: Shared<Linear>,
    nothing: (),
    marker: PhantomData<fn() -> Modules>,
}

#[derive(Module)]
struct Leaves {
    #[param]
    matrices: Matrices,
    #[param]
    sorted: BTreeMap<&'static str, (f32, Vec<f64>)>,
    #[param]
    tied: Shared<Array1<f32>>,
    #[state]
    counts: [Option<Array1<i32>>; 2],
    #[state]
    moments: Partition<Linear>,
    #[state]
    anything: Tree,
    #[r#static]
    functions: Vec<fn(&Array1<f32>) -> Array1<f32>>,
    #[r#static]
    sizes: HashMap<String, (usize, Option<f32>)>,
}

#[test]
fn containers_are_what_they_hold() {
    assert_eq!(Modules::REGISTRY.len(), 8);
    assert_eq!(Leaves::REGISTRY.len(), 8);
}
