//! `spmd`: runs one function on all devices of a mesh, each device on its own parts of the argument.
//!
//! The function is recorded once, on the shapes of parts. While it is recorded, each axis of the mesh has the trace
//! level of a `vmap`, which binds the name. So collectives and derivatives of collectives need no rules of their own.
//!
//! `in_axes` is the prefix tree of `vmap`, once for each axis of the mesh. A divided axis keeps its place and becomes shorter, as in
//! `shard_map`. A result with `None` must be equal on all devices: `differing.rs` accepts exactly what `vmap` accepts with `out_axes`.

mod checked;
mod differing;
mod processes;
mod sharded;

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pytree_base::bug::pairs;
use pytree_core::TreeDef;
use pytree_core::boundary::{Outcome, flatten_with_references};

use self::differing::{Levels, check_equal};
use self::sharded::{Division, parts_of, shardings};
use crate::base::axis_names::AxisName;
use crate::base::error::{TensorError, or_panic};
use crate::passes::optimize;
use crate::tensor::device::{Device, Mesh, Program, Sharding, described, suggestion};
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_line_by_default};
use crate::tensor::traceable::Traceable;
use crate::tensor::{Tensor, checks};
use crate::transformations::axes::Axes;
use crate::transformations::cache::DEFAULT_SIZE;
use crate::transformations::function::{
    Ending, Function, Known, Origin, call_inside, rebuild_result, transformed,
};
use crate::transformations::returned::Returned;
use crate::transformations::shard::placed;
use crate::transformations::signature::Signature;

/// Makes a function run on several devices at the same time: single program, multiple data.
///
/// [`over`](SpmdFunction::over) chooses the devices. Inside of the function, a tensor is the part of one device, and
/// collectives such as [`psum`](crate::psum) combine the devices along an axis of the mesh. The function that
/// [`vmap`](crate::vmap) runs with an [`axis_name`](crate::Vmap::axis_name) is the function that `spmd` runs on several
/// devices, but a divided axis keeps its place and becomes shorter. Equivalent to `jax.shard_map`.
///
/// The function is recorded and compiled once for each signature of its argument, as by [`jit`](crate::jit). It may
/// return a `Result`; see [`Returned`].
///
/// The function takes its argument by value, and reuses the memory of tensors that have no other handle. It runs inside
/// of no other transformation, and does not write references. While [`debug_nans`](crate::debug_nans) is on, a call checks
/// the results of all operations: on processes as they run, and for a plugin by computing the function on the host, too.
///
/// # Examples
/// The mean of a vector that is divided among the devices of a mesh. This mesh is the host alone;
/// `Mesh::new(&client, [("data", 4)])` has four devices of a client of `pytree-pjrt`.
/// ```
/// use pytree_transform::device::{Device, Mesh};
/// use pytree_transform::{DType, Tensor, pmean, spmd};
/// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
/// let mean = spmd(|x: Tensor| pmean(&x.mean(), "data")).over(&mesh).in_axes("data", 0);
/// assert_eq!(mean(Tensor::arange(DType::F32, 8)).item::<f32>(), 3.5);
/// ```
///
/// # Panics
/// A call panics if a leaf is traced or on another device, if a divided axis is not a multiple of the number of devices,
/// if the function writes a reference, if a collective is in a branch of a [`cond`](crate::cond) or in a
/// [`while_loop`](crate::while_loop) whose predicate may differ between the devices, or if the mesh cannot compile or run the function.
#[doc(alias("jax.shard_map", "jax.pmap"))]
#[track_caller]
pub fn spmd<'f, A, R, F, K, C>(function: F) -> SpmdFunction<'f, A, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
    F: Function<A, C, Output = R> + Send + Sync + 'f,
{
    let compute = move |argument, options: &Options| {
        let function = |argument| function.call(argument).into_value();
        R::with(run(function, options, argument))
    };
    SpmdFunction {
        compute: Arc::new(compute),
        line: Location::caller(),
    }
}

/// A function for several devices that are not chosen yet, the result of [`spmd`].
pub struct SpmdFunction<'f, A, R> {
    compute: Arc<Compute<'f, A, R>>,
    line: &'static Location<'static>,
}

type Compute<'f, A, R> = dyn Fn(A, &Options) -> R + Send + Sync + 'f;

