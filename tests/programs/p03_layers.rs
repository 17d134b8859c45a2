//! A `Vec<Box<dyn Layer>>` with layers of different types. The trait `Layer` is the user's own.

use pytree::module_object;
use pytree::prelude::*;

#[module_object]
trait Layer: Module {
    fn forward(&self, x: &Tensor) -> Tensor;
}

#[derive(Module, Clone, Debug)]
struct Scale {
    #[param]
    factor: Tensor,
}

#[derive(Module, Clone, Debug)]
struct Power {
    #[r#static]
    exponent: i32,
}

impl Layer for Scale {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.factor
    }
}
impl Layer for Power {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.powi(self.exponent)
    }
}

#[derive(Module, Clone, Debug)]
struct Sequential {
    layers: Vec<Box<dyn Layer>>,
}

impl Sequential {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layers
            .iter()
            .fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

#[test]
fn boxed_layers_are_cloned_jitted_and_differentiated() {
    let scale = |factor: f32| {
        Box::new(Scale {
            factor: Tensor::from(factor),
        })
    };
    let model = Sequential {
        layers: vec![scale(2.0), Box::new(Power { exponent: 2 }), scale(3.0)],
    };
    let x = Tensor::from(5.0_f32);
    let copy = model.clone();
    assert_eq!(copy.forward(&x).item::<f32>(), 300.0);

    let forward = jit(|(model, x): (Sequential, Tensor)| model.forward(&x));
    assert_eq!(forward((model.clone(), x.clone())).item::<f32>(), 300.0);

    let gradient = grad(|model: &Sequential| model.forward(&x))(&model);
    assert_eq!(gradient["layers[0].factor"].item::<f32>(), 300.0);
    assert_eq!(gradient["layers[2].factor"].item::<f32>(), 100.0);

    let cubed = Sequential {
        layers: vec![scale(2.0), Box::new(Power { exponent: 3 }), scale(3.0)],
    };
    assert_eq!(forward((cubed, x)).item::<f32>(), 3000.0);
    assert_eq!(forward.traces(), 2);
    let why = forward.why_retraced().unwrap().to_string();
    assert!(why.contains("exponent = 2"), "{why}");
}
