//! A device that holds opaque buffers and computes on a thread of its own, so its results are ready later.
//!
//! The engine panics if a buffer of another device reaches it, if an operand has a wrong shape, if it gets a jaxpr that is
//! not prepared, or if a donated buffer is used again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, RwLock};

use pytree::device::{Buffer, Device, DeviceError, Engine, Executable, Input};
use pytree::{AbstractArray, Jaxpr, Tensor};

#[derive(Debug, Default)]
pub struct Counts {
    compiles: AtomicUsize,
    runs: AtomicUsize,
    puts: AtomicUsize,
    put_elements: AtomicUsize,
    reads: AtomicUsize,
    donated: AtomicUsize,
    alive: AtomicUsize,
    /// The error of the next call of `compile`, `put` or `run`, or of the next computation.
    failing: Mutex<Option<(When, DeviceError)>>,
    /// The device computes while nobody holds this lock for writing.
    pub gate: RwLock<()>,
    names: Mutex<Vec<Vec<&'static str>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    Compile,
    Put,
    Run,
    Computation,
}

/// What a device has done since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    pub compiles: usize,
    pub runs: usize,
    pub puts: usize,
    pub reads: usize,
    pub donated: usize,
}

#[derive(Debug)]
pub struct Mock {
    pub device: Device,
    pub counts: Arc<Counts>,
}

impl Mock {
    pub fn new(name: &'static str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let counts = Arc::new(Counts::default());
        let (jobs, received) = channel();
        let of_worker = Arc::clone(&counts);
        std::thread::spawn(move || work(received, &of_worker));
        let device = Device::new(MockEngine {
            name,
            id: NEXT.fetch_add(1, Ordering::SeqCst),
            counts: Arc::clone(&counts),
            jobs: Mutex::new(jobs),
        });
        Self { device, counts }
    }

    /// Returns what the device has done since the last call.
    pub fn work(&self) -> Work {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::SeqCst);
        self.counts.put_elements.store(0, Ordering::SeqCst);
        Work {
            compiles: take(&self.counts.compiles),
            runs: take(&self.counts.runs),
            puts: take(&self.counts.puts),
            reads: take(&self.counts.reads),
            donated: take(&self.counts.donated),
        }
    }

    pub fn put_elements(&self) -> usize {
        self.counts.put_elements.load(Ordering::SeqCst)
    }

    /// Returns the number of buffers that are alive.
    pub fn alive(&self) -> usize {
        self.counts.alive.load(Ordering::SeqCst)
    }

    pub fn fail(&self, when: When, error: DeviceError) {
        *self.counts.failing.lock().unwrap() = Some((when, error));
    }

    /// Returns the names of the primitives of each compiled jaxpr since the last call.
    pub fn compiled(&self) -> Vec<Vec<&'static str>> {
        std::mem::take(&mut self.counts.names.lock().unwrap())
    }
}

impl From<&Mock> for Device {
    fn from(mock: &Mock) -> Self {
        mock.device.clone()
    }
}

impl Counts {
    fn add(count: &AtomicUsize) {
        count.fetch_add(1, Ordering::SeqCst);
    }

    fn error(&self, now: When) -> Result<(), DeviceError> {
        let mut failing = self.failing.lock().unwrap();
        match failing.take() {
            Some((when, error)) if when == now => Err(error),
            other => {
                *failing = other;
                Ok(())
            }
        }
    }
}

#[derive(Debug)]
struct MockEngine {
    name: &'static str,
    id: usize,
    counts: Arc<Counts>,
    jobs: Mutex<Sender<Job>>,
}

#[derive(Debug)]
struct MockExecutable {
    engine: usize,
    jaxpr: Jaxpr,
    counts: Arc<Counts>,
    jobs: Mutex<Sender<Job>>,
}

/// A value that is computed later.
#[derive(Debug, Default)]
struct Later(Mutex<Value>, Condvar);

#[derive(Debug, Default)]
enum Value {
    #[default]
    Unknown,
    Known(Result<Tensor, DeviceError>),
    Donated,
}

#[derive(Debug)]
struct MockBuffer {
    engine: usize,
    info: AbstractArray,
    value: Arc<Later>,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Job {
    jaxpr: Jaxpr,
    operands: Vec<(Arc<Later>, bool)>,
    results: Vec<Arc<Later>>,
}

impl Later {
    fn set(&self, value: Value) {
        *self.0.lock().unwrap() = value;
        self.1.notify_all();
    }