impl<'f, A: Traceable, R: 'f> SpmdFunction<'f, A, R> {
    /// Chooses the devices. Until [`in_axes`](Spmd::in_axes) divides parts of the argument, each device gets the whole
    /// argument.
    #[must_use]
    pub fn over(self, mesh: &Mesh) -> Spmd<'f, A, R> {
        let options = Options {
            mesh: mesh.clone(),
            in_axes: Vec::new(),
            out_axes: Vec::new(),
            line: self.line,
            recorded: Arc::default(),
        };
        Spmd::new(self.compute, options)
    }
}

impl<A, R> fmt::Debug for SpmdFunction<'_, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpmdFunction({})", self.line)
    }
}

/// A function that runs on all devices of a mesh, the result of [`SpmdFunction::over`]. `R` is the result of a call: a
/// value, or a `Result`.
pub struct Spmd<'f, A, R> {
    compute: Arc<Compute<'f, A, R>>,
    options: Options,
    call: Box<dyn Fn(A) -> R + Send + Sync + 'f>,
}
transformed!([A: Traceable, R] Spmd<'f, A, R>, (A) -> R);

impl<'f, A: Traceable, R: 'f> Spmd<'f, A, R> {
    fn new(compute: Arc<Compute<'f, A, R>>, options: Options) -> Self {
        let (inner, own) = (Arc::clone(&compute), options.clone());
        Self {
            compute,
            options,
            call: Box::new(move |argument| at_line_by_default(own.line, || inner(argument, &own))),
        }
    }

    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = self.options;
        options.recorded = Arc::default();
        change(&mut options);
        Self::new(self.compute, options)
    }

    /// Divides leaves of the argument among the devices along an axis of the mesh. `axes` is a prefix tree of the
    /// argument, as for [`vmap`](crate::Vmap::in_axes): a number is the axis of a leaf that is divided into parts of equal
    /// length, and the devices get the parts in order. With `None` each device gets the whole leaf, which is also the
    /// default.
    ///
    /// Call this function once for each axis of the mesh that divides leaves. If two axes of the mesh divide the same
    /// axis of a leaf, the position along the later axis of the mesh changes fastest.
    ///
    /// # Panics
    /// Panics if the mesh has no axis `name`. A call panics if the axes are not a prefix tree of the argument, if an
    /// axis is out of range for its leaf, or if its length is not a multiple of the number of devices.
    #[must_use]
    #[track_caller]
    pub fn in_axes(self, name: impl AsRef<str>, axes: impl Into<Axes>) -> Self {
        let name = self.options.known("in_axes", name.as_ref());
        self.with(|options| set(&mut options.in_axes, name, axes.into()))
    }

    /// Sets the axis of each leaf of the result along which the parts of the devices are concatenated, for one axis of
    /// the mesh. `axes` is a prefix tree of the result. `None` means that all devices along the axis of the mesh return
    /// the same elements, which is also the default.
    ///
    /// # Panics
    /// Panics if the mesh has no axis `name`. A call panics if the axes are not a prefix tree of the result, if an axis
    /// is out of range for its leaf, or if a leaf whose axis is `None` differs between the devices.
    #[must_use]
    #[track_caller]
    pub fn out_axes(self, name: impl AsRef<str>, axes: impl Into<Axes>) -> Self {
        let name = self.options.known("out_axes", name.as_ref());
        self.with(|options| set(&mut options.out_axes, name, axes.into()))
    }

    /// Returns how many times the function was traced and recorded. A trace that ends with an error or a panic does not count.
    pub fn traces(&self) -> usize {
        self.options.recorded.traces.load(Ordering::Relaxed)
    }
}

/// Sets the axes for an axis of the mesh. Replaces the axes of an earlier call.
fn set(all: &mut Vec<(AxisName, Axes)>, name: AxisName, axes: Axes) {
    all.retain(|(known, _)| *known != name);
    all.push((name, axes));
}

/// The options of an [`Spmd`], and the functions that it has recorded.
#[derive(Clone)]
struct Options {
    mesh: Mesh,
    in_axes: Vec<(AxisName, Axes)>,
    out_axes: Vec<(AxisName, Axes)>,
    line: &'static Location<'static>,
    recorded: Arc<AllRecorded>,
}

