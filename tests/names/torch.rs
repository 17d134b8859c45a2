//! The rows of the tables in `docs/reference/for-pytorch-users.md`.

mod gradients {
    use pytree::TreeError;
    use pytree::custom_vjp;
    use pytree::optim::{Momentum, chain, clip_by_global_norm, sgd_momentum};
    use pytree::prelude::*;

    #[test]
    fn rows_of_gradients() -> Result<(), TreeError> {
        // Straight through: rounds forward, passes the gradient backward.
        let round = custom_vjp(
            |x: &Tensor| x.round(),
            |x| (x.round(), ()),
            |(), gradient| gradient,
        );
        let x = Tensor::from([0.4_f32, 1.6]);
        let slope = grad(|x: &Tensor| (round(x) * x.stop_gradient()).sum())(&x);
        assert_eq!(slope, x);

        // Accumulates over two batches, with a frozen first layer.
        let mut rngs = Rngs::new(0);
        let mut model = Mlp::new(&[2, 4, 1], Activation::Relu, &mut rngs);
        let trained = Filter::param() & !Filter::path("layers[0]");
        let momentum = sgd_momentum(0.1, 0.9, Momentum::Classical); // SGD(…, momentum=0.9, nesterov=False)
        let chain = chain([clip_by_global_norm(1.0), momentum]); // clip_grad_norm_
        let mut optimizer = Optimizer::with_filter(&model, chain, &trained);
        let gradient = |model: &Mlp, x: &Tensor| {
            let loss = |model: &Mlp| mse(&model.forward(x), &x.sum_keep([-1]));
            grad(loss).wrt(trained.clone())(model)
        };
        let batches = [
            rngs.normal(DType::F32, [8, 2]),
            rngs.normal(DType::F32, [8, 2]),
        ];
        let sum =
            gradient(&model, &batches[0]).map2(&gradient(&model, &batches[1]), |a, b| a + b)?;
        let frozen = model.layers[0].clone();
        optimizer.update(&mut model, &sum.map(|sum| sum / 2.0));
        assert_eq!(model.layers[0], frozen);
        Ok(())
    }
}

mod tensors {
    use pytree::TreeError;
    use pytree::nn::softmax;
    use pytree::prelude::*;

    #[test]
    fn rows_of_parameters_and_tensors() -> Result<(), TreeError> {
        let x = Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        assert_eq!(x.transpose([1, 0]), x.t());
        assert_eq!(x.swap_axes(0, 1), x.t());
        assert_eq!(
            x.index(ix![.., 0..2]).sum_axes([0]).to_vec::<f32>(),
            [5.0, 7.0]
        );
        assert_eq!(
            x.take_along_axis(&Tensor::from([[2], [0]]), 1)
                .to_vec::<f32>(),
            [3.0, 4.0]
        );
        assert_eq!(
            x.greater(4.5)
                .select(Tensor::zeros_like(&x), &x)
                .sum()
                .item::<f32>(),
            10.0
        );
        assert_eq!(
            softmax(&x, -1).sum_axes([-1]).round(),
            Tensor::from([1.0_f32, 1.0])
        );
        assert_eq!(
            Tensor::from([1.0_f32, 2.0, 3.0])
                .broadcast_to([4, 3])
                .shape(),
            [4, 3]
        );

        let model = Mlp::new(&[3, 4, 2], Activation::Relu, &mut Rngs::new(0));
        let params = partition::filter(&model, &Filter::param());
        let names: Vec<String> = params
            .iter_with_path()
            .map(|(path, _)| path.to_string())
            .collect();
        assert_eq!(names[0], "layers[0].weight");
        assert_eq!(
            params.leaves().iter().map(Tensor::len).sum::<usize>(),
            3 * 4 + 4 + 4 * 2 + 2
        );
        let zeros = partition::replace(&model, &params.map(Tensor::zeros_like))?; // functional_call
        assert_eq!(zeros.forward(&x).sum().item::<f32>(), 0.0);
        Ok(())
    }
}
