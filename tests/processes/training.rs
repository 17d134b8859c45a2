//! Training with the processes of a mesh.

use pytree::collectives::pmean;
use pytree::device::Mesh;
use pytree::prelude::*;
use pytree::spmd;

use crate::processes::examples;
use crate::processes::threads::in_threads;

type Step = (Mlp, Optimizer<Mlp>, Tensor, Tensor);

/// One step of training with one part of the batch.
fn step((mut model, mut optimizer, x, y): Step) -> ((Mlp, Optimizer<Mlp>), Tensor) {
    let loss = |model: &Mlp| mse(&model.forward(&x), &y);
    let (loss, gradient) = value_and_grad(loss)(&model);
    let (loss, gradient) = pmean(&(loss, gradient), "data");
    optimizer.update(&mut model, &gradient);
    ((model, optimizer), loss)
}

/// Returns the losses of 20 steps in each process.
fn losses(size: usize) -> Vec<Vec<f32>> {
    let x = examples(12, &[2]).tanh();
    let y = x.square().sum().reshape([1, 1]) + x.index(ix![.., ..1]);
    let model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut Rngs::new(0));
    let start = (model.clone(), Optimizer::new(&model, adam(1e-2)));
    in_threads(size, |all| {
        let mesh = Mesh::new(all, [("data", size)]);
        let step = spmd(step).over(&mesh).in_axes("data", (None, None, 0, 0));
        let mut state = start.clone();
        let mut losses = Vec::new();
        for _ in 0..20 {
            let (next, loss) = step((state.0, state.1, x.clone(), y.clone()));
            state = next;
            losses.push(loss);
        }
        assert_eq!(step.traces(), 1);
        losses.iter().map(Tensor::item::<f32>).collect()
    })
}

#[test]
fn processes_train_like_one() {
    let expected = losses(1).remove(0);
    assert!(expected[19] < expected[0]);
    for size in [2, 3, 4] {
        let of_all = losses(size);
        assert!(of_all.iter().all(|losses| *losses == of_all[0]));
        for (found, expected) in of_all[0].iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0));
        }
    }
}
