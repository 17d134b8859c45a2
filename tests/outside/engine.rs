//! An engine for a device: it has its own memory, compiles StableHLO, and refuses what it cannot compute.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::debug::debug_print;
use pytree::device::{
    Buffer, Device, DeviceError, Engine, Executable, Input, device_put, try_device_put,
};
use pytree::prelude::*;
use pytree::stablehlo::StableHlo;
use pytree::transform::JaxprEquation;
use pytree::{AbstractArray, Jaxpr, custom_jvp, make_jaxpr};

use crate::operation::{Direction, leaky_sum};

/// A device whose elements have 32 bits.
#[derive(Debug)]
struct Card(Arc<Memory>);

/// The memory of a device, in elements.
#[derive(Debug)]
pub struct Memory {
    size: usize,
    used: AtomicUsize,
    /// The number of compiled programs.
    programs: AtomicUsize,
    /// The number of equations that have run.
    equations: AtomicUsize,
}

/// An array on the device.
#[derive(Debug)]
struct Block {
    info: AbstractArray,
    words: Vec<u32>,
    memory: Arc<Memory>,
}

/// A compiled program: the text that the compiler of a real device reads, and what computes it here.
#[derive(Debug)]
struct Program {
    module: StableHlo,
    jaxpr: Jaxpr,
    memory: Arc<Memory>,
}

/// Creates a device with memory for `size` elements.
pub fn card(size: usize) -> (Device, Arc<Memory>) {
    let memory = Arc::new(Memory {
        size,
        used: AtomicUsize::new(0),
        programs: AtomicUsize::new(0),
        equations: AtomicUsize::new(0),
    });
    (Device::new(Card(Arc::clone(&memory))), memory)
}

impl Memory {
    pub fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    pub fn programs(&self) -> usize {
        self.programs.load(Ordering::SeqCst)
    }
}

fn supported(info: &AbstractArray) -> Result<(), DeviceError> {
    match info.dtype {
        DType::F32 | DType::I32 | DType::U32 => Ok(()),
        other => Err(DeviceError::unsupported(
            format!("the dtype {other}"),
            "convert to f32 or i32",
        )),
    }
}

impl Block {
    fn new(memory: &Arc<Memory>, tensor: &Tensor) -> Result<Self, DeviceError> {
        let info = tensor.info();
        supported(info)?;
        if memory.used.fetch_add(tensor.len(), Ordering::SeqCst) + tensor.len() > memory.size {
            memory.used.fetch_sub(tensor.len(), Ordering::SeqCst);
            return Err(DeviceError::out_of_memory(format!(
                "{} elements are free",
                memory.size - memory.used()
            )));
        }
        let words = match info.dtype {
            DType::F32 => tensor
                .to_vec::<f32>()
                .into_iter()
                .map(f32::to_bits)
                .collect(),
            DType::I32 => tensor
                .to_vec::<i32>()
                .into_iter()
                .map(i32::cast_unsigned)
                .collect(),
            _ => tensor.to_vec::<u32>(),
        };
        Ok(Self {
            info: info.clone(),
            words,
            memory: Arc::clone(memory),
        })
    }

    fn tensor(&self) -> Tensor {
        let (shape, words) = (&self.info.shape[..], self.words.iter().copied());
        match self.info.dtype {
            DType::F32 => Tensor::new(shape, words.map(f32::from_bits).collect::<Vec<_>>()),
            DType::I32 => Tensor::new(shape, words.map(u32::cast_signed).collect::<Vec<_>>()),
            _ => Tensor::new(shape, words.collect::<Vec<_>>()),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.memory
            .used
            .fetch_sub(self.words.len(), Ordering::SeqCst);
    }
}

impl Engine for Card {
    fn name(&self) -> String {
        "card:0".to_owned()
    }

    fn compile(&self, jaxpr: &Jaxpr) -> Result<Arc<dyn Executable>, DeviceError> {
        let effects = jaxpr.equations().find(|equation| equation.has_effect());
        if let Some(equation) = effects {
            let what = format!("`{}` at {}", equation.name(), equation.line());
            return Err(DeviceError::unsupported(
                what,
                "run the function on the host",
            ));
        }
        for info in jaxpr.inputs().into_iter().chain(jaxpr.outputs()) {
            supported(info)?;
        }
        let module = jaxpr.try_to_stablehlo();
        let module = module.map_err(|error| DeviceError::failed(error.to_string()))?;
        self.0.programs.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(Program {
            module,
            jaxpr: jaxpr.clone(),
            memory: Arc::clone(&self.0),
        }))
    }

    fn put(&self, tensor: &Tensor) -> Result<Box<dyn Buffer>, DeviceError> {
        Ok(Box::new(Block::new(&self.0, tensor)?))
    }
}

