use pytree::prelude::*;
fn main() {
    let t = std::time::Instant::now();
    let w = Tensor::full(DType::F32, [600, 600], 1.0 / 600.0);
    let y = w.matmul(&w);
    println!("{:?} {:?}", y.shape(), t.elapsed());
    println!(
        "avx2 {} fma {} lzcnt {} fxsr {} bmi1 {}",
        is_x86_feature_detected!("avx2"),
        is_x86_feature_detected!("fma"),
        is_x86_feature_detected!("lzcnt"),
        is_x86_feature_detected!("fxsr"),
        is_x86_feature_detected!("bmi1")
    );
}
