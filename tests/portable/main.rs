//! Prints a line for each operation, with a hash of the bits of its results, and the losses of a training run. With `PYTREE_PORTABLE=1`,
//! the lines are those of every platform: `tools/check-portable` compares them with those of wasm in Node.

#![allow(clippy::unwrap_used, reason = "a failed step ends the program")]

use std::collections::BTreeMap;

use pytree::checkpoint::{self, Bytes};
use pytree::convolution::{Convolution, Padding};
use pytree::nn::{digamma, lgamma, softmax};
use pytree::platform::{self, Stream};
use pytree::prelude::*;
use pytree::training::{MetricsLog, Progress};

/// Returns the FNV-1a hash of the elements. All NaNs count as one: IEEE 754 leaves their signs open, and x86-64 and ARM set
/// different ones.
fn hash(tensor: &Tensor) -> u64 {
    let mut tensor = tensor.clone();
    if tensor.dtype().is_float() {
        let nan = Tensor::full(tensor.dtype(), tensor.shape(), f64::NAN);
        tensor = tensor.isnan().select(&nan, &tensor);
    }
    let bytes = checkpoint::to_bytes(&BTreeMap::from([("x", tensor)])).unwrap();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn record(name: &str, tensor: &Tensor) {
    platform::print(Stream::Output, &format!("{name}: {:016x}\n", hash(tensor)));
}

/// An operation of one operand, with its name.
type Unary = (&'static str, fn(&Tensor) -> Tensor);

/// Writes the name of a method and the method.
macro_rules! methods {
    ($($name:ident)*) => {
        vec![$((stringify!($name), (|x: &Tensor| x.$name()) as fn(&Tensor) -> Tensor)),*]
    };
}

fn elementwise() {
    let functions: Vec<Unary> = methods!(
        abs sign floor ceil round exp exp2 expm1 log log1p log2 log10 sqrt rsqrt cbrt sin cos tan asin acos atan sinh
        cosh tanh asinh acosh atanh erf erfc erf_inv square relu sigmoid
    );
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let key = Key::new(3);
        let numbers = key.normal(DType::F64, [4000]);
        let numbers = Tensor::concatenate(
            &[
                &numbers,
                &(&numbers * 30.0),
                &(&numbers * 1e5),
                &(&numbers * 1e-4),
            ],
            0,
        );
        let x = numbers.convert(dtype);
        for (name, function) in &functions {
            record(&format!("{name} of {dtype}"), &function(&x));
        }
        let y = x.reverse([0]);
        record(&format!("power of {dtype}"), &x.abs().pow(&y));
        record(&format!("atan2 of {dtype}"), &x.atan2(&y));
        record(&format!("remainder of {dtype}"), &(&x % &y));
        record(&format!("lgamma of {dtype}"), &lgamma(&x));
        record(&format!("digamma of {dtype}"), &digamma(&x));
        record(&format!("powi of {dtype}"), &x.powi(37));
    }
}

fn arrays() {
    let key = Key::new(5);
    for dtype in [DType::F32, DType::F64] {
        let x = key.normal(dtype, [96, 130]);
        let name = |operation: &str| format!("{operation} of {dtype}");
        record(&name("product"), &x.matmul(&x.t()));
        record(&name("thin product"), &x.matmul(&x.index(ix![0])));
        let (tall, wide) = (key.normal(dtype, [900, 7]), key.normal(dtype, [900, 19]));
        record(&name("product of long sums"), &tall.t().matmul(&wide));
        record(&name("sum"), &x.sum());
        record(&name("sums of rows"), &x.sum_axes([1]));
        record(&name("sums of columns"), &x.sum_axes([0]));
        record(&name("cumulative sum"), &x.cumsum(1));
        record(&name("cumulative logsumexp"), &x.cumlogsumexp(1));
        record(&name("softmax"), &jit(|x: &Tensor| softmax(x, -1))(&x));
        let images = key.normal(dtype, [2, 12, 12, 5]);
        let kernel = key.normal(dtype, [3, 3, 5, 7]);
        let convolution = Convolution::new([1, 1], Padding::Same);
        let convolved = jit(move |(x, k): (Tensor, Tensor)| convolution.apply(&x, &k).tanh());
        record(&name("convolution"), &convolved((images, kernel)));
    }
    record("bits", &key.bits([1000]));
    record("uniform", &key.uniform(DType::F32, [1000]));
    record(
        "gamma",
        &key.gamma(&Tensor::full(DType::F32, [1000], 0.7), [1000]),
    );
}

/// Trains a small network, and saves and loads it in memory.
fn training() {
    let mut model = Mlp::new(&[20, 32, 5], Activation::Gelu, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let step = jit(
        |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&model);
            pytree::debug::debug_print!("loss of the step: {loss}");
            optimizer.update(&mut model, &gradient);
            (model, optimizer, loss)
        },
    );
    let x = Key::new(1).normal(DType::F32, [64, 20]);
    let y = x.index(ix![.., 0..5]).argmax(-1);
    let mut progress = Progress::to(Stream::Output, pytree::training::ProgressStyle::Lines, 30);
    let mut log = MetricsLog::to(Stream::Output);
    for number in 0..30 {
        let loss;
        (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
        progress.step();
        log.write(number, [("loss", loss.item::<f32>())]).unwrap();
    }
    progress.report("trained", [("parameters", 837_u32)]);
    let bytes = checkpoint::to_bytes(&model).unwrap();
    let loaded = checkpoint::load(
        Bytes(&bytes),
        &Mlp::new(&[20, 32, 5], Activation::Gelu, &mut Rngs::new(9)),
    )
    .unwrap();
    assert_eq!(loaded, model);
    record("trained", &loaded.forward(&x));
    let error = checkpoint::load("no-such-folder/model.safetensors", &model).unwrap_err();
    assert!(
        error.to_string().contains(if platform::HAS_FILES {
            "(os error "
        } else {
            "this platform has no files"
        }),
        "{error}"
    );
}

fn main() {
    #[cfg(target_family = "wasm")]
    page::connect();
    elementwise();
    arrays();
    training();
}

/// The functions that the script in Node provides.
#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "functions of a script take addresses")]
mod page {
    use std::time::Duration;

    use pytree::platform;

    #[link(wasm_import_module = "page")]
    unsafe extern "C" {
        fn print(is_error: bool, text: *const u8, length: usize);
        safe fn milliseconds() -> f64;
    }

    pub(super) fn connect() {
        platform::set_output(|stream, text| {
            // SAFETY: the script only reads the text.
            unsafe { print(stream == platform::Stream::Error, text.as_ptr(), text.len()) }
        });
        platform::set_clock(|| Duration::from_secs_f64(milliseconds() / 1000.0));
        std::panic::set_hook(Box::new(|panic| {
            platform::print(platform::Stream::Error, &format!("{panic}\n"));
        }));
    }
}
