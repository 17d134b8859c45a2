//! Compares functions with exact values where a careless formula loses digits.

use pytree::nn::{gelu_exact, log_sigmoid, silu, softplus};
use pytree::{DType, Tensor, grad, jit};
use serde_json::Value;

use crate::goldens::files::read;
use crate::stablehlo::record;

/// How many units in the last place a result may be off at a place.
fn units(name: &str, x: f64) -> f64 {
    match name {
        // The rounding of x/√2, which erfc(x/√2) ~ exp(-x²/2) multiplies by x².
        "gelu_exact" => 4.0 + x * x,
        // The formula is XLA's, so that random numbers are JAX's: it rounds x² before it takes 1 - x².
        "erf_inv" => 2.0 + 1.0 / (1.0 - x * x),
        // Functions written in others add up their errors.
        "silu" | "hypot" => 4.0,
        "log2" | "log10" => 3.0,
        _ => 2.0,
    }
}

fn apply(name: &str, x: &[Tensor]) -> Tensor {
    let first = &x[0];
    match name {
        "asin" => first.asin(),
        "acos" => first.acos(),
        "acosh" => first.acosh(),
        "asinh" => first.asinh(),
        "atanh" => first.atanh(),
        "log1p" => first.log1p(),
        "expm1" => first.expm1(),
        "exp" => first.exp(),
        "exp2" => first.exp2(),
        "sinh" => first.sinh(),
        "cosh" => first.cosh(),
        "tanh" => first.tanh(),
        "sigmoid" => first.sigmoid(),
        "log" => first.log(),
        "log2" => first.log2(),
        "log10" => first.log10(),
        "cbrt" => first.cbrt(),
        "rsqrt" => first.rsqrt(),
        "erf" => first.erf(),
        "erfc" => first.erfc(),
        "erf_inv" => first.erf_inv(),
        "softplus" => softplus(first),
        "log_sigmoid" => log_sigmoid(first),
        "gelu_exact" => gelu_exact(first),
        "silu" => silu(first),
        "hypot" => first.hypot(&x[1]),
        "logaddexp" => first.logaddexp(&x[1]),
        "pow" => first.pow(&x[1]),
        "atan2" => first.atan2(&x[1]),
        other => panic!("no function for {other}"),
    }
}

/// A number by its bits.
fn number(bits: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap())
}

/// The distance from a number to its neighbour in a type.
fn unit(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from((x as f32).abs().next_up() - (x as f32).abs()),
        _ => x.abs().next_up() - x.abs(),
    }
}

/// The cases of one function and element type.
struct Group<'f> {
    name: &'f str,
    dtype: DType,
    /// The arguments of each case, and the exact result.
    cases: Vec<(Vec<f64>, f64)>,
}

fn groups(file: &Value) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for case in file["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let dtype = match case["dtype"].as_str() {
            Some("f32") => DType::F32,
            _ => DType::F64,
        };
        if !groups
            .last()
            .is_some_and(|group| group.name == name && group.dtype == dtype)
        {
            let cases = Vec::new();
            groups.push(Group { name, dtype, cases });
        }
        let arguments = case["arguments"].as_array().unwrap().iter().map(number);
        let cases = &mut groups.last_mut().unwrap().cases;
        cases.push((arguments.collect(), number(&case["exact"])));
    }
    groups
}

impl Group<'_> {
    /// The results, which are the same compiled.
    fn results(&self, recorded: &mut record::Group) -> Vec<f64> {
        let argument = |place: usize| {
            let numbers = self.cases.iter().map(|(arguments, _)| arguments[place]);
            Tensor::from(numbers.collect::<Vec<f64>>()).convert(self.dtype)
        };
        let arguments: Vec<Tensor> = (0..self.cases[0].0.len()).map(argument).collect();
        let found = apply(self.name, &arguments);
        let name = self.name.to_owned();
        let of_name = name.clone();
        let what = format!("digits of {} {name}", self.dtype);
        recorded.add(what, &arguments, move |x| vec![apply(&of_name, x)]);
        let compiled = jit(move |x: Vec<Tensor>| apply(&name, &x))(arguments);
        assert_eq!(compiled, found, "{} {}", self.dtype, self.name);
        found.convert(DType::F64).to_vec()
    }
}

#[test]
fn functions_keep_their_last_digits() {
    let file = read("accuracy.json");
    let groups = groups(&file);
    assert_eq!(groups.len(), 58);
    let mut problems = Vec::new();
    let mut recorded = record::Group::new(58);
    for group in groups {
        for (found, (x, exact)) in group.results(&mut recorded).into_iter().zip(&group.cases) {
            let off = (found - exact).abs() / unit(group.dtype, *exact);
            if off.is_nan() || off > units(group.name, x[0]) {
                let Group { name, dtype, .. } = group;
                problems.push(format!(
                    "{dtype} {name}{x:?}: {found:e}, exactly {exact:e}, {off:.1} units off"
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn derivatives_near_poles_keep_their_digits() {
    let slope = |f: fn(&Tensor) -> Tensor, x: f64| grad(f)(&Tensor::from(x)).item::<f64>();
    // mpmath: 1/√(x² - 1) and 1/√(1 - x²) at 1 ± 2⁻³⁰.
    let step = 2.0_f64.powi(-30);
    for (found, exact) in [
        (slope(Tensor::acosh, 1.0 + step), 23170.475000525992),
        (slope(Tensor::asin, 1.0 - step), 23170.475011315586),
        (slope(Tensor::acos, 1.0 - step), -23170.475011315586),
    ] {
        assert!((found / exact - 1.0).abs() < 1e-15, "{found} of {exact}");
    }
}
