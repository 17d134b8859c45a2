//! Static fields: an enum, a float, a string, a function pointer. If a static field changes, the function is traced
//! again and the reason is reported.

use pytree::Static;
use pytree::prelude::*;

#[derive(Static, Clone, Debug, PartialEq)]
enum Shift {
    None,
    By(f32),
}

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Tensor,
    #[r#static]
    shift: Shift,
    #[r#static]
    slope: f32,
    #[r#static]
    name: String,
    #[r#static]
    activation: fn(&Tensor) -> Tensor,
}

impl Model {
    fn forward(&self, x: &Tensor) -> Tensor {
        // A slope that is NaN counts as 0.
        let y = (self.activation)(&(x * &self.weight * self.slope.max(0.0)));
        match self.shift {
            Shift::None => y,
            Shift::By(shift) => y + shift,
        }
    }
}

#[test]
fn a_changed_static_retraces_and_says_why() {
    let forward = jit(|(model, x): (Model, Tensor)| model.forward(&x));
    let x = Tensor::from([1.0_f32, -2.0]);
    let base = Model {
        weight: Tensor::from(2.0_f32),
        shift: Shift::None,
        slope: 0.5,
        name: "base".to_owned(),
        activation: Tensor::relu,
    };
    let run = |model: &Model| forward((model.clone(), x.clone())).to_vec::<f32>();
    let why = || {
        forward
            .why_retraced()
            .map(|why| why.to_string())
            .unwrap_or_default()
    };

    assert_eq!(run(&base), [1.0, 0.0]);
    assert_eq!(
        run(&Model {
            weight: Tensor::from(4.0_f32),
            ..base.clone()
        }),
        [2.0, 0.0]
    );
    assert_eq!((forward.traces(), why()), (1, String::new()));

    assert_eq!(
        run(&Model {
            shift: Shift::By(3.0),
            ..base.clone()
        }),
        [4.0, 3.0]
    );
    assert!(
        why().contains("shift = None against shift = By(3.0)"),
        "{}",
        why()
    );
    assert_eq!(
        run(&Model {
            slope: f32::NAN,
            ..base.clone()
        }),
        [0.0, 0.0]
    );
    assert!(why().contains("slope = nan"), "{}", why());
    run(&Model {
        slope: f32::NAN,
        ..base.clone()
    });
    assert_eq!(forward.traces(), 3, "NaN equals itself");
    run(&Model {
        name: "other".to_owned(),
        ..base.clone()
    });
    assert!(why().contains("name = 'other'"), "{}", why());
    assert_eq!(
        run(&Model {
            activation: Tensor::abs,
            ..base.clone()
        }),
        [1.0, 2.0]
    );
    assert!(
        why().ends_with(
            "activation = fn(&Tensor) -> Tensor before, a different value of the same type now"
        ),
        "{}",
        why()
    );
    assert_eq!(forward.traces(), 5);
}
