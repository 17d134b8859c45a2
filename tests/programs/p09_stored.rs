//! A jitted function of several arguments, stored in a struct field and called from two threads.

use pytree::prelude::*;
use pytree::transform::Jit;

struct Server {
    predict: Jit<(Linear, Tensor, Tensor), Tensor>,
    model: Linear,
}

#[test]
fn stored_jitted_function_is_called_like_function() {
    let server = Server {
        predict: jit(|(model, x, temperature): (Linear, Tensor, Tensor)| {
            model.forward(&x) / temperature
        }),
        model: Linear::new(4, 2, &mut Rngs::new(0)),
    };
    let x = Tensor::ones(DType::F32, [3, 4]);
    let expected = server.model.forward(&x).to_vec::<f32>();
    std::thread::scope(|scope| {
        for factor in [1.0_f32, 2.0] {
            let (server, x, expected) = (&server, &x, &expected);
            scope.spawn(move || {
                for _ in 0..50 {
                    let y =
                        (server.predict)((server.model.clone(), x.clone(), Tensor::from(factor)));
                    for (found, expected) in y.to_vec::<f32>().iter().zip(expected) {
                        assert!((found - expected / factor).abs() < 1e-6);
                    }
                }
            });
        }
    });
    assert_eq!(
        server.predict.traces(),
        1,
        "threads that are first together keep one trace"
    );
}
