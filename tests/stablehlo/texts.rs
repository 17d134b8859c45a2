//! The texts of modules, and the error messages for programs that have no module.

use pytree::control::{ScanOptions, cond, scan_with};
use pytree::convolution::{Convolution, Padding};
use pytree::debug::debug_callback;
use pytree::{DType, Tensor, jit, make_jaxpr};

fn operations(text: &str) -> Vec<&str> {
    text.split("\"stablehlo.")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect()
}

/// A GPU multiplies bf16 many times as fast as f32, and adds the products in f32 at once.
#[test]
fn products_of_half_precision_read_their_operands_as_they_are() {
    for dtype in [DType::BF16, DType::F16] {
        let name = dtype.to_string();
        let operands = (Tensor::ones(dtype, [2, 3]), Tensor::ones(dtype, [3, 4]));
        let module = jit(|(x, y): (Tensor, Tensor)| x.matmul(&y)).stablehlo(&operands);
        let text = module.text_without_locations();
        assert_eq!(operations(text), ["dot_general", "convert"], "{text}");
        let types = format!("(tensor<2x3x{name}>, tensor<3x4x{name}>) -> tensor<2x4xf32>");
        assert!(text.contains(&types), "{text}");

        let wide = |x: &Tensor| x.convert(DType::F32);
        let multiply = move |(x, y): (Tensor, Tensor)| wide(&x).matmul(&wide(&y));
        let module = jit(multiply).stablehlo(&operands);
        let text = module.text_without_locations();
        assert_eq!(
            operations(text),
            ["convert", "convert", "dot_general"],
            "{text}"
        );
        assert!(text.contains(&types), "{text}");

        let operands = (
            Tensor::ones(dtype, [1, 5, 2]),
            Tensor::ones(dtype, [3, 2, 2]),
        );
        let convolve = |(x, kernel): (Tensor, Tensor)| {
            Convolution::new([1], Padding::Valid).apply(&x, &kernel)
        };
        let module = jit(convolve).stablehlo(&operands);
        let text = module.text_without_locations();
        assert_eq!(operations(text), ["convolution", "convert"], "{text}");
    }
    // The dtype in which integers of 8 bits are multiplied is i32, in which the sum has its last bits.
    let operands = (
        Tensor::ones(DType::I8, [2, 3]),
        Tensor::ones(DType::I8, [3, 4]),
    );
    let module = jit(|(x, y): (Tensor, Tensor)| x.matmul(&y)).stablehlo(&operands);
    let text = module.text_without_locations();
    assert_eq!(
        operations(text),
        ["convert", "convert", "dot_general", "convert"],
        "{text}"
    );
}

