//! Times at two sizes, and how they compare.

use std::any::type_name;
use std::hint::black_box;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpu_time::ThreadTime;

/// Debug builds are so much slower.
const FEWER: usize = if cfg!(debug_assertions) { 10 } else { 1 };

/// How many equations or leaves the longest programs have.
pub const MANY: usize = 100_000 / FEWER;

/// How many equations or leaves everything else has: with more, most of the time is that of caches that overflow.
pub const SOME: usize = 20_000 / FEWER;

/// How many times the time at a size may be that at a tenth of it. What is linear takes 10 to 26 times as long, and most
/// where only the smaller size fits the caches; what is quadratic takes 50 to 100 times as long. The goal is 20.
const MOST: f64 = 30.0;

/// Rounds until a ratio that other programs on the machine made too large must be right.
const ROUNDS: usize = 12;

/// How often and how long something is run in a round: the least time of a run counts.
const RUNS: usize = 5;
const ENOUGH: Duration = Duration::from_millis(20);

/// The stack of a thread that a program starts: that of the main thread is larger.
const STACK: usize = 2 << 20;

/// Set in the processes that measure.
const MEASURES: &str = "PYTREE_SCALE_MEASURES";

/// Settings by which the C library keeps freed memory of any size. Without them each run takes large blocks from the system
/// and returns them, which costs more at the larger size.
const KEEP_FREED_MEMORY: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
    ("MALLOC_TRIM_THRESHOLD_", "17179869184"),
];

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
                // Counts the processor time of this thread, not the time of other programs.
                let start = ThreadTime::now();
                drop(black_box(run(black_box(&mut prepared))));
                let time = start.elapsed();
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
        for round in 1..=ROUNDS {
            small = small.min(time(self.size / 10));
            large = large.min(time(self.size));
            ratio = large.as_secs_f64() / small.as_secs_f64();
            // What is too slow by far in several rounds is not so by chance.
            if ratio <= MOST || (round >= 4 && ratio > 2.0 * MOST) {
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

/// Measures up to a size, in a process of its own and on a thread with a small stack, one sheet at a time.
pub fn measure<F: FnOnce(&mut Sheet) + Send>(size: usize, fill: F) {
    if std::env::var_os(MEASURES).is_none() {
        return measure_in_a_process(type_name::<F>());
    }
    std::thread::scope(|scope| {
        let work = || {
            let mut sheet = Sheet {
                size,
                too_slow: Vec::new(),
            };
            fill(&mut sheet);
            sheet.check();
        };
        let thread = std::thread::Builder::new().stack_size(STACK);
        let outcome = thread.spawn_scoped(scope, work).unwrap().join();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs the test that a closure belongs to in a new process.
fn measure_in_a_process(closure: &str) {
    let test = closure.split("::").skip(1).collect::<Vec<_>>().join("::");
    let test = test.trim_end_matches("::{{closure}}");
    let _alone = alone();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MEASURES, "1")
        .envs(KEEP_FREED_MEMORY)
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "no test is named {test}"
    );
}

/// Two measurements at one time would disturb each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
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
