//! Laws of graphs: shared nodes, references and weak edges at random places, with cycles.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use pytree::checkpoint;
use pytree::core::boundary::{
    copy, flatten_as, flatten_with_references, unflatten_changed, unflatten_with_references,
};
use pytree::core::{Contents, NodeIdentity};
use pytree::{
    Filter, Pytree, Ref, Shared, Tensor, TreeDef, WeakRef, WeakShared, graph, jit, partition, refs,
    tree,
};

use crate::laws::cases;

/// A node of a graph: its edges are strong ones to nodes, references which lead on, and weak ones to both.
#[derive(Pytree, Clone, Debug)]
struct Node {
    number: Tensor,
    nodes: Vec<Shared<Node>>,
    #[pytree(recursive)]
    cells: Vec<Ref<Cell>>,
    weak_nodes: Vec<WeakShared<Node>>,
    #[pytree(recursive)]
    weak_cells: Vec<WeakRef<Cell>>,
}

/// What a reference holds, nodes among it: so there are cycles.
#[derive(Pytree, Clone, Debug)]
struct Cell {
    number: Tensor,
    #[pytree(recursive)]
    nodes: Vec<Shared<Node>>,
    cells: Vec<Ref<Cell>>,
}

/// The edges of a node or of what a reference holds.
#[derive(Clone, Debug)]
struct Edges {
    nodes: Vec<usize>,
    cells: Vec<usize>,
    weak_nodes: Vec<usize>,
    weak_cells: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Pattern {
    nodes: Vec<Edges>,
    cells: Vec<Edges>,
    roots: Vec<usize>,
}

/// The nodes, kept alive, and the graph that is looked at.
struct Graph {
    all: Vec<Shared<Node>>,
    cells: Vec<Ref<Cell>>,
    roots: Vec<Shared<Node>>,
}

impl Pattern {
    /// A node leads on to nodes made before it only; references lead anywhere.
    fn build(&self) -> Graph {
        let cells: Vec<Ref<Cell>> = (0..self.cells.len())
            .map(|number| {
                let cell = Cell {
                    number: Tensor::from(-(number as f64) - 1.0),
                    nodes: Vec::new(),
                    cells: Vec::new(),
                };
                if number % 3 == 0 {
                    Ref::param(cell)
                } else {
                    Ref::new(cell)
                }
            })
            .collect();
        let mut nodes: Vec<Shared<Node>> = Vec::new();
        for (number, edges) in self.nodes.iter().enumerate() {
            let before = |&at: &usize| (number > 0).then(|| nodes[at % number].clone());
            let node = Shared::new_cyclic(|itself: &WeakShared<Node>| Node {
                number: Tensor::from(number as f64),
                nodes: edges.nodes.iter().filter_map(before).collect(),
                cells: edges
                    .cells
                    .iter()
                    .map(|&at| cells[at % cells.len()].clone())
                    .collect(),
                weak_nodes: edges
                    .weak_nodes
                    .iter()
                    .map(|&at| match at % (number + 1) {
                        own if own == number => itself.clone(),
                        other => nodes[other].downgrade(),
                    })
                    .collect(),
                weak_cells: edges
                    .weak_cells
                    .iter()
                    .map(|&at| cells[at % cells.len()].downgrade())
                    .collect(),
            });
            nodes.push(node);
        }
        for (cell, edges) in cells.iter().zip(&self.cells) {
            cell.update(|cell| Cell {
                nodes: edges
                    .nodes
                    .iter()
                    .map(|&at| nodes[at % nodes.len()].clone())
                    .collect(),
                cells: edges
                    .cells
                    .iter()
                    .map(|&at| cells[at % cells.len()].clone())
                    .collect(),
                ..cell
            });
        }
        let roots = self
            .roots
            .iter()
            .map(|&at| nodes[at % nodes.len()].clone())
            .collect();
        Graph {
            all: nodes,
            cells,
            roots,
        }
    }
}

impl Drop for Graph {
    /// Breaks cycles of references, which would otherwise never be freed.
    fn drop(&mut self) {
        for cell in &self.cells {
            cell.update(|cell| Cell {
                nodes: Vec::new(),
                cells: Vec::new(),
                ..cell
            });
        }
        self.all.clear();
    }
}

fn edges() -> impl Strategy<Value = Edges> {
    (
        vec(0..20_usize, 0..3),
        vec(0..20_usize, 0..3),
        vec(0..20_usize, 0..3),
        vec(0..20_usize, 0..3),
    )
        .prop_map(|(nodes, cells, weak_nodes, weak_cells)| Edges {
            nodes,
            cells,
            weak_nodes,
            weak_cells,
        })
}

fn patterns() -> impl Strategy<Value = Pattern> {
    (
        vec(edges(), 1..8),
        vec(edges(), 1..5),
        vec(0..8_usize, 1..4),
    )
        .prop_map(|(nodes, cells, roots)| Pattern {
            nodes,
            cells,
            roots,
        })
}

/// A graph as text: each node and reference by the number in which a walk meets it. WeakShared edges to what no strong one
/// leads to lead to nothing.
fn drawn(roots: &[Shared<Node>]) -> String {
    enum Item {
        Node(Shared<Node>),
        Cell(Ref<Cell>),
    }
    let mut numbers: HashMap<NodeIdentity, usize> = HashMap::new();
    let mut items = Vec::new();
    let mut open: Vec<Item> = roots
        .iter()
        .rev()
        .map(|node| Item::Node(node.clone()))
        .collect();
    while let Some(item) = open.pop() {
        let identity = match &item {
            Item::Node(node) => node.identity(),
            Item::Cell(cell) => cell.identity(),
        };
        let next = numbers.len();
        if *numbers.entry(identity).or_insert(next) < next {
            continue;
        }
        let mut below = Vec::new();
        match &item {
            Item::Node(node) => {
                below.extend(node.nodes.iter().cloned().map(Item::Node));
                below.extend(node.cells.iter().cloned().map(Item::Cell));
            }
            Item::Cell(cell) => {
                let content = cell.get();
                below.extend(content.nodes.iter().cloned().map(Item::Node));
                below.extend(content.cells.iter().cloned().map(Item::Cell));
            }
        }
        open.extend(below.into_iter().rev());
        items.push(item);
    }
    let number = |identity: Option<NodeIdentity>| {
        identity.and_then(|identity| numbers.get(&identity).copied())
    };
    let of_nodes = |nodes: &[Shared<Node>]| {
        nodes
            .iter()
            .map(|node| number(Some(node.identity())))
            .collect::<Vec<_>>()
    };
    let of_cells = |cells: &[Ref<Cell>]| {
        cells
            .iter()
            .map(|cell| number(Some(cell.identity())))
            .collect::<Vec<_>>()
    };
    let lines = items.iter().map(|item| match item {
        Item::Node(node) => {
            let weak: Vec<_> = node
                .weak_nodes
                .iter()
                .map(|weak| number(weak.upgrade().map(|node| node.identity())))
                .collect();
            let weak_cells: Vec<_> = node
                .weak_cells
                .iter()
                .map(|weak| number(weak.upgrade().map(|cell| cell.identity())))
                .collect();
            format!(
                "node {} {:?} {:?} {weak:?} {weak_cells:?}",
                node.number.item::<f64>(),
                of_nodes(&node.nodes),
                of_cells(&node.cells)
            )
        }
        Item::Cell(cell) => {
            let content = cell.get();
            format!(
                "cell {} {:?} {:?} {:?}",
                content.number.item::<f64>(),
                cell.kind(),
                of_nodes(&content.nodes),
                of_cells(&content.cells)
            )
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Takes the references of a graph apart that nothing else does.
fn release(roots: &[Shared<Node>]) {
    let mut open: Vec<Shared<Node>> = roots.to_vec();
    let mut seen: Vec<NodeIdentity> = Vec::new();
    while let Some(node) = open.pop() {
        if seen.contains(&node.identity()) {
            continue;
        }
        seen.push(node.identity());
        open.extend(node.nodes.iter().cloned());
        let mut cells = node.cells.clone();
        while let Some(cell) = cells.pop() {
            let content = cell.get();
            open.extend(content.nodes.iter().cloned());
            cells.extend(content.cells.iter().cloned());
            cell.set(Cell {
                nodes: Vec::new(),
                cells: Vec::new(),
                ..content
            });
        }
    }
}

type Roots = Vec<Shared<Node>>;

/// All nodes that strong edges lead to.
fn reachable(roots: &[Shared<Node>]) -> Vec<Shared<Node>> {
    let mut open = roots.to_vec();
    let (mut nodes, mut seen): (Vec<Shared<Node>>, Vec<NodeIdentity>) = (Vec::new(), Vec::new());
    while let Some(node) = open.pop() {
        if seen.contains(&node.identity()) {
            continue;
        }
        seen.push(node.identity());
        open.extend(node.nodes.iter().cloned());
        let mut cells = node.cells.clone();
        while let Some(cell) = cells.pop() {
            if !seen.contains(&cell.identity()) {
                seen.push(cell.identity());
                open.extend(cell.get().nodes);
                cells.extend(cell.get().cells);
            }
        }
        nodes.push(node);
    }
    nodes
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn graph_round_trips(pattern in patterns()) {
        let graph = pattern.build();
        let (leaves, treedef) = graph::flatten::<Tensor, _>(&graph.roots);
        let back: Roots = graph::unflatten(&treedef, leaves).unwrap();
        prop_assert_eq!(drawn(&back), drawn(&graph.roots));
        prop_assert_eq!(graph::structure(&back), treedef.clone());
        prop_assert!(flatten_as::<Tensor, _>(&back, &treedef, |_| true).is_some());
        let read = TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
        prop_assert_eq!(&read, &treedef);
        prop_assert_eq!(read.content_hash(), treedef.content_hash());
        let (leaves, _) = graph::flatten::<Tensor, _>(&graph.roots);
        let again: Roots = graph::unflatten(&read, leaves).unwrap();
        prop_assert_eq!(drawn(&again), drawn(&graph.roots));
        release(&again);
        release(&back);
    }

    #[test]
    fn merging_what_was_split_is_the_identity(pattern in patterns(), name in prop::sample::select(vec!["number", "nodes", "cells", "[0]", "[1]"])) {
        let graph = pattern.build();
        let filters = [Filter::param(), Filter::path_contains(name), Filter::everything()];
        let parts = partition::split::<_, Tensor, 3>(&graph.roots, filters).unwrap();
        let all: usize = parts.iter().map(|part| part.len()).sum();
        prop_assert_eq!(all, graph::structure(&graph.roots).num_leaves());
        let [a, b, c] = parts;
        let back: Roots = partition::merge([c, a, b]).unwrap();
        prop_assert_eq!(drawn(&back), drawn(&graph.roots));
        release(&back);
    }

    #[test]
    fn references_and_values_convert_both_ways(pattern in patterns()) {
        let graph = pattern.build();
        let values = refs::deref::<Tensor, _>(&graph.roots);
        let back: Roots = refs::reref(&values).unwrap();
        prop_assert_eq!(drawn(&back), drawn(&graph.roots));
        prop_assert_eq!(refs::deref::<Tensor, _>(&back), values);
        release(&back);
    }

    #[test]
    fn only_nodes_with_changes_are_replaced(pattern in patterns(), bits in any::<u64>()) {
        let graph = pattern.build();
        let (leaves, treedef, references) = flatten_with_references::<Tensor, _>(&graph.roots);
        let is_changed = |leaf: usize| bits >> (leaf % 64) & 1 == 1;
        let new: Vec<Tensor> = leaves.iter().enumerate()
            .map(|(at, leaf)| if is_changed(at) { leaf + 100.0 } else { leaf.clone() })
            .collect();
        let before = reachable(&graph.roots);
        let identities: Vec<NodeIdentity> = before.iter().map(Shared::identity).collect();
        let index = |node: &Shared<Node>| identities.iter().position(|other| *other == node.identity());
        let mut affected: Vec<bool> = before.iter()
            .map(|node| is_changed(leaves.iter().position(|leaf| *leaf == node.number).unwrap()))
            .collect();
        // A node is affected by the nodes that it holds and by the targets of its weak edges. References stop the search.
        for _ in &before {
            for (at, node) in before.iter().enumerate() {
                let weak = node.weak_nodes.iter().filter_map(WeakShared::upgrade);
                let held = node.nodes.iter().cloned().chain(weak).filter_map(|held| index(&held));
                affected[at] |= held.into_iter().any(|held| affected[held]);
            }
        }
        let result: Roots = unflatten_changed(&treedef, new.clone(), &references, is_changed).unwrap();
        let (found, structure) = graph::flatten::<Tensor, _>(&result);
        prop_assert_eq!(found, new);
        prop_assert_eq!(structure, treedef);
        let after: Vec<NodeIdentity> = reachable(&result).iter().map(Shared::identity).collect();
        for (identity, affected) in identities.iter().zip(&affected) {
            prop_assert_eq!(after.contains(identity), !affected);
        }
        let [mut before, mut after] = [&references, &flatten_with_references::<Tensor, _>(&result).2].map(|all| all.identities());
        before.sort_unstable();
        after.sort_unstable();
        prop_assert_eq!(before, after);
        release(&result);
    }

    #[test]
    fn unflattened_graph_keeps_its_references(pattern in patterns()) {
        let graph = pattern.build();
        let before = drawn(&graph.roots);
        let (leaves, treedef, references) = flatten_with_references::<Tensor, _>(&graph.roots);
        let doubled = leaves.iter().map(|leaf| leaf * 2.0).collect();
        let back: Roots = unflatten_with_references(&treedef, doubled, &references, Contents::Same).unwrap();
        prop_assert_eq!(drawn(&graph.roots), before);
        prop_assert_eq!(flatten_with_references::<Tensor, _>(&back).2.len(), references.len());
        let [mut before, mut after] = [&graph.roots, &back].map(cells);
        before.sort_unstable();
        after.sort_unstable();
        prop_assert_eq!(before, after);
        let same: Roots = copy::<Tensor, _>(&graph.roots);
        prop_assert_eq!(cells(&same), cells(&graph.roots));
        prop_assert!(same.iter().zip(&graph.roots).all(|(a, b)| a.same(b)));
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
    fn trees_refuse_cycles_and_weak_edges(pattern in patterns()) {
        let graph = pattern.build();
        let outcome = crate::panics::catch(|| tree::structure(&graph.roots));
        prop_assert_eq!(outcome.is_err(), is_not_a_tree(&graph.roots));
    }
}

/// The references of a graph, in the order in which they are met.
fn cells(roots: &Roots) -> Vec<NodeIdentity> {
    flatten_with_references::<Tensor, _>(roots).2.identities()
}

/// Whether a walk down the strong edges comes back to a reference that it is in, or meets a weak edge that leads
/// somewhere.
fn is_not_a_tree(roots: &[Shared<Node>]) -> bool {
    fn node(value: &Node, inside: &mut Vec<NodeIdentity>) -> bool {
        value.nodes.iter().any(|below| node(below, inside))
            || value.cells.iter().any(|below| cell(below, inside))
            || value.weak_nodes.iter().any(|weak| weak.upgrade().is_some())
            || value.weak_cells.iter().any(|weak| weak.upgrade().is_some())
    }
    fn cell(reference: &Ref<Cell>, inside: &mut Vec<NodeIdentity>) -> bool {
        if inside.contains(&reference.identity()) {
            return true;
        }
        inside.push(reference.identity());
        let content = reference.get();
        let found = content.nodes.iter().any(|below| node(below, inside))
            || content.cells.iter().any(|below| cell(below, inside));
        inside.pop();
        found
    }
    roots.iter().any(|root| node(root, &mut Vec::new()))
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_compiled_function_keeps_the_graph(pattern in patterns()) {
        let graph = pattern.build();
        let expected = drawn(&graph.roots);
        let inside = expected.lines().count();
        let twice = jit(move |roots: Roots| {
            assert_eq!(flatten_with_references::<Tensor, _>(&roots).1.num_leaves(), inside);
            roots
        });
        for _ in 0..2 {
            let back = twice(graph.roots.clone());
            prop_assert_eq!(drawn(&back), expected.clone());
            prop_assert_eq!(drawn(&graph.roots), expected.clone());
        }
        prop_assert_eq!(twice.traces(), 1);
    }

    #[test]
    fn compiled_writes_equal_eager_writes(pattern in patterns()) {
        fn count(roots: &Roots) {
            let mut open: Vec<Ref<Cell>> = Vec::new();
            let mut nodes: Roots = roots.clone();
            let mut seen: Vec<NodeIdentity> = Vec::new();
            while !open.is_empty() || !nodes.is_empty() {
                if let Some(node) = nodes.pop() {
                    nodes.extend(node.nodes.iter().cloned());
                    open.extend(node.cells.iter().cloned());
                }
                if let Some(cell) = open.pop()
                    && !seen.contains(&cell.identity())
                {
                    seen.push(cell.identity());
                    cell.update(|cell| Cell { number: &cell.number * 2.0 + seen.len() as f64, ..cell });
                    nodes.extend(cell.get().nodes.iter().cloned());
                    open.extend(cell.get().cells.iter().cloned());
                }
            }
        }
        let (eager, compiled) = (pattern.build(), pattern.build());
        count(&eager.roots);
        jit(|roots: Roots| count(&roots))(compiled.roots.clone());
        prop_assert_eq!(drawn(&compiled.roots), drawn(&eager.roots));
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "needs temporary files")]
    fn a_checkpoint_keeps_the_graph(pattern in patterns()) {
        let graph = pattern.build();
        let path = std::env::temp_dir().join(format!("pytree-graph-{}.safetensors", std::process::id()));
        checkpoint::save(&path, &graph.roots).unwrap();
        let template = graph::map(&graph.roots, |leaf: &Tensor| leaf * 0.0);
        let back = checkpoint::load(&path, &template).unwrap();
        std::fs::remove_file(&path).unwrap();
        prop_assert_eq!(drawn(&back), drawn(&graph.roots));
        release(&back);
        release(&template);
    }
}
