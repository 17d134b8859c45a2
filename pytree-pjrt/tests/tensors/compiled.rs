//! Compiled functions: memory of arguments, constants, threads.

use pytree_pjrt::{Client, CompileOptions, Options};
use pytree_transform::device::{Device, device_put, with_device};
use pytree_transform::{DType, Tensor, jit};

use crate::common::{client, plugin};
use crate::tensors::device;

#[test]
fn function_runs_on_a_client() {
    let Some(client) = client() else { return };
    let f = jit(|(x, y): (Tensor, Tensor)| (&x * &y).sum()).on(client);
    let z = f((Tensor::from([1.0_f32, 2.0]), Tensor::from([3.0_f32, 4.0])));
    assert_eq!(z.device(), &Device::from(client));
    assert_eq!(z.item::<f32>(), 11.0);
    let z = with_device(client, || jit(|x: Tensor| x * 2.0)(Tensor::from(1.5_f32)));
    assert_eq!((z.device(), z.item::<f32>()), (&Device::from(client), 3.0));
}

#[test]
fn places_of_a_client_are_kept() {
    let Some(client) = client() else { return };
    assert_eq!(client.place(0).unwrap(), Device::from(client));
    assert_eq!(client.place(0).unwrap(), Device::from(&client.clone()));
    let count = client.devices().len();
    let error = client.place(count).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot return the place of a device: expected the index of one of"),
        "{error}"
    );
    if count > 1 {
        let second = client.place(1).unwrap();
        assert_ne!(second, Device::from(client));
        let y = jit(|x: Tensor| x.exp()).on(&second)(Tensor::from(0.0_f32));
        assert_eq!((y.device(), y.item::<f32>()), (&second, 1.0));
    }
}

/// The name of a device is that of its platform; only the first client of a process has no number.
#[test]
fn names_of_clients_differ() {
    let (Some(path), Some(first)) = (plugin(), client()) else {
        return;
    };
    let second = Client::load_with(path, &Options::new()).unwrap();
    let (first, second) = (Device::from(first), Device::from(&second));
    let platform = client().unwrap().platform_name();
    assert!(
        first.name().starts_with(&format!("{platform}:0")),
        "{first}"
    );
    assert_ne!(first.name(), second.name());
}

/// A result of the same size takes the memory of an argument that nobody else holds, and no other.
#[test]
fn shared_arguments_stay_unchanged() {
    let Some(device) = device() else { return };
    let size = 100_000;
    let f = jit(|(x, y): (Tensor, Tensor)| (&x + &y, &x * &y - 1.0)).on(&device);
    let new = |number| device_put(&Tensor::full(DType::F32, [size], number), &device);
    let all = |x: &Tensor, number: f32| assert!(x.to_vec::<f32>().iter().all(|&it| it == number));
    for (keep_x, keep_y) in [(false, false), (true, false), (false, true), (true, true)] {
        let (x, y) = (new(2.0), new(3.0));
        let kept = (keep_x.then(|| x.clone()), keep_y.then(|| y.clone()));
        let (sum, product) = f((x, y));
        let (again, _) = f((sum.clone(), product.clone()));
        all(&sum, 5.0);
        all(&product, 5.0);
        all(&again, 10.0);
        kept.0.iter().for_each(|x| all(x, 2.0));
        kept.1.iter().for_each(|y| all(y, 3.0));
    }
    // One tensor as both arguments.
    let x = new(2.0);
    let (sum, product) = f((x.clone(), x));
    all(&sum, 4.0);
    all(&product, 3.0);
}

/// The compiler chooses a result for each donor; nothing but the attribute asks for it.
#[test]
fn donors_lend_their_memory_to_results() {
    let Some(client) = client() else { return };
    let x = Tensor::zeros(DType::F32, [1000]);
    let y = Tensor::zeros(DType::F32, [10]);
    let module = jit(|(x, y): (Tensor, Tensor)| (&x + 1.0, y.sum())).stablehlo(&(x, y));
    let aliased = |text: &str| {
        let executable = client.compile(text, &CompileOptions::new()).unwrap();
        executable.memory().unwrap().aliased
    };
    assert_eq!(aliased(&module.text_with_donors()), 4000);
    assert_eq!(aliased(module.text_without_locations()), 0);
}

#[test]
fn large_constants_are_transferred_once() {
    let Some(device) = device() else { return };
    let table = Tensor::arange(DType::F32, 10_000);
    let expected = (&table * 2.0).sum().item::<f32>();
    let f = jit(move |x: Tensor| (&table * &x).sum() + &table.index(pytree_transform::ix![7]))
        .on(&device);
    for _ in 0..3 {
        assert_eq!(f(Tensor::from(2.0_f32)).item::<f32>(), expected + 7.0);
    }
    // A constant of the body of a loop is an argument of the program, too.
    let rows = Tensor::arange(DType::F32, 5_000);
    let total = rows.sum().item::<f32>();
    let looped = jit(move |x: Tensor| {
        pytree_transform::fori_loop(0, 3, |_, sum: Tensor| sum + rows.sum(), x)
    });
    let y = looped.on(&device)(Tensor::from(0.0_f32));
    assert!((y.item::<f32>() / (3.0 * total) - 1.0).abs() < 1e-6);
}

#[test]
fn threads_run_on_a_device() {
    let Some(device) = device() else { return };
    let f = jit(|x: Tensor| (x.sin() * 2.0 + 1.0).square()).on(&device);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (f, device) = (&f, &device);
            scope.spawn(move || {
                let start = Tensor::full(DType::F32, [64], f64::from(thread));
                let expected = jit(|x: Tensor| (x.sin() * 2.0 + 1.0).square())(start.clone());
                let start = device_put(&start, device);
                for _ in 0..100 {
                    let found = f(start.clone()).to_vec::<f32>();
                    let close = |(a, b): (f32, f32)| (a - b).abs() < 1e-5;
                    assert!(found.into_iter().zip(expected.to_vec()).all(close));
                }
            });
        }
    });
}
