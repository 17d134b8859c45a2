//! Measures the times of loading, compiling, calling and copying with a plugin: `cargo bench -p pytree-pjrt`
//!
//! `python benches/jax_calls.py` prints the same lines for JAX. Like the tests, this program needs a plugin.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark is read as a script"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};

use pytree_pjrt::{Client, CompileOptions, ElementType};
use pytree_transform::device::{device_put, wait};
use pytree_transform::{DType, Tensor, jit};

use crate::common::ADD;

const ROUNDS: usize = 21;
const SAMPLE: Duration = Duration::from_millis(20);

/// Returns the median of the seconds that a call takes.
fn median(mut call: impl FnMut()) -> f64 {
    call();
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < SAMPLE || count < 3 {
        call();
        count += 1;
    }
    let sample = || {
        let start = Instant::now();
        (0..count).for_each(|_| call());
        start.elapsed().as_secs_f64() / f64::from(count)
    };
    let mut samples: Vec<f64> = std::iter::repeat_with(sample).take(ROUNDS).collect();
    samples.sort_by(f64::total_cmp);
    samples[ROUNDS / 2]
}

fn once<T>(name: &str, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = call();
    print("ms", name, start.elapsed().as_secs_f64() * 1e3);
    value
}

fn print(unit: &str, name: &str, value: f64) {
    println!("{name:<44} {value:>10.2} {unit}");
}

/// Calls compiled functions of the library, whose arguments are on the device. `PYTREE_CALLS=1000000` only makes so many calls of
/// the smallest function, for a profiler.
fn calls_of_functions(client: &Client) {
    let x = device_put(&Tensor::ones(DType::F32, [4]), client);
    let double = jit(|x: Tensor| &x + &x);
    let calls = std::env::var("PYTREE_CALLS").ok();
    if let Some(calls) = calls.and_then(|calls| calls.parse::<usize>().ok()) {
        (0..calls).for_each(|_| drop(black_box(double(x.clone()))));
        return;
    }
    let call = median(|| drop(black_box(double(x.clone()))));
    print("us", "call a function of f32[4]", 1e6 * call);
    let call = median(|| wait(&double(x.clone())));
    print("us", "call a function of f32[4], and wait", 1e6 * call);
    let tensors: Vec<Tensor> = vec![x.clone(); 16];
    let doubled =
        jit(|tensors: Vec<Tensor>| -> Vec<Tensor> { tensors.iter().map(|x| x + x).collect() });
    let call = median(|| drop(black_box(doubled(tensors.clone()))));
    print("us", "call a function of 16 tensors", 1e6 * call);
    let call = median(|| drop(black_box(&x + &x)));
    print("us", "add two tensors without jit", 1e6 * call);
}

fn main() {
    let Some(path) = common::plugin() else { return };
    let client = once("load the plugin and create a client", || {
        Client::load(&path).unwrap()
    });
    if std::env::var_os("PYTREE_CALLS").is_some() {
        return calls_of_functions(&client);
    }
    drop(once("create another client", || {
        Client::load(&path).unwrap()
    }));
    let add = once("compile an addition, first", || {
        common::compile(&client, ADD)
    });
    print(
        "ms",
        "compile an addition",
        1e3 * median(|| drop(common::compile(&client, ADD))),
    );
    let bytes = add.serialize().unwrap();
    print(
        "ms",
        "load a serialized addition",
        1e3 * median(|| drop(client.deserialize(&bytes).unwrap())),
    );

    let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
    print(
        "us",
        "call f32[4] + f32[4], not waited for",
        1e6 * median(|| drop(black_box(add.run(&[&x, &x], &[]).unwrap()))),
    );
    print(
        "us",
        "call, and wait",
        1e6 * median(|| add.run(&[&x, &x], &[]).unwrap()[0].wait().unwrap()),
    );
    let mut sum = Some(client.put(&[0.0_f32; 4], &[4]).unwrap());
    print(
        "us",
        "call with a donated input, not waited for",
        1e6 * median(|| {
            sum = Some(
                add.run(&[&sum.take().unwrap(), &x], &[0])
                    .unwrap()
                    .remove(0),
            )
        }),
    );
    let mut target = [0_u8; 16];
    print(
        "us",
        "call with a put and a read",
        1e6 * median(|| {
            let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
            add.run(&[&x, &x], &[]).unwrap()[0]
                .read_bytes(&mut target)
                .unwrap();
        }),
    );

    for count in [1 << 10, 1 << 18, 1 << 24] {
        let elements = vec![1.0_f32; count];
        let size = 4.0 * count as f64;
        let name = |what: &str| format!("{what} of {} KiB", count * 4 / 1024);
        let put = median(|| {
            client.put(&elements, &[count]).unwrap().wait().unwrap();
        });
        print("GB/s", &name("put"), size / put / 1e9);
        let buffer = client.put(&elements, &[count]).unwrap();
        let mut target = vec![0_u8; count * 4];
        let read = median(|| buffer.read_bytes(&mut target).unwrap());
        print("GB/s", &name("read"), size / read / 1e9);
    }
    /// A page of memory that begins at a multiple of 64 bytes.
    #[derive(Clone)]
    #[repr(align(64))]
    struct Page([u8; 4096]);
    struct Pages(std::sync::Arc<Page>);
    impl AsRef<[u8]> for Pages {
        fn as_ref(&self) -> &[u8] {
            &self.0.0
        }
    }
    let page = std::sync::Arc::new(Page([0; 4096]));
    let device = &client.devices()[0];
    print(
        "us",
        "put_shared of 4 KiB",
        1e6 * median(|| {
            let owner = Pages(page.clone());
            drop(device.put_shared(ElementType::F32, &[1024], owner).unwrap());
        }),
    );

    calls_of_functions(&client);

    let product = "module @product {
  func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %z = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %z : tensor<1024x1024xf32>
  }
}";
    let product = client.compile(product, &CompileOptions::new()).unwrap();
    let x = client.put(&vec![1e-3_f32; 1 << 20], &[1024, 1024]).unwrap();
    let mut dispatched = Vec::new();
    let total = median(|| {
        let start = Instant::now();
        let z = product.run(&[&x], &[]).unwrap();
        dispatched.push(start.elapsed().as_secs_f64());
        z[0].wait().unwrap();
    });
    dispatched.sort_by(f64::total_cmp);
    print(
        "us",
        "dispatch a product of 1024x1024 matrices",
        1e6 * dispatched[dispatched.len() / 2],
    );
    print("us", "the product, waited for", 1e6 * total);
}
