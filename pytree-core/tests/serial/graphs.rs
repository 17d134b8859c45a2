//! Bytes of graphs with shared nodes, references and weak edges, changed at random: what is read is built or refused,
//! and nothing is half-written.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use pytree_core::boundary::{flatten_with_references, unflatten_with_references};
use pytree_core::{
    Contents, NodeIdentity, Pytree, Ref, Shared, TreeDef, TreeError, WeakRef, WeakShared, graph,
    refs,
};

/// A node of a graph: strong edges to nodes, references which lead on, and weak edges to both.
#[derive(Pytree, Clone, Debug)]
struct Node {
    number: f32,
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
    number: f32,
    #[pytree(recursive)]
    nodes: Vec<Shared<Node>>,
    cells: Vec<Ref<Cell>>,
}

/// A node of a graph without references, in which nothing leads back.
#[derive(Pytree, Clone, Debug)]
struct Plain {
    number: f32,
    nodes: Vec<Shared<Plain>>,
}

type Roots = (Vec<Shared<Node>>, Ref<Cell>, Vec<WeakRef<Cell>>);

/// For each node and reference where its edges lead.
#[derive(Clone, Debug)]
struct Pattern {
    nodes: Vec<[Vec<usize>; 4]>,
    cells: Vec<[Vec<usize>; 2]>,
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let edges = || vec(0..20_usize, 0..3);
    let node = (edges(), edges(), edges(), edges()).prop_map(|(a, b, c, d)| [a, b, c, d]);
    let cell = (edges(), edges()).prop_map(|(a, b)| [a, b]);
    (vec(node, 1..5), vec(cell, 1..4)).prop_map(|(nodes, cells)| Pattern { nodes, cells })
}

/// All nodes and references, of which the first are the roots.
struct Graph {
    cells: Vec<Ref<Cell>>,
    roots: Roots,
}

fn chosen<T: Clone>(from: &[T], edges: &[usize]) -> Vec<T> {
    let edges = edges.iter().filter(|_| !from.is_empty());
    edges.map(|&at| from[at % from.len()].clone()).collect()
}

impl Pattern {
    /// A node leads on to nodes made before it only; references lead anywhere.
    fn build(&self) -> Graph {
        let empty = |number: usize| Cell {
            number: -(number as f32),
            nodes: Vec::new(),
            cells: Vec::new(),
        };
        let cell = |number: usize| match number % 2 {
            0 => Ref::param(empty(number)),
            _ => Ref::new(empty(number)),
        };
        let cells: Vec<Ref<Cell>> = (0..self.cells.len()).map(cell).collect();
        let mut nodes: Vec<Shared<Node>> = Vec::new();
        for (number, [strong, through, weak, weak_cells]) in self.nodes.iter().enumerate() {
            let node = Shared::new_cyclic(|itself: &WeakShared<Node>| {
                let mut around: Vec<WeakShared<Node>> =
                    nodes.iter().map(Shared::downgrade).collect();
                around.push(itself.clone());
                let all: Vec<_> = cells.iter().map(Ref::downgrade).collect();
                Node {
                    number: number as f32,
                    nodes: chosen(&nodes, strong),
                    cells: chosen(&cells, through),
                    weak_nodes: chosen(&around, weak),
                    weak_cells: chosen(&all, weak_cells),
                }
            });
            nodes.push(node);
        }
        for (cell, [strong, through]) in cells.iter().zip(&self.cells) {
            cell.update(|cell| Cell {
                nodes: chosen(&nodes, strong),
                cells: chosen(&cells, through),
                ..cell
            });
        }
        let weak = cells.iter().map(Ref::downgrade).collect();
        let roots = (nodes.split_off(nodes.len() / 2), cells[0].clone(), weak);
        Graph { cells, roots }
    }
}

/// References that hold each other are cleared, because they would never be freed otherwise.
impl Drop for Graph {
    fn drop(&mut self) {
        self.cells.iter().for_each(empty);
    }
}

fn empty(cell: &Ref<Cell>) {
    cell.set(Cell {
        number: 0.0,
        nodes: Vec::new(),
        cells: Vec::new(),
    });
}

