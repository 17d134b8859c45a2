//! The results of checked functions, captured while a function runs on a model.
//!
//! A method with `#[shapes]` compares the fields of its module, then its arguments, and at the end its result. So the
//! comparisons see the arrays of the module, and the result. The module is found in the model by the address of one of
//! its arrays. A module without arrays of its own, such as a stack of layers, is found by the modules whose methods it
//! calls.

use std::cell::Cell;
use std::collections::HashMap;

use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::node::leaf::AnyLeaf;

thread_local! {
    static IS_ACTIVE: Cell<bool> = const { Cell::new(false) };
}
crate::per_thread! {
    static CAPTURE: Option<Capture> = None;
}

/// The places of a model, and what its modules have returned.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The path of the array at each address.
    arrays: HashMap<usize, KeyPath>,
    /// The types of the nodes at each path. A transparent node has the path of its content.
    types: HashMap<KeyPath, Vec<String>>,
    /// The number of trace levels around the capture. The result of a function that runs inside of a further
    /// transformation would be invalid outside of it, so it is not captured.
    levels: usize,
    frames: Vec<Frame>,
    values: Vec<(String, AnyLeaf)>,
}

/// A checked function that runs.
#[derive(Debug)]
struct Frame {
    module: fn() -> &'static str,
    function: &'static str,
    /// The address of an array of the module.
    array: Option<usize>,
    /// The longest path that contains all modules whose methods the function has called, and whether it is the path of
    /// one of them.
    called: Option<(KeyPath, bool)>,
}

/// Returns the name of a type without its modules and parameters.
pub(crate) fn name_of_type(full: &str) -> String {
    let mut name = short_name(full);
    name.truncate(name.find('<').unwrap_or(name.len()));
    name
}

/// Returns the first `length` keys of a path.
fn first(path: &KeyPath, length: usize) -> KeyPath {
    path.keys()[..length].iter().cloned().collect()
}

impl Capture {
    /// Creates a capture of a model, given the paths of its arrays by their addresses, the types of its nodes by their
    /// paths, and the number of trace levels.
    pub(crate) fn new(
        arrays: HashMap<usize, KeyPath>,
        types: HashMap<KeyPath, Vec<String>>,
        levels: usize,
    ) -> Self {
        Self {
            arrays,
            types,
            levels,
            frames: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Returns the path of the module whose method runs in a frame: the innermost node of its type around the array of
    /// the module, or around the modules that it has called.
    fn place(&self, frame: &Frame) -> Option<KeyPath> {
        let array = frame.array.and_then(|address| self.arrays.get(&address));
        let (inside, length) = match (array, &frame.called) {
            (Some(path), _) | (None, Some((path, true))) => {
                (path, path.keys().len().checked_sub(1)?)
            }
            (None, Some((path, false))) => (path, path.keys().len()),
            (None, None) => return None,
        };
        let name = name_of_type((frame.module)());
        let mut around = (0..=length).rev().map(|length| first(inside, length));
        around.find(|path| {
            let types = self.types.get(path);
            types.is_some_and(|types| types.contains(&name))
        })
    }
}

/// Returns whether results are captured on this thread.
#[inline]
pub(super) fn is_active() -> bool {
    IS_ACTIVE.try_with(Cell::get).unwrap_or(false)
}

fn with<R>(function: impl FnOnce(&mut Capture) -> R) -> Option<R> {
    CAPTURE.with_borrow_mut(|capture| capture.as_mut().map(function))
}

/// Records that a function begins.
#[cold]
pub(super) fn begin(module: fn() -> &'static str, function: &'static str, array: Option<usize>) {
    with(|capture| {
        capture.frames.push(Frame {
            module,
            function,
            array,
            called: None,
        });
    });
}

/// Records that the innermost function ends.
#[cold]
pub(super) fn end() {
    with(|capture| {
        let Some(frame) = capture.frames.pop() else {
            return;
        };
        // A function whose module is not found stands for the modules that it has called.
        let place = capture
            .place(&frame)
            .map(|place| (place, true))
            .or(frame.called);
        let (Some((place, is_module)), Some(outer)) = (place, capture.frames.last_mut()) else {
            return;
        };
        outer.called = Some(match outer.called.take() {
            None => (place, is_module),
            Some((known, is_own)) => {
                let pairs = known.keys().iter().zip(place.keys());
                let common = pairs.take_while(|(left, right)| left == right).count();
                let is_known = is_own && common == known.keys().len();
                let is_place = is_module && common == place.keys().len();
                (first(&known, common), is_known || is_place)
            }
        });
    });
}

/// Records the arrays that the innermost function returns.
#[cold]
pub(crate) fn returned(arrays: Vec<AnyLeaf>, levels: usize) {
    with(|capture| {
        let Some(frame) = capture.frames.last().filter(|_| levels == capture.levels) else {
            return;
        };
        let Some(place) = capture.place(frame) else {
            return;
        };
        let name = match (place.keys().is_empty(), frame.function) {
            (false, "forward") => place.to_string(),
            (false, function) => format!("{place}.{function}"),
            (true, function) => function.to_owned(),
        };
        let values = arrays.into_iter().map(|array| (name.clone(), array));
        capture.values.extend(values);
    });
}

/// Captures results until it is dropped.
#[derive(Debug)]
pub(crate) struct Capturing {
    /// The capture around this one.
    outer: Option<Capture>,
}

impl Capturing {
    pub(crate) fn begin(capture: Capture) -> Self {
        let outer = CAPTURE.replace(Some(capture));
        IS_ACTIVE.set(true);
        Self { outer }
    }

    /// Ends the capture, and returns the names and the values in the order of the calls.
    pub(crate) fn finish(self) -> Vec<(String, AnyLeaf)> {
        let values = with(|capture| std::mem::take(&mut capture.values));
        drop(self);
        values.unwrap_or_default()
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        IS_ACTIVE.set(self.outer.is_some());
        let ended = CAPTURE.replace(self.outer.take());
        // Dropping the captured values may run any code, so the variable is not borrowed here.
        drop(ended);
    }
}
