//! Runs the checks of `errors.rs` in a program that aborts at a panic, as many release programs do. `obstacles.rs`
//! compiles and runs it.

#[path = "errors.rs"]
mod errors;

fn main() {
    assert!(cfg!(panic = "abort"));
    errors::all();
    println!("all errors were returned");
}