impl Executable for Program {
    fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn Buffer>>, DeviceError> {
        let operands = inputs
            .iter()
            .zip(self.module.inputs())
            .map(|(input, expected)| {
                let block = input.downcast_ref::<Block>();
                let block =
                    block.ok_or_else(|| DeviceError::failed("a buffer of another device"))?;
                assert_eq!(&block.info, expected);
                Ok(block.tensor())
            });
        let operands = operands.collect::<Result<Vec<_>, DeviceError>>()?;
        // The memory of owned inputs is free before the results are written.
        drop(inputs);
        let run = |equation: &JaxprEquation<'_>, operands: &[&Tensor]| {
            self.memory.equations.fetch_add(1, Ordering::SeqCst);
            Ok::<_, DeviceError>(equation.evaluate(operands))
        };
        let results = self.jaxpr.interpret(operands, Tensor::clone, run)?;
        let results = results
            .iter()
            .map(|result| Block::new(&self.memory, result));
        results
            .map(|block| Ok(Box::new(block?) as Box<dyn Buffer>))
            .collect()
    }
}

impl Buffer for Block {
    fn read(&self) -> Result<Tensor, DeviceError> {
        Ok(self.tensor())
    }
}

fn panic_of<R>(function: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(function())));
    *outcome.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn transformations_run_on_the_device() {
    let (device, memory) = card(1000);
    let f = |x: &Tensor| (x.sin() * x).sum();
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let there = device_put(&x, &device);
    let rows = vmap(move |row: Tensor| value_and_grad(f)(&row));
    let expected = rows(x.clone());
    assert_eq!(rows(there.clone()), expected);
    let compiled = jit(rows).on(&device);
    assert_eq!(compiled(x.clone()), expected);
    let before = memory.programs();
    let found = compiled(there);
    assert_eq!((found.0.device(), &found), (&device, &expected));
    assert_eq!(memory.programs(), before);
    assert!(memory.equations.load(Ordering::SeqCst) > before);
    drop((found, compiled));
    assert_eq!(memory.used(), 0);
}

#[test]
fn own_operation_is_lowered() {
    let (device, _) = card(1000);
    let f = |x: &Tensor, decay: &Tensor| leaky_sum(x, decay, Direction::Backward).square().sum();
    let gradient = move |arguments: &(Tensor, Tensor)| {
        grad(move |(x, decay): &(Tensor, Tensor)| f(x, decay))(arguments)
    };
    let arguments = (Tensor::from([1.0_f32, 2.0, 4.0]), Tensor::from(0.5_f32));
    let text = jit(gradient).stablehlo(&arguments).text();
    assert!(text.contains("stablehlo.while"), "{text}");
    let there = device_put(&arguments, &device);
    assert_eq!(jit(gradient)(&there), gradient(&arguments));
}

#[test]
fn custom_derivative_keeps_to_the_device() {
    let (device, _) = card(100);
    let relu = custom_jvp(
        |x: &Tensor| x.maximum(0.0),
        |x: &Tensor, dx: &Tensor| {
            (
                x.maximum(0.0),
                dx * x.greater_equal(0.0).convert(DType::F32),
            )
        },
    );
    let x = device_put(&Tensor::from([-1.0_f32, 0.0, 2.0]), &device);
    let gradient = grad(move |x: &Tensor| relu(x).sum())(&x);
    assert_eq!(
        (gradient.device(), gradient.to_vec::<f32>()),
        (&device, vec![0.0, 1.0, 1.0])
    );
}

#[test]
fn refusals_are_errors_of_the_call() {
    let (device, memory) = card(10);
    let wide = try_device_put(&Tensor::from(1.0_f64), &device)
        .unwrap_err()
        .to_string();
    assert!(
        wide.contains("the dtype f64") && wide.contains("convert to f32 or i32"),
        "{wide}"
    );
    let long = try_device_put(&Tensor::zeros(DType::F32, [11]), &device)
        .unwrap_err()
        .to_string();
    assert!(long.contains("10 elements are free"), "{long}");
    assert_eq!(memory.used(), 0);
    let printing = jit(|x: Tensor| {
        debug_print!("{}", x);
        x * 2.0
    });
    let message = panic_of(|| printing.clone().on(&device)(Tensor::from(1.0_f32)));
    assert!(
        message.contains("debug_callback") && message.contains("engine.rs"),
        "{message}"
    );
}

#[test]
fn interpreter_has_values_of_its_own() {
    let x = Tensor::ones(DType::F32, [2, 3]);
    let jaxpr = make_jaxpr(|x: Tensor| (x.matmul(&x.t()).sin() * 2.0, x.sum()))(x);
    // The depth of each value in the program.
    let deeper = |_: &JaxprEquation<'_>, operands: &[&usize]| {
        let depth = operands.iter().copied().max().map_or(0, |depth| depth + 1);
        Ok::<_, String>(vec![depth])
    };
    assert_eq!(jaxpr.interpret(vec![0], |_| 0, deeper), Ok(vec![4, 1]));
    let refused = jaxpr.interpret(
        vec![()],
        |_| (),
        |equation, _| match equation.name() {
            "sin" => Err(format!("no rule for `{}`", equation.name())),
            _ => Ok(vec![()]),
        },
    );
    assert_eq!(refused, Err("no rule for `sin`".to_owned()));
    let none = |_: &JaxprEquation<'_>, _: &[&()]| Ok::<_, String>(Vec::new());
    let message = panic_of(|| jaxpr.interpret(vec![()], |_| (), none));
    assert!(message.contains("expected 1 results, found 0"), "{message}");
    let message = panic_of(|| jaxpr.interpret(Vec::new(), |_| (), none));
    assert!(message.contains("expected 1 inputs, found 0"), "{message}");
}
