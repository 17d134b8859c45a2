//! Programs of many equations: recorded, displayed, rewritten, compiled, run, differentiated and batched.

use pytree::control::{cond, scan, while_loop};
use pytree::prelude::*;
use pytree::transform::Jit;
use pytree::transform::{each_pass, verify};
use pytree::{Jaxpr, eval_shape, linear_transpose, linearize, make_jaxpr, remat, saved_residuals};
use pytree::{ravel, unstack, vjp};

use crate::measure::{Sheet, measure, refused};
use crate::programs::{self, ALL, Program, vector};

fn recorded(program: Program) -> Jaxpr {
    make_jaxpr(move |x: Tensor| program(&x))(vector())
}

fn compiled(program: Program) -> Jit<Tensor, Tensor> {
    jit(move |x: Tensor| program(&x))
}

fn loss(program: Program) -> impl Fn(&Tensor) -> Tensor + Send + Sync {
    move |x| program(x).sum()
}

fn batch() -> Tensor {
    Tensor::stack(&[vector(), vector(), vector()], 0)
}

/// What most programs go through.
fn compile(sheet: &mut Sheet, name: &str, program: fn(usize) -> Program) {
    let jaxpr = |size| recorded(program(size));
    let of = |what: &str| format!("{name}: {what}");
    sheet.add(&of("recording"), program, |program| {
        recorded(program.clone())
    });
    sheet.add(&of("display"), jaxpr, |jaxpr| jaxpr.to_string());
    sheet.add(&of("display of each equation"), jaxpr, |jaxpr| {
        let lines = jaxpr.equations().map(|equation| equation.to_string());
        lines.collect::<Vec<_>>()
    });
    sheet.add(&of("passes"), jaxpr, |jaxpr| {
        each_pass(jaxpr)
            .map(|(_, rewritten)| rewritten.equations().len())
            .sum::<usize>()
    });
    sheet.add(&of("lowering to StableHLO"), jaxpr, |jaxpr| {
        jaxpr.to_stablehlo().text()
    });
    sheet.add(&of("verifier"), jaxpr, |jaxpr| verify(jaxpr).unwrap());
    sheet.add(
        &of("schedule and memory"),
        |size| compiled(program(size)),
        |function| function.lower(&vector()),
    );
    sheet.add(
        &of("display of what runs"),
        |size| compiled(program(size)).lower(&vector()),
        |lowered| lowered.to_string(),
    );
    sheet.add(
        &of("first call"),
        |size| compiled(program(size)),
        |function| {
            function.clear_cache();
            function(vector())
        },
    );
    sheet.add(
        &of("later calls"),
        |size| {
            let function = compiled(program(size));
            function(vector());
            function
        },
        |function| function(vector()),
    );
    sheet.add(&of("grad"), program, |program| {
        grad(|x: &Tensor| program(x).sum())(&vector())
    });
    sheet.add(&of("vmap"), program, |program| {
        vmap(|x: Tensor| program(&x))(batch())
    });
}

#[test]
fn work_is_linear_in_equations() {
    measure(|sheet| {
        for (name, program) in ALL {
            compile(sheet, name, program);
        }
    });
}

