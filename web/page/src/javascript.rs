//! The functions of a lesson for JavaScript. Structured results are JSON.

use std::time::Duration;

use pytree::platform::{self, Stream};
use wasm_bindgen::prelude::*;

use crate::Lesson;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn milliseconds() -> f64;
    #[wasm_bindgen(js_namespace = console, js_name = log)]
    fn log(text: &str);
    #[wasm_bindgen(js_namespace = console, js_name = warn)]
    fn warn(text: &str);
}

/// Gives the library the output and the clock of the page. A panic becomes an exception with the text of the panic: WebAssembly
/// cannot unwind, so the module is not used again after a panic.
#[wasm_bindgen(start)]
fn start() {
    platform::set_clock(|| Duration::from_secs_f64(milliseconds() / 1000.0));
    platform::set_output(|stream, text| match stream {
        Stream::Output => log(text),
        Stream::Error => warn(text),
    });
    std::panic::set_hook(Box::new(|panic| {
        wasm_bindgen::throw_str(&panic.to_string())
    }));
}

/// See [`Lesson`].
#[wasm_bindgen(js_name = Lesson)]
struct Page(Lesson);

#[wasm_bindgen(js_class = Lesson)]
impl Page {
    #[wasm_bindgen(constructor)]
    pub fn new(seed: u32) -> Result<Self, String> {
        Lesson::new(u64::from(seed)).map(Self)
    }
    pub fn set_network(&mut self, name: &str) -> Result<(), String> {
        self.0.set_network(name)
    }
    pub fn set_activation(&mut self, name: &str) -> Result<(), String> {
        self.0.set_activation(name)
    }
    pub fn freeze(&mut self, paths: Vec<String>) -> Result<(), String> {
        self.0.freeze(paths)
    }
    pub fn train(&mut self) -> String {
        self.0.train().to_string()
    }
    pub fn classify(&self, pixels: Vec<f32>) -> Result<Vec<f32>, String> {
        self.0.classify(pixels)
    }
    pub fn leaves(&self) -> String {
        self.0.leaves().to_string()
    }
    pub fn jaxpr(&mut self) -> String {
        self.0.jaxpr()
    }
    pub fn gradient(&self, path: &str) -> Result<String, String> {
        self.0.gradient(path).map(|gradient| gradient.to_string())
    }
    pub fn norms_of_gradients(&self) -> String {
        self.0.norms_of_gradients().to_string()
    }
    pub fn save(&self) -> Result<Vec<u8>, String> {
        self.0.save()
    }
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.0.load(bytes)
    }
    pub fn mistake(&self) {
        self.0.mistake();
    }
}
