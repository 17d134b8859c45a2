//! Worker threads, which share long work with the thread that calls [`run_parts`].
//!
//! In a training step, one piece of work follows the other. A worker that has done its part of one piece therefore waits
//! for the next one without sleeping, for `WAIT`. A waiting worker begins within a microsecond, so work of
//! `SHORTEST` is already worth dividing. Callers estimate how long their work takes and ask [`are_worth`].
//!
//! Invariants:
//! - A thread that waits in this module runs only parts of its own job. A waiting thread never runs a task of the user,
//!   because the task would run inside the waiting thread's trace. For this reason the library does not use a general
//!   thread pool.
//! - The workers have one job at a time. A caller runs its parts alone if the workers are busy or if the caller runs
//!   inside a job. So no caller waits for another caller's job, and nested calls cannot deadlock.
//! - The division of work never changes a result: see [`crate::base::fold`] for sums, and
//!   `Loops::halves` for products.

use std::any::Any;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use pytree_base::platform;

use crate::base::memory::Catches;

/// The environment variables that set the number of threads. The second variable is rayon's, which many machines set.
const VARIABLES: [&str; 2] = ["PYTREE_NUM_THREADS", "RAYON_NUM_THREADS"];

/// The greatest number of threads. Systems end a process that starts tens of thousands of threads.
const MOST: usize = 4096;

/// How long a thread waits for work, or for the end of other threads' work, before it sleeps. To wake a sleeping thread
/// takes ten microseconds or more on a virtual machine, and the equations between two pieces of divided work rarely take
/// longer than this. While a thread waits, it lets other threads run.
const WAIT: Duration = Duration::from_micros(200);

/// The number of times that a waiting thread looks for work before it lets other threads run.
const CHECKS: usize = 16;

/// Work that takes one thread at least this number of nanoseconds is divided among threads.
const SHORTEST: usize = 8_000;

/// Returns whether several threads should share work that takes one thread a number of nanoseconds.
#[inline]
pub fn are_worth(nanoseconds: usize) -> bool {
    is_long(nanoseconds) && count() > 1
}

/// Returns whether work is long enough for several threads, if it takes one thread a number of nanoseconds.
#[inline]
pub fn is_long(nanoseconds: usize) -> bool {
    nanoseconds >= SHORTEST
}

/// Returns the number of threads that share long work, including the calling thread. `PYTREE_NUM_THREADS` sets this
/// number, from 1 to 4096. If this environment variable is not set, `RAYON_NUM_THREADS` sets it. The default is the number of cores.
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let [ours, rayons] = VARIABLES;
        let ours = platform::variable(ours, "a number of threads from 1 to 4096", count_of);
        // To rayon, 0 means the number of cores.
        let set = ours.or_else(|| count_of(&std::env::var(rayons).ok()?));
        set.unwrap_or_else(platform::threads)
    })
}

/// Returns the number of threads that the text of a variable sets.
fn count_of(text: &str) -> Option<usize> {
    let count = text.trim().parse().ok()?;
    (1..=MOST).contains(&count).then_some(count)
}

/// A piece of work that any thread may do.
pub type Piece<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs a function on every part, and returns when all parts are done. The threads of the library share the parts if all of them
/// together take one thread long enough. `nanoseconds` estimates this time.
///
/// `PYTREE_NUM_THREADS` sets the number of threads. While the threads are busy, the caller runs the parts alone.
///
/// # Panics
/// Panics if a part panics, with the same message.
///
/// # Examples
/// ```
/// use pytree_kernels::base::threads::share;
/// let mut roots: Vec<f64> = (0..1000).map(f64::from).collect();
/// share(2 * roots.len(), roots.chunks_mut(250).collect(), |part| {
///     part.iter_mut().for_each(|x| *x = x.sqrt());
/// });
/// assert_eq!(roots[81], 9.0);
/// ```
pub fn share<P: Send>(nanoseconds: usize, parts: Vec<P>, run: impl Fn(P) + Sync) {
    if are_worth(nanoseconds) {
        run_parts(parts, run);
    } else {
        for part in parts {
            run(part);
        }
    }
}

