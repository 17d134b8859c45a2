//! Nodes and leaves changed by type.

use std::any::Any;

use pytree_core::{Pytree, Shared, Tree, Unflattener, Visitor, edit, module_object, tree};

use super::*;

#[module_object]
trait Layer {
    fn weight(&self) -> f32;
}
impl Layer for Linear {
    fn weight(&self) -> f32 {
        self.weight
    }
}

#[test]
fn apply_changes_all_nodes_of_type() {
    let changed = edit::apply(mlp(), |layer: &mut Linear| layer.bias = None);
    assert!(changed.layers.iter().all(|layer| layer.bias.is_none()));
    assert_eq!((changed.output.bias, changed.output.weight), (None, 3.0));
    let shorter = edit::apply(mlp(), |layers: &mut Vec<Linear>| layers.truncate(1));
    assert_eq!(shorter.layers, [linear(1.0)]);
}

#[test]
fn leaves_of_one_type_are_changed() {
    let changed = edit::apply((1.0_f32, 2_i32, vec![3.0_f32]), |leaf: &mut f32| {
        *leaf *= 10.0
    });
    assert_eq!(changed, (10.0, 2, vec![30.0]));
    let tree = edit::apply(tree!([1, { "a": 2.5_f32 }]), |leaf: &mut i32| *leaf = 7);
    assert_eq!(tree.to_string(), "[7, {'a': 2.5}]");
    let any = edit::apply(tree!([1, 2]), |leaf: &mut pytree_core::AnyLeaf| {
        *leaf = pytree_core::AnyLeaf::new("text");
    });
    assert_eq!(any.to_string(), "['text', 'text']");
}

#[test]
fn children_come_first_with_paths() {
    let mut met = Vec::new();
    let changed = edit::apply_with_path(
        vec![vec![1.0_f32], vec![2.0, 3.0]],
        |path, list: &mut Vec<f32>| {
            met.push(path.to_string());
            list.push(0.0);
        },
    );
    assert_eq!(met, ["[0]", "[1]"]);
    assert_eq!(changed, [vec![1.0, 0.0], vec![2.0, 3.0, 0.0]]);

    let mut met = Vec::new();
    let _ = edit::apply_any(mlp(), |path, node: &mut dyn Any| {
        let kind = if node.is::<Linear>() {
            "linear"
        } else if node.is::<f32>() {
            "leaf"
        } else if node.is::<Option<f32>>() {
            "option"
        } else {
            "other"
        };
        met.push(format!("{path}:{kind}"));
    });
    assert_eq!(
        met[..9],
        [
            "layers[0].weight:leaf",
            "layers[0].bias:leaf",
            "layers[0].bias:option",
            "layers[0]:linear",
            "layers[1].weight:leaf",
            "layers[1].bias:leaf",
            "layers[1].bias:option",
            "layers[1]:linear",
            "layers:other",
        ]
    );
    assert_eq!(met.last().unwrap(), ":other");
}

#[test]
fn dynamic_leaves_are_visited_as_their_types() {
    let changed = edit::apply_any((tree!([1, "a"]), 2_i32), |path, leaf| {
        if let Some(number) = leaf.downcast_mut::<i32>() {
            *number += path.keys().len() as i32;
        }
    });
    assert_eq!((changed.0.to_string().as_str(), changed.1), ("[3, 'a']", 3));
}

#[test]
fn shared_node_is_changed_once() {
    let mut met = Vec::new();
    let changed = edit::apply_with_path(tied(), |path, layer: &mut Linear| {
        met.push(path.to_string());
        layer.weight += 10.0;
    });
    assert_eq!(met, ["embed", "inner[0]"]);
    assert!(changed.embed.same(&changed.inner[1]));
    assert_eq!(
        (changed.embed.weight, changed.inner[0].weight),
        (11.0, 12.0)
    );

    // The handle itself is a node, too, and changing it changes all its places.
    let replaced = edit::apply(tied(), |shared: &mut Shared<Linear>| {
        *shared = Shared::new(linear(shared.weight + 20.0));
    });
    assert!(replaced.embed.same(&replaced.inner[1]));
    assert_eq!(
        (replaced.inner[1].weight, replaced.inner[0].weight),
        (21.0, 22.0)
    );
}

