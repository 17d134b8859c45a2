//! Graphs: shared nodes, references and weak edges, to which aliases refer by index.

use pytree::core::boundary;
use pytree::core::refs;
use pytree::prelude::*;
use pytree::{Dictionary, WeakShared, nodes};
use pytree::{TreeDef, edit};

use crate::measure::measure;

/// Each node at two places.
type Tied = (Vec<Shared<f32>>, Vec<Shared<f32>>);

fn tied(size: usize) -> Tied {
    let nodes: Vec<_> = (0..size / 2)
        .map(|number| Shared::new(number as f32))
        .collect();
    (nodes.clone(), nodes)
}

/// Each node beside the one before.
fn linked(size: usize) -> Vec<(Shared<f32>, Shared<f32>)> {
    let nodes: Vec<_> = (0..size / 2)
        .map(|number| Shared::new(number as f32))
        .collect();
    let before = nodes.iter().cycle().skip(size / 2 - 1);
    nodes.iter().cloned().zip(before.cloned()).collect()
}

fn references(size: usize) -> Vec<Ref<f32>> {
    (0..size).map(|number| Ref::param(number as f32)).collect()
}

/// Each node with a weak edge to the first.
fn weak(size: usize) -> (Shared<f32>, Vec<WeakShared<f32>>) {
    let node = Shared::new(1.0);
    let edges = (0..size).map(|_| node.downgrade()).collect();
    (node, edges)
}

#[test]
fn graphs_are_linear_in_nodes() {
    measure(|sheet| {
        sheet.add("shared: flatten", tied, |tied| {
            graph::flatten::<f32, _>(tied)
        });
        sheet.add("shared: as a tree", tied, |tied| {
            tree::flatten::<f32, _>(tied)
        });
        sheet.add("shared: copy", tied, |tied| nodes::copy(tied));
        sheet.add(
            "shared: display",
            |size| graph::structure(&tied(size)),
            |treedef| treedef.to_string(),
        );
        sheet.add(
            "shared: display of the value",
            |size| Dictionary::flatten(&tied(size)),
            |tied| (tied.entries().len(), format!("{tied:?}").len()),
        );
        sheet.add("shared: places", tied, |tied| {
            nodes::find_duplicates(tied).to_string()
        });
        sheet.add(
            "shared: bytes",
            |size| graph::structure(&tied(size)),
            |treedef| {
                (
                    TreeDef::from_bytes(&treedef.to_bytes()).unwrap(),
                    treedef.content_hash(),
                )
            },
        );
        sheet.add(
            "shared: a later place",
            |size| Dictionary::flatten(&tied(size)),
            |dictionary| {
                dictionary.get("[1][3]").unwrap();
            },
        );
        sheet.add("shared: children", linked, |linked| {
            graph::structure(linked).children()
        });
        sheet.add("shared: subtrees", linked, |linked| {
            let (leaves, treedef) = graph::flatten::<f32, _>(linked);
            let tree = Tree::new(treedef, leaves).unwrap();
            tree.flatten_one_level().unwrap()
        });
        sheet.add(
            "shared: pop",
            |size| tied(size).0,
            |nodes| {
                let mut again = (nodes.clone(), nodes.clone());
                partition::pop::<_, f32>(&mut again, &Filter::everything()).unwrap()
            },
        );
        sheet.add("shared: split and merge", tied, |tied| {
            let filters = [Filter::path("[0][0]"), Filter::everything()];
            partition::merge::<_, f32>(partition::split(tied, filters).unwrap()).unwrap()
        });
        sheet.add("shared: edits", tied, |tied| {
            edit::apply(tied.clone(), |leaf: &mut f32| *leaf += 1.0)
        });
        sheet.add("shared: replacement", tied, |tied| {
            edit::replace_at(tied, "[1][7]", Shared::new(2.0_f32)).unwrap()
        });
        sheet.add("weak edges: flatten and build", weak, |weak| {
            nodes::copy(weak)
        });
        sheet.add(
            "weak edges: display",
            |size| graph::structure(&weak(size)),
            |treedef| treedef.to_string(),
        );
    });
}

#[test]
fn references_are_linear() {
    measure(|sheet| {
        sheet.add("references: flatten", references, |all| {
            graph::flatten::<f32, _>(all)
        });
        sheet.add("references: copy", references, |all| nodes::copy(all));
        sheet.add("references: flattened and unflattened", references, |all| {
            let (leaves, treedef, _) = boundary::flatten_with_references::<f32, _>(all);
            boundary::unflatten_with_new_references::<f32, Vec<Ref<f32>>>(&treedef, leaves).unwrap()
        });
        sheet.add(
            "references: their places",
            |size| graph::structure(&references(size)),
            |treedef| treedef.references(),
        );
        sheet.add("references: values", references, |all| {
            refs::deref::<f32, _>(all)
        });
        sheet.add("references: updated", references, |all| {
            let part = partition::filter::<_, f32>(all, &Filter::everything());
            refs::update_refs(all, &part).unwrap();
            refs::of(all).update_from::<f32>(all).unwrap();
        });
        sheet.add("references: display", references, |all| format!("{all:?}"));
        sheet.add(
            "references: leaves outside of them",
            |size| (references(size), 1.0_f32),
            |all| {
                let part = partition::filter::<_, f32>(all, &Filter::everything());
                refs::update_refs(all, &part).unwrap_err()
            },
        );
        let tensors = |size: usize| -> Vec<Ref<Tensor>> {
            (0..size)
                .map(|number| Ref::new(Tensor::from(number as f32)))
                .collect()
        };
        sheet.add(
            "references: written under jit, first call",
            tensors,
            |all| {
                let step = jit(|all: Vec<Ref<Tensor>>| {
                    all.iter().for_each(|cell| cell.set(cell.get() + 1.0));
                });
                step(all.clone());
            },
        );
        sheet.add(
            "references: written under jit, later calls",
            |size| {
                let step = jit(|all: Vec<Ref<Tensor>>| {
                    all.iter().for_each(|cell| cell.set(cell.get() + 1.0));
                });
                let all = tensors(size);
                step(all.clone());
                (step, all)
            },
            |(step, all)| step(all.clone()),
        );
        sheet.add(
            "references: under vmap",
            |size| {
                vec![Ref::new(Tensor::from([1.0_f32, 2.0])); 1]
                    .into_iter()
                    .chain((1..size).map(|_| Ref::new(Tensor::from([1.0_f32, 2.0]))))
                    .collect::<Vec<_>>()
            },
            |all| {
                let step = vmap(|all: Vec<Ref<Tensor>>| {
                    all.iter().for_each(|cell| cell.set(cell.get() + 1.0));
                });
                step(all.clone());
            },
        );
    });
}