/// Reads every node and reference, each once: one that is not built yet would panic. Tells what was met, in order.
fn read_all(roots: &Roots) -> Vec<(NodeIdentity, f32)> {
    let mut met: HashMap<NodeIdentity, f32> = HashMap::new();
    let mut order = Vec::new();
    let mut nodes: Vec<Shared<Node>> = roots.0.clone();
    let mut cells = vec![roots.1.clone()];
    cells.extend(roots.2.iter().filter_map(WeakRef::upgrade));
    loop {
        if let Some(node) = nodes.pop() {
            if met.insert(node.identity(), node.number).is_none() {
                order.push((node.identity(), node.number));
                nodes.extend(node.nodes.iter().cloned());
                nodes.extend(node.weak_nodes.iter().filter_map(WeakShared::upgrade));
                cells.extend(node.cells.iter().cloned());
                cells.extend(node.weak_cells.iter().filter_map(WeakRef::upgrade));
            }
        } else if let Some(cell) = cells.pop() {
            let content = cell.get();
            if met.insert(cell.identity(), content.number).is_none() {
                order.push((cell.identity(), content.number));
                nodes.extend(content.nodes.iter().cloned());
                cells.extend(content.cells.iter().cloned());
            }
        } else {
            return order;
        }
    }
}

/// The references that a value leads to, weak edges included.
fn all_cells(roots: &Roots) -> Vec<Ref<Cell>> {
    let mut cells = vec![roots.1.clone()];
    let mut nodes: Vec<Shared<Node>> = roots.0.clone();
    let mut met = Vec::new();
    let mut at = 0;
    while at < cells.len() || !nodes.is_empty() {
        if let Some(node) = nodes.pop() {
            if !met.contains(&node.identity()) {
                met.push(node.identity());
                nodes.extend(node.nodes.iter().cloned());
                cells.extend(node.cells.iter().cloned());
            }
            continue;
        }
        let content = cells[at].get();
        if !met.contains(&cells[at].identity()) {
            met.push(cells[at].identity());
            nodes.extend(content.nodes.iter().cloned());
            cells.extend(content.cells.iter().cloned());
        }
        at += 1;
    }
    cells
}

/// What is read is built, as the type it was of and as others, or refused.
fn is_built_or_refused(treedef: &TreeDef) {
    crate::serial::read_back(treedef);
    assert!(treedef.to_string().starts_with("PyTreeDef("));
    assert_eq!(treedef.leaf_paths().len(), treedef.num_leaves());
    let leaves: Vec<f32> = (0..treedef.num_leaves()).map(|leaf| leaf as f32).collect();
    let built: Result<Roots, TreeError> = graph::unflatten(treedef, leaves.clone());
    if let Ok(roots) = built {
        assert!(read_all(&roots).len() >= treedef.references().len());
        let (again, structure) = graph::flatten::<f32, _>(&roots);
        assert_eq!((&again, &structure), (&leaves, treedef));
        let values = refs::deref::<f32, _>(&roots);
        let back: Roots = refs::reref(&values).unwrap();
        assert_eq!(read_all(&back).len(), read_all(&roots).len());
        for roots in [roots, back] {
            all_cells(&roots).iter().for_each(empty);
        }
    }
    let others: (
        Result<(Vec<Ref<Node>>, Shared<Cell>, Vec<WeakShared<Cell>>), _>,
        Result<Vec<Ref<f32>>, _>,
        Result<(Vec<WeakShared<Node>>, Vec<Shared<Node>>), _>,
    ) = (
        graph::unflatten(treedef, leaves.clone()),
        graph::unflatten(treedef, leaves.clone()),
        graph::unflatten(treedef, leaves),
    );
    drop(others);
}

/// As [`is_built_or_refused`], of nodes without references.
fn is_plain_or_refused(treedef: &TreeDef) {
    crate::serial::read_back(treedef);
    let leaves: Vec<f32> = (0..treedef.num_leaves()).map(|leaf| leaf as f32).collect();
    if let Ok(roots) = graph::unflatten::<Vec<Shared<Plain>>, _>(treedef, leaves.clone()) {
        let (again, structure) = graph::flatten::<f32, _>(&roots);
        assert_eq!((&again, &structure), (&leaves, treedef));
        let mut open = roots;
        let mut sum = 0.0;
        while let Some(node) = open.pop() {
            sum += node.number;
            open.extend(node.nodes.iter().cloned());
        }
        assert!(sum >= 0.0);
    }
    let of_references: Result<Vec<Shared<Node>>, _> = graph::unflatten(treedef, leaves);
    drop(of_references);
}

