//! A model with states, trained in place: `&mut` arguments of compiled steps, loops and branches.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree::Axes;
use pytree::control::cond_mut;
use pytree::kind::RngState;
use pytree::nn::relu;
use pytree::prelude::*;
use pytree::random::with_rngs;
use pytree::transform::{JitMut, Mut};
use pytree::unstack;

#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    hidden: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    output: Linear,
}

impl Net {
    fn new(seed: u64) -> Self {
        let mut rngs = Rngs::new(seed);
        Self {
            hidden: Linear::new(4, 8, &mut rngs),
            norm: BatchNorm::new(8, &mut rngs),
            dropout: Dropout::new(0.5, &mut rngs),
            output: Linear::new(8, 1, &mut rngs),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(&self.hidden.forward(x));
        self.output.forward(&self.dropout.forward(&relu(&x)))
    }
}

fn batch() -> (Tensor, Tensor) {
    let x = Key::new(1).normal(DType::F32, [16, 4]);
    let y = x.sum_keep([-1]);
    (x, y)
}

/// The step as users write it. The step runs eagerly and compiled.
fn train((net, optimizer, x, y): (&mut Net, &mut Optimizer<Net>, Tensor, Tensor)) -> Tensor {
    let loss = |net: &mut Net| mse(&net.forward(&x), &y);
    let (loss, gradient) = value_and_grad_mut(loss)(net);
    optimizer.update(net, &gradient);
    loss
}

#[test]
fn each_call_draws_the_mask_of_the_eager_program() {
    let mut eager = Dropout::new(0.5, &mut Rngs::new(0));
    let mut compiled = eager.clone();
    let drop = jit_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x));
    let x = Tensor::ones(DType::F32, [64]);
    let masks: Vec<Tensor> = (0..3).map(|_| drop((&mut compiled, x.clone()))).collect();
    for mask in &masks {
        assert_eq!(*mask, eager.forward(&x));
    }
    assert_ne!(masks[0], masks[1]);
    assert_ne!(masks[1], masks[2]);
    assert_eq!(compiled, eager);
    assert_eq!(drop.traces(), 1);
}

#[test]
fn three_steps_equal_the_eager_program() {
    let (x, y) = batch();
    let (mut eager, mut compiled) = (Net::new(0), Net::new(0));
    let mut of_eager = Optimizer::new(&eager, adam(1e-2));
    let mut of_compiled = of_eager.clone();
    let step = jit_mut(train);
    for _ in 0..3 {
        let expected = train((&mut eager, &mut of_eager, x.clone(), y.clone()));
        let found = step((&mut compiled, &mut of_compiled, x.clone(), y.clone()));
        assert_eq!(found, expected);
    }
    assert_ne!(compiled.norm.mean, Net::new(0).norm.mean);
    assert_eq!(compiled, eager);
    assert_eq!(of_compiled.step(), of_eager.step());
    assert_eq!(step.traces(), 1);
}

#[test]
fn a_step_that_panics_changes_nothing() {
    let (x, _) = batch();
    let mut net = Net::new(0);
    let before = net.clone();
    let fails = jit_mut(|(net, x, wrong): (&mut Net, Tensor, Tensor)| {
        let y = net.forward(&x);
        net.norm.momentum = 0.5;
        y.matmul(&wrong)
    });
    let wrong = Tensor::ones(DType::F32, [7, 7]);
    let call = AssertUnwindSafe(|| fails((&mut net, x.clone(), wrong)));
    catch_unwind(call).unwrap_err();
    assert_eq!(net, before);

    // Here, the compiled program panics while it runs.
    let prints = jit_mut(|(net, x): (&mut Net, Tensor)| {
        let y = net.forward(&x);
        pytree::debug::debug_callback(&[&y], |_| panic!("stop"));
        y
    });
    for _ in 0..2 {
        let call = AssertUnwindSafe(|| prints((&mut net, x.clone())));
        catch_unwind(call).unwrap_err();
        assert_eq!(net, before);
    }
    let checks =
        jit_mut(|(net, x): (&mut Net, Tensor)| (net.forward(&x) - 100.0).log()).check_nans();
    let call = AssertUnwindSafe(|| checks((&mut net, x)));
    catch_unwind(call).unwrap_err();
    assert_eq!(net, before);
}

/// A trainer that stores its step.
struct Trainer {
    net: Net,
    forward: JitMut<(Mut<Net>, Tensor), Tensor>,
    reset: JitMut<Mut<Net>, ()>,
}

#[test]
fn a_compiled_function_is_stored_and_nested() {
    let (x, _) = batch();
    let mut trainer = Trainer {
        net: Net::new(0),
        forward: jit_mut(|(net, x): (&mut Net, Tensor)| net.forward(&x)),
        reset: jit_mut(|net: &mut Net| net.norm = BatchNorm::new(8, &mut Rngs::new(0))),
    };
    let mut expected = trainer.net.clone();
    let y = (trainer.forward)((&mut trainer.net, x.clone()));
    assert_eq!(y, expected.forward(&x));
    assert_eq!(trainer.net, expected);
    (trainer.reset)(&mut trainer.net);
    assert_eq!(trainer.net.norm, Net::new(0).norm);

    // Here, a compiled function is called inside of another compiled function, and inside of a gradient.
    let forward = trainer.forward.clone();
    let mut nested = trainer.net.clone();
    let mut plain = trainer.net.clone();
    let twice = jit_mut(move |(net, x): (&mut Net, Tensor)| {
        forward((&mut *net, x.clone()));
        forward((net, x))
    });
    plain.forward(&x);
    assert_eq!(twice((&mut nested, x.clone())), plain.forward(&x));
    assert_eq!(nested, plain);
    let forward = trainer.forward;
    let loss = |net: &mut Net| forward((net, x.clone())).square().mean();
    let ((left, gradient), (right, of_plain)) = (
        value_and_grad_mut(loss)(&mut nested),
        value_and_grad_mut(|net: &mut Net| net.forward(&x).square().mean())(&mut plain),
    );
    assert!((left - right).abs().item::<f32>() < 1e-5);
    assert_eq!(gradient.len(), of_plain.len());
    assert_eq!(nested.norm.mean, plain.norm.mean);
}

