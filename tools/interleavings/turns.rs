//! Turns under shuttle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use shuttle::thread;

use crate::orders;
use crate::sync::TIME_PASSES;
use crate::turn::{Attempts, give_way};

fn has_turn(attempts: &Attempts) -> bool {
    format!("{attempts:?}").contains("turn: Some")
}

/// The turns of a test, which begin when `conflicted` has taken one. What is counted here is no step of a thread, so that
/// it is counted in the order in which it happens.
#[derive(Default)]
struct Turns {
    is_taken: AtomicBool,
    ended: AtomicUsize,
}

impl Turns {
    /// Loses three times, which takes a turn if no time limit ends, and writes as a call does.
    fn lose(&self) {
        let mut attempts = Attempts::default();
        (0..3).for_each(|_| attempts.conflicted());
        let is_mine = has_turn(&attempts);
        if is_mine {
            let was_taken = self.is_taken.swap(true, Ordering::Relaxed);
            assert!(!was_taken, "two calls have a turn");
        }
        assert!(is_mine || TIME_PASSES.load(Ordering::Relaxed));
        thread::yield_now();
        // A write of the call itself does not wait for its own turn.
        give_way();
        if is_mine {
            self.is_taken.store(false, Ordering::Relaxed);
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        attempts.end_turn();
    }

    /// Writes as another thread does.
    fn write(&self) {
        let turn = self.ended.load(Ordering::Relaxed);
        let must_wait = self.is_taken.load(Ordering::Relaxed);
        give_way();
        if must_wait && !TIME_PASSES.load(Ordering::Relaxed) {
            let ended = self.ended.load(Ordering::Relaxed);
            assert_ne!(turn, ended, "a write began and ended within a turn");
        }
    }
}

fn check(time_passes: bool) {
    TIME_PASSES.store(time_passes, Ordering::Relaxed);
    shuttle::check_random(
        move || {
            let turns = Arc::new(Turns::default());
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let turns = Arc::clone(&turns);
                    thread::spawn(move || match number {
                        0..2 => turns.lose(),
                        _ => (0..2).for_each(|_| turns.write()),
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            // No turn is left over.
            TIME_PASSES.store(false, Ordering::Relaxed);
            thread::spawn(give_way).join().unwrap();
            TIME_PASSES.store(time_passes, Ordering::Relaxed);
        },
        orders(),
    );
}

#[test]
fn one_call_has_the_turn_and_writes_wait() {
    check(false);
}

#[test]
fn time_limits_end_at_any_moment() {
    check(true);
}
