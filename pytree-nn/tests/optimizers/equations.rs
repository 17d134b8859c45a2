//! The number of equations of a compiled update: features that are not used cost nothing.

use pytree_nn::{
    Chain, Momentum, Optimizer, adam, adamw, chain, clip_by_global_norm, sgd, sgd_momentum,
};
use pytree_transform::{Tensor, make_jaxpr};

use crate::optimizers::updated;

/// Returns the number of equations of an update of two parameters.
fn equations(transformation: Chain) -> usize {
    let parameters = vec![
        Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]),
        Tensor::from([5.0_f32, 6.0]),
    ];
    let optimizer = Optimizer::new(&parameters, transformation);
    let jaxpr = make_jaxpr(updated)((optimizer, parameters.clone(), parameters));
    jaxpr.equations().len()
}

#[test]
fn unused_features_add_no_equations() {
    // The numbers of equations before there were schedules, masks and further options.
    assert_eq!(equations(sgd(0.1)), 8);
    let momentum = sgd_momentum(0.1, 0.9, Momentum::Classical);
    assert_eq!(equations(momentum), 14);
    assert_eq!(equations(adam(0.1)), 58);
    assert_eq!(equations(adamw(0.1, 0.01)), 64);
    let clipped = chain([clip_by_global_norm(1.0), adam(0.1)]);
    assert_eq!(equations(clipped), 72);
}