/// Runs a function on parts of `count` rows, with the number of the first row of the part, as [`share`] does. A row has `size` elements.
pub(crate) fn share_rows<T: Send>(
    nanoseconds: usize,
    elements: &mut [T],
    size: usize,
    count: usize,
    run: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let length = size * count;
    if (1..=length).contains(&elements.len()) {
        return run(0, elements);
    }
    let parts = elements.chunks_mut(length).enumerate().collect();
    share(nanoseconds, parts, |(part, rows): (usize, &mut [T])| {
        run(part * count, rows);
    });
}

/// Runs a function on every part, and returns when all parts are done. Free workers share the parts with the caller.
///
/// # Panics
/// Panics if a part panics, with the same message. The panic occurs after all other parts have stopped.
pub fn run_parts<P: Send>(parts: Vec<P>, run: impl Fn(P) + Sync) {
    let helpers = parts.len().min(count()).saturating_sub(1);
    let parts = Mutex::new(parts.into_iter());
    let next = || locked(&parts).next();
    let catches = Catches::now();
    WORKERS.run(helpers, &|| {
        let _caught = Catches::set(catches);
        while let Some(part) = next() {
            run(part);
        }
    });
}

/// The function that all threads of a job run. The function takes parts until no part is left.
type Job<'a> = &'a (dyn Fn() + Sync);

/// The worker threads of the process.
struct Workers {
    /// The number of worker threads, which are started at the first use.
    started: OnceLock<usize>,
    /// The thread whose job the workers currently run holds this lock.
    claimed: Mutex<()>,
    state: Mutex<State>,
    /// The number of workers that may still join the job. The number is written only while `state` is locked. A worker
    /// that waits for a job reads the number without the lock, so workers that are not needed disturb nobody.
    places: AtomicUsize,
    /// The number of workers that run the current job. Like `places`, this number is also read without the lock.
    running: AtomicUsize,
    job_arrives: Condvar,
    job_finishes: Condvar,
}

struct State {
    job: Option<Job<'static>>,
    sleeping: usize,
    panic: Option<Box<dyn Any + Send>>,
}