#[test]
fn examples_are_mapped_inside_of_a_compiled_step() {
    let mut dropout = Dropout::new(0.5, &mut Rngs::new(0));
    let mut each = with_rngs(&mut dropout, |stream| stream.split([4]));
    let mut eager = each.clone();
    let axes = Axes::filter([
        (Filter::state::<RngState>(), Some(0)),
        (Filter::everything(), None),
    ]);
    let drop = vmap_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x))
        .in_axes((axes.clone(), 0));
    let x = Tensor::ones(DType::F32, [4, 32]);
    let expected = [drop((&mut eager, x.clone())), drop((&mut eager, x.clone()))];
    let compiled = jit_mut(drop);
    let found = [
        compiled((&mut each, x.clone())),
        compiled((&mut each, x.clone())),
    ];
    assert_eq!(found, expected);
    assert_eq!(each, eager);

    // Here, `vmap` maps a compiled function.
    let forward = jit_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x));
    let mapped = vmap_mut(forward).in_axes((axes, 0));
    let drop = |each: &mut Dropout| mapped((each, x.clone()));
    let (first, second) = (drop(&mut each), drop(&mut each));
    assert_ne!(first, second);
    assert_ne!(first.index(ix![0]), first.index(ix![1]));
}

#[test]
fn several_arguments_are_mapped_and_written() {
    let add = vmap_mut(|(left, right, x): (&mut Tensor, &mut Tensor, Tensor)| {
        *left = &*left + &x;
        *right = &*right * &x;
        x * 2
    });
    let (mut left, mut right) = (Tensor::from([0, 10]), Tensor::from([1, 5]));
    let doubled = add((&mut left, &mut right, Tensor::from([2, 3])));
    assert_eq!(doubled, Tensor::from([4, 6]));
    assert_eq!(left, Tensor::from([2, 13]));
    assert_eq!(right, Tensor::from([2, 15]));
    let negate = vmap_mut(|x: &mut Tensor| *x = -&*x);
    negate(&mut left);
    assert_eq!(left, Tensor::from([-2, -13]));
}

#[test]
fn loop_and_branch_write_their_model() {
    let mut eager = Net::new(0);
    let mut looped = eager.clone();
    let xs = Key::new(3).normal(DType::F32, [3, 16, 4]);
    let expected: Vec<Tensor> = unstack(&xs).iter().map(|x| eager.forward(x)).collect();
    let found = scan_mut(|net, x: Tensor| net.forward(&x), &mut looped, xs.clone());
    assert_eq!(found.shape(), [3, 16, 1]);
    for (found, expected) in unstack(&found).iter().zip(&expected) {
        assert!((found - expected).abs().max().item::<f32>() < 1e-5);
    }
    assert_eq!(looped.dropout, eager.dropout);
    assert!(
        (&looped.norm.mean - &eager.norm.mean)
            .abs()
            .max()
            .item::<f32>()
            < 1e-6
    );

    let x = xs.index(ix![0]);
    let run = jit_mut(|(net, x, is_training): (&mut Net, Tensor, Tensor)| {
        let zeros = Tensor::zeros(DType::F32, [16, 1]);
        cond_mut(&is_training, |net| net.forward(&x), |_| zeros.clone(), net)
    });
    let before = looped.clone();
    let y = run((&mut looped, x.clone(), Tensor::from(false)));
    assert_eq!((y.abs().max().item::<f32>(), &looped), (0.0, &before));
    let y = run((&mut looped, x.clone(), Tensor::from(true)));
    assert!(y.abs().max().item::<f32>() > 0.0);
    assert_eq!(looped.dropout.stream().count().item::<u32>(), 4);

    // A body that panics changes nothing.
    let before = looped.clone();
    let call = AssertUnwindSafe(|| {
        scan_mut(
            |net: &mut Net, x: Tensor| {
                net.forward(&x);
                x.matmul(&x)
            },
            &mut looped,
            xs,
        )
    });
    catch_unwind(call).unwrap_err();
    assert_eq!(looped, before);
}

#[test]
fn references_are_written_by_compiled_steps() {
    let calls = Ref::new(Tensor::from(0));
    let mut pair = (calls.clone(), Tensor::from(1));
    let step = jit_mut(|(pair, x): (&mut (Ref<Tensor>, Tensor), Tensor)| {
        pair.0.update(|calls| calls + 1);
        pair.1 = &pair.1 + &x;
    });
    step((&mut pair, Tensor::from(5)));
    step((&mut pair, Tensor::from(5)));
    assert_eq!(calls.get().item::<i32>(), 2);
    assert_eq!(pair.1.item::<i32>(), 11);
    assert!(pair.0.same(&calls));

    // A new reference replaces the reference of the argument.
    let replace = jit_mut(|pair: &mut (Ref<Tensor>, Tensor)| pair.0 = Ref::new(Tensor::from(7)));
    replace(&mut pair);
    assert_eq!(pair.0.get().item::<i32>(), 7);
    assert!(!pair.0.same(&calls));
}
