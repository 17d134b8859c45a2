use pytree_nn::*;
use pytree_transform::{DType, Tensor, jit, value_and_grad};
#[test]
fn bench() {
    let mut rngs = Rngs::new(0);
    let mut model = Mlp::new(&[64, 128, 128, 10], Activation::Relu, &mut rngs);
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let x = rngs.normal(DType::F32, [32, 64]);
    let y = Tensor::new([32], (0..32).map(|i| i % 10).collect::<Vec<i32>>());
    let step = jit(|(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
        let (loss, gradients) = value_and_grad(|m: &Mlp| softmax_cross_entropy(&m.forward(&x), &y).mean())(&model);
        optimizer.update(&mut model, &gradients);
        (model, optimizer, loss)
    });
    println!("{}", step.jaxpr(&(model.clone(), optimizer.clone(), x.clone(), y.clone())));
    let mut last = 0.0;
    for n in [1, 10, 2000] {
        let t = std::time::Instant::now();
        for _ in 0..n {
            let loss;
            (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
            last = loss.item::<f32>();
        }
        println!("{n}: {:?} a step, loss {last}", t.elapsed() / n);
    }
    for n in [200] {
        let t = std::time::Instant::now();
        for _ in 0..n {
            let (loss, gradients) = value_and_grad(|m: &Mlp| softmax_cross_entropy(&m.forward(&x), &y).mean())(&model);
            optimizer.update(&mut model, &gradients);
            last = loss.item::<f32>();
        }
        println!("eager {n}: {:?} a step, loss {last}", t.elapsed() / n);
        let t = std::time::Instant::now();
        for _ in 0..n {
            let _ = softmax_cross_entropy(&model.forward(&x), &y).mean();
        }
        println!("forward {n}: {:?}", t.elapsed() / n);
    }
}