/// Derivatives and batches, alone and inside of each other.
fn transform(sheet: &mut Sheet, name: &str, program: fn(usize) -> Program) {
    let of = |what: &str| format!("{name}: {what}");
    sheet.add(&of("jvp"), program, |program| {
        jvp(|x: &Tensor| program(x), &vector(), &vector())
    });
    sheet.add(&of("linearize"), program, |program| {
        let (_, derivative) = linearize(|x: &Tensor| program(x), &vector());
        derivative.call(&vector())
    });
    sheet.add(&of("saved residuals"), program, |program| {
        saved_residuals(|x: &Tensor| program(x), &vector())
    });
    sheet.add(&of("vjp"), program, |program| {
        let (_, pullback) = vjp(|x: &Tensor| program(x), &vector());
        (pullback.call(&vector()), pullback.call(&vector()))
    });
    sheet.add(&of("grad under vmap"), program, |program| {
        vmap(grad(|x: &Tensor| program(x).sum()))(batch())
    });
    sheet.add(&of("vmap under grad"), program, |program| {
        grad(|x: &Tensor| vmap(|x: Tensor| program(&x))(x.clone()).sum())(&batch())
    });
    sheet.add(&of("grad under jit"), program, |program| {
        jit(grad(loss(program.clone())))(vector())
    });
    sheet.add(&of("jit under grad"), program, |program| {
        let inner = compiled(program.clone());
        grad(|x: &Tensor| inner(x.clone()).sum())(&vector())
    });
    sheet.add(&of("jit under vmap"), program, |program| {
        let inner = compiled(program.clone());
        vmap(inner)(batch())
    });
    sheet.add(&of("jit under jvp"), program, |program| {
        let inner = compiled(program.clone());
        jvp(|x: &Tensor| inner(x.clone()), &vector(), &vector())
    });
    sheet.add(&of("grad of remat"), program, |program| {
        let program = program.clone();
        let inner = remat(move |x: &Tensor| program(x));
        grad(|x: &Tensor| inner(x).sum())(&vector())
    });
    sheet.add(&of("abstract shape"), program, |program| {
        eval_shape(|x: &Tensor| program(x), &vector())
    });
    sheet.add(
        &of("evaluation"),
        |size| {
            let jaxpr = recorded(program(size));
            jaxpr.evaluate(&[vector()]);
            jaxpr
        },
        |jaxpr| jaxpr.evaluate(&[vector()]),
    );
    sheet.add(&of("checks for NaN"), program, |program| {
        compiled(program.clone()).check_nans()(vector())
    });
}

#[test]
fn derivatives_and_batches_are_linear() {
    measure(|sheet| {
        transform(sheet, "chain", programs::chain);
        transform(sheet, "branches", programs::branches);
        transform(sheet, "body", programs::body);
        sheet.add("numbers: grad under jit", programs::numbers, |program| {
            jit(grad(loss(program.clone())))(vector())
        });
    });
}

fn leaves(size: usize) -> Vec<Tensor> {
    (0..size)
        .map(|number| Tensor::from(number as f32))
        .collect()
}

fn doubled(leaves: &[Tensor]) -> Vec<Tensor> {
    leaves.iter().map(|leaf| leaf * 2.0).collect()
}

fn total(leaves: &[Tensor]) -> Tensor {
    let mut sum = Tensor::from(0.0_f32);
    for leaf in leaves {
        sum += leaf * 2.0;
    }
    sum
}

