//! `jit`: a function is recorded once for each structure, shapes and element types, and run as compiled.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pytree_core::{TreeDef, graph, match_structure};

use crate::array::Array;
use crate::dtype::AbstractArray;
use crate::error::or_panic;
use crate::tensor::Tensor;
use crate::trace::{at_own_lines, axis_length, bound_length};
use crate::transformations::call::{Body, call, stage};
use crate::transformations::function::{Function, Traceable, rebuild};

/// Compiles a function of a pytree.
///
/// It runs once for each treedef (static values included), shapes and element types of its argument, and
/// is replayed after that. It takes its argument by value and reuses the memory of what nobody else
/// holds. Captured tensors become constants. It can be stored, called like a function from several
/// threads, and given to every other transformation.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jit};
/// let f = jit(|(x, y): (Tensor, Tensor)| x.sin() * y);
/// let z = f((Tensor::from([0.0_f32, 1.0]), Tensor::from([1.0_f32, 2.0])));
/// assert_eq!(z.shape(), [2]);
/// assert_eq!(f.traces(), 1);
/// ```
///
/// # Panics
/// When called: as the function does.
#[track_caller]
pub fn jit<A, R, F>(function: F) -> Jit<A, R>
where
    A: Traceable,
    R: Traceable,
    F: Function<A, Output = R> + Send + Sync + 'static,
{
    let shared = Arc::new(Compiled {
        function: Box::new(move |argument| function.call(argument)),
        line: Location::caller(),
        entries: RwLock::new(Vec::new()),
        why: Mutex::new(None),
    });
    let inner = Arc::clone(&shared);
    Jit {
        compiled: shared,
        call: Arc::new(move |argument| inner.run(argument)),
    }
}

/// What [`jit`] returns: a compiled function.
pub struct Jit<A, R> {
    compiled: Arc<Compiled<A, R>>,
    call: Arc<dyn Fn(A) -> R + Send + Sync>,
}

/// The function with what it was compiled to so far.
struct Compiled<A, R> {
    function: Box<dyn Fn(A) -> R + Send + Sync>,
    line: &'static Location<'static>,
    entries: RwLock<Vec<Arc<Entry>>>,
    why: Mutex<Option<String>>,
}

/// What a function was compiled to for one structure, shapes and element types.
struct Entry {
    treedef: TreeDef,
    infos: Vec<AbstractArray>,
    output_treedef: TreeDef,
    body: Arc<Body>,
    /// Traced tensors that the function captured from an enclosing transformation.
    captured: Vec<Tensor>,
}

impl<A: Traceable, R: Traceable> Compiled<A, R> {
    fn run(&self, argument: A) -> R {
        let (entry, mut leaves) = self.entry(&argument);
        drop(argument);
        if entry.captured.is_empty()
            && entry.body.axis_names.is_empty()
            && leaves.iter().all(|leaf| leaf.array().is_some())
        {
            let arrays: Vec<Arc<Array>> =
                leaves.into_iter().filter_map(Tensor::into_array).collect();
            let results = entry.body.run(arrays);
            return rebuild(
                &entry.output_treedef,
                results.into_iter().map(Tensor::from_shared).collect(),
            );
        }
        leaves.extend(entry.captured.iter().cloned());
        rebuild(&entry.output_treedef, call(&entry.body, &leaves))
    }

    /// What the function is compiled to for an argument, and the argument's leaves.
    fn entry(&self, argument: &A) -> (Arc<Entry>, Vec<Tensor>) {
        if let Some((entry, leaves)) = self.known_entry(argument) {
            return (entry, leaves);
        }
        let (leaves, treedef) = graph::flatten::<Tensor, A>(argument);
        // No lock is held while the function is traced: it may call itself or fail.
        let entry = Arc::new(self.trace(
            treedef,
            leaves.iter().map(|leaf| leaf.info().clone()).collect(),
        ));
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first.
        let same = |other: &&Arc<Entry>| {
            other.treedef == entry.treedef
                && other.infos == entry.infos
                && other.body.jaxpr.batch_axes == entry.body.jaxpr.batch_axes
        };
        if let (true, Some(first)) = (entry.captured.is_empty(), entries.iter().find(same)) {
            return (Arc::clone(first), leaves);
        }
        if let Some(last) = entries.last() {
            *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(explain(last, &entry));
        }
        entries.push(Arc::clone(&entry));
        (entry, leaves)
    }

