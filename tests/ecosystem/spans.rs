//! Spans and events.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use pytree::checkpoint;
use pytree::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes a line for each span and event, with its fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Lines {
    fn add(&self, metadata: &Metadata<'_>, name: &str, write: impl FnOnce(&mut Line)) {
        if metadata.target().starts_with("pytree") {
            let mut line = Line(format!("{} {name}", metadata.level()));
            write(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(span.metadata(), span.metadata().name(), |line| {
            span.record(line);
        });
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.add(event.metadata(), "event", |line| event.record(line));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn lines(run: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), run);
    let lines = lines.0.lock().unwrap();
    lines.clone()
}

fn twice(x: Tensor) -> Tensor {
    x * 2.0
}

#[test]
fn compiled_function_has_spans() {
    let double = jit(twice as fn(Tensor) -> Tensor);
    let x = Tensor::from([1.0_f32, 2.0]);
    let first = lines(|| drop(double(x.clone())));
    let second = lines(|| drop(double(x.clone())));
    let names = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(
        names(&first),
        ["TRACE call", "DEBUG trace", "DEBUG compile"],
        "{first:?}"
    );
    assert_eq!(names(&second), ["TRACE call"], "{second:?}");
    assert!(
        first[1].contains("function=") && first[1].contains("spans.rs:"),
        "{first:?}"
    );
    assert!(first[2].contains("equations="), "{first:?}");
}

#[test]
fn checkpoint_has_spans_with_its_path() {
    let path =
        std::env::temp_dir().join(format!("pytree-spans-{}.safetensors", std::process::id()));
    let x = Tensor::from([1.0_f32]);
    let found = lines(|| {
        checkpoint::save(&path, &x).unwrap();
        checkpoint::load(&path, &x).unwrap();
    });
    std::fs::remove_file(&path).unwrap();
    let path = path.display();
    assert_eq!(
        found,
        [
            format!("INFO save path={path}"),
            format!("INFO load path={path}")
        ]
    );
}

#[test]
fn warning_is_an_event() {
    let found = lines(|| {
        for _ in 0..100 {
            // Each call traces again, because the function is new.
            jit(|x: Tensor| x + 1.0)(Tensor::from(1.0_f32));
        }
    });
    let warnings: Vec<&String> = found
        .iter()
        .filter(|line| line.starts_with("WARN event"))
        .collect();
    assert_eq!(warnings.len(), 1, "{found:?}");
    assert!(warnings[0].contains("spans.rs:"), "{warnings:?}");
}

/// The test runs itself as a process, because the standard error of a test cannot be read.
#[test]
fn warning_of_a_thread_without_subscriber_is_printed() {
    const INSIDE: &str = "PYTREE_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        let trace_often = || {
            for _ in 0..100 {
                jit(|x: Tensor| x + 1.0)(Tensor::from(1.0_f32));
            }
        };
        lines(|| std::thread::spawn(trace_often).join().unwrap());
        return;
    }
    let test = "spans::warning_of_a_thread_without_subscriber_is_printed";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("spans.rs:"), "{text}");
}