static WORKERS: Workers = Workers {
    started: OnceLock::new(),
    claimed: Mutex::new(()),
    state: Mutex::new(State {
        job: None,
        sleeping: 0,
        panic: None,
    }),
    places: AtomicUsize::new(0),
    running: AtomicUsize::new(0),
    job_arrives: Condvar::new(),
    job_finishes: Condvar::new(),
};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// Runs a job on this thread and on at most `helpers` workers. If the workers are busy, runs the job on this thread
    /// alone.
    fn run(&'static self, helpers: usize, job: Job<'_>) {
        let started = if helpers > 0 { self.started() } else { 0 };
        let helpers = helpers.min(started);
        let claimed = match self.claimed.try_lock() {
            _ if helpers == 0 => return job(),
            Err(TryLockError::WouldBlock) => return job(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(claimed) => claimed,
        };
        let posted = Posted(self);
        self.post(helpers, started, job);
        job();
        drop(posted);
        let panic = locked(&self.state).panic.take();
        drop(claimed);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Starts [`count`] - 1 worker threads at the first call. Returns the number of started threads. If the system
    /// refuses to start threads, callers work alone.
    fn started(&'static self) -> usize {
        *self.started.get_or_init(|| {
            let start = |_: &usize| {
                let name = "pytree-worker".to_owned();
                thread::Builder::new()
                    .name(name)
                    .spawn(|| self.serve())
                    .is_ok()
            };
            (1..count()).take_while(start).count()
        })
    }

    #[allow(
        unsafe_code,
        reason = "threads that outlive the call are given a job that borrows from it"
    )]
    fn post(&'static self, places: usize, started: usize, job: Job<'_>) {
        // SAFETY: only the lifetime changes. The caller holds a `Posted`. When the `Posted` is dropped, it removes the
        // job and waits until no worker runs the job, even if the caller unwinds. So no worker has the reference after
        // this borrow ends.
        let job = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        let mut state = locked(&self.state);
        state.job = Some(job);
        state.panic = None;
        self.places.store(places, Ordering::Release);
        // The workers that do not sleep find the job without being woken.
        let woken = places.saturating_sub(started - state.sleeping);
        drop(state);
        (0..woken).for_each(|_| self.job_arrives.notify_one());
    }

    /// Runs one job after the other until the process ends. This is the main function of a worker thread.
    fn serve(&self) {
        loop {
            let job = self.next_job();
            let ended = catch_unwind(AssertUnwindSafe(job));
            let mut state = locked(&self.state);
            if let Err(panic) = ended {
                state.panic.get_or_insert(panic);
            }
            if self.running.fetch_sub(1, Ordering::Release) == 1 {
                self.job_finishes.notify_one();
            }
        }
    }

    /// Waits for a job that more workers may join, and joins this job.
    fn next_job(&self) -> Job<'static> {
        // A worker that no job needs for a while sleeps, even if other workers get jobs meanwhile.
        let start = Instant::now();
        let mut rested = false;
        let mut state = locked(&self.state);
        loop {
            let places = self.places.load(Ordering::Relaxed);
            if let Some(job) = state.job
                && places > 0
            {
                self.places.store(places - 1, Ordering::Relaxed);
                self.running.fetch_add(1, Ordering::Relaxed);
                return job;
            }
            if rested {
                state.sleeping += 1;
                state = self
                    .job_arrives
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.sleeping -= 1;
            } else {
                drop(state);
                rested = !rest_until(start, || self.places.load(Ordering::Acquire) > 0);
                state = locked(&self.state);
            }
        }
    }
}

/// Waits until a condition holds, at most for [`WAIT`] from the time `start`. Returns whether the condition holds.
fn rest_until(start: Instant, holds: impl Fn() -> bool) -> bool {
    loop {
        for _ in 0..CHECKS {
            if holds() {
                return true;
            }
            hint::spin_loop();
        }
        if start.elapsed() > WAIT {
            return false;
        }
        thread::yield_now();
    }
}