    fn known_entry(&self, argument: &A) -> Option<(Arc<Entry>, Vec<Tensor>)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        for entry in entries.iter().rev() {
            if !entry.is_under_its_batch_axes() {
                continue;
            }
            let mut leaves: Vec<&Tensor> = Vec::with_capacity(entry.infos.len());
            if match_structure(argument, &entry.treedef, &mut leaves)
                && leaves
                    .iter()
                    .zip(&entry.infos)
                    .all(|(leaf, info)| leaf.info() == info)
            {
                entry.depend_on_batch_axes();
                return Some((Arc::clone(entry), leaves.into_iter().cloned().collect()));
            }
        }
        None
    }

    fn trace(&self, treedef: TreeDef, infos: Vec<AbstractArray>) -> Entry {
        let (jaxpr, captured, output_treedef) = stage(&infos, |tensors| {
            let output = at_own_lines(|| (self.function)(rebuild(&treedef, tensors)));
            graph::flatten::<Tensor, R>(&output)
        });
        Entry {
            treedef,
            infos,
            output_treedef,
            body: Body::new("jit", jaxpr),
            captured,
        }
    }
}

impl Entry {
    /// Whether the batch axes that it depends on are bound here, with the same lengths.
    fn is_under_its_batch_axes(&self) -> bool {
        let mut axes = self.body.jaxpr.batch_axes.iter();
        axes.all(|(name, length)| bound_length(name) == Some(*length))
    }

    /// What is being recorded depends on all that this depends on.
    fn depend_on_batch_axes(&self) {
        for (name, _) in &self.body.jaxpr.batch_axes {
            or_panic(axis_length("call a compiled function", name));
        }
    }
}

/// Why a function was traced again: how the new argument differs from that of the trace before.
fn explain(last: &Entry, new: &Entry) -> String {
    let differences = last.treedef.differences(&new.treedef);
    let mut lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if lines.is_empty() {
        let paths = new.treedef.leaf_paths();
        for ((path, before), now) in paths.iter().zip(&last.infos).zip(&new.infos) {
            if before != now {
                lines.push(format!("{}: {before} before, {now} now", path.or_root()));
            }
        }
    }
    for (name, length) in &last.body.jaxpr.batch_axes {
        match bound_length(name) {
            Some(now) if now == *length => {}
            Some(now) => lines.push(format!(
                "the batch axis `{name}`: {length} before, {now} now"
            )),
            None => lines.push(format!(
                "the batch axis `{name}`: {length} before, not there now"
            )),
        }
    }
    lines.join("\n")
}

impl<A: Traceable, R: Traceable> Jit<A, R> {
    /// How many times the function was traced.
    pub fn traces(&self) -> usize {
        self.compiled
            .entries
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Why the function was traced the last time it was traced again: each difference to the argument of
    /// the trace before. Nothing if it was traced at most once.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, jit};
    /// let f = jit(|x: Tensor| x.sum());
    /// f(Tensor::from([1.0_f32]));
    /// f(Tensor::from([1.0_f32, 2.0]));
    /// assert_eq!(f.why_retraced().as_deref(), Some("the root: f32[1] before, f32[2] now"));
    /// ```
    pub fn why_retraced(&self) -> Option<String> {
        self.compiled
            .why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The recorded function for an argument, in JAX's notation.
    ///
    /// # Panics
    /// As the function does.
    pub fn jaxpr(&self, argument: &A) -> String {
        self.compiled.entry(argument).0.body.jaxpr.to_string()
    }
}

impl<A, R> Clone for Jit<A, R> {
    fn clone(&self) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            call: Arc::clone(&self.call),
        }
    }
}

impl<A, R> std::ops::Deref for Jit<A, R> {
    type Target = dyn Fn(A) -> R + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.call
    }
}

impl<A: Traceable, R: Traceable> Function<A> for Jit<A, R> {
    type Output = R;
    fn call(&self, argument: A) -> R {
        (self.call)(argument)
    }
}

impl<'a, A: Traceable, R: Traceable> Function<&'a A> for Jit<A, R> {
    type Output = R;
    fn call(&self, argument: &'a A) -> R {
        let (leaves, treedef) = graph::flatten::<Tensor, A>(argument);
        (self.call)(rebuild(&treedef, leaves))
    }
}

impl<A: Traceable, R: Traceable> Function<A> for &Jit<A, R> {
    type Output = R;
    fn call(&self, argument: A) -> R {
        Function::<A>::call(*self, argument)
    }
}

impl<'a, A: Traceable, R: Traceable> Function<&'a A> for &Jit<A, R> {
    type Output = R;
    fn call(&self, argument: &'a A) -> R {
        Function::<&'a A>::call(*self, argument)
    }
}

impl<A, R> fmt::Debug for Jit<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jit({})", self.compiled.line)
    }
}
