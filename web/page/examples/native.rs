//! Trains as the page does, on this machine, for a comparison: `PYTREE_NUM_THREADS=1 cargo run --release -p page --example native`.

fn main() -> Result<(), String> {
    for network in ["mlp", "cnn"] {
        let mut lesson = page::Lesson::new(0)?;
        lesson.set_network(network)?;
        let mut milliseconds = Vec::new();
        for _ in 0..40 {
            milliseconds.extend(lesson.train()["milliseconds"].as_f64());
        }
        let first = milliseconds.remove(0);
        milliseconds.sort_by(f64::total_cmp);
        println!(
            "{network}: first epoch {first:.1} ms, median of the others {:.1} ms",
            milliseconds[milliseconds.len() / 2]
        );
    }
    Ok(())
}
