//! Memory does not grow. A program of its own, because it reads the memory of the whole process.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]
#![cfg(target_os = "linux")]

mod common;

use pytree_pjrt::{Client, CompileOptions};

use crate::common::{ADD, client, compile, plugin};

/// The resident memory of this process in MiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        / 1024
}

/// Runs something some times, and again as often. Returns by how many MiB the memory grew in the second part.
fn growth(times: usize, mut work: impl FnMut()) -> usize {
    (0..times).for_each(|_| work());
    let before = resident();
    (0..times).for_each(|_| work());
    resident().saturating_sub(before)
}

/// One test, because others of this program would change the memory at the same time.
#[test]
fn nothing_is_kept() {
    let Some(client) = client() else { return };
    let scale = compile(
        client,
        "module @scale {
  func.func @main(%x: tensor<16384xf32> {tf.aliasing_output = 0 : i32}) -> tensor<16384xf32> {
    %y = stablehlo.add %x, %x : tensor<16384xf32>
    return %y : tensor<16384xf32>
  }
}",
    );
    let elements = vec![1.0_f32; 16384];
    let mut target = vec![0_u8; 65536];
    let runs = growth(10_000, || {
        let x = client.put(&elements, &[16384]).unwrap();
        let y = scale.run(&[&x], &[]).unwrap().remove(0);
        let z = scale.run(&[&x], &[0]).unwrap().remove(0);
        y.read_bytes(&mut target).unwrap();
        z.wait().unwrap();
    });
    println!("20,000 puts, 40,000 runs: {runs} MiB");
    // Each of 20,000 buffers of 64 KiB would be 1,250 MiB; a leak of 1 KiB for each event would be 20 MiB or more.
    assert!(runs < 16, "buffers are kept: {runs} MiB");

    let owners = growth(5_000, || {
        let owner = bytemuck::cast_slice::<f32, u8>(&elements).to_vec();
        let element = pytree_pjrt::ElementType::F32;
        let x = client.devices()[0]
            .put_shared(element, &[16384], owner)
            .unwrap();
        drop(x.start_read().unwrap());
    });
    println!("10,000 shared owners: {owners} MiB");
    assert!(owners < 16, "owners are kept: {owners} MiB");

    let errors = growth(5_000, || {
        client
            .compile("module { nonsense }", &CompileOptions::new())
            .unwrap_err();
        client.deserialize(b"nonsense").unwrap_err();
    });
    println!("20,000 errors: {errors} MiB");
    assert!(errors < 16, "errors are kept: {errors} MiB");

    let path = plugin().unwrap();
    let clients = growth(30, || {
        let client = Client::load(&path).unwrap();
        let add = compile(&client, ADD);
        let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
        add.run(&[&x, &x], &[]).unwrap().remove(0).wait().unwrap();
    });
    println!("60 clients with a program: {clients} MiB");
    // A client with its threads takes some MiB, and XLA keeps a little of each compilation.
    assert!(clients < 60, "clients are kept: {clients} MiB");
}
