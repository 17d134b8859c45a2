//! What is read of several references, and what is written to them, is there at one instant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pytree_core::boundary::{
    Attempts, Outcome, flatten_with_references, repeated, unflatten_with_references,
};
use pytree_core::shape::LIST;
use pytree_core::{
    Contents, Filter, Pytree, PytreeOf, Ref, ReferenceError, TreeError, Unflattener, Unrepeated,
    Visitor, Writer, graph, partition, refs,
};

type Pair = (Ref<i64>, Ref<i64>);

/// A test holds this lock if it takes a turn, or counts conflicts: no other thread of the process can write meanwhile.
static TURN: Mutex<()> = Mutex::new(());

/// Writes what `change` makes of the values of a pair, unless another thread writes one of them meanwhile.
fn attempt(pair: &Pair, change: impl Fn(i64, i64) -> [i64; 2]) -> Result<(), TreeError> {
    let (leaves, treedef, references) = flatten_with_references::<i64, _>(pair);
    let changed = change(leaves[0], leaves[1]).to_vec();
    unflatten_with_references::<i64, Pair>(&treedef, changed, &references, Contents::Written)
        .map(drop)
}

#[test]
fn outdated_values_are_not_written() {
    let pair = (Ref::new(1), Ref::new(2));
    let error = attempt(&pair, |left, right| {
        pair.1.set(5);
        [left + 1, right + 1]
    })
    .unwrap_err();
    let TreeError::Reference(ReferenceError::Conflict {
        path, unrepeated, ..
    }) = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (path.to_string().as_str(), *unrepeated),
        ("[1]", Unrepeated::Caller)
    );
    assert_eq!(
        error.to_string(),
        "cannot write the results of the code between flattening and unflattening a value: this thread wrote the reference at [1] while it ran, so the result is out of date and nothing is written; repeat the flattening and the unflattening, for instance by `boundary::repeated`, or hold a lock around both"
    );
    assert_eq!((pair.0.get(), pair.1.get()), (1, 5));
}

#[test]
fn conflict_names_the_thread_that_wrote() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = (Ref::new(1), Ref::new(2));
    for writer in [Writer::SameThread, Writer::OtherThread] {
        let error = attempt(&pair, |left, right| {
            let write = || pair.1.set(5);
            match writer {
                Writer::SameThread => write(),
                _ => std::thread::scope(|scope| scope.spawn(write).join()).unwrap(),
            }
            [left, right]
        });
        let TreeError::Reference(ReferenceError::Conflict { writer: found, .. }) =
            error.unwrap_err()
        else {
            panic!("no conflict")
        };
        assert_eq!(found, writer);
    }
}

/// Writes of other threads wait from the third conflict of a call until the end of its turn.
#[test]
fn third_conflict_begins_a_turn() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let reference = Ref::new(0);
    let mut attempts = Attempts::default();
    let writes_at_once = || {
        std::thread::scope(|scope| {
            let start = Instant::now();
            let write = scope.spawn(|| reference.set(1));
            while !write.is_finished() && start.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(1));
            }
            write.is_finished()
        })
    };
    for conflict in 1..=3 {
        attempts.conflicted();
        if conflict < 3 {
            assert!(writes_at_once(), "after conflict {conflict}");
        }
    }
    std::thread::scope(|scope| {
        let write = scope.spawn(|| reference.set(2));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!write.is_finished());
        attempts.end_turn();
    });
    assert_eq!(reference.get(), 2);
    assert!(writes_at_once(), "after the turn");
}

#[test]
fn read_references_are_compared_too() {
    let pair = (Ref::new(1), Ref::new(2));
    let (_, _, references) = flatten_with_references::<i64, _>(&pair);
    pair.1.set(3);
    let (_, outcome) = Outcome::of::<i64, _>(&(), &references, vec![0]);
    let error = outcome
        .unflatten_result::<i64, ()>(vec![7], &references)
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(pair.0.get(), 1);
    let (_, outcome) = Outcome::of::<i64, _>(&(), &references, Vec::new());
    assert!(
        outcome
            .unflatten_result::<i64, ()>(Vec::new(), &references)
            .is_ok()
    );
}

#[test]
fn equal_value_written_again_is_a_conflict() {
    let pair = (Ref::new(1), Ref::new(2));
    let error = attempt(&pair, |left, right| {
        // The memory of the first value must not be used again for the last one.
        for value in [9, 1] {
            pair.0.set(value);
        }
        [left + 1, right + 1]
    });
    assert!(error.unwrap_err().is_conflict());
    assert_eq!((pair.0.get(), pair.1.get()), (1, 2));
}