/// A job that workers may run until this guard is dropped.
struct Posted(&'static Workers);

impl Drop for Posted {
    fn drop(&mut self) {
        let workers = self.0;
        let mut state = locked(&workers.state);
        state.job = None;
        workers.places.store(0, Ordering::Relaxed);
        drop(state);
        let none_runs = || workers.running.load(Ordering::Acquire) == 0;
        rest_until(Instant::now(), none_runs);
        state = locked(&workers.state);
        while !none_runs() {
            state = workers
                .job_finishes
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Runs the parts 0 to `parts - 1`, and returns the sum of their indices.
    fn total(parts: usize, run: impl Fn(usize) + Sync) -> usize {
        let total = AtomicUsize::new(0);
        run_parts((0..parts).collect(), |part| {
            run(part);
            total.fetch_add(part, Ordering::Relaxed);
        });
        total.into_inner()
    }

    #[test]
    fn variables_set_the_number_of_threads() {
        for (text, count) in [
            ("3", Some(3)),
            (" 8 ", Some(8)),
            ("4096", Some(4096)),
            ("0", None),
            ("-1", None),
            ("30000", None),
            ("many", None),
        ] {
            assert_eq!(count_of(text), count, "{text:?}");
        }
    }

    #[test]
    fn only_long_work_is_worth_several_threads() {
        for (nanoseconds, long) in [(0, false), (SHORTEST - 1, false), (SHORTEST, true)] {
            assert_eq!(is_long(nanoseconds), long);
            assert_eq!(are_worth(nanoseconds), long && count() > 1);
        }
    }

    #[test]
    fn every_row_is_written_once() {
        for nanoseconds in [0, SHORTEST] {
            let mut elements = vec![1; 14];
            share_rows(nanoseconds, &mut elements, 2, 3, &|first, rows| {
                rows.iter_mut().for_each(|element| *element += first);
            });
            assert_eq!(elements, [1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 7, 7]);
        }
    }

    #[test]
    fn every_part_runs_once() {
        for parts in [0, 1, 2, 3, 100] {
            assert_eq!(total(parts, |_| ()), parts * parts.saturating_sub(1) / 2);
        }
    }

    #[test]
    fn nested_jobs_run_alone() {
        assert_eq!(total(8, |_| assert_eq!(total(8, |_| ()), 28)), 28);
    }

    #[test]
    fn concurrent_callers_do_not_wait() {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..200).for_each(|_| assert_eq!(total(8, |_| ()), 28)));
            }
        });
    }

    #[test]
    fn panics_of_parts_reach_the_caller() {
        for guilty in [0, 7] {
            let running = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                total(8, |part| {
                    running.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::Relaxed);
                    assert_ne!(part, guilty, "the guilty part");
                })
            }));
            assert!(result.is_err());
            assert_eq!(running.into_inner(), 0);
            assert_eq!(total(8, |_| ()), 28);
        }
    }

    #[test]
    fn borrowed_data_outlives_all_parts() {
        for _ in 0..500 {
            let mut elements = vec![0_usize; 64];
            run_parts(elements.chunks_mut(8).collect(), |chunk| {
                chunk.iter_mut().for_each(|element| *element += 1);
            });
            assert!(elements.iter().all(|&element| element == 1));
        }
    }

    #[test]
    fn sleeping_callers_are_woken() {
        let (done, is_done) = mpsc::channel();
        // If no worker wakes the caller, the caller sleeps for ever.
        thread::spawn(move || {
            // Repeat the test, because a caller yields for longer on a busy machine before it sleeps.
            for round in 0..7 {
                run_parts(vec![0, 1], |_: usize| {
                    let is_worker = thread::current().name() == Some("pytree-worker");
                    thread::sleep(Duration::from_millis(if is_worker {
                        10 << round
                    } else {
                        1
                    }));
                });
            }
            done.send(()).expect("the test waits");
        });
        let woken = is_done.recv_timeout(Duration::from_secs(50));
        assert!(woken.is_ok(), "a caller was not woken in 50 s");
    }

    /// Runs two parts that wait for each other, so they need two threads.
    fn parts_meet() {
        let met = [AtomicBool::new(false), AtomicBool::new(false)];
        for _ in 0..1000 {
            // If another test uses the workers, this thread runs both parts and stops waiting.
            run_parts(vec![0, 1], |part: usize| {
                met[part].store(true, Ordering::Release);
                for _ in 0..10_000 {
                    if met[1 - part].load(Ordering::Acquire) {
                        return;
                    }
                    thread::yield_now();
                }
                met[part].store(false, Ordering::Release);
            });
            if met.iter().all(|met| met.load(Ordering::Acquire)) {
                return;
            }
        }
        panic!("no worker ran a part while another part waited for it");
    }

    #[test]
    fn idle_workers_run_waiting_parts() {
        // A single thread would wait forever for the other part, so skip the test.
        if count() < 2 {
            return;
        }
        parts_meet();
        // After a while the workers sleep, and the next round must wake them.
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(400));
            parts_meet();
        }
    }

    #[test]
    fn environment_sets_number_of_threads() {
        let set = VARIABLES
            .iter()
            .find_map(|variable| count_of(&std::env::var(variable).ok()?));
        assert_eq!(count(), set.unwrap_or_else(platform::threads));
    }
}
