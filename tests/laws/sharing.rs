//! Laws of shared nodes: graph functions visit each once and keep which places are the same.

use proptest::collection::vec;
use proptest::prelude::*;
use pytree::control::cond;
use pytree::core::match_structure;
use pytree::{Filter, Module, Shared, Tensor, grad, graph, jit, partition, tree};

use crate::laws::cases;

/// A shared node that holds one.
#[derive(Module, Clone, Debug)]
struct Inner {
    #[param]
    weight: Shared<f64>,
    #[param]
    own: f64,
}

#[derive(Module, Clone, Debug)]
struct Outer {
    inners: Vec<Shared<Inner>>,
    #[param]
    loose: Vec<Shared<f64>>,
}

/// Which places of an [`Outer`] hold which node: of `inners`, of the weights inside, and of `loose`.
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    inners: Vec<usize>,
    weights: Vec<usize>,
    loose: Vec<usize>,
}

impl Pattern {
    fn build(&self) -> Outer {
        let weights: Vec<Shared<f64>> = (0..50_u8)
            .map(|number| Shared::new(f64::from(number)))
            .collect();
        let inner = |number: usize| {
            let weight = weights[self.weights[number % self.weights.len()]].clone();
            Shared::new(Inner {
                weight,
                own: -(number as f64),
            })
        };
        let inners: Vec<Shared<Inner>> = (0..50).map(inner).collect();
        Outer {
            inners: self
                .inners
                .iter()
                .map(|&number| inners[number].clone())
                .collect(),
            loose: self
                .loose
                .iter()
                .map(|&number| weights[number].clone())
                .collect(),
        }
    }
}

/// More than 16 nodes at times: from there on they are numbered by a table.
fn patterns(length: usize) -> impl Strategy<Value = Pattern> {
    (
        vec(0..50_usize, 0..length),
        vec(0..50_usize, 1..8),
        vec(0..50_usize, 0..length),
    )
        .prop_map(|(inners, weights, loose)| Pattern {
            inners,
            weights,
            loose,
        })
}

fn small_patterns() -> impl Strategy<Value = Pattern> {
    (vec(0..2_usize, 2), vec(0..2_usize, 2), vec(0..2_usize, 2)).prop_map(
        |(inners, weights, loose)| Pattern {
            inners,
            weights,
            loose,
        },
    )
}

/// For each place in order, the first place that holds the same node.
fn same<T>(nodes: &[&Shared<T>]) -> Vec<usize> {
    nodes
        .iter()
        .map(|node| nodes.iter().position(|other| other.same(node)).unwrap())
        .collect()
}

/// The sharing of inners and of weights.
fn sharing(outer: &Outer) -> [Vec<usize>; 2] {
    let inners: Vec<&Shared<Inner>> = outer.inners.iter().collect();
    let weights: Vec<&Shared<f64>> = outer
        .inners
        .iter()
        .map(|inner| &inner.weight)
        .chain(&outer.loose)
        .collect();
    [same(&inners), same(&weights)]
}

fn distinct(places: &[usize]) -> usize {
    places
        .iter()
        .enumerate()
        .filter(|(position, first)| position == *first)
        .count()
}

