//! An ensemble with named axes: the names describe one member. Under `vmap` each call sees one member.

use pytree::axes::check_stacked;
use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Net {
    #[param("in hidden")]
    first: Tensor,
    #[param("hidden out")]
    last: Tensor,
}

impl Net {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            first: rngs.normal(DType::F32, [2, 8]),
            last: rngs.normal(DType::F32, [8, 1]),
        }
    }

    #[shapes(x = "batch in", return = "batch out")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.first).tanh().matmul(&self.last)
    }
}

const MEMBERS: usize = 3;

fn ensemble() -> Net {
    vmap(|mut rngs: Rngs| Net::new(&mut rngs))(Rngs::new(0).split(MEMBERS))
}

fn inputs() -> Tensor {
    Tensor::ones(DType::F32, [5, 2])
}

#[test]
fn members_are_checked_under_vmap() {
    let predict = vmap(shaped!(x = "batch in", return = "batch _", |(net, x): (
        Net,
        Tensor
    )| net
        .forward(&x)))
    .in_axes((0, None));
    assert_eq!(predict((ensemble(), inputs())).shape(), [MEMBERS, 5, 1]);
}

#[test]
fn stacked_model_is_checked_with_the_name_of_its_axis() {
    check_stacked(&ensemble(), &["member"]).unwrap();
    let uneven = Net {
        last: Tensor::zeros(DType::F32, [2, 8, 1]),
        ..ensemble()
    };
    assert_eq!(
        check_stacked(&uneven, &["member"]).unwrap_err().to_string(),
        "Net: last is f32[2,8,1], expected [member hidden out] with member = 3 (from first); \
         stack the same number of models in last and first"
    );
}

#[test]
fn wrong_member_width_is_reported_below_the_stacked_axis() {
    let wrong = Net {
        last: Tensor::zeros(DType::F32, [MEMBERS, 9, 1]),
        ..ensemble()
    };
    assert_eq!(
        check_stacked(&wrong, &["member"]).unwrap_err().to_string(),
        "Net: last is f32[3,9,1], expected [member hidden out] with hidden = 8 (from first: f32[3,2,8] as [member in hidden]); \
         make last and first with the same `hidden`"
    );
}

#[test]
fn ensemble_without_vmap_is_reported() {
    let message = panic_message(|| ensemble().forward(&inputs()));
    assert_eq!(
        message,
        "Net::forward: 2 shapes do not match:\n  \
         first is f32[3,2,8], expected [in hidden]; \
         make first with 2 axes; if several models are stacked in this one, use it under `vmap`, and check it with `axes::check_stacked`, or write `#[module(stacked = \"name\")]` above the field that holds it\n  \
         last is f32[3,8,1], expected [hidden out]; \
         make last with 2 axes; if several models are stacked in this one, use it under `vmap`, and check it with `axes::check_stacked`, or write `#[module(stacked = \"name\")]` above the field that holds it"
    );
}

#[test]
fn input_of_every_member_is_reported_under_vmap() {
    let predict = vmap(|(net, x): (Net, Tensor)| net.forward(&x));
    let x = Tensor::ones(DType::F32, [MEMBERS, 5, 4]);
    assert_eq!(
        panic_message(|| predict((ensemble(), x))),
        "Net::forward: x is f32[5,4], expected [batch in] with in = 2 (from first: f32[2,8] as [in hidden]); \
         pass x with in = 2, or make the Net with in = 4"
    );
}
