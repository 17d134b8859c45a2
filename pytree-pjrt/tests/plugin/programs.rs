//! Programs of every dtype and structure.

use pytree_pjrt::{ElementType, OptionValue};

use crate::common::{ADD, client, compile, run};

#[test]
fn vectors_are_added() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let x = client.put(&[1.0_f32, 2.0, 3.0, 4.0], &[4]).unwrap();
    let y = client
        .put(&[0.5_f32, 0.25, -3.0, f32::INFINITY], &[4])
        .unwrap();
    let z = run(&add, &[&x, &y]);
    assert_eq!(z.to_vec::<f32>().unwrap(), [1.5, 2.25, 0.0, f32::INFINITY]);
    assert_eq!(z.array_info().to_string(), "f32[4]");
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn matrices_are_multiplied() {
    let Some(client) = client() else { return };
    let dot = compile(
        client,
        "module @dot {
  func.func @main(%x: tensor<2x3xf64>, %y: tensor<3x2xf64>) -> tensor<2x2xf64> {
    %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x3xf64>, tensor<3x2xf64>) -> tensor<2x2xf64>
    return %z : tensor<2x2xf64>
  }
}",
    );
    let x = client
        .put(&[1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])
        .unwrap();
    let y = client
        .put(&[7.0_f64, 8.0, 9.0, 10.0, 11.0, 12.0], &[3, 2])
        .unwrap();
    assert_eq!(
        run(&dot, &[&x, &y]).to_vec::<f64>().unwrap(),
        [58.0, 64.0, 139.0, 154.0]
    );
}

/// A plugin may store a transposed result by columns. The host gets rows.
#[test]
fn transposed_results_are_read_by_rows() {
    let Some(client) = client() else { return };
    let transpose = compile(
        client,
        "module @transpose {
  func.func @main(%x: tensor<2x3xi32>) -> tensor<3x2xi32> {
    %z = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
    return %z : tensor<3x2xi32>
  }
}",
    );
    let x = client.put(&[1_i32, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
    assert_eq!(
        run(&transpose, &[&x]).to_vec::<i32>().unwrap(),
        [1, 4, 2, 5, 3, 6]
    );
}

#[test]
fn results_have_their_types() {
    let Some(client) = client() else { return };
    let pair = compile(
        client,
        "module @pair {
  func.func @main(%x: tensor<2xi32>, %y: tensor<f32>) -> (tensor<2xi1>, tensor<2xi32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0> : tensor<2xi32>
    %positive = stablehlo.compare GT, %x, %zero : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %negative = stablehlo.negate %x : tensor<2xi32>
    %exp = stablehlo.exponential %y : tensor<f32>
    return %positive, %negative, %exp : tensor<2xi1>, tensor<2xi32>, tensor<f32>
  }
}",
    );
    assert_eq!(pair.name(), "pair");
    let results: Vec<String> = pair.results().map(ToString::to_string).collect();
    assert_eq!(results, ["bool[2]", "i32[2]", "f32[]"]);
    let parameters = pair.parameters().unwrap().iter();
    let parameters: Vec<String> = parameters.map(ToString::to_string).collect();
    assert_eq!(parameters, ["i32[2]", "f32[]"]);
    let x = client.put(&[-1_i32, 7], &[2]).unwrap();
    let y = client.put(&[0.0_f32], &[]).unwrap();
    let results = pair.run(&[x, y], &[]).unwrap();
    assert_eq!(results[0].to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!(results[1].to_vec::<i32>().unwrap(), [1, -7]);
    assert_eq!(results[2].to_vec::<f32>().unwrap(), [1.0]);
}

/// Adds an array to itself, in each type, and compares the bytes.
#[test]
fn every_dtype_is_computed() {
    let Some(client) = client() else { return };
    // The bits of 1.5 and -2 in half precision and bfloat16, and of their doubles.
    let half = |bits: [u16; 2]| bits.map(u16::to_ne_bytes).concat();
    let cases: [(ElementType, &str, Vec<u8>, Vec<u8>); 12] = [
        (ElementType::I8, "i8", vec![3, 0xff], vec![6, 0xfe]),
        (ElementType::U8, "ui8", vec![3, 0xff], vec![6, 0xfe]),
        (
            ElementType::I16,
            "i16",
            bytes(&[-300_i16, 7]),
            bytes(&[-600_i16, 14]),
        ),
        (
            ElementType::U16,
            "ui16",
            bytes(&[40_000_u16, 7]),
            bytes(&[14_464_u16, 14]),
        ),
        (
            ElementType::I32,
            "i32",
            bytes(&[i32::MIN, 7]),
            bytes(&[0_i32, 14]),
        ),
        (
            ElementType::U32,
            "ui32",
            bytes(&[u32::MAX, 7]),
            bytes(&[u32::MAX - 1, 14]),
        ),
        (
            ElementType::I64,
            "i64",
            bytes(&[-1_i64 << 40, 7]),
            bytes(&[-1_i64 << 41, 14]),
        ),
        (
            ElementType::U64,
            "ui64",
            bytes(&[u64::MAX, 7]),
            bytes(&[u64::MAX - 1, 14]),
        ),
        (
            ElementType::F16,
            "f16",
            half([0x3e00, 0xc000]),
            half([0x4200, 0xc400]),
        ),
        (
            ElementType::BF16,
            "bf16",
            half([0x3fc0, 0xc000]),
            half([0x4040, 0xc080]),
        ),
        (
            ElementType::F32,
            "f32",
            bytes(&[1.5_f32, -2.0]),
            bytes(&[3.0_f32, -4.0]),
        ),
        (
            ElementType::F64,
            "f64",
            bytes(&[1e300_f64, -2.0]),
            bytes(&[2e300_f64, -4.0]),
        ),
    ];
    for (element, name, input, expected) in cases {
        let program = format!(
            "module @double {{
  func.func @main(%x: tensor<2x{name}>) -> tensor<2x{name}> {{
    %y = stablehlo.add %x, %x : tensor<2x{name}>
    return %y : tensor<2x{name}>
  }}
}}"
        );
        let double = compile(client, &program);
        let x = client.put_bytes(element, &[2], &input).unwrap();
        let y = run(&double, &[&x]);
        assert_eq!(y.element_type(), element);
        assert_eq!(y.to_bytes().unwrap(), expected, "{element}");
    }
}

