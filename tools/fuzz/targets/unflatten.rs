//! Treedefs from bytes, unflattened into trees and typed values.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pytree::TreeDef;
use pytree::prelude::*;

fuzz_target!(|bytes: &[u8]| {
    let Ok(treedef) = TreeDef::from_bytes(bytes) else {
        return;
    };
    let leaves: Vec<i32> = (0..).take(treedef.num_leaves()).collect();
    if let Ok(tree) = graph::unflatten::<Tree<i32>, _>(&treedef, leaves.clone()) {
        assert_eq!(tree.leaves().len(), leaves.len());
        let _ = tree.to_string();
        for path in tree.treedef().leaf_paths() {
            assert!(tree.get(&path).is_ok(), "no leaf at {path}");
        }
    }
    let _ = graph::unflatten::<Vec<(i32, Option<i32>)>, _>(&treedef, leaves.clone());
    let _ = graph::unflatten::<BTreeMap<String, i32>, _>(&treedef, leaves.clone());
    let _ = graph::unflatten::<Shared<Vec<Ref<i32>>>, _>(&treedef, leaves);
    let tensors: Vec<Tensor> = vec![Tensor::from(1.0_f32); treedef.num_leaves()];
    let _ = graph::unflatten::<Mlp, _>(&treedef, tensors);
});
