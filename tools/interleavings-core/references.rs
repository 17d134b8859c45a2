//! References under shuttle, which runs the threads of a program in many orders of their steps.
//!
//! The locks and atomics of references and turns are shuttle's. A time limit of a turn may end at any moment.

use pytree_core::boundary::{
    Attempts, flatten_with_references, repeated, unflatten_with_references,
};
use pytree_core::{Contents, Ref, TreeError};
use shuttle::thread;

/// How many orders are tried. One at random is a step of some thread at each lock and atomic.
fn orders() -> usize {
    std::env::var("PYTREE_ORDERS").map_or(2_000, |orders| orders.parse().unwrap())
}

/// Moves one from the first reference to the second, as a compiled call does.
fn transfer(pair: &Pair) {
    repeated(|| attempt(pair)).unwrap();
}

fn attempt(pair: &Pair) -> Result<(), TreeError> {
    let (leaves, treedef, references) = flatten_with_references::<i32, _>(pair);
    let moved = vec![leaves[0] - 1, leaves[1] + 1];
    unflatten_with_references::<i32, Pair>(&treedef, moved, &references, Contents::Written)
        .map(drop)
}

/// As `transfer`, of a call that has lost twice: the next conflict takes a turn.
fn transfer_of_a_loser(pair: &Pair) {
    let mut attempts = Attempts::default();
    (0..2).for_each(|_| attempts.conflicted());
    while let Err(error) = attempt(pair) {
        assert!(error.is_conflict(), "{error}");
        attempts.conflicted();
    }
}

type Pair = (Ref<i32>, Ref<i32>);

fn pair() -> Pair {
    (Ref::new(10), Ref::new(0))
}

#[test]
fn calls_take_effect_at_one_instant() {
    shuttle::check_random(
        || {
            let pair = pair();
            let mut threads = Vec::new();
            for _ in 0..2 {
                let pair = pair.clone();
                threads.push(thread::spawn(move || transfer(&pair)));
            }
            // Readers see the sum at all times.
            let (leaves, _, _) = flatten_with_references::<i32, _>(&pair);
            assert_eq!(leaves.iter().sum::<i32>(), 10);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            assert_eq!((pair.0.get(), pair.1.get()), (8, 2));
        },
        orders(),
    );
}

#[test]
fn order_of_reading_is_not_that_of_writing() {
    shuttle::check_random(
        || {
            let pair = pair();
            let reversed = (pair.1.clone(), pair.0.clone());
            let thread = thread::spawn(move || transfer(&pair));
            let (leaves, _, _) = flatten_with_references::<i32, _>(&reversed);
            assert_eq!(leaves.iter().sum::<i32>(), 10);
            thread.join().unwrap();
        },
        orders(),
    );
}

#[test]
fn calls_against_each_other_do_not_deadlock() {
    shuttle::check_random(
        || {
            let pair = pair();
            let other = (pair.1.clone(), pair.0.clone());
            let thread = thread::spawn(move || transfer(&other));
            transfer(&pair);
            thread.join().unwrap();
            assert_eq!((pair.0.get(), pair.1.get()), (10, 0));
        },
        orders(),
    );
}

#[test]
fn updates_beside_calls_are_not_lost() {
    shuttle::check_random(
        || {
            let pair = pair();
            let first = pair.0.clone();
            let thread = thread::spawn(move || first.update(|value| value + 100));
            transfer(&pair);
            thread.join().unwrap();
            assert_eq!((pair.0.get(), pair.1.get()), (109, 1));
        },
        orders(),
    );
}

#[test]
fn turns_of_losers_lose_no_update() {
    shuttle::check_random(
        || {
            let pair = pair();
            let mut threads = Vec::new();
            for _ in 0..2 {
                let pair = pair.clone();
                threads.push(thread::spawn(move || transfer_of_a_loser(&pair)));
            }
            (0..3).for_each(|_| pair.0.update(|value| value + 100));
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            assert_eq!((pair.0.get(), pair.1.get()), (308, 2));
        },
        orders(),
    );
}
