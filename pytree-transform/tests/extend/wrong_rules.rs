//! Rules that return something other than the shape rule says, or that panic: each rule with each mistake.

use pytree_transform::extend::{
    Block, Examples, Operand, Primitive, Tangents, Value, apply, each_example,
};
use pytree_transform::{
    AbstractArray, DType, Tensor, TensorError, grad, jit, jvp, make_jaxpr, remat, vmap,
};

use crate::panics::catch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Shape,
    Evaluation,
    Jvp,
    Tangents,
    Transpose,
    Batching,
    Axes,
    Lowering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mistake {
    None,
    TooFew,
    TooMany,
    Dtype,
    Length,
    Rank,
    OfInteger,
    OfKnown,
    NoAxis,
    FarAxis,
    Operation,
    Index,
}

/// `x a`, and the number of elements of `x`, with `x: f32[n]` and `a: f32[]`. It is linear in `x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wrong {
    rule: Rule,
    mistake: Mistake,
}

impl Wrong {
    /// Returns the values that a rule returns.
    fn results<T: Clone + Into<Option<Tensor>> + From<Tensor>>(
        &self,
        rule: Rule,
        mut values: Vec<T>,
    ) -> Vec<T> {
        if rule != self.rule {
            return values;
        }
        let first: Tensor = values[0].clone().into().expect("the first value exists");
        let wrong = match self.mistake {
            Mistake::TooFew => {
                values.pop();
                return values;
            }
            Mistake::TooMany => {
                values.push(values[0].clone());
                return values;
            }
            Mistake::OfInteger => {
                values[1] = T::from(Tensor::from(1_i32));
                return values;
            }
            Mistake::OfKnown => {
                values[1] = T::from(Tensor::from(1.0_f32));
                return values;
            }
            Mistake::Dtype => first.convert(DType::I32),
            Mistake::Length => Tensor::concatenate(&[first.clone(), first], 0),
            Mistake::Rank => first.expand_dims(0),
            Mistake::Operation => first + Tensor::zeros(DType::F32, [7]),
            Mistake::Index => Vec::<Tensor>::new()[1].clone(),
            Mistake::None | Mistake::NoAxis | Mistake::FarAxis => return values,
        };
        values[0] = T::from(wrong);
        values
    }
}

impl Primitive for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        if self.rule == Rule::Shape {
            let _ = operands[2];
        }
        Ok(vec![
            operands[0].clone(),
            AbstractArray::new(DType::I32, [0; 0]),
        ])
    }
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let count = i32::try_from(operands[0].len()).unwrap();
        let results = vec![&operands[0] * &operands[1], Tensor::from(count)];
        self.results(Rule::Evaluation, results)
    }
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let results = apply(self, &[&primals[0], &primals[1]]);
        let tangent = tangents[0].as_ref().expect("`x` has a tangent");
        let tangent = apply(self, &[tangent, &primals[1]]).remove(0);
        (
            self.results(Rule::Jvp, results),
            self.results(Rule::Tangents, vec![Some(tangent), None]),
        )
    }
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Operand],
    ) -> Vec<Option<Tensor>> {
        let a = operands[1].known().expect("`a` is known");
        let cotangent = cotangents[0].as_ref().expect("it is not zero") * a;
        self.results(Rule::Transpose, vec![Some(cotangent), None])
    }
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        let (results, mut axes) = each_example(self, operands, axes);
        if self.rule == Rule::Axes {
            match self.mistake {
                Mistake::TooFew => drop(axes.pop()),
                Mistake::NoAxis => axes[0] = None,
                Mistake::FarAxis => axes[0] = Some(3),
                _ => {}
            }
        }
        (self.results(Rule::Batching, results), axes)
    }
    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        block.computed(operands, |operands| {
            let results = vec![&operands[0] * &operands[1], Tensor::from(3_i32)];
            self.results(Rule::Lowering, results)
        })
    }
}

fn call(op: &Wrong, x: &Tensor) -> Tensor {
    apply(op, &[x, &Tensor::from(2.0_f32)]).remove(0)
}
const LINE: u32 = line!() - 2;