#[derive(Default)]
struct AllRecorded {
    traces: AtomicUsize,
    /// The newest entry is the last one.
    entries: Mutex<Vec<Arc<Recorded>>>,
}

/// The program for one signature.
struct Recorded {
    signature: Signature,
    outcome: Outcome,
    /// The sharding of each leaf of the argument.
    inputs: Vec<Sharding>,
    /// The function of one device as it was recorded.
    jaxpr: Jaxpr,
    program: Program,
}

/// Calls a function on all devices of a mesh.
fn run<A: Traceable, R: Traceable, E>(
    function: impl Fn(A) -> Result<R, E>,
    options: &Options,
    argument: A,
) -> Result<R, E> {
    let (leaves, treedef, mut references) = flatten_with_references::<Tensor, A>(&argument);
    // The program may reuse the memory of leaves that have no other handle.
    drop(argument);
    options.check_places(&treedef, &leaves);
    let infos = leaves.iter().map(|leaf| leaf.info().clone()).collect();
    let signature = Signature { treedef, infos };
    let recorded = match options.recorded.find(&signature) {
        Some(recorded) => recorded,
        None => options.record(signature, &leaves, function)?,
    };
    recorded.outcome.release(&mut references);
    let device = options.mesh.attached();
    if checks::active() && !device.checks_results() {
        let mesh = options.mesh.mesh_axes();
        at_line_by_default(options.line, || {
            checked::check(mesh, &recorded.jaxpr, &recorded.inputs, &leaves);
        });
    }
    let leaves = moved(leaves, &recorded.inputs, options.mesh.device());
    let results = or_panic(recorded.program.run(device, leaves, None));
    let ending = Ending::of("spmd", options.line);
    Ok(rebuild_result(
        ending,
        &recorded.outcome,
        results,
        &references,
    ))
}

/// Moves leaves on the mesh between its devices, so that they have the shardings of the function. If the engine does not
/// divide programs, the engine moves them when the program runs.
fn moved(leaves: Vec<Tensor>, inputs: &[Sharding], mesh: &Device) -> Vec<Tensor> {
    if !mesh.divides_programs() {
        return leaves;
    }
    let leaves = pairs(leaves, inputs, "a sharding for each leaf");
    let moved = leaves.map(|(leaf, expected)| match leaf.sharding() {
        Some(found) if found != expected => placed(&leaf, &expected.spec(), mesh).unwrap_or(leaf),
        _ => leaf,
    });
    moved.collect()
}

impl AllRecorded {
    fn find(&self, signature: &Signature) -> Option<Arc<Recorded>> {
        // Comparing signatures may run code of the user, so no lock is held.
        let entries = self.entries().clone();
        let mut newest_first = entries.into_iter().rev();
        newest_first.find(|entry| entry.signature == *signature)
    }

