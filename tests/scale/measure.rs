//! Times at two sizes, and how they compare.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The larger size.
pub const MANY: usize = if cfg!(debug_assertions) {
    10_000
} else {
    100_000
};

/// How many times the time at `MANY` may be that at a tenth of it.
const MOST: f64 = 20.0;

/// Rounds until a ratio that other programs on the machine made too large must be right.
const ROUNDS: usize = 5;

/// The stack of a thread that a program starts: that of the main thread is larger.
const STACK: usize = 2 << 20;

/// Two measurements at one time would disturb each other.
static MEASURING: Mutex<()> = Mutex::new(());

/// The operations measured so far.
#[derive(Default)]
pub struct Sheet {
    too_slow: Vec<String>,
}

impl Sheet {
    /// Measures what `run` does with what `prepare` makes of a size; dropping the result counts.
    pub fn add<S, R>(
        &mut self,
        operation: &str,
        prepare: impl Fn(usize) -> S,
        run: impl Fn(&mut S) -> R,
    ) {
        self.add_at(MANY, operation, prepare, run);
    }

    /// As `add`, at another size: of what needs much time for each equation.
    pub fn add_at<S, R>(
        &mut self,
        many: usize,
        operation: &str,
        prepare: impl Fn(usize) -> S,
        run: impl Fn(&mut S) -> R,
    ) {
        let time = |size: usize, runs: usize| {
            let mut prepared = prepare(size);
            let timed = (0..runs).map(|_| {
                let start = Instant::now();
                drop(black_box(run(black_box(&mut prepared))));
                start.elapsed()
            });
            timed.min().unwrap_or(Duration::MAX)
        };
        let (mut small, mut large) = (Duration::MAX, Duration::MAX);
        let mut ratio = f64::INFINITY;
        for _ in 0..ROUNDS {
            small = small.min(time(many / 10, 3));
            large = large.min(time(many, 1));
            ratio = large.as_secs_f64() / small.as_secs_f64();
            // What is too slow by far is not so by chance.
            if ratio <= MOST || ratio > 3.0 * MOST {
                break;
            }
        }
        let line = format!("{ratio:7.1} {small:>12.1?} {large:>12.1?}  {operation}");
        println!("{line}");
        if ratio > MOST {
            self.too_slow.push(line);
        }
    }

    fn check(self) {
        assert!(
            self.too_slow.is_empty(),
            "slower than in proportion to their size (times, seconds at a tenth, and at all):\n{}",
            self.too_slow.join("\n")
        );
    }
}

/// Measures on a thread with a small stack, one sheet at a time.
pub fn measure(fill: impl FnOnce(&mut Sheet) + Send) {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let work = || {
            let mut sheet = Sheet::default();
            fill(&mut sheet);
            sheet.check();
        };
        let outcome = thread.spawn_scoped(scope, work).unwrap().join();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The message of a panic, which is not printed.
pub fn refused<R>(call: impl FnOnce() -> R) -> String {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    std::panic::set_hook(hook);
    match outcome {
        Ok(_) => panic!("it should be refused"),
        Err(panic) => *panic.downcast::<String>().unwrap(),
    }
}
