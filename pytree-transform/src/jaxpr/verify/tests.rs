//! Each invariant, broken once.

use std::sync::Arc;

use smallvec::smallvec;

use super::*;
use crate::tensor::elementwise::{Binary, Unary};
use crate::{DType, Tensor, jit, make_jaxpr};

/// `a, b -> sin a · b`, with a constant added.
fn sample() -> Jaxpr {
    let shift = Tensor::from([1.0_f32, 2.0]);
    let x = Tensor::from([3.0_f32, 4.0]);
    let jaxpr = make_jaxpr(move |(a, b): (Tensor, Tensor)| a.sin() * b + &shift)((x.clone(), x));
    assert_eq!(verify(&jaxpr), Ok(()));
    jaxpr
}

/// What the verifier says of the sample after a change.
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
fn a_variable_is_assigned_once() {
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
fn a_variable_is_assigned_before_it_is_used() {
    let errors = found(|jaxpr| jaxpr.equations.swap(0, 1));
    let error = only(errors);
    assert!(matches!(error, JaxprError::Unassigned { .. }), "{error}");
    assert!(error.to_string().contains("`mul`"), "{error}");
}

#[test]
fn a_variable_is_one_of_the_jaxpr() {
    let error = only(found(|jaxpr| {
        jaxpr.equations[0].inputs = smallvec![Variable(99)];
    }));
    assert!(
        matches!(error, JaxprError::Unknown { variable: 99, .. }),
        "{error}"
    );
}

#[test]
fn outputs_exist() {
    let error = only(found(|jaxpr| {
        jaxpr.equations.pop();
    }));
    assert!(matches!(error, JaxprError::Unassigned { .. }), "{error}");
    assert!(error.to_string().contains("the outputs"), "{error}");
}

#[test]
fn constants_are_concrete_and_of_the_recorded_type() {
    let error = only(found(|jaxpr| jaxpr.constants[0].1 = Tensor::from([1, 2])));
    assert!(
        error.to_string().contains("is i32[2], recorded as f32[2]"),
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
fn the_shape_rule_accepts_the_operands() {
    let error = only(found(|jaxpr| {
        jaxpr.equations[0].primitive = Arc::new(Unary::Not);
    }));
    assert!(matches!(error, JaxprError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cannot not f32[2]"), "{error}");
}

#[test]
fn the_recorded_types_are_those_of_the_shape_rule() {
    let errors = found(|jaxpr| {
        let output = jaxpr.equations[2].outputs[0];
        jaxpr.variables[output.index()] = AbstractArray::new(DType::F32, [3]);
    });
    let text = only(errors).to_string();
    assert!(
        text.contains("has the results (f32[3]), its shape rule gives (f32[2])"),
        "{text}"
    );
    let error = only(
        found(|jaxpr| jaxpr.equations[2].outputs = smallvec![])
            .drain(..1)
            .collect(),
    );
    assert!(matches!(error, JaxprError::Results { .. }), "{error}");
}

#[test]
fn a_call_has_the_operands_that_its_jaxpr_takes() {
    let inner = jit(|(a, b): (Tensor, Tensor)| a * b);
    let x = Tensor::from(1.0_f32);
    let mut jaxpr = make_jaxpr(inner)((x.clone(), x));
    assert_eq!(verify(&jaxpr), Ok(()));
    jaxpr.equations[0].inputs.pop();
    let error = only(verify(&jaxpr).unwrap_err());
    assert!(matches!(error, JaxprError::Operands { .. }), "{error}");
    assert!(
        error.to_string().contains("its jaxpr takes (f32[], f32[])"),
        "{error}"
    );
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
impl crate::tensor::primitive::Primitive for Holder {
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
        _: crate::tensor::primitive::Operands,
    ) -> crate::tensor::primitive::Outputs<crate::base::array::Array> {
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
        _: usize,
    ) -> (
        crate::tensor::primitive::Outputs<Tensor>,
        crate::tensor::primitive::Outputs<Option<usize>>,
    ) {
        (smallvec![], smallvec![])
    }
    fn write_parameters(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
    fn to_shared(&self) -> Arc<dyn crate::tensor::primitive::Primitive> {
        Arc::new(self.clone())
    }
    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![("jaxpr", &self.0)]
    }
}

#[test]
fn nested_jaxprs_are_verified() {
    let mut broken = sample();
    broken.equations.pop();
    // A body verifies what it is made of, so this one is made of the whole and then exchanged.
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
fn all_errors_are_found_at_once() {
    let errors = found(|jaxpr| {
        jaxpr.equations[0].primitive = Arc::new(Unary::Not);
        jaxpr.equations[1].primitive = Arc::new(Binary::And);
        jaxpr.outputs.push(Variable(77));
    });
    assert_eq!(errors.len(), 3, "{errors:?}");
}