    /// Adds an entry. Forgets the oldest entry if there are too many.
    fn insert(&self, recorded: Arc<Recorded>) {
        let mut entries = self.entries();
        let forgotten = (entries.len() >= DEFAULT_SIZE).then(|| entries.remove(0));
        entries.push(recorded);
        // Dropping an entry may run code of the user, so the lock is released first.
        drop(entries);
        drop(forgotten);
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Recorded>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Options {
    fn origin(&self) -> Origin {
        Origin {
            name: "spmd",
            line: self.line,
        }
    }

    /// Returns the name of an axis of the mesh.
    #[track_caller]
    fn known(&self, option: &str, name: &str) -> AxisName {
        let axes = self.mesh.mesh_axes().axes();
        let known = axes.iter().find(|(known, _)| **known == *name);
        let Some((known, _)) = known else {
            let nearest = suggestion(name, axes.iter().map(|(known, _)| &**known));
            panic!(
                "cannot set `.{option}(\"{name}\", …)`: the mesh has the axes ({}), but no axis `{name}`{nearest}; name an axis of the mesh",
                self.mesh.mesh_axes()
            )
        };
        known.clone()
    }

    /// Checks that no leaf is traced or on another device.
    fn check_places(&self, treedef: &TreeDef, leaves: &[Tensor]) {
        let mesh = self.mesh.device();
        for (position, leaf) in leaves.iter().enumerate() {
            let path = || treedef.leaf_paths()[position].or_root();
            assert!(
                !leaf.is_traced(),
                "cannot call spmd with the traced {} at {}: spmd runs inside of no other transformation; apply `grad`, `vmap` or `jit` inside of the function of spmd ({})",
                leaf.info(),
                path(),
                self.origin()
            );
            let device = or_panic(leaf.try_device());
            if device != mesh && !device.is_host() {
                let found = [format!("{} at {}", described(leaf), path())];
                let error = TensorError::devices(format!("call spmd on {mesh} with"), found);
                panic!("{error} ({})", self.origin());
            }
        }
    }

    /// Records the function for a signature and compiles it.
    ///
    /// # Errors
    /// Returns the error of the function.
    fn record<A: Traceable, R: Traceable, E>(
        &self,
        signature: Signature,
        leaves: &[Tensor],
        function: impl Fn(A) -> Result<R, E>,
    ) -> Result<Arc<Recorded>, E> {
        let (mesh, origin) = (self.mesh.mesh_axes(), self.origin());
        let division = |option, axes| Division {
            mesh,
            axes,
            option,
            origin,
        };
        let inputs = shardings(
            &division("in_axes", &self.in_axes),
            &signature.treedef,
            leaves,
        );
        let parts = parts_of(origin, &signature, &inputs);
        let levels = Levels::begin(mesh);
        let (jaxpr, captured, outcome) = stage(Recorder::Spmd, &parts, |tensors| {
            let (results, outcome) =
                call_inside(Known::References, &signature.treedef, tensors, function);
            let outcome = outcome.map(|outcome| {
                self.check_references(&signature.treedef, &outcome);
                let wanted = division("out_axes", &self.out_axes);
                let wanted = shardings(&wanted, outcome.result(), &results);
                (outcome, wanted)
            });
            (results, outcome)
        });
        drop(levels);
        let (outcome, outputs) = outcome?;
        self.recorded.traces.fetch_add(1, Ordering::Relaxed);
        assert!(
            captured.is_empty(),
            "cannot call spmd: its function captured a traced {}, and spmd runs inside of no other transformation; apply the other transformation inside of the function ({origin})",
            captured[0].info()
        );
        self.check_shard(&jaxpr);
        let mut jaxpr = jaxpr.without_dead_code();
        jaxpr.batch_axes = mesh.axes().to_vec();
        check_equal(origin, mesh, &jaxpr, (&inputs, &outputs), outcome.result());
        let program = Program::compile_parallel(
            self.mesh.attached(),
            &origin.to_string(),
            optimize(jaxpr.clone()),
            mesh,
            (inputs.clone(), &outputs),
        );
        let recorded = Arc::new(Recorded {
            signature,
            outcome,
            inputs,
            jaxpr,
            program: or_panic(program),
        });
        self.recorded.insert(Arc::clone(&recorded));
        Ok(recorded)
    }

    /// Panics if the function calls `shard`. Tensors are parts there, on all kinds of devices.
    fn check_shard(&self, jaxpr: &Jaxpr) {
        if let Some(line) = constraint(jaxpr) {
            panic!(
                "cannot call `shard` at {line} inside of spmd: a tensor is the part of one device there, and is divided by `.in_axes` and `.out_axes`; remove `shard`, or compile the function with `jit(f).on(&mesh)` ({})",
                self.origin()
            )
        }
    }

    /// Panics if the function has written references, because the values of devices may differ.
    fn check_references(&self, treedef: &TreeDef, outcome: &Outcome) {
        if let Some((position, _)) = outcome.written().next() {
            panic!(
                "cannot write the reference at {} inside of spmd: the devices may write different values; return the value, made equal for instance by `pmean`, and write the reference after the call ({})",
                treedef.references()[position].path.or_root(),
                self.origin()
            )
        }
    }
}

/// Returns the line of the first equation that says how its result is divided.
fn constraint(jaxpr: &Jaxpr) -> Option<&'static Location<'static>> {
    jaxpr.equations.iter().find_map(|equation| {
        if equation.primitive.is_sharding_constraint() {
            return Some(equation.line);
        }
        let mut bodies = equation.primitive.bodies().into_iter();
        bodies.find_map(|(_, body)| constraint(body))
    })
}
