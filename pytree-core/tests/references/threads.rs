//! References in use by many threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pytree_core::boundary::{flatten_with_references, repeated, unflatten_with_references};
use pytree_core::{Contents, Pytree, Ref, Shared, WeakRef, graph};

#[derive(Pytree, Clone, Debug)]
struct Node {
    value: Ref<u64>,
    next: Ref<Vec<Ref<u64>>>,
    back: WeakRef<Vec<Ref<u64>>>,
}

fn ring() -> Vec<Shared<Node>> {
    let values: Vec<Ref<u64>> = (0..8).map(Ref::new).collect();
    let lists: Vec<Ref<Vec<Ref<u64>>>> = (0..8)
        .map(|at| {
            Ref::new(vec![
                values[(at + 1) % 8].clone(),
                values[(at + 3) % 8].clone(),
            ])
        })
        .collect();
    (0..8)
        .map(|at| {
            Shared::new(Node {
                value: values[at].clone(),
                next: lists[at].clone(),
                back: lists[(at + 7) % 8].downgrade(),
            })
        })
        .collect()
}

#[test]
fn threads_on_one_graph_all_finish() {
    let ring = ring();
    let (done, walks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let (ring, done, walks) = (&ring, &done, &walks);
            scope.spawn(move || {
                for round in 0..400_u64 {
                    let node = &ring[(thread + round as usize) % 8];
                    match thread % 4 {
                        // An update that reads other references, the one that is updated among them.
                        0 => node.value.update(|value| {
                            let all = node
                                .next
                                .get()
                                .iter()
                                .map(Ref::get)
                                .fold(value, u64::wrapping_add);
                            all.wrapping_add(node.value.get() % 2)
                        }),
                        1 => node.next.update(|mut items| {
                            items.reverse();
                            items
                        }),
                        2 => {
                            assert_eq!(graph::flatten::<u64, _>(ring).0.len(), 8);
                            walks.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {
                            let back: Vec<Shared<Node>> = repeated(|| {
                                let (leaves, treedef, references) =
                                    flatten_with_references::<u64, _>(ring);
                                unflatten_with_references(
                                    &treedef,
                                    leaves,
                                    &references,
                                    Contents::Written,
                                )
                            })
                            .unwrap();
                            assert!(back[0].value.same(&ring[0].value));
                        }
                    }
                    assert!(!format!("{node:?}").is_empty());
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 12);
    assert_eq!(walks.load(Ordering::Relaxed), 3 * 400);
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn no_update_is_lost() {
    let counts = [Ref::new(0_usize), Ref::new(0)];
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let counts = &counts;
            scope.spawn(move || {
                for round in 0..500 {
                    counts[(thread + round) % 2].update(|count| count + 1);
                }
            });
        }
    });
    assert_eq!(counts.map(|count| count.get()), [2000, 2000]);
}

#[test]
fn drop_may_use_its_own_reference() {
    #[derive(Clone)]
    struct Last(
        std::sync::Weak<Ref<Option<Last>>>,
        std::sync::Arc<AtomicUsize>,
    );
    impl Drop for Last {
        fn drop(&mut self) {
            if let Some(reference) = self.0.upgrade() {
                let held = reference.try_get();
                self.1
                    .fetch_add(usize::from(held.is_ok()), Ordering::Relaxed);
                std::mem::forget(held);
            }
        }
    }
    let drops = std::sync::Arc::new(AtomicUsize::new(0));
    let reference = std::sync::Arc::new(Ref::new(None));
    reference.set(Some(Last(
        std::sync::Arc::downgrade(&reference),
        drops.clone(),
    )));
    reference.set(None);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}