#[test]
fn module_of_calls_and_branches_is_as_expected() {
    let inner = jit(|x: Tensor| x.exp());
    let f = jit(move |(flag, x): (Tensor, Tensor)| {
        let y = inner(x.clone()) + inner(x);
        cond(&flag, |y: Tensor| y * 2.0, |y| -y, y)
    });
    let module = f.stablehlo(&(Tensor::from(true), Tensor::from([1.0_f32, 2.0])));
    let expected = r#"module @pytree {
  func.func public @main(%0: tensor<i1>, %1: tensor<2xf32>) -> (tensor<2xf32>) {
    %2 = "func.call"(%1) {callee = @NAME_0} : (tensor<2xf32>) -> tensor<2xf32>
    %3 = "func.call"(%1) {callee = @NAME_0} : (tensor<2xf32>) -> tensor<2xf32>
    %4 = "stablehlo.add"(%2, %3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %5 = "stablehlo.convert"(%0) : (tensor<i1>) -> tensor<i32>
"#;
    let text = module.text_without_locations();
    let name = text
        .split("callee = @")
        .nth(1)
        .unwrap()
        .split("_0}")
        .next()
        .unwrap();
    let expected = expected.replace("NAME", name);
    assert!(text.starts_with(&expected), "{text}");
    assert_eq!(
        text.matches("stablehlo.exponential").count(),
        1,
        "one function for both calls"
    );
    assert_eq!(
        operations(text),
        [
            "add",
            "convert",
            "constant",
            "maximum",
            "case",
            "return",
            "return",
            "exponential",
            "negate",
            "constant",
            "multiply"
        ]
    );
}

#[test]
fn equal_programs_have_equal_texts() {
    let lowered = |length: usize| {
        let f = jit(move |x: Tensor| {
            let options = ScanOptions::new().length(length);
            scan_with(options, |c: Tensor, ()| (c.sin(), c), x, ())
                .1
                .erf()
        });
        f.stablehlo(&Tensor::from([0.5, 1.0]))
    };
    assert_eq!(lowered(3).text(), lowered(3).text());
    assert_ne!(lowered(3).text(), lowered(4).text());
    let (first, second) = (
        jit(|x: Tensor| x.sin()).stablehlo(&Tensor::from(1.0)),
        jit(|x: Tensor| x.sin()).stablehlo(&Tensor::from(1.0)),
    );
    assert_eq!(
        first.text_without_locations(),
        second.text_without_locations()
    );
    assert_ne!(first.text(), second.text(), "the source lines differ");
}

#[test]
fn operations_have_their_source_lines() {
    let line = line!() + 1;
    let module = jit(|x: Tensor| x.sin()).stablehlo(&Tensor::from(1.0));
    let text = module.text();
    let location = format!("loc(\"{}\":{line}:", file!());
    assert!(text.contains(" loc(#line0)\n"), "{text}");
    assert!(text.contains(&location), "{text}");
    assert!(!module.text_without_locations().contains("loc("));
}

#[test]
fn long_constants_are_arguments() {
    let long = Tensor::arange(DType::F32, 1025);
    let short = Tensor::arange(DType::F32, 1024);
    let equal = Tensor::from(vec![2.0_f32; 5000]);
    let inner = {
        let long = long.clone();
        jit(move |x: Tensor| &long * x)
    };
    let f = jit(move |x: Tensor| {
        (
            (inner(x.clone()) + inner(x)).sum(),
            short.clone(),
            equal.clone(),
        )
    });
    let module = f.stablehlo(&Tensor::from(1.0_f32));
    assert_eq!(module.constants(), [long]);
    assert_eq!(module.inputs().len(), 1);
    let text = module.text_without_locations();
    assert!(text.contains("(%0: tensor<f32>, %"), "{text}");
    assert!(text.contains("dense<2.0> : tensor<5000xf32>"), "{text}");
    assert!(text.contains("dense<\"0x000000000000803F"), "{text}");
}

#[test]
fn callback_is_refused_with_its_line() {
    let line = line!() + 2;
    let f = |x: Tensor| {
        debug_callback(&[&x], |_: &[Tensor]| ());
        x.sin()
    };
    let jaxpr = make_jaxpr(f)(Tensor::from([1.0_f32]));
    let error = jaxpr.try_to_stablehlo().unwrap_err().to_string();
    let expected = format!(
        "cannot lower `debug_callback` of f32[1] at {}:{line}:",
        file!()
    );
    assert!(error.starts_with(&expected), "{error}");
    let reason = "to StableHLO: a module runs outside of this program and cannot call one of its functions; remove the call, the print or the check, or run the function on the host";
    assert!(error.ends_with(reason), "{error}");
}

#[test]
fn texts_grow_linearly_with_nested_calls() {
    let mut f = jit(|x: Tensor| x.sin());
    let mut lengths = Vec::new();
    for _ in 0..12 {
        let inner = f.clone();
        f = jit(move |x: Tensor| inner(x.clone()) * inner(x));
        lengths.push(
            f.stablehlo(&Tensor::from(1.0))
                .text_without_locations()
                .len(),
        );
    }
    let steps: Vec<usize> = lengths.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|&step| step < 2 * steps[0]), "{steps:?}");
}

#[test]
fn equations_of_halves_round_once() {
    let compiled = jit(|x: Tensor| (&x * &x).sum());
    let module = compiled.stablehlo(&Tensor::ones(DType::BF16, [3]));
    let text = module.text_without_locations().to_owned();
    let count = |part: &str| text.matches(part).count();
    // Both factors and the summed product are widened, and both results are rounded.
    assert_eq!(count("(tensor<3xbf16>) -> tensor<3xf32>"), 3, "{text}");
    assert_eq!(count("(tensor<3xf32>) -> tensor<3xbf16>"), 1, "{text}");
    assert_eq!(count("(tensor<f32>) -> tensor<bf16>"), 1, "{text}");
}
