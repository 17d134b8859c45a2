//! Tests of the verifier: each test breaks one invariant of a jaxpr.

use std::sync::Arc;

use pytree_kernels::loops::elementwise::{Binary, Unary};
use smallvec::smallvec;

use super::*;
use crate::base::axis_names::AxisName;
use crate::primitives::call::Call;
use crate::primitives::collectives::permute::{AllToAll, PPermute};
use crate::primitives::collectives::scatter::AllGather;
use crate::tensor::primitive::Primitive;
use crate::tensor::stablehlo::{Block, Value};
use crate::{
    DType, Tensor, Tiling, all_gather, all_to_all, axis_index, grad, jit, make_jaxpr, pmax,
    ppermute, psum, vmap,
};

/// Returns the jaxpr of the function `a, b -> sin a · b + c` for a constant `c`.
fn sample() -> Jaxpr {
    let shift = Tensor::from([1.0_f32, 2.0]);
    let x = Tensor::from([3.0_f32, 4.0]);
    let jaxpr = make_jaxpr(move |(a, b): (Tensor, Tensor)| a.sin() * b + &shift)((x.clone(), x));
    assert_eq!(verify(&jaxpr), Ok(()));
    jaxpr
}

/// Returns the verifier's errors for the sample after a change.
fn found(change: impl FnOnce(&mut Jaxpr)) -> Vec<JaxprError> {
    let mut jaxpr = sample();
    change(&mut jaxpr);
    verify(&jaxpr).unwrap_err()
}

