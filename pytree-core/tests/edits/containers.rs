//! The containers that came last: queues and reference-counted nodes.

use std::collections::VecDeque;
use std::sync::Arc;

use ndarray::array;
use pytree_core::{Partition, Pytree, PytreeOf, SelectPart, Tree, graph, tree};

use super::*;

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Window {
    recent: VecDeque<Linear>,
    encoder: Arc<Linear>,
    seen: VecDeque<ndarray::Array1<f32>>,
    scale: Arc<f32>,
}

fn window() -> Window {
    let mut recent = VecDeque::from([linear(2.0)]);
    recent.push_front(linear(1.0));
    Window {
        recent,
        encoder: Arc::new(linear(3.0)),
        seen: VecDeque::from([array![1.0, 2.0]]),
        scale: Arc::new(4.0),
    }
}

fn rebuilt<T: Pytree>(value: &T) -> T {
    let (leaves, treedef) = graph::flatten_any(value);
    graph::unflatten(&treedef, leaves).unwrap()
}

#[test]
fn containers_are_flattened_and_unflattened() {
    assert_eq!(rebuilt(&window()), window());
    assert_eq!(
        tree::structure(&window()).to_string(),
        "PyTreeDef(Window { recent: [Linear { weight: *, bias: * }, Linear { weight: *, bias: * }], encoder: Linear { weight: *, bias: * }, seen: [*], scale: * })"
    );
    assert_eq!(
        texts(&tree::structure(&window()).leaf_paths())[4..],
        ["encoder.weight", "encoder.bias", "seen[0]", "scale"]
    );
}

#[test]
fn queue_has_structure_of_list() {
    let queue = window().recent;
    assert_eq!(
        tree::structure(&queue),
        tree::structure(&vec![linear(1.0), linear(2.0)])
    );
    assert_eq!(tree::leaves::<f32, _>(&queue), [&1.0, &1.5, &2.0, &2.5]);
    let doubled = tree::map(&queue, |leaf: &f32| leaf * 2.0);
    assert_eq!(doubled[1].weight, 4.0);
    let (leaves, _) = tree::flatten_any(&1.0_f32);
    assert!(tree::unflatten::<VecDeque<f32>, _>(&tree::structure(&1.0_f32), leaves).is_err());
}

#[test]
fn arc_is_visited_at_each_path() {
    let node = Arc::new(linear(1.0));
    let twice = (node.clone(), node);
    assert_eq!(graph::leaves::<f32, _>(&twice).len(), 4);
    let back = rebuilt(&twice);
    assert!(!Arc::ptr_eq(&back.0, &back.1));
    assert_eq!(*back.0, *twice.0);
    let doubled = tree::map(&twice, |leaf: &f32| leaf * 2.0);
    assert_eq!(doubled.1.weight, 2.0);
}

#[test]
fn parts_of_queues_and_arcs_are_partitions() {
    fn part<T: SelectPart<f32>>(value: &T) -> T::Part {
        T::select_part(Tree::from_value(value)).unwrap()
    }
    let of_queue: Partition<VecDeque<f32>, f32> = part(&VecDeque::from([1.0_f32, 2.0]));
    assert_eq!(of_queue["[1]"], 2.0);
    let of_arc: Partition<Vec<f32>, f32> = part(&Arc::new(vec![1.0_f32]));
    assert_eq!(of_arc["[0]"], 1.0);
}

#[test]
fn container_walks_agree_with_visit() {
    fn walked<T: PytreeOf<f32>>(value: &T) -> Vec<f32> {
        let mut leaves = Vec::new();
        value.each_leaf(&mut |leaf: &f32| leaves.push(*leaf));
        leaves
    }
    let value = (VecDeque::from([1.0_f32, 2.0]), Arc::new(vec![3.0_f32]));
    assert_eq!(walked(&value), [1.0, 2.0, 3.0]);
    let doubled = value.map_leaves(&mut |leaf: &f32| leaf * 2.0);
    assert_eq!(walked(&doubled), [2.0, 4.0, 6.0]);
}
