//! A reference of what can't be sent to another thread can't be sent either.

use std::rc::Rc;

use pytree::prelude::*;

fn main() {
    let count = Ref::new(Rc::new(1));
    let handle = std::thread::spawn(move || count.set(Rc::new(2)));
    handle.join().unwrap();
}