fn x1() -> Tensor {
    Tensor::from([1.0_f32, 2.0, 3.0])
}

fn x2() -> Tensor {
    Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]])
}

/// Returns the transformations that call a rule.
fn runs(rule: Rule) -> Vec<(&'static str, fn(&Wrong))> {
    match rule {
        Rule::Shape | Rule::Evaluation => vec![
            ("eager", |op| drop(call(op, &x1()))),
            ("jit", |op| {
                let op = op.clone();
                drop(jit(move |x: &Tensor| call(&op, x))(&x1()));
            }),
            ("vmap", |op| drop(vmap(|x: Tensor| call(op, &x))(x2()))),
        ],
        Rule::Jvp | Rule::Tangents => vec![
            ("jvp", |op| {
                drop(jvp(|x: &Tensor| call(op, x), &x1(), &x1()))
            }),
            ("grad", |op| {
                drop(grad(|x: &Tensor| call(op, x).sum())(&x1()))
            }),
            ("jit", |op| {
                let op = op.clone();
                drop(jit(grad(move |x: &Tensor| call(&op, x).sum()))(x1()));
            }),
            ("vmap", |op| {
                drop(vmap(grad(|x: &Tensor| call(op, x).sum()))(x2()));
            }),
        ],
        Rule::Transpose => vec![
            ("grad", |op| {
                drop(grad(|x: &Tensor| call(op, x).sum())(&x1()))
            }),
            ("jit", |op| {
                let op = op.clone();
                drop(jit(grad(move |x: &Tensor| call(&op, x).sum()))(x1()));
            }),
            ("remat", |op| {
                let op = op.clone();
                let again = remat(move |x: &Tensor| call(&op, x));
                drop(grad(|x: &Tensor| again(x).sum())(&x1()));
            }),
        ],
        Rule::Batching | Rule::Axes => vec![
            ("vmap", |op| drop(vmap(|x: Tensor| call(op, &x))(x2()))),
            ("jit", |op| {
                let op = op.clone();
                drop(jit(vmap(move |x: Tensor| call(&op, &x)))(x2()));
            }),
            ("vmap of grad", |op| {
                drop(vmap(grad(|x: &Tensor| call(op, x).sum()))(x2()));
            }),
        ],
        Rule::Lowering => vec![("stablehlo", |op| {
            drop(make_jaxpr(|x: Tensor| call(op, &x))(x1()).to_stablehlo());
        })],
    }
}