    fn wait(&self) -> Result<Tensor, DeviceError> {
        let mut value = self.0.lock().unwrap();
        loop {
            match &*value {
                Value::Known(value) => return value.clone(),
                Value::Donated => panic!("a donated buffer was used again"),
                Value::Unknown => value = self.1.wait(value).unwrap(),
            }
        }
    }
}

impl MockBuffer {
    fn new(engine: usize, counts: &Arc<Counts>, info: AbstractArray) -> Self {
        Counts::add(&counts.alive);
        let counts = Arc::clone(counts);
        Self {
            engine,
            info,
            value: Arc::default(),
            counts,
        }
    }
}

impl Drop for MockBuffer {
    fn drop(&mut self) {
        self.counts.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Checks that the constants of a jaxpr and of all jaxprs in it are small tensors of the host.
fn check_constants(jaxpr: &Jaxpr) {
    for constant in jaxpr.constants() {
        assert!(
            constant.device().is_host() && constant.len() <= 16,
            "{jaxpr}"
        );
    }
    for equation in jaxpr.equations() {
        for (_, body) in equation.bodies() {
            check_constants(body);
        }
    }
}

impl Engine for MockEngine {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn compile(&self, jaxpr: &Jaxpr) -> Result<Arc<dyn Executable>, DeviceError> {
        self.counts.error(When::Compile)?;
        Counts::add(&self.counts.compiles);
        assert_eq!(pytree::transform::verify(jaxpr), Ok(()));
        assert!(jaxpr.equations().len() > 0, "nothing to compute");
        check_constants(jaxpr);
        let names = jaxpr.equations().map(|equation| equation.name());
        self.counts.names.lock().unwrap().push(names.collect());
        Ok(Arc::new(MockExecutable {
            engine: self.id,
            jaxpr: jaxpr.clone(),
            counts: Arc::clone(&self.counts),
            jobs: Mutex::new(self.jobs.lock().unwrap().clone()),
        }))
    }

    fn put(&self, tensor: &Tensor) -> Result<Box<dyn Buffer>, DeviceError> {
        self.counts.error(When::Put)?;
        Counts::add(&self.counts.puts);
        self.counts
            .put_elements
            .fetch_add(tensor.len(), Ordering::SeqCst);
        assert!(tensor.device().is_host());
        let buffer = MockBuffer::new(self.id, &self.counts, tensor.info().clone());
        buffer.value.set(Value::Known(Ok(tensor.clone())));
        Ok(Box::new(buffer))
    }
}

impl Executable for MockExecutable {
    fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn Buffer>>, DeviceError> {
        self.counts.error(When::Run)?;
        Counts::add(&self.counts.runs);
        let expected = self.jaxpr.inputs();
        assert_eq!(inputs.len(), expected.len());
        let mut operands = Vec::new();
        for (input, expected) in inputs.iter().zip(expected) {
            let buffer = input.downcast_ref::<MockBuffer>().unwrap();
            assert_eq!(buffer.engine, self.engine, "a buffer of another device");
            assert_eq!(&buffer.info, expected);
            if input.is_owned() {
                Counts::add(&self.counts.donated);
            }
            operands.push((Arc::clone(&buffer.value), input.is_owned()));
        }
        let outputs = self.jaxpr.outputs().into_iter();
        let buffers: Vec<MockBuffer> = outputs
            .map(|info| MockBuffer::new(self.engine, &self.counts, info.clone()))
            .collect();
        let job = Job {
            jaxpr: self.jaxpr.clone(),
            operands,
            results: buffers.iter().map(|it| Arc::clone(&it.value)).collect(),
        };
        self.jobs.lock().unwrap().send(job).unwrap();
        let boxed = |buffer| Box::new(buffer) as Box<dyn Buffer>;
        Ok(buffers.into_iter().map(boxed).collect())
    }
}

impl Buffer for MockBuffer {
    fn read(&self) -> Result<Tensor, DeviceError> {
        Counts::add(&self.counts.reads);
        self.value.wait()
    }

    fn wait(&self) -> Result<(), DeviceError> {
        self.value.wait().map(drop)
    }
}

/// Computes the jobs of a device one after the other.
fn work(jobs: Receiver<Job>, counts: &Counts) {
    for job in jobs {
        let _open = counts.gate.read().unwrap();
        let outcome = counts.error(When::Computation).and_then(|()| {
            let operands = job.operands.iter().map(|(value, _)| value.wait());
            let operands: Vec<Tensor> = operands.collect::<Result<_, _>>()?;
            Ok(job.jaxpr.evaluate(&operands))
        });
        for (value, _) in job.operands.iter().filter(|(_, is_owned)| *is_owned) {
            value.set(Value::Donated);
        }
        match outcome {
            Ok(results) => {
                for (value, result) in job.results.iter().zip(results) {
                    value.set(Value::Known(Ok(result)));
                }
            }
            Err(error) => {
                for value in &job.results {
                    value.set(Value::Known(Err(error.clone())));
                }
            }
        }
    }
}
