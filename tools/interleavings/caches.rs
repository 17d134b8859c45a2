//! The cache of compiled functions under shuttle.

use std::cell::Cell;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use shuttle::thread;

use crate::boundary::{Outcome, Visited};
use crate::tensor::Tensor;
use crate::transformations::cache::{Cache, Entry};
use crate::transformations::function::Origin;
use crate::transformations::signature::Signature;
use crate::{TreeDef, orders};

/// An argument, by the number of its structure.
struct Argument(u32);

impl Visited<Tensor> for Argument {
    fn treedef(&self) -> TreeDef {
        TreeDef(self.0)
    }
}

/// A call of the compiled function with an argument, which runs `function` while it is traced.
#[track_caller]
fn call(cache: &Cache, argument: u32, function: impl FnOnce()) -> Arc<Entry> {
    if let Some((entry, ..)) = cache.newest(&Argument(argument)) {
        return entry;
    }
    let signature = Signature {
        treedef: TreeDef(argument),
        infos: Vec::new(),
    };
    let function = Cell::new(Some(function));
    let traced = cache.get_or_trace(signature, Origin(Location::caller()), &|signature| {
        thread::yield_now();
        function.take().unwrap()();
        cache.traced();
        let entry = Entry::new(signature, Outcome, Arc::default(), Vec::new(), None);
        Ok::<_, Infallible>(entry)
    });
    traced.unwrap()
}

fn caches<const N: usize>(size: usize) -> [Arc<Cache>; N] {
    std::array::from_fn(|_| Arc::new(Cache::new(size)))
}

/// Runs a function on several threads, with the number of the thread.
fn on_threads<R: Send + 'static>(
    count: usize,
    function: impl Fn(usize) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let function = Arc::new(function);
    let run = |number| {
        let function = Arc::clone(&function);
        thread::spawn(move || function(number))
    };
    let threads: Vec<_> = (0..count).map(run).collect();
    let results = threads.into_iter().map(|thread| thread.join().unwrap());
    results.collect()
}

#[test]
fn function_is_traced_once() {
    shuttle::check_random(
        || {
            let [cache] = caches(4);
            let shared = Arc::clone(&cache);
            let entries = on_threads(3, move |_| call(&shared, 1, || ()));
            assert!(entries.iter().all(|entry| Arc::ptr_eq(entry, &entries[0])));
            assert_eq!((cache.traces(), cache.len()), (1, 1));
        },
        orders(),
    );
}

#[test]
fn trace_that_panics_is_followed_by_another() {
    shuttle::check_random(
        || {
            let [cache] = caches(4);
            let shared = Arc::clone(&cache);
            let entries = on_threads(3, move |number| {
                // The panic of the first thread says nothing, so that the test prints little.
                let fail = || resume_unwind(Box::new(()));
                let function = || {
                    if number == 0 {
                        fail()
                    }
                };
                catch_unwind(AssertUnwindSafe(|| call(&shared, 1, function))).ok()
            });
            assert!(entries[1..].iter().all(Option::is_some));
            assert_eq!(cache.len(), 1);
        },
        orders(),
    );
}

#[test]
fn functions_that_call_each_other_do_not_deadlock() {
    shuttle::check_random(
        || {
            let shared = caches::<2>(4);
            let caches = shared.clone();
            // Each thread traces the function that the other one traces, and neither function calls itself.
            on_threads(2, move |number| {
                call(&shared[number], 1, || {
                    call(&shared[1 - number], 1, || ());
                });
            });
            for cache in caches {
                assert!((1..=2).contains(&cache.traces()));
                assert_eq!(cache.len(), 1, "one entry for one signature");
            }
        },
        orders(),
    );
}

#[test]
fn rings_of_functions_do_not_deadlock() {
    shuttle::check_random(
        || {
            let shared = caches::<3>(4);
            let caches = shared.clone();
            on_threads(3, move |number| {
                call(&shared[number], 1, || {
                    call(&shared[(number + 1) % 3], 1, || ());
                });
            });
            assert!(caches.iter().all(|cache| cache.len() == 1));
        },
        orders(),
    );
}

#[test]
fn wait_that_has_ended_is_no_deadlock() {
    shuttle::check_random(
        || {
            let shared = caches::<2>(4);
            let caches = shared.clone();
            // The first thread waits for `inner`; when it is traced, the second one asks for `outer`.
            on_threads(2, move |number| {
                let [outer, inner] = &shared;
                if number == 1 {
                    call(inner, 1, || ());
                }
                call(outer, 1, || drop(call(inner, 1, || ())));
            });
            assert_eq!(caches.each_ref().map(|cache| cache.traces()), [1, 1]);
        },
        orders(),
    );
}

#[test]
fn full_cache_gives_the_right_entry() {
    shuttle::check_random(
        || {
            let [cache] = caches(1);
            let shared = Arc::clone(&cache);
            on_threads(3, move |number| {
                for argument in [0, 1 + number as u32 % 2] {
                    let entry = call(&shared, argument, || ());
                    assert_eq!(entry.signature.treedef, TreeDef(argument));
                    assert_eq!(shared.len(), 1, "the cache holds more than its size");
                }
            });
        },
        orders(),
    );
}