/// Each rule, its name in messages, and what the message on each mistake contains.
fn table() -> Vec<(Rule, &'static str, Vec<(Mistake, &'static str)>)> {
    use Mistake::{
        Dtype, FarAxis, Index, Length, NoAxis, OfInteger, OfKnown, Operation, Rank, TooFew, TooMany,
    };
    let panics = [
        (
            Operation,
            "panicked: cannot add f32[3] and f32[7]: the shapes do not broadcast",
        ),
        (
            Index,
            "panicked: index out of bounds: the len is 0 but the index is 1",
        ),
    ];
    let of_results = vec![
        (TooFew, "returned 1 results: expected 2"),
        (TooMany, "returned 3 results: expected 2"),
        (
            Dtype,
            "returned wrong results: number 0 of the results is i32[3]: expected f32[3]",
        ),
        (Length, "number 0 of the results is f32[6]: expected f32[3]"),
        (Rank, "number 0 of the results is f32[1,3]: expected f32[3]"),
        panics[0],
        panics[1],
    ];
    let of_values = of_results
        .iter()
        .map(|&(mistake, text)| (mistake, &*text.replace("results", "values").leak()))
        .collect();
    let of_tangents = vec![
        (TooFew, "returned 1 tangents: expected 2"),
        (TooMany, "returned 3 tangents: expected 2"),
        (Dtype, "number 0 of the tangents is i32[3]: expected f32[3]"),
        (
            Length,
            "number 0 of the tangents is f32[6]: expected f32[3]",
        ),
        (
            Rank,
            "number 0 of the tangents is f32[1,3]: expected f32[3]",
        ),
        (
            OfInteger,
            "number 1 of the tangents is i32[]: expected `None` for i32[], which is not a float",
        ),
        panics[0],
        panics[1],
    ];
    let mut of_cotangents: Vec<_> = of_tangents
        .iter()
        .filter(|(mistake, _)| *mistake != OfInteger)
        .map(|&(mistake, text)| (mistake, &*text.replace("tangents", "cotangents").leak()))
        .collect();
    of_cotangents.push((
        OfKnown,
        "number 1 of the cotangents is f32[]: expected `None` for an operand with a known value",
    ));
    let of_batches = vec![
        (TooFew, "returned 1 results: expected 2"),
        (TooMany, "returned 3 results: expected 2"),
        (
            Dtype,
            "number 0 of the results is i32[2,3] with the batch axis 0: expected f32[2,3], because each of 2 examples has f32[3]",
        ),
        (
            Length,
            "number 0 of the results is f32[4,3] with the batch axis 0: expected f32[2,3]",
        ),
        (
            Rank,
            "number 0 of the results is f32[1,2,3] with the batch axis 0: expected f32[2,3]",
        ),
        (
            Operation,
            "panicked: cannot add f32[2,3] and f32[7]: the shapes do not broadcast",
        ),
        panics[1],
    ];
    let of_axes = vec![
        (TooFew, "returned 1 batch axes: expected 2"),
        (
            NoAxis,
            "number 0 of the results is f32[2,3] without a batch axis: expected f32[3], because each of 2 examples has f32[3]",
        ),
        (
            FarAxis,
            "number 0 of the results is f32[2,3] with the batch axis 3: expected a batch axis from 0 to 1 for f32[3] of each example",
        ),
    ];
    vec![
        (
            Rule::Shape,
            "shape",
            vec![(Index, "panicked: index out of bounds")],
        ),
        (Rule::Evaluation, "evaluation", of_results.clone()),
        (Rule::Jvp, "JVP", of_results),
        (Rule::Tangents, "JVP", of_tangents),
        (Rule::Transpose, "transpose", of_cotangents),
        (Rule::Batching, "batching", of_batches),
        (Rule::Axes, "batching", of_axes),
        (Rule::Lowering, "lowering", of_values),
    ]
}

#[test]
fn each_mistake_of_each_rule_is_reported() {
    for (rule, name, mistakes) in table() {
        for (way, run) in runs(rule) {
            run(&Wrong {
                rule: Rule::Axes,
                mistake: Mistake::None,
            });
            for &(mistake, expected) in &mistakes {
                let case = format!("{rule:?} with {mistake:?} under {way}");
                let caught = catch(|| run(&Wrong { rule, mistake }));
                let Err(caught) = caught else {
                    panic!("{case}: no panic")
                };
                let message = caught.message;
                assert!(
                    message.starts_with(&format!("the {name} rule of `wrong` at ")),
                    "{case}: {message}"
                );
                assert!(
                    message.contains(&format!("wrong_rules.rs:{LINE}:")),
                    "{case}: {message}"
                );
                assert!(message.contains(expected), "{case}: {message}");
            }
        }
    }
}

#[test]
fn all_mistakes_of_a_rule_are_reported() {
    /// Two results of wrong dtypes.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Both;
    impl Primitive for Both {
        fn name(&self) -> &'static str {
            "both"
        }
        fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
            Ok(vec![operands[0].clone(); 2])
        }
        fn evaluate(&self, _: &[Tensor]) -> Vec<Tensor> {
            vec![Tensor::from(1_i32), Tensor::from([1.0_f32])]
        }
    }
    let message = catch(|| apply(&Both, &[&Tensor::from(1.0_f32)]))
        .unwrap_err()
        .message;
    assert!(
        message.ends_with("returned wrong results: number 0 of the results is i32[]: expected f32[]; number 1 of the results is f32[1]: expected f32[]"),
        "{message}"
    );
}