/// A structure that does not fit writes to none of the references given; one that does, to all.
fn writes_all_or_nothing(treedef: &TreeDef, graph: &Graph) {
    let (_, before, references) = flatten_with_references::<f32, _>(&graph.roots);
    let values: Vec<f32> = graph.cells.iter().map(|cell| cell.get().number).collect();
    let leaves = vec![100.0_f32; treedef.num_leaves()];
    let put: Result<Roots, _> =
        unflatten_with_references(treedef, leaves, &references, Contents::Written);
    match put {
        Err(_) => {
            let after: Vec<f32> = graph.cells.iter().map(|cell| cell.get().number).collect();
            assert_eq!(after, values);
            assert_eq!(graph::structure(&graph.roots), before);
        }
        Ok(roots) => {
            read_all(&roots);
            all_cells(&roots).iter().for_each(empty);
        }
    }
}

/// A change of some bytes.
type Change = (Index, u8, u8);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    vec((any::<Index>(), any::<u8>(), 0..6_u8), 1..4)
}

fn change(bytes: &mut Vec<u8>, changes: Vec<Change>) {
    for (at, byte, how) in changes {
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = byte,
            1 => bytes[at] ^= 1 << (byte % 8),
            // Numbers, which are small: those of aliases among them.
            2 | 3 => bytes[at] = byte % 24,
            4 => bytes.insert(at, byte % 24),
            // A piece of the bytes is there twice.
            _ => {
                let end = bytes.len().min(at + 1 + usize::from(byte % 16));
                let piece = bytes[at..end].to_vec();
                bytes.splice(end..end, piece);
            }
        }
    }
}

/// The places of the numbers of aliases.
fn numbers_of_aliases(bytes: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(6).enumerate();
    windows
        .filter(|(_, window)| window.starts_with(&[10, 0, 1, 0, 3]))
        .map(|(at, _)| at + 5)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_graph_bytes_do_not_panic(pattern in patterns(), changes in changes()) {
        let graph = pattern.build();
        let mut bytes = graph::structure(&graph.roots).to_bytes();
        is_built_or_refused(&TreeDef::from_bytes(&bytes).unwrap());
        change(&mut bytes, changes);
        if let Ok(treedef) = TreeDef::from_bytes(&bytes) {
            is_built_or_refused(&treedef);
            writes_all_or_nothing(&treedef, &graph);
        }
    }

    #[test]
    fn mutated_shared_bytes_do_not_panic(pattern in patterns(), changes in changes()) {
        let mut nodes: Vec<Shared<Plain>> = Vec::new();
        for (number, [strong, ..]) in pattern.nodes.iter().enumerate() {
            let node = Plain { number: number as f32, nodes: chosen(&nodes, strong) };
            nodes.push(Shared::new(node));
        }
        nodes.reverse();
        let mut bytes = graph::structure(&nodes).to_bytes();
        is_plain_or_refused(&TreeDef::from_bytes(&bytes).unwrap());
        change(&mut bytes, changes);
        if let Ok(treedef) = TreeDef::from_bytes(&bytes) {
            is_plain_or_refused(&treedef);
        }
    }

    #[test]
    fn edges_that_lead_elsewhere_are_followed_or_refused(pattern in patterns(), targets in vec((any::<Index>(), 0..16_u8), 1..5)) {
        let graph = pattern.build();
        let mut bytes = graph::structure(&graph.roots).to_bytes();
        let places = numbers_of_aliases(&bytes);
        prop_assume!(!places.is_empty());
        for (place, target) in targets {
            bytes[places[place.index(places.len())]] = 2 * target;
        }
        if let Ok(treedef) = TreeDef::from_bytes(&bytes) {
            is_built_or_refused(&treedef);
            writes_all_or_nothing(&treedef, &graph);
        }
    }
}
