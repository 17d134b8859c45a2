//! Bytes that hold name upon name leave nothing behind: what a process holds does not grow with what it has read.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test crate: a failed unwrap is a failed test, and says where"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pytree_core::kind::BatchStat;
use pytree_core::{DynamicModule, Filter, LeafKind, Module, Tree, TreeDef, partition, tree};

/// Counts the bytes that are allocated and not freed.
struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);

#[allow(unsafe_code, reason = "an allocator is unsafe; it hands everything on")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs one test at a time: the count is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// By how many bytes what the process holds grows while `work` runs.
fn growth(work: impl FnOnce()) -> isize {
    let before = HELD.load(Ordering::Relaxed);
    work();
    HELD.load(Ordering::Relaxed) - before
}

/// The most that what is held may grow by: the test's own output and the runtime's buffers.
const NOISE: isize = 16 << 10;

/// A struct with one leaf, whose names nobody else uses.
fn hostile(number: usize) -> Vec<u8> {
    let mut bytes = b"PYTD\x01".to_vec();
    let text = |bytes: &mut Vec<u8>, text: String| {
        bytes.push(text.len() as u8);
        bytes.extend(text.into_bytes());
    };
    // A new shape, of a struct.
    bytes.extend([11, 11]);
    text(&mut bytes, format!("Struct{number:06}"));
    bytes.push(1);
    text(&mut bytes, format!("field{number:06}"));
    // A state of a collection.
    bytes.push(2);
    text(&mut bytes, format!("Collection{number:06}"));
    // No static fields; one child and no static values: a leaf.
    bytes.extend([0, 1, 0, 0]);
    bytes
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Honest {
    #[param]
    weight: f64,
    #[state(BatchStat)]
    mean: f64,
}

#[test]
fn structures_read_from_bytes_are_freed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let honest = tree::structure(&Honest {
        weight: 1.0,
        mean: 2.0,
    });
    let bytes = honest.to_bytes();
    let grown = growth(|| {
        for number in 0..100_000 {
            let read = TreeDef::from_bytes(&hostile(number)).unwrap();
            let [Some(LeafKind::State(collection))] = read.leaf_kinds()[..] else {
                panic!("{read}");
            };
            assert_eq!(collection.name(), format!("Collection{number:06}"));
            // What is made of it is freed, too.
            let value = Tree::new(read, vec![1.0]).unwrap();
            let module: DynamicModule<f64> = DynamicModule::from_tree(value).unwrap();
            assert_eq!(module.registry().len(), 1);
        }
    });
    assert!(grown < NOISE, "{grown} bytes more are held");
    assert_eq!(TreeDef::from_bytes(&bytes).unwrap(), honest);
    let tree = Tree::new(TreeDef::from_bytes(&bytes).unwrap(), vec![3.0, 4.0]).unwrap();
    assert_eq!(tree.to_value::<Honest>().unwrap().mean, 4.0);
    let states = partition::filter(&tree, &Filter::state::<BatchStat>());
    assert_eq!(states.leaves(), [4.0]);
}

#[test]
fn structure_keeps_its_names_alive() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let read = TreeDef::from_bytes(&hostile(7)).unwrap();
    let (copy, child) = (
        read.clone(),
        TreeDef::tuple(vec![read.clone(), read.clone()]),
    );
    drop(read);
    assert_eq!(
        copy.to_string(),
        "PyTreeDef(Struct000007 { field000007: * })"
    );
    drop(copy);
    let child = child.child(1).unwrap();
    assert_eq!(child, TreeDef::from_bytes(&hostile(7)).unwrap());
    assert_ne!(child, TreeDef::from_bytes(&hostile(8)).unwrap());
}

#[test]
fn shapes_made_at_run_time_are_freed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let grown = growth(|| {
        for number in 0..10_000 {
            let name = format!("Point{number}");
            let point = Tree::named_tuple(&name, vec![("x", Tree::leaf(1))]).unwrap();
            assert_eq!(point.to_string(), format!("{name}(x=1)"));
        }
    });
    assert!(grown < NOISE, "{grown} bytes more are held");
}

#[test]
fn many_registrations_take_little() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut module: DynamicModule = DynamicModule::new("Wide").unwrap();
    let grown = growth(|| {
        for number in 0..3_000 {
            module.register_param(&format!("p{number}"), 1.0).unwrap();
        }
    });
    assert_eq!(module.fields().count(), 3_000);
    // With a shape for each, it would be 700 MB.
    assert!(grown < 10_000_000, "{grown} bytes");
    assert_eq!(tree::structure(&module).num_leaves(), 3_000);
}