fn bytes<T: bytemuck::NoUninit>(elements: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(elements).to_vec()
}

#[test]
fn bools_are_computed() {
    let Some(client) = client() else { return };
    let not = compile(
        client,
        "module @no {
  func.func @main(%x: tensor<3xi1>) -> tensor<3xi1> {
    %y = stablehlo.not %x : tensor<3xi1>
    return %y : tensor<3xi1>
  }
}",
    );
    let x = client.put(&[true, false, true], &[3]).unwrap();
    assert_eq!(
        run(&not, &[&x]).to_vec::<bool>().unwrap(),
        [false, true, false]
    );
}

#[test]
fn loops_end() {
    let Some(client) = client() else { return };
    let sum = compile(
        client,
        "module @sum_below {
  func.func @main(%end: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %i, %s = stablehlo.while(%a = %zero, %b = %zero) : tensor<i32>, tensor<i32>
    cond {
      %more = stablehlo.compare LT, %a, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.add %a, %one : tensor<i32>
      %total = stablehlo.add %b, %a : tensor<i32>
      stablehlo.return %next, %total : tensor<i32>, tensor<i32>
    }
    return %s : tensor<i32>
  }
}",
    );
    let end = client.put(&[1000_i32], &[]).unwrap();
    assert_eq!(run(&sum, &[&end]).to_vec::<i32>().unwrap(), [499_500]);
}

#[test]
fn empty_arrays_have_no_elements() {
    let Some(client) = client() else { return };
    let program = "module @empty {
  func.func @main(%x: tensor<0x3xf32>) -> (tensor<0x3xf32>, tensor<3xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.add %x, %x : tensor<0x3xf32>
    %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
    return %y, %s : tensor<0x3xf32>, tensor<3xf32>
  }
}";
    let empty = compile(client, program);
    let x = client.put::<f32>(&[], &[0, 3]).unwrap();
    let results = empty.run(&[x], &[]).unwrap();
    assert_eq!(results[0].dims(), [0, 3]);
    assert!(results[0].to_vec::<f32>().unwrap().is_empty());
    assert_eq!(results[1].to_vec::<f32>().unwrap(), [0.0; 3]);
}

#[test]
fn program_may_have_no_inputs_or_results() {
    let Some(client) = client() else { return };
    let constant = compile(
        client,
        "module @constant {
  func.func @main() -> tensor<i32> {
    %x = stablehlo.constant dense<42> : tensor<i32>
    return %x : tensor<i32>
  }
}",
    );
    assert_eq!(run(&constant, &[]).to_vec::<i32>().unwrap(), [42]);
    let nothing = compile(
        client,
        "module @nothing { func.func @main(%x: tensor<i32>) { return } }",
    );
    let x = client.put(&[1_i32], &[]).unwrap();
    assert!(nothing.run(&[&x], &[]).unwrap().is_empty());
}

#[test]
fn program_reports_its_memory() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    if let Some(memory) = add.memory() {
        assert_eq!(
            (memory.inputs, memory.outputs, memory.aliased),
            (32, 16, 16)
        );
    }
    for (name, value) in add.cost() {
        assert!(
            name != "flops" || value == OptionValue::Float(4.0),
            "{name}: {value:?}"
        );
    }
}

#[test]
fn program_runs_on_chosen_device() {
    let Some(client) = client() else { return };
    let Some(second) = client.devices().get(1) else {
        return;
    };
    let add = client
        .compile(ADD, &pytree_pjrt::CompileOptions::new().device(1))
        .unwrap();
    assert_eq!(add.device(), second);
    assert_eq!((second.index(), second.id()), (1, 1));
    let x = second.put(&[1.0_f32; 4], &[4]).unwrap();
    let y = run(&add, &[&x, &x]);
    assert_eq!(y.device(), second);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 4]);
}
