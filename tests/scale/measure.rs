//! Times at two sizes, and how they compare.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Debug builds are so much slower.
const FEWER: usize = if cfg!(debug_assertions) { 10 } else { 1 };

/// How many equations or leaves the longest programs have.
pub const MANY: usize = 100_000 / FEWER;

/// How many equations or leaves everything else has: with more, most of the time is that of caches that overflow.
pub const SOME: usize = 20_000 / FEWER;

/// How many times the time at a size may be that at a tenth of it. What is linear takes up to 23 times as long, and
/// most where only the smaller size fits the caches; what is quadratic takes 50 to 100 times as long.
const MOST: f64 = 30.0;

/// Rounds until a ratio that other programs on the machine made too large must be right.
const ROUNDS: usize = 6;

/// How often and how long something is run in a round: the least time of a run counts.
const RUNS: usize = 5;
const ENOUGH: Duration = Duration::from_millis(20);

/// The stack of a thread that a program starts: that of the main thread is larger.
const STACK: usize = 2 << 20;

/// Two measurements at one time would disturb each other.
static MEASURING: Mutex<()> = Mutex::new(());

/// The system's account of a thread's time is no finer than some milliseconds: what is shorter is measured by the time
/// of day, which is right if nothing interrupts one of the runs.
const SHORT: Duration = Duration::from_millis(40);

/// The operations measured so far.
pub struct Sheet {
    size: usize,
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
        let time = |size: usize| {
            let mut prepared = prepare(size);
            let mut least = Duration::MAX;
            let mut spent = Duration::ZERO;
            for _ in 0..RUNS {
                let (start, of_thread) = (Instant::now(), time_of_thread());
                drop(black_box(run(black_box(&mut prepared))));
                let mut time = start.elapsed();
                if let (true, Some(before), Some(after)) =
                    (time > SHORT, of_thread, time_of_thread())
                {
                    time = time.min(after - before);
                }
                least = least.min(time);
                spent += time;
                if spent > ENOUGH {
                    break;
                }
            }
            least
        };
        let (mut small, mut large) = (Duration::MAX, Duration::MAX);
        let mut ratio = f64::INFINITY;
        for _ in 0..ROUNDS {
            small = small.min(time(self.size / 10));
            large = large.min(time(self.size));
            ratio = large.as_secs_f64() / small.as_secs_f64();
            // What is too slow by far is not so by chance.
            if ratio <= MOST || ratio > 2.0 * MOST {
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
            "slower than in proportion to their size (times, at a tenth of the size, and at all of it):\n{}",
            self.too_slow.join("\n")
        );
    }
}

/// The time that this thread has run for, if the system says it.
fn time_of_thread() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// Measures up to a size, on a thread with a small stack, one sheet at a time.
pub fn measure(size: usize, fill: impl FnOnce(&mut Sheet) + Send) {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let work = || {
            // Freeing a large block lets the allocator keep freed memory from here on; what is given back to the
            // system after each run would cost more at the larger size.
            drop(black_box(vec![1_u8; 31 << 20]));
            let mut sheet = Sheet {
                size,
                too_slow: Vec::new(),
            };
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