fn only(mut errors: Vec<JaxprError>) -> JaxprError {
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn second_assignment_is_reported() {
    let error = only(found(|jaxpr| {
        let again = jaxpr.equations[0].clone();
        jaxpr.equations.insert(1, again);
    }));
    assert!(matches!(error, JaxprError::AssignedTwice { .. }), "{error}");
    assert!(
        error.to_string().contains("equation 1 (`sin`, from"),
        "{error}"
    );
    let error = only(found(|jaxpr| jaxpr.inputs.push(jaxpr.inputs[0])));
    assert!(matches!(error, JaxprError::AssignedTwice { .. }), "{error}");
}

#[test]
fn use_before_assignment_is_reported() {
    let errors = found(|jaxpr| jaxpr.equations.swap(0, 1));
    let error = only(errors);
    assert!(matches!(error, JaxprError::Unassigned { .. }), "{error}");
    assert!(error.to_string().contains("`mul`"), "{error}");
}

#[test]
fn unknown_variable_is_reported() {
    let error = only(found(|jaxpr| {
        jaxpr.equations[0].inputs = smallvec![Variable(99)];
    }));
    assert!(
        matches!(error, JaxprError::Unknown { variable: 99, .. }),
        "{error}"
    );
}

#[test]
fn missing_output_is_reported() {
    let error = only(found(|jaxpr| {
        jaxpr.equations.pop();
    }));
    assert!(matches!(error, JaxprError::Unassigned { .. }), "{error}");
    assert!(error.to_string().contains("the outputs"), "{error}");
}

#[test]
fn constants_are_concrete_with_recorded_type() {
    let error = only(found(|jaxpr| jaxpr.constants[0].1 = Tensor::from([1, 2])));
    assert!(
        error
            .to_string()
            .contains("is i32[2], but was recorded as f32[2]"),
        "{error}"
    );
    let traced = std::sync::Mutex::new(None);
    jit_once(|x| *traced.lock().unwrap() = Some(x.clone()));
    let traced = traced.into_inner().unwrap().unwrap();
    let error = only(found(|jaxpr| jaxpr.constants[0].1 = traced));
    assert!(error.to_string().contains("is a traced f32[2]"), "{error}");
}

fn jit_once(see: impl Fn(&Tensor) + Send + Sync) {
    make_jaxpr(|x: Tensor| {
        see(&x);
        x
    })(Tensor::from([1.0_f32, 2.0]));
}

#[test]
fn rejected_operands_are_reported() {
    let error = only(found(|jaxpr| {
        jaxpr.equations[0].primitive = Arc::new(Unary::Not);
    }));
    assert!(matches!(error, JaxprError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cannot not f32[2]"), "{error}");
}

#[test]
fn recorded_types_match_shape_rule() {
    let errors = found(|jaxpr| {
        let output = jaxpr.equations[2].outputs[0];
        jaxpr.variables[output.index()] = AbstractArray::new(DType::F32, [3]);
    });
    let text = only(errors).to_string();
    assert!(
        text.contains("has the results (f32[3]), but its shape rule gives (f32[2])"),
        "{text}"
    );
    let error = only(
        found(|jaxpr| jaxpr.equations[2].outputs = smallvec![])
            .drain(..1)
            .collect(),
    );
    assert!(matches!(error, JaxprError::Results { .. }), "{error}");
}

/// Records a function of a vector `x: f32[2]`, a number `n: f32[]` and an index `i: i32[]`, breaks the equation of a
/// primitive in the jaxpr, and returns the verifier's error for this equation.
fn broken(
    function: impl Fn((Tensor, Tensor, Tensor)) -> Tensor + Send + Sync,
    primitive: &str,
    change: impl FnOnce(&mut Equation, &mut Vec<AbstractArray>, [Variable; 3]),
) -> String {
    let arguments = (
        Tensor::from([1.0_f32, 2.0]),
        Tensor::from(1.0_f32),
        Tensor::from(0),
    );
    let mut jaxpr = make_jaxpr(function)(arguments);
    assert_eq!(verify(&jaxpr), Ok(()));
    let inputs = [jaxpr.inputs[0], jaxpr.inputs[1], jaxpr.inputs[2]];
    let is_meant = |equation: &&mut Equation| equation.primitive.name() == primitive;
    let equation = jaxpr.equations.iter_mut().find(is_meant).unwrap();
    change(equation, &mut jaxpr.variables, inputs);
    let errors: Vec<String> = verify(&jaxpr)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    let found: Vec<String> = errors
        .into_iter()
        .filter(|error| error.contains(&format!("`{primitive}`, from")))
        .collect();
    assert!(!found.is_empty());
    found.join("; ")
}

fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` in {message}");
    }
}

/// Changes the recorded dtype and shape of a result.
fn retyped(equation: &Equation, variables: &mut [AbstractArray], result: usize) {
    variables[equation.outputs[result].index()] = AbstractArray::new(DType::F64, [7]);
}

#[test]
fn call_operands_match_jaxpr_inputs() {
    let called = jit(|(x, n): (Tensor, Tensor)| x * n);
    let function = move |(x, n, _): (Tensor, Tensor, Tensor)| called((x, n));
    let missing = broken(function.clone(), "jit", |equation, _, _| {
        equation.inputs.pop();
    });
    says(
        &missing,
        &["passes the inputs (f32[2]) to `jaxpr`, which takes (f32[2], f32[])"],
    );
    let other = broken(function.clone(), "jit", |equation, _, [x, ..]| {
        equation.inputs[1] = x;
    });
    says(
        &other,
        &["the inputs (f32[2], f32[2]) to `jaxpr`, which takes (f32[2], f32[])"],
    );
    let result = broken(function, "jit", |equation, variables, _| {
        retyped(equation, variables, 0);
    });
    says(
        &result,
        &["needs the outputs (f64[7]) from `jaxpr`, which returns (f32[2])"],
    );
}

#[test]
fn branch_operands_match_each_branch() {
    let function = |(x, n, i): (Tensor, Tensor, Tensor)| {
        let scaled = |(x, n): (Tensor, Tensor)| x * n;
        let shifted = |(x, n): (Tensor, Tensor)| x + n;
        crate::cond(&i.equal(0), scaled, shifted, (x, n))
    };
    let index = broken(function, "cond", |equation, _, [_, n, _]| {
        equation.inputs[0] = n;
    });
    says(&index, &["expected an index i32[], found f32[]"]);
    let operand = broken(function, "cond", |equation, _, [x, ..]| {
        equation.inputs[2] = x;
    });
    says(
        &operand,
        &["passes the inputs (f32[2], f32[2]) to `branches`, which takes (f32[2], f32[])"],
    );
    assert_eq!(operand.matches("to `branches`").count(), 2, "{operand}");
    let result = broken(function, "cond", |equation, variables, _| {
        retyped(equation, variables, 0);
    });
    says(
        &result,
        &["needs the outputs (f64[7]) from `branches`, which returns (f32[2])"],
    );
    let none = broken(function, "cond", |equation, _, _| equation.inputs.clear());
    says(&none, &["expected at least 1 operands, found 0"]);
}

#[test]
fn scanned_operands_have_leading_axis() {
    let function = |(x, n, _): (Tensor, Tensor, Tensor)| {
        let step = |carry: Tensor, each: Tensor| (&carry + &each, carry * each);
        let (carry, each) = crate::scan(step, n, x);
        carry + each.sum()
    };
    let carry = broken(function, "scan", |equation, _, [x, ..]| {
        equation.inputs[0] = x;
    });
    says(
        &carry,
        &["passes the inputs (f32[2], f32[]) to `jaxpr`, which takes (f32[], f32[])"],
    );
    let length = broken(function, "scan", |equation, _, [_, n, _]| {
        equation.inputs[1] = n;
    });
    says(&length, &["expected a first axis of length 2, found f32[]"]);
    let carried = broken(function, "scan", |equation, variables, _| {
        retyped(equation, variables, 0);
    });
    says(
        &carried,
        &["needs the outputs (f64[7], f32[]) from `jaxpr`, which returns (f32[], f32[])"],
    );
    let stacked = broken(function, "scan", |equation, variables, _| {
        retyped(equation, variables, 1);
    });
    says(
        &stacked,
        &["expected a first axis of length 2, found f64[7]"],
    );
    let missing = broken(function, "scan", |equation, _, _| equation.inputs.clear());
    says(&missing, &["expected at least 1 operands, found 0"]);
}

#[test]
fn loop_carry_matches_body_outputs() {
    let function = |(x, n, _): (Tensor, Tensor, Tensor)| {
        let goes_on = |x: &Tensor| x.sum().less(100.0);
        crate::while_loop(goes_on, move |x: Tensor| x * &n, x)
    };
    let carry = broken(function, "while", |equation, _, [_, n, _]| {
        *equation.inputs.last_mut().unwrap() = n;
    });
    says(
        &carry,
        &[
            "passes the inputs (f32[2], f32[]) to `body_jaxpr`, which takes (f32[2], f32[2])",
            "passes the inputs (f32[]) to `cond_jaxpr`, which takes (f32[2])",
        ],
    );
    let result = broken(function, "while", |equation, variables, _| {
        retyped(equation, variables, 0);
    });
    says(
        &result,
        &["needs the outputs (f64[7]) from `body_jaxpr`, which returns (f32[2])"],
    );
}

#[test]
fn custom_rules_match_residuals_and_cotangents() {
    let product = crate::custom_vjp(
        |(x, n): &(Tensor, Tensor)| x * n,
        |(x, n)| (x * n, (x.clone(), n.clone())),
        |(x, n): (Tensor, Tensor), cotangent: Tensor| (&cotangent * n, (cotangent * x).sum()),
    );
    let jaxpr = make_jaxpr(|argument: (Tensor, Tensor)| product(&argument))((
        Tensor::from([1.0_f32, 2.0]),
        Tensor::from(1.0_f32),
    ));
    let call: &dyn std::any::Any = &*jaxpr.equations[0].primitive;
    let Call(body) = call.downcast_ref().unwrap();
    let linear = &body.linearized(&[true, true], &[]).linear;
    assert_eq!(verify(&linear.jaxpr), Ok(()));
    let broken = |change: &dyn Fn(&mut Jaxpr)| {
        let mut jaxpr = linear.jaxpr.clone();
        change(&mut jaxpr);
        only(verify(&jaxpr).unwrap_err()).to_string()
    };
    // The operands are the tangents of `x` and `n`, followed by the residuals `x` and `n`.
    let residual = broken(&|jaxpr| {
        let equation = &mut jaxpr.equations[0];
        equation.inputs[3] = equation.inputs[2];
    });
    says(
        &residual,
        &[
            "passes the inputs (f32[2], f32[2], f32[2]) to `bwd_jaxpr`, which takes (f32[2], f32[], f32[2])",
        ],
    );
    let tangent = broken(&|jaxpr| {
        let equation = &mut jaxpr.equations[0];
        equation.inputs[1] = equation.inputs[0];
    });
    says(
        &tangent,
        &["needs the outputs (f32[2], f32[2]) from `bwd_jaxpr`, which returns (f32[2], f32[])"],
    );
    let result = broken(&|jaxpr| {
        let result = jaxpr.equations[0].outputs[0];
        jaxpr.variables[result.index()] = AbstractArray::new(DType::F64, [7]);
    });
    says(
        &result,
        &[
            "passes the inputs (f32[2], f32[], f64[7]) to `bwd_jaxpr`, which takes (f32[2], f32[], f32[2])",
        ],
    );
}

/// Records a function of an example `f32[3,2]` in a batch of 3 with the batch axis `i`, breaks the jaxpr, and returns
/// the verifier's errors.
fn broken_under_axis(
    function: impl Fn(Tensor) -> Tensor + Send + Sync,
    change: impl FnOnce(&mut Jaxpr),
) -> String {
    let recorded = std::sync::Mutex::new(None);
    let record = |x: Tensor| {
        *recorded.lock().unwrap() = Some(make_jaxpr(&function)(x.clone()));
        x
    };
    vmap(record).axis_name("i")(Tensor::zeros(DType::F32, [3, 3, 2]));
    let mut jaxpr = recorded.into_inner().unwrap().unwrap();
    assert_eq!(verify(&jaxpr), Ok(()));
    change(&mut jaxpr);
    only(verify(&jaxpr).unwrap_err()).to_string()
}

/// Returns a change that replaces the primitive of the first equation.
fn instead(primitive: impl Primitive) -> impl FnOnce(&mut Jaxpr) {
    |jaxpr| jaxpr.equations[0].primitive = Arc::new(primitive)
}

/// Returns a change of the dtype and shape of the first equation's operand, which is an input.
fn of_operand(info: AbstractArray) -> impl FnOnce(&mut Jaxpr) {
    |jaxpr| {
        let input = jaxpr.equations[0].inputs[0];
        jaxpr.variables[input.index()] = info;
    }
}

#[test]
fn collective_operands_are_checked() {
    let bools = || of_operand(AbstractArray::new(DType::Bool, [3, 2]));
    let sum = broken_under_axis(|x| psum(&x, "i"), bools());
    says(
        &sum,
        &[
            "equation 0 (`psum`, from",
            "verify/tests.rs:",
            "cannot psum bool[3,2]",
        ],
    );
    let longer = || of_operand(AbstractArray::new(DType::F32, [4, 2]));
    let maximum = broken_under_axis(|x| pmax(&x, "i"), longer());
    says(
        &maximum,
        &[
            "(`pmax`, from",
            "has the results (f32[3,2]), but its shape rule gives (f32[4,2])",
        ],
    );
    let sent = broken_under_axis(|x| ppermute(&x, "i", [(0, 1)]), longer());
    says(
        &sent,
        &["(`ppermute`, from", "but its shape rule gives (f32[4,2])"],
    );
    let gathered = broken_under_axis(|x| all_gather(&x, "i", 0, Tiling::Stacked), longer());
    says(
        &gathered,
        &[
            "(`all_gather`, from",
            "(f32[3,3,2]), but its shape rule gives (f32[3,4,2])",
        ],
    );
    let parted = broken_under_axis(|x| all_to_all(&x, "i", 0, 1, Tiling::Stacked), longer());
    says(
        &parted,
        &[
            "(`all_to_all`, from",
            "axis 0 has length 4, but the batch axis `i` has length 3",
        ],
    );
    let position = broken_under_axis(
        |x| x + axis_index("i").convert(DType::F32),
        |jaxpr| {
            let result = jaxpr.equations[0].outputs[0];
            jaxpr.variables[result.index()] = AbstractArray::new(DType::I64, []);
        },
    );
    says(
        &position,
        &[
            "(`axis_index`, from",
            "has the results (i64[]), but its shape rule gives (i32[])",
        ],
    );
}

#[test]
fn collective_parameters_are_checked() {
    let name = || [AxisName::from("i")];
    let pairs = |pairs: &[(usize, usize)]| PPermute {
        name: name(),
        pairs: pairs.into(),
        length: 3,
    };
    let send = |x: Tensor| ppermute(&x, "i", [(0, 1)]);
    let outside = broken_under_axis(send, instead(pairs(&[(0, 3)])));
    says(
        &outside,
        &["the pair (0, 3) is out of range for the batch axis `i` of length 3"],
    );
    let twice = broken_under_axis(send, instead(pairs(&[(0, 1), (2, 1)])));
    says(&twice, &["example 1 receives twice"]);
    let behind = AllGather {
        name: name(),
        axis: 3,
        length: 3,
    };
    let gathered = broken_under_axis(|x| all_gather(&x, "i", 0, Tiling::Stacked), instead(behind));
    says(
        &gathered,
        &["(`all_gather`, from", "axis 3 is out of range"],
    );
    let behind = AllToAll {
        name: name(),
        split_axis: 0,
        concat_axis: 2,
        length: 3,
    };
    let parted = broken_under_axis(
        |x| all_to_all(&x, "i", 0, 1, Tiling::Stacked),
        instead(behind),
    );
    says(&parted, &["(`all_to_all`, from", "axis 2 is out of range"]);
}

#[test]
fn batch_axes_match_recording() {
    let sum = |x: Tensor| psum(&x, "i");
    let unbound = broken_under_axis(sum, |jaxpr| jaxpr.batch_axes.clear());
    says(
        &unbound,
        &[
            "equation 0 (`psum`, from",
            "over the batch axis `i`, which was not bound when the jaxpr was recorded",
        ],
    );
    let gather = |x: Tensor| all_gather(&x, "i", 0, Tiling::Stacked);
    let longer = |jaxpr: &mut Jaxpr| jaxpr.batch_axes[0].1 = 5;
    let length = broken_under_axis(gather, longer);
    says(
        &length,
        &[
            "expects the batch axis `i` to have length 3, but it had length 5 when the jaxpr was recorded",
        ],
    );
    let called = jit(move |x: Tensor| sum(x));
    let nested = broken_under_axis(&*called, longer);
    says(
        &nested,
        &[
            "(`jit`, from",
            "expects the batch axis `i` to have length 3, but it had length 5 when the jaxpr was recorded",
        ],
    );
}

#[test]
fn linear_parts_keep_batch_axes() {
    let checked = vmap(|x: Tensor| {
        let jaxpr = make_jaxpr(|x: Tensor| grad(|x: &Tensor| (psum(&x.sin(), "i") * x).sum())(&x))(
            x.clone(),
        );
        assert_eq!(verify(&jaxpr), Ok(()));
        let called = jit(|x: Tensor| psum(&x.sin(), "i"));
        let jaxpr = make_jaxpr(called)(x.clone());
        let call: &dyn std::any::Any = &*jaxpr.equations[0].primitive;
        let Call(body) = call.downcast_ref().unwrap();
        let split = body.linearized(&[true], &[]);
        assert_eq!(verify(&split.known.jaxpr), Ok(()));
        assert_eq!(verify(&split.linear.jaxpr), Ok(()));
        x
    });
    checked.axis_name("i")(Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]));
}

/// A primitive that holds a jaxpr.
#[derive(Debug, Clone)]
struct Holder(Jaxpr);
impl PartialEq for Holder {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Holder {}
impl std::hash::Hash for Holder {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        std::ptr::hash(self, hasher);
    }
}
impl Primitive for Holder {
    fn name(&self) -> &'static str {
        "holder"
    }
    fn abstract_evaluation(
        &self,
        _: &[&AbstractArray],
    ) -> Result<crate::tensor::primitive::Outputs<AbstractArray>, TensorError> {
        Ok(self.0.output_infos().cloned().collect())
    }
    fn evaluate(
        &self,
        _: pytree_kernels::base::array::Operands,
    ) -> crate::tensor::primitive::Outputs<pytree_kernels::base::array::Array> {
        smallvec![]
    }
    fn jvp(
        &self,
        _: &[Tensor],
        _: &[Option<Tensor>],
    ) -> (
        crate::tensor::primitive::Outputs<Tensor>,
        crate::tensor::primitive::Outputs<Option<Tensor>>,
    ) {
        (smallvec![], smallvec![])
    }
    fn transpose(
        &self,
        _: &[Option<Tensor>],
        _: &[crate::tensor::primitive::Linear],
    ) -> smallvec::SmallVec<[Option<Tensor>; 2]> {
        smallvec![]
    }
    fn batch(
        &self,
        _: &[Tensor],
        _: &[Option<usize>],
        _: &crate::tensor::primitive::BatchAxis,
    ) -> (
        crate::tensor::primitive::Outputs<Tensor>,
        crate::tensor::primitive::Outputs<Option<usize>>,
    ) {
        (smallvec![], smallvec![])
    }
    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> crate::tensor::primitive::Lowered {
        Err(block.refused(operands, "a test only verifies it", "do not lower it"))
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![("jaxpr", &self.0)]
    }
    fn signatures(
        &self,
        _: &[&AbstractArray],
        _: &[AbstractArray],
    ) -> Result<Vec<crate::tensor::primitive::Signature>, String> {
        let (inputs, outputs) = (self.0.inputs(), self.0.outputs());
        Ok(vec![crate::tensor::primitive::Signature::new(
            inputs, outputs,
        )])
    }
}

#[test]
fn nested_jaxprs_are_verified() {
    let mut broken = sample();
    broken.equations.pop();
    // A body verifies its nested jaxprs when it is created. So the body is created from a valid jaxpr, which is broken
    // afterwards.
    let errors = verify(&broken).unwrap_err();
    let nested = JaxprError::Nested {
        place: "equation 0".to_owned(),
        body: "jaxpr",
        error: Box::new(errors[0].clone()),
    };
    assert!(
        nested
            .to_string()
            .starts_with("in `jaxpr` of equation 0: variable")
    );
    let mut outer = sample();
    outer.equations[2].primitive = Arc::new(Holder(broken));
    let error = only(verify(&outer).unwrap_err());
    assert!(matches!(error, JaxprError::Nested { .. }), "{error}");
}

#[test]
fn all_errors_are_reported() {
    let errors = found(|jaxpr| {
        jaxpr.equations[0].primitive = Arc::new(Unary::Not);
        jaxpr.equations[1].primitive = Arc::new(Binary::And);
        jaxpr.outputs.push(Variable(77));
    });
    assert_eq!(errors.len(), 3, "{errors:?}");
}
