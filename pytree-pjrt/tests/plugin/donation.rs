//! Donated inputs.

use pytree_pjrt::{CompileOptions, PjrtError};

use crate::common::{ADD, client, compile, run};

/// Passes its first input through, so that a wrong donation would show.
const TWO: &str = "module @two {
  func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = stablehlo.add %x, %y : tensor<4xf32>
    %b = stablehlo.subtract %x, %y : tensor<4xf32>
    return %a, %b : tensor<4xf32>, tensor<4xf32>
  }
}";

#[test]
fn donated_buffer_is_not_usable() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
    let y = client.put(&[2.0_f32; 4], &[4]).unwrap();
    let z = add.run(&[&x, &y], &[0]).unwrap();
    assert!(x.is_donated() && !y.is_donated());
    assert_eq!(z[0].to_vec::<f32>().unwrap(), [3.0; 4]);
    let message = "found a `f32[4]` that was donated to `add`; use the result of that run";
    let errors = [
        add.run(&[&x, &y], &[0]).unwrap_err(),
        add.run(&[&y, &x], &[]).unwrap_err(),
        x.to_vec::<f32>().unwrap_err(),
        x.start_read().unwrap_err(),
        x.wait().unwrap_err(),
        x.is_ready().unwrap_err(),
        x.read_bytes(&mut [0; 16]).unwrap_err(),
    ];
    for error in &errors {
        assert!(error.to_string().contains(message), "{error}");
    }
    assert!(
        errors[1]
            .to_string()
            .starts_with("cannot run `add` with input 1"),
        "{}",
        errors[1]
    );
    assert_eq!(run(&add, &[&y, &y]).to_vec::<f32>().unwrap(), [4.0; 4]);
}

/// The program has two inputs that it may use; which of them it uses is decided for each run.
#[test]
fn other_inputs_are_kept() {
    let Some(client) = client() else { return };
    let two = compile(client, TWO);
    for donated in [&[][..], &[0], &[1], &[0, 1], &[1, 0]] {
        let x = client.put(&[5.0_f32, 6.0, 7.0, 8.0], &[4]).unwrap();
        let y = client.put(&[1.0_f32; 4], &[4]).unwrap();
        let results = two.run(&[&x, &y], donated).unwrap();
        assert_eq!(results[0].to_vec::<f32>().unwrap(), [6.0, 7.0, 8.0, 9.0]);
        assert_eq!(results[1].to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0, 7.0]);
        assert_eq!(x.is_donated(), donated.contains(&0));
        assert_eq!(y.is_donated(), donated.contains(&1));
        if !x.is_donated() {
            assert_eq!(x.to_vec::<f32>().unwrap(), [5.0, 6.0, 7.0, 8.0]);
        }
        if !y.is_donated() {
            assert_eq!(y.to_vec::<f32>().unwrap(), [1.0; 4]);
        }
    }
}

#[test]
fn input_without_use_is_freed() {
    let Some(client) = client() else { return };
    let program = ADD.replace(" {tf.aliasing_output = 0 : i32}", "");
    let add = client.compile(&program, &CompileOptions::new()).unwrap();
    let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
    let y = client.put(&[2.0_f32; 4], &[4]).unwrap();
    let z = add.run(&[&x, &y], &[1]).unwrap();
    assert!(y.is_donated());
    assert_eq!(z[0].to_vec::<f32>().unwrap(), [3.0; 4]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn wrong_donations_are_refused() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
    let cases: [(&[usize], &str); 3] = [
        (
            &[0],
            "cannot donate input 0 of `add`: expected a buffer that is passed once, found it also as input 1",
        ),
        (
            &[2],
            "cannot donate input 2 of `add`: expected the position of one of 2 inputs",
        ),
        (&[1, 1], "cannot donate input 1 of `add`"),
    ];
    for (donated, message) in cases {
        let error = add.run(&[&x, &x], donated).unwrap_err();
        assert!(matches!(error, PjrtError::Donation { .. }), "{error}");
        assert!(error.to_string().starts_with(message), "{error}");
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn donation_may_be_repeated_in_loop() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let one = client.put(&[1.0_f32; 4], &[4]).unwrap();
    let mut sum = client.put(&[0.0_f32; 4], &[4]).unwrap();
    for _ in 0..1000 {
        sum = add.run(&[&sum, &one], &[0]).unwrap().remove(0);
    }
    assert_eq!(sum.to_vec::<f32>().unwrap(), [1000.0; 4]);
}