#[test]
fn transformations_are_linear_in_leaves() {
    measure(|sheet| {
        let function = || jit(|leaves: Vec<Tensor>| doubled(&leaves));
        sheet.add("leaves: recording", leaves, |leaves| {
            make_jaxpr(|leaves: Vec<Tensor>| doubled(&leaves))(leaves.clone())
        });
        sheet.add("leaves: first call", leaves, |leaves| {
            function()(leaves.clone())
        });
        sheet.add(
            "leaves: later calls",
            |size| {
                let function = function();
                function(leaves(size));
                (function, leaves(size))
            },
            |(function, leaves)| function(leaves.clone()),
        );
        sheet.add(
            "leaves: display",
            |size| make_jaxpr(|leaves: Vec<Tensor>| doubled(&leaves))(leaves(size)),
            |jaxpr| jaxpr.to_string(),
        );
        sheet.add("leaves: memory", leaves, |leaves| {
            function().lower(leaves).to_string()
        });
        sheet.add(
            "leaves: why retraced",
            |size| {
                let function = function();
                function(leaves(size));
                function(vec![vector(); size]);
                function
            },
            |function| function.why_retraced().unwrap().to_string(),
        );
        sheet.add("leaves: grad", leaves, |leaves| {
            grad(|leaves: &Vec<Tensor>| total(leaves))(leaves)
        });
        sheet.add("leaves: grad under jit", leaves, |leaves| {
            jit(grad(|leaves: &Vec<Tensor>| total(leaves)))(leaves.clone())
        });
        sheet.add("leaves: jvp", leaves, |leaves| {
            jvp(|leaves: &Vec<Tensor>| doubled(leaves), leaves, leaves)
        });
        sheet.add("leaves: linearize", leaves, |leaves| {
            linearize(|leaves: &Vec<Tensor>| doubled(leaves), leaves)
                .1
                .call(leaves)
        });
        sheet.add("leaves: linear transpose", leaves, |leaves| {
            linear_transpose(|leaves: &Vec<Tensor>| doubled(leaves), leaves).call(leaves)
        });
        sheet.add("leaves: saved residuals", leaves, |leaves| {
            saved_residuals(|leaves: &Vec<Tensor>| total(leaves).sin(), leaves)
        });
        sheet.add(
            "leaves: grad through a compiled function",
            leaves,
            |leaves| {
                let inner = jit(|leaves: Vec<Tensor>| {
                    let squares: Vec<Tensor> = leaves.iter().map(|leaf| leaf * leaf).collect();
                    total(&squares)
                });
                grad(|leaves: &Vec<Tensor>| inner(leaves.clone()))(leaves)
            },
        );
        let many = |size| vec![vector(); size];
        sheet.add("leaves: vmap", many, |leaves| {
            vmap(|leaves: Vec<Tensor>| doubled(&leaves))(leaves.clone())
        });
        sheet.add("leaves: grad under vmap", many, |leaves| {
            vmap(grad(|leaves: &Vec<Tensor>| total(leaves)))(leaves.clone())
        });
        sheet.add("leaves: stack", many, |leaves| {
            unstack(&stack(&[leaves.clone(), leaves.clone()], 0))
        });
        sheet.add("leaves: ravel", many, |leaves| {
            let (vector, form) = ravel(leaves);
            form.unravel(&vector).unwrap()
        });
        sheet.add(
            "leaves: axes that differ in length",
            |size| {
                let each = 1..=size;
                each.map(|length| Tensor::zeros(DType::Bool, [length % 400 + 1]))
                    .collect::<Vec<_>>()
            },
            |leaves| {
                let function = vmap(|leaves: Vec<Tensor>| leaves);
                refused(|| function(leaves.clone()))
            },
        );
        sheet.add("leaves: scan over them", many, |leaves| {
            scan(
                |carry: Tensor, leaves: Vec<Tensor>| (carry + total(&leaves), total(&leaves)),
                Tensor::from(0.0_f32),
                leaves.clone(),
            )
        });
        sheet.add("leaves: scan that carries them", leaves, |leaves| {
            scan(
                |carry: Vec<Tensor>, x: Tensor| (doubled(&carry), x),
                leaves.clone(),
                vector(),
            )
        });
        sheet.add(
            "leaves: grad of a scan that carries them",
            leaves,
            |leaves| {
                grad(|leaves: &Vec<Tensor>| {
                    total(
                        &scan(
                            |carry: Vec<Tensor>, x: Tensor| (doubled(&carry), x),
                            leaves.clone(),
                            vector(),
                        )
                        .0,
                    )
                })(leaves)
            },
        );
        sheet.add("leaves: a branch", leaves, |leaves| {
            jit(|leaves: Vec<Tensor>| {
                cond(
                    &leaves[0].less(0.5),
                    |leaves: Vec<Tensor>| doubled(&leaves),
                    |leaves| leaves,
                    leaves.clone(),
                )
            })(leaves.clone())
        });
        sheet.add("leaves: a loop", leaves, |leaves| {
            while_loop(
                |leaves: &Vec<Tensor>| leaves[1].less(4.0),
                |leaves: Vec<Tensor>| doubled(&leaves),
                leaves.clone(),
            )
        });
    });
}