#[test]
fn node_after_shared_node_has_own_path() {
    #[derive(Module, Debug)]
    struct Last {
        first: Linear,
        shared: Shared<Linear>,
    }
    let model = vec![Last {
        first: linear(1.0),
        shared: Shared::new(linear(2.0)),
    }];
    assert_eq!(texts(&edit::paths_of::<Last>(&model)), ["[0]"]);
    assert_eq!(
        texts(&edit::paths_of::<Linear>(&model)),
        ["[0].first", "[0].shared"]
    );
    assert_eq!(
        texts(&edit::paths_of::<Shared<Linear>>(&model)),
        ["[0].shared"]
    );
    let marked = vec![(1.0_f32, std::marker::PhantomData::<u8>)];
    assert_eq!(
        texts(&edit::paths_of::<(f32, std::marker::PhantomData<u8>)>(
            &marked
        )),
        ["[0]"]
    );
    assert_eq!(
        texts(&edit::paths_of::<std::marker::PhantomData<u8>>(&marked)),
        ["[0][1]"]
    );
}

#[test]
fn trait_object_is_visited_twice() {
    let model: Vec<Box<dyn Layer>> = vec![Box::new(linear(1.0)), Box::new(linear(2.0))];
    let model = edit::apply(model, |layer: &mut Linear| layer.weight *= 10.0);
    assert_eq!(model[1].weight(), 20.0);
    let model = edit::apply(model, |layer: &mut Box<dyn Layer>| {
        *layer = Box::new(linear(layer.weight() + 1.0));
    });
    assert_eq!(model[0].weight(), 11.0);
    let other: Vec<Box<dyn Layer>> =
        edit::replace_at(&model, "[0]", Box::new(linear(5.0)) as Box<dyn Layer>).unwrap();
    assert_eq!((other[0].weight(), other[1].weight()), (5.0, 21.0));
    assert_eq!(texts(&edit::paths_of::<Linear>(&model)), ["[0]", "[1]"]);
}

#[test]
fn paths_of_type_are_in_preorder() {
    assert_eq!(
        texts(&edit::paths_of::<Linear>(&mlp())),
        ["layers[0]", "layers[1]", "output"]
    );
    assert_eq!(texts(&edit::paths_of::<Mlp>(&mlp())), [""]);
    assert_eq!(
        texts(&edit::paths_of::<f32>(&mlp()))[..2],
        ["layers[0].weight", "layers[0].bias"]
    );
    assert_eq!(
        texts(&edit::paths_of::<i32>(&tree!([1, ("a", 2)]))),
        ["[0]", "[1][1]"]
    );
    assert!(edit::paths_of::<String>(&mlp()).is_empty());
    type Nested = Vec<Vec<f32>>;
    let nested: Vec<Nested> = vec![vec![vec![]]];
    assert_eq!(texts(&edit::paths_of::<Nested>(&nested)), ["[0]"]);
    let deep = (0..1000).fold(Tree::leaf(1_i32), |tree, _| Tree::list(vec![tree]));
    assert_eq!(texts(&edit::paths_of::<i32>(&deep)), ["[0]".repeat(1000)]);
}

/// A handwritten impl whose `visit` and `unflatten` disagree.
#[derive(Debug)]
struct Broken;
impl Pytree for Broken {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(&pytree_core::shape::LIST, 1);
        visitor.leaf(&1.0_f32);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, pytree_core::TreeError> {
        source.leaf::<f32>().map(|_| Self)
    }
}

#[test]
#[should_panic(
    expected = "make `visit` and `unflatten` in the impl of `Pytree` use the same nodes, static values and leaves in the same order"
)]
fn disagreeing_pytree_impl_panics() {
    let _ = edit::apply(Broken, |_: &mut f32| ());
}

/// Made a pytree by hand, without telling that it is built.
#[derive(Clone, Debug, PartialEq)]
struct Silent(Linear);
impl Silent {
    const SHAPE: &'static pytree_core::shape::NodeShape =
        &pytree_core::shape::NodeShape::of_struct::<Self>(
            "Silent",
            &[pytree_core::shape::Field::plain("inner")],
            &[],
        );
}
impl Pytree for Silent {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 1);
        self.0.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, pytree_core::TreeError> {
        source.enter_fixed(Self::SHAPE, 1)?;
        Linear::unflatten(source).map(Self)
    }
}

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Holder {
    first: Silent,
    second: Silent,
}

#[test]
fn node_without_exit_keeps_surrounding_places() {
    let holder = Holder {
        first: Silent(linear(1.0)),
        second: Silent(linear(2.0)),
    };
    let mut met = Vec::new();
    let changed = edit::apply_with_path(holder.clone(), |path, holder: &mut Holder| {
        met.push(path.or_root());
        holder.first.0.weight = 5.0;
    });
    assert_eq!(met, ["the root"]);
    assert_eq!(
        (changed.first.0.weight, &changed.second),
        (5.0, &holder.second)
    );
    let mut met = Vec::new();
    let _ = edit::apply_with_path(holder, |path, _: &mut Linear| met.push(path.to_string()));
    assert_eq!(met, ["first.inner", "second.inner"]);
}
