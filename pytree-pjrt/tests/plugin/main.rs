//! Runs programs with a plugin.

use pytree_pjrt::{Client, CompileOptions};
#[test]
fn adds() {
    let client = Client::from_env().unwrap();
    println!(
        "{} {} {:?} {:?}",
        client.platform_name(),
        client.platform_version(),
        client.api_version(),
        client.attributes()
    );
    println!("{:?} {:?}", client.devices(), client.devices()[0].memory());
    let program = "module @double {
     func.func @main(%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
         %z = stablehlo.add %x, %y : tensor<2x3xf32>
         return %z : tensor<2x3xf32>
     }
 }";
    let double = client.compile(program, &CompileOptions::new()).unwrap();
    println!("{double:?} {:?} {:?}", double.memory(), double.cost());
    let x = client
        .put(&[1.0_f32, 2.0, 3., 4., 5., 6.], &[2, 3])
        .unwrap();
    let results = double.run(&[&x, &x], &[]).unwrap();
    assert_eq!(
        results[0].to_vec::<f32>().unwrap(),
        [2.0, 4.0, 6., 8., 10., 12.]
    );
    let y = double.run(&[&results[0], &x], &[0]).unwrap();
    println!(
        "{:?} {:?}",
        y[0].to_vec::<f32>(),
        results[0].to_vec::<f32>()
    );
    let bytes = double.serialize().unwrap();
    let again = client.deserialize(&bytes).unwrap();
    println!("{} bytes {again:?}", bytes.len());
    println!(
        "{}",
        client
            .compile("module @x { oops }", &CompileOptions::new())
            .unwrap_err()
    );
}