#[test]
fn inner_references_are_compared_too() {
    let inner = Ref::new(1_i64);
    let outer = Ref::new(vec![inner.clone()]);
    let (_, treedef, references) = flatten_with_references::<i64, _>(&outer);
    inner.set(2);
    let written = unflatten_with_references::<i64, Ref<Vec<Ref<i64>>>>(
        &treedef,
        vec![7],
        &references,
        Contents::Written,
    );
    assert!(
        written
            .unwrap_err()
            .to_string()
            .contains("the reference at [0] ")
    );
    assert_eq!(inner.get(), 2);
}

#[test]
fn concurrent_readers_see_constant_sum() {
    const ROUNDS: i64 = 3000;
    let pair: Pair = (Ref::new(1000), Ref::new(0));
    let done = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let writers: Vec<_> = [1, 3]
            .map(|step| {
                let pair = &pair;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        repeated(|| attempt(pair, |left, right| [left - step, right + step]))
                            .unwrap();
                    }
                })
            })
            .into_iter()
            .collect();
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) || reads == 0 {
                    let (leaves, ..) = flatten_with_references::<i64, _>(&pair);
                    assert_eq!(leaves[0] + leaves[1], 1000);
                    reads += 1;
                }
                reads
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(reads.iter().all(|&reads| reads > 0));
    assert_eq!(
        (pair.0.get(), pair.1.get()),
        (1000 - 4 * ROUNDS, 4 * ROUNDS)
    );
}

/// Two references, between which a reader takes a moment.
struct Slow(Ref<i64>, Ref<i64>);

impl Pytree for Slow {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(&LIST, 2);
        self.0.visit(visitor);
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(100) {
            std::hint::spin_loop();
        }
        self.1.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Err(source.wrong_node("a value that can only be flattened"))
    }
}
impl PytreeOf<i64> for Slow {}

#[test]
fn order_of_reading_is_not_that_of_writing() {
    const ROUNDS: i64 = 1000;
    let numbers: Vec<Ref<i64>> = (0..300).map(|_| Ref::new(0)).collect();
    let ends = Slow(numbers[299].clone(), numbers[0].clone());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                let (_, treedef, references) = flatten_with_references::<i64, _>(&numbers);
                let next = vec![round; numbers.len()];
                unflatten_with_references::<i64, Vec<Ref<i64>>>(
                    &treedef,
                    next,
                    &references,
                    Contents::Written,
                )
                .unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let (leaves, ..) = flatten_with_references::<i64, _>(&ends);
            assert_eq!(leaves[0], leaves[1]);
        }
    });
    assert_eq!(numbers[0].get(), ROUNDS);
}

#[test]
fn parts_written_by_threads_are_not_lost() {
    const ROUNDS: usize = 500;
    let counts = Ref::new(vec![0_i64, 0, 0]);
    let barrier = Barrier::new(3);
    std::thread::scope(|scope| {
        for at in 0..3 {
            let (mut counts, barrier) = (counts.clone(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                let own = Filter::path(["[0]", "[1]", "[2]"][at]);
                for round in 0..ROUNDS {
                    // Nobody else writes this leaf, but its neighbours in the same reference.
                    let part = partition::filter(&counts, &own).map(|count: &i64| count + 1);
                    match round % 2 {
                        0 => partition::update(&mut counts, &part).unwrap(),
                        _ => refs::update_refs(&counts, &part).unwrap(),
                    }
                }
            });
        }
    });
    assert_eq!(counts.get(), [ROUNDS as i64; 3]);
}

#[test]
fn losing_call_gets_its_turn() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pair: Pair = (Ref::new(0), Ref::new(0));
    let done = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(30) {
                pair.0.update(|count| count + 1);
            }
        });
        let mut attempts = 0;
        let outcome = repeated(|| {
            attempts += 1;
            attempt(&pair, |left, _| {
                std::thread::sleep(Duration::from_millis(20));
                [left, 1]
            })
        });
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
        assert!((2..10).contains(&attempts), "{attempts} attempts");
        writer.join().unwrap();
    });
    assert_eq!(pair.1.get(), 1);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn graph_functions_read_at_one_instant() {
    const ROUNDS: i64 = 1000;
    let pair: Pair = (Ref::new(1000), Ref::new(0));
    let slow = Slow(pair.0.clone(), pair.1.clone());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                repeated(|| attempt(&pair, |left, right| [left - 1, right + 1])).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let (leaves, _) = graph::flatten::<i64, _>(&slow);
            assert_eq!(leaves[0] + leaves[1], 1000);
            let part = partition::filter::<Slow, i64>(&slow, &Filter::everything());
            assert_eq!(part.leaves().iter().sum::<i64>(), 1000);
            let parts = partition::split::<Slow, i64, 1>(&slow, [Filter::everything()]);
            assert_eq!(parts.unwrap()[0].leaves().iter().sum::<i64>(), 1000);
            let (leaves, _) = graph::flatten_any(&slow);
            let number = |at: usize| *leaves[at].downcast_ref::<i64>().unwrap();
            assert_eq!(number(0) + number(1), 1000);
        }
    });
}
