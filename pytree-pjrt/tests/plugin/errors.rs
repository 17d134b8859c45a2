//! Mistakes that a plugin or a run reports.

use pytree_pjrt::{Client, CompileOptions, Options, PjrtError};

use crate::common::{ADD, client, compile, plugin, run};

#[test]
fn malformed_programs_are_refused() {
    let Some(client) = client() else { return };
    let cases = [
        ("", "cannot compile the StableHLO program ``"),
        ("module @oops { nonsense }", "cannot compile the StableHLO program `oops`: "),
        (
            "module @types { func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> { return %x : tensor<2xf32> } }",
            "cannot compile the StableHLO program `types`: ",
        ),
        (
            "module @call { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
               %y = stablehlo.custom_call @no_such_target(%x) {api_version = 4 : i32} : (tensor<2xf32>) -> tensor<2xf32>
               return %y : tensor<2xf32> } }",
            "cannot compile the StableHLO program `call`: ",
        ),
    ];
    for (program, message) in cases {
        let error = client.compile(program, &CompileOptions::new()).unwrap_err();
        assert!(matches!(error, PjrtError::Compile { .. }), "{error}");
        assert!(error.to_string().starts_with(message), "{error}");
        println!("{error}");
    }
}

#[test]
fn unknown_flags_are_refused() {
    let Some(client) = client() else { return };
    let options = CompileOptions::new().set("xla_no_such_flag", true);
    let error = client.compile(ADD, &options).unwrap_err();
    assert!(error.to_string().contains("xla_no_such_flag"), "{error}");
    let options = CompileOptions::new().set("xla_cpu_enable_fast_math", false);
    client.compile(ADD, &options).unwrap();
}

#[test]
fn wrong_inputs_are_refused() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
    let same_size = client.put(&[1_i32; 4], &[4]).unwrap();
    let same_length = client.put(&[1.0_f32; 4], &[2, 2]).unwrap();
    let longer = client.put(&[1.0_f32; 5], &[5]).unwrap();
    let message = |inputs: &[_]| add.run(inputs, &[]).unwrap_err().to_string();
    let cases = [
        (
            message(&[&x]),
            "cannot run `add`: expected 2 inputs, found 1; pass one buffer",
        ),
        (
            message(&[&x, &x, &x]),
            "cannot run `add`: expected 2 inputs, found 3; ",
        ),
        (
            message(&[&x, &same_size]),
            "cannot run `add`: expected `f32[4]` for input 1, found `i32[4]`; ",
        ),
        (
            message(&[&same_length, &x]),
            "cannot run `add`: expected `f32[4]` for input 0, found `f32[2,2]`; ",
        ),
        (
            message(&[&longer, &x]),
            "cannot run `add`: expected `f32[4]` for input 0, found `f32[5]`; ",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn wrong_devices_are_refused() {
    let (Some(client), Some(plugin)) = (client(), plugin()) else {
        return;
    };
    let add = compile(client, ADD);
    let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
    let other = Client::load(plugin).unwrap();
    let y = other.put(&[1.0_f32; 4], &[4]).unwrap();
    let error = add.run(&[&x, &y], &[]).unwrap_err();
    assert!(
        matches!(error, PjrtError::InputDevice { index: 1, .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("of another client; put the input on "),
        "{error}"
    );
    if let Some(second) = client.devices().get(1) {
        let y = second.put(&[1.0_f32; 4], &[4]).unwrap();
        let error = add.run(&[&y, &x], &[]).unwrap_err();
        assert!(
            matches!(error, PjrtError::InputDevice { index: 0, .. }),
            "{error}"
        );
    }
    let error = client
        .compile(ADD, &CompileOptions::new().device(99))
        .unwrap_err();
    let expected = "cannot compile a program: expected the index of one of ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// The run of a program fails, at once or when its result is read.
#[test]
fn exhausted_memory_is_reported() {
    let Some(client) = client() else { return };
    // 512 TiB, more than the address space of a process.
    let huge = compile(
        client,
        "module @huge {
  func.func @main(%x: tensor<f32>) -> tensor<140737488355328xf32> {
    %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<140737488355328xf32>
    return %y : tensor<140737488355328xf32>
  }
}",
    );
    let x = client.put(&[1.0_f32], &[]).unwrap();
    let error = match huge.run(&[&x], &[]) {
        Ok(results) => results[0].wait().unwrap_err(),
        Err(error) => error,
    };
    println!("{error}");
    assert!(matches!(error, PjrtError::OutOfMemory { .. }), "{error:?}");
    assert!(error.to_string().contains("`huge`"), "{error}");
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0]);
}

/// The memory is needed only when an earlier run has ended, so the run starts and fails later.
#[test]
fn later_error_is_returned_by_read() {
    let Some(client) = client() else { return };
    let slow = compile(
        client,
        "module @slow {
  func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %y : tensor<512x512xf32>
  }
}",
    );
    let huge = compile(
        client,
        "module @huge {
  func.func @main(%x: tensor<512x512xf32>) -> (tensor<536870912x512x512xf32>, tensor<512x512xf32>) {
    %y = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<512x512xf32>) -> tensor<536870912x512x512xf32>
    %z = stablehlo.add %x, %x : tensor<512x512xf32>
    return %y, %z : tensor<536870912x512x512xf32>, tensor<512x512xf32>
  }
}",
    );
    let x = client.put(&vec![1.0_f32; 512 * 512], &[512, 512]).unwrap();
    let mut y = run(&slow, &[&x]);
    for _ in 0..50 {
        y = run(&slow, &[&y]);
    }
    let results = huge.run(&[&y], &[]).unwrap();
    let errors = [
        results[0].wait().unwrap_err(),
        results[1].to_vec::<f32>().unwrap_err(),
        results[1]
            .start_read()
            .and_then(pytree_pjrt::Read::wait)
            .unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PjrtError::OutOfMemory { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .starts_with("cannot run `huge`: the memory"),
            "{error}"
        );
    }
    // A run with the failed result fails, too, and the input is as before.
    assert!(run(&slow, &[&results[1]]).to_bytes().is_err());
    let bits = run(&slow, &[&x]).to_vec::<f32>().unwrap()[0].to_bits();
    assert_eq!(bits, 512.0_f32.to_bits());
}

#[test]
fn wrong_option_types_are_refused() {
    let (Some(client), Some(plugin)) = (client(), plugin()) else {
        return;
    };
    // The plugin with PJRT 0.81 throws a C++ exception, which ends the process.
    if client.api_version() < (0, 100) {
        return;
    }
    let options = Options::new().set("cpu_device_count", "two");
    let error = Client::load_with(plugin, &options).unwrap_err();
    println!("{error}");
    assert!(matches!(error, PjrtError::Client { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("with the options `cpu_device_count`: String(\"two\")"),
        "{error}"
    );
}

#[test]
fn foreign_bytes_are_no_program() {
    let Some(client) = client() else { return };
    let error = client.deserialize(b"no program").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot load a compiled program: "),
        "{error}"
    );
    let bytes = compile(client, ADD).serialize().unwrap();
    let error = client.deserialize(&bytes[..bytes.len() / 2]).unwrap_err();
    assert!(matches!(error, PjrtError::Deserialize { .. }), "{error}");
}