/// The leaves at every place.
fn leaves(outer: &Outer) -> Vec<f64> {
    tree::leaves::<f64, _>(outer).into_iter().copied().collect()
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn graph_functions_keep_what_is_the_same(pattern in patterns(40)) {
        let outer = pattern.build();
        let [inners, weights] = sharing(&outer);
        let (found, treedef) = graph::flatten::<f64, _>(&outer);
        prop_assert_eq!(found.len(), distinct(&inners) + distinct(&weights), "each node is visited once");
        prop_assert_eq!(leaves(&outer).len(), 2 * outer.inners.len() + outer.loose.len(), "trees visit every place");

        let back: Outer = graph::unflatten(&treedef, found).unwrap();
        prop_assert_eq!(sharing(&back), sharing(&outer));
        prop_assert_eq!(leaves(&back), leaves(&outer));
        prop_assert!(match_structure::<f64, _>(&back, &treedef, &mut Vec::new()));

        let mut calls = 0;
        let mapped = graph::map(&outer, |leaf: &f64| {
            calls += 1;
            leaf + 1.0
        });
        prop_assert_eq!(calls, treedef.num_leaves(), "a function is called once for each node");
        prop_assert_eq!(sharing(&mapped), sharing(&outer));
        prop_assert_eq!(leaves(&mapped), leaves(&outer).iter().map(|leaf| leaf + 1.0).collect::<Vec<_>>());
    }

    #[test]
    fn tree_functions_keep_the_leaves(pattern in patterns(40)) {
        let outer = pattern.build();
        let (found, treedef) = tree::flatten::<f64, _>(&outer);
        let back: Outer = tree::unflatten(&treedef, found).unwrap();
        prop_assert_eq!(leaves(&back), leaves(&outer));
        prop_assert_eq!(tree::structure(&back), treedef);
    }

    #[test]
    fn parts_keep_what_is_the_same(pattern in patterns(20), name in prop::sample::select(vec!["weight", "own", "loose", "1"])) {
        let outer = pattern.build();
        let parts = partition::split(&outer, [Filter::path_contains(name), Filter::everything()]).unwrap();
        let back = partition::merge(parts).unwrap();
        prop_assert_eq!(sharing(&back), sharing(&outer));
        prop_assert_eq!(leaves(&back), leaves(&outer));
    }

    #[test]
    fn graph_structures_distinguish_sharing(left in small_patterns(), right in small_patterns()) {
        let (a, b) = (left.build(), right.build());
        let (of_a, of_b) = (graph::structure(&a), graph::structure(&b));
        let expected = sharing(&a) == sharing(&b);
        prop_assert_eq!(of_a == of_b, expected, "{} and {}", of_a, of_b);
        prop_assert_eq!(of_a.differences(&of_b).is_empty(), expected);
        prop_assert_eq!(match_structure::<f64, _>(&a, &of_b, &mut Vec::new()), expected);
        prop_assert_eq!(tree::structure(&a), tree::structure(&b), "trees do not tell");
    }

    #[test]
    fn compiled_function_keeps_sharing(places in vec(0..4_usize, 1..6)) {
        let nodes: Vec<Shared<Tensor>> = (0..4).map(|number| Shared::new(Tensor::from(number))).collect();
        let argument: Vec<Shared<Tensor>> = places.iter().map(|&place| nodes[place].clone()).collect();
        let expected = same(&argument.iter().collect::<Vec<_>>());
        let inside = expected.clone();
        let twice = jit(move |nodes: Vec<Shared<Tensor>>| {
            assert_eq!(same(&nodes.iter().collect::<Vec<_>>()), inside);
            graph::map(&nodes, |leaf: &Tensor| leaf * 2)
        });
        for _ in 0..2 {
            let result = twice(argument.clone());
            prop_assert_eq!(same(&result.iter().collect::<Vec<_>>()), expected.clone());
            let values: Vec<i32> = result.iter().map(|node| node.item()).collect();
            prop_assert_eq!(values, places.iter().map(|&place| 2 * place as i32).collect::<Vec<_>>());
        }
        prop_assert_eq!(twice.traces(), 1);
    }

    #[test]
    fn shared_gradient_sums_over_places(places in vec(0..4_usize, 1..8)) {
        let nodes: Vec<Shared<Tensor>> = (0..4).map(|_| Shared::new(Tensor::from(1.0_f64))).collect();
        let argument: Vec<Shared<Tensor>> = places.iter().map(|&place| nodes[place].clone()).collect();
        let loss = |nodes: &Vec<Shared<Tensor>>| {
            let terms = nodes.iter().zip(1..).map(|(node, factor)| &**node * factor);
            terms.reduce(|sum, term| sum + term).unwrap()
        };
        let gradient = grad(loss)(&argument);
        let first_places: Vec<usize> = (0..places.len()).filter(|&at| places[..at].iter().all(|&place| place != places[at])).collect();
        prop_assert_eq!(gradient.len(), first_places.len());
        for (leaf, first) in gradient.leaves().iter().zip(first_places) {
            let of_node = places.iter().zip(1..).filter(|(place, _)| **place == places[first]);
            prop_assert_eq!(leaf.item::<f64>(), of_node.map(|(_, factor)| f64::from(factor)).sum::<f64>());
        }
    }

    #[test]
    fn branches_agree_if_they_share_differently(
        places in vec(0..3_usize, 1..5),
        chosen in vec((0..5_usize, 0..5_usize), 4),
        new in vec((0..2_usize, 0..2_usize), 4),
    ) {
        let nodes: Vec<Shared<Tensor>> = (0..3).map(|number| Shared::new(Tensor::from(number))).collect();
        let argument: Vec<Shared<Tensor>> = places.iter().map(|&place| nodes[place].clone()).collect();
        // Each place of the result is a node of the argument, or one of two new nodes.
        let branch = |second: bool| {
            let pick = move |pair: (usize, usize)| if second { pair.1 } else { pair.0 };
            let (chosen, new) = (chosen.clone(), new.clone());
            move |argument: Vec<Shared<Tensor>>| {
                let fresh: Vec<Shared<Tensor>> =
                    (0..2).map(|at| Shared::new(&*argument[0] + 10 * (at + 1))).collect();
                let at = |place: usize| match pick(chosen[place]) {
                    old if old < argument.len() => argument[old].clone(),
                    _ => fresh[pick(new[place])].clone(),
                };
                (0..chosen.len()).map(at).collect::<Vec<_>>()
            }
        };
        let branches = [branch(false), branch(true)];
        let eager = [branches[0](argument.clone()), branches[1](argument.clone())];
        let all = eager.each_ref().map(|nodes| same(&nodes.iter().collect::<Vec<_>>()));
        for second in [false, true] {
            let found = cond(&Tensor::from(second), &branches[1], &branches[0], argument.clone());
            let values = |nodes: &[Shared<Tensor>]| nodes.iter().map(|node| node.item::<i32>()).collect::<Vec<_>>();
            prop_assert_eq!(values(&found), values(&eager[usize::from(second)]));
            for left in 0..found.len() {
                for right in 0..left {
                    let in_both = all.iter().all(|same| same[left] == same[right]);
                    prop_assert_eq!(found[left].same(&found[right]), in_both);
                }
                let kept = argument.iter().any(|node| eager.iter().all(|nodes| nodes[left].same(node)));
                prop_assert_eq!(argument.iter().any(|node| found[left].same(node)), kept);
            }
        }
    }
}
