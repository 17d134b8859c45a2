//! Times at two sizes, and how they compare.

use std::any::type_name;
use std::hint::black_box;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpu_time::ThreadTime;

/// Debug builds are so much slower.
const FEWER: usize = if cfg!(debug_assertions) { 10 } else { 1 };

/// How many equations or leaves everything has.
pub const MANY: usize = 100_000 / FEWER;

/// How many times the time at a size may be that at a tenth of it. The goal is 20, which a quiet machine keeps; what is
/// quadratic takes 50 to 100 times as long. Where only the smaller size fits the caches, other programs on the machine add
/// to the time of the larger one.
const MOST: f64 = 25.0;

/// Rounds until a ratio that other programs on the machine made too large must be right.
const ROUNDS: usize = 12;

/// How many times a slow operation is measured, each time after all the others: another program on the machine can take
/// the shared cache and the memory for longer than the rounds of one measurement last.
const MEASUREMENTS: usize = 3;

/// How often and how long something is run in a round: the least time of a run counts. The first run of each size takes
/// new memory.
const LEAST_RUNS: usize = 2;
const MOST_RUNS: usize = 5;
const ENOUGH: Duration = Duration::from_millis(20);

/// The stack of a thread that a program starts: that of the main thread is larger.
const STACK: usize = 2 << 20;

/// Set in the processes that measure, to the position of the operation.
const MEASURES: &str = "PYTREE_SCALE_MEASURES";

/// Begins the result of a process that measures.
const RESULT: &str = "measured: ";

/// Settings by which the C library keeps freed memory of any size. Without them each run takes large blocks from the system
/// and returns them, which costs more at the larger size.
const KEEP_FREED_MEMORY: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
    ("MALLOC_TRIM_THRESHOLD_", "17179869184"),
];

/// A list of operations.
pub struct Sheet {
    /// The operations so far.
    operations: Vec<String>,
    /// The position of the operation that this process measures; the test itself measures none.
    measured: Option<usize>,
}

impl Sheet {
    /// Adds an operation: what `run` does with what `prepare` makes of a size; dropping the result counts.
    pub fn add<S, R>(
        &mut self,
        operation: &str,
        prepare: impl Fn(usize) -> S,
        run: impl Fn(&mut S) -> R,
    ) {
        self.operations.push(operation.to_owned());
        if self.measured == Some(self.operations.len() - 1) {
            Self::measure(prepare, run);
        }
    }

    fn measure<S, R>(prepare: impl Fn(usize) -> S, run: impl Fn(&mut S) -> R) {
        let time = |size: usize| {
            let mut prepared = prepare(size);
            let mut least = Duration::MAX;
            let mut spent = Duration::ZERO;
            for run_number in 1..=MOST_RUNS {
                // Counts the processor time of this thread, not the time of other programs.
                let start = ThreadTime::now();
                drop(black_box(run(black_box(&mut prepared))));
                let time = start.elapsed();
                least = least.min(time);
                spent += time;
                if run_number >= LEAST_RUNS && spent > ENOUGH {
                    break;
                }
            }
            least
        };
        let (mut small, mut large) = (Duration::MAX, Duration::MAX);
        let mut ratio = f64::INFINITY;
        for round in 1..=ROUNDS {
            small = small.min(time(MANY / 10));
            large = large.min(time(MANY));
            ratio = large.as_secs_f64() / small.as_secs_f64();
            // What is too slow by far in several rounds is not so by chance.
            if ratio <= MOST || (round >= 4 && ratio > 2.0 * MOST) {
                break;
            }
        }
        println!("{RESULT}{ratio} {small:.1?} {large:.1?}");
    }
}

/// Measures each operation, one after the other, each on a thread with a small stack and in a process of its own: what an
/// earlier operation leaves of the heap would slow down the larger size most.
pub fn measure<F: Fn(&mut Sheet) + Sync>(fill: F) {
    let measured = std::env::var(MEASURES).ok();
    let mut sheet = Sheet {
        operations: Vec::new(),
        measured: measured.map(|position| position.parse().unwrap()),
    };
    if sheet.measured.is_some() {
        return std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let outcome = thread.spawn_scoped(scope, || fill(&mut sheet)).unwrap();
            if let Err(panic) = outcome.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }
    fill(&mut sheet);
    let _alone = alone();
    let test = test_of::<F>();
    let too_slow = |position: usize| {
        let (ratio, line) = measured_in_a_process(&test, position, &sheet.operations[position]);
        println!("{line}");
        (ratio > MOST).then_some(line)
    };
    let mut slow: Vec<usize> = (0..sheet.operations.len()).collect();
    let mut lines = Vec::new();
    for _ in 0..MEASUREMENTS {
        lines.clear();
        slow.retain(|&position| {
            let line = too_slow(position);
            lines.extend(line.clone());
            line.is_some()
        });
    }
    assert!(
        lines.is_empty(),
        "slower than in proportion to their size (times, at a tenth of the size, and at all of it):\n{}",
        lines.join("\n")
    );
}

/// The name of the test that a closure belongs to.
fn test_of<F>() -> String {
    let closure = type_name::<F>();
    let test = closure.split("::").skip(1).collect::<Vec<_>>().join("::");
    test.trim_end_matches("::{{closure}}").to_owned()
}

/// How many times as long an operation takes, and the line that says so.
fn measured_in_a_process(test: &str, position: usize, operation: &str) -> (f64, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MEASURES, position.to_string())
        .envs(KEEP_FREED_MEMORY)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{operation}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The harness prints the name of the test without an end of line.
    let result = printed.split(RESULT).nth(1);
    let result =
        result.unwrap_or_else(|| panic!("no test named {test} measured {operation}: {printed}"));
    let mut words = result.split_whitespace();
    let mut word = || words.next().unwrap();
    let (ratio, small, large) = (word(), word(), word());
    let ratio: f64 = ratio.parse().unwrap();
    (
        ratio,
        format!("{ratio:7.1} {small:>12} {large:>12}  {operation}"),
    )
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
