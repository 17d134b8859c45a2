//! Copies to devices and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pytree_pjrt::{ElementType, PjrtError};

use crate::common::{ADD, client, compile, run};

/// Numbers whose memory begins at a multiple of 64 bytes, which a CPU uses without a copy.
#[repr(align(64))]
struct Aligned([u8; 16]);

/// Counts how often it is dropped.
struct Owner {
    bytes: Box<Aligned>,
    drops: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
}

fn wait_until(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    condition()
}

#[test]
fn owner_is_dropped_after_last_use() {
    let Some(client) = client() else { return };
    let drops = Arc::new(AtomicUsize::new(0));
    let bytes: [u8; 16] = bytemuck::cast([1.0_f32, 2.0, 3.0, 4.0]);
    let owner = Owner {
        bytes: Box::new(Aligned(bytes)),
        drops: Arc::clone(&drops),
    };
    let x = client.devices()[0]
        .put_shared(ElementType::F32, &[4], owner)
        .unwrap();
    let add = compile(client, ADD);
    let y = run(&add, &[&x, &x]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    drop(x);
    assert!(
        wait_until(|| drops.load(Ordering::SeqCst) == 1),
        "the owner is dropped"
    );
}

/// The program must not write to memory that the host owns.
#[test]
fn donated_shared_memory_is_not_written() {
    /// Memory that the test keeps, too.
    struct Shared(Arc<Aligned>);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &self.0.0
        }
    }
    let Some(client) = client() else { return };
    let bytes: Arc<Aligned> = Arc::new(Aligned(bytemuck::cast([1.0_f32; 4])));
    let owner = Shared(Arc::clone(&bytes));
    let x = client.devices()[0]
        .put_shared(ElementType::F32, &[4], owner)
        .unwrap();
    let y = client.put(&[5.0_f32; 4], &[4]).unwrap();
    let z = compile(client, ADD).run(&[&x, &y], &[0]).unwrap();
    assert_eq!(z[0].to_vec::<f32>().unwrap(), [6.0; 4]);
    let kept: [u8; 16] = bytemuck::cast([1.0_f32; 4]);
    assert_eq!(bytes.0, kept);
}

#[test]
fn reads_are_equal_in_all_ways() {
    let Some(client) = client() else { return };
    let elements: Vec<u64> = (0..100_000).map(|i| i * i).collect();
    let buffer = client.put(&elements, &[100, 1000]).unwrap();
    let read = buffer.start_read().unwrap();
    buffer.wait().unwrap();
    assert!(buffer.is_ready().unwrap());
    assert_eq!(buffer.to_vec::<u64>().unwrap(), elements);
    assert_eq!(
        buffer.to_bytes().unwrap(),
        bytemuck::cast_slice::<u64, u8>(&elements)
    );
    let mut target = vec![0; 800_000];
    buffer.read_bytes(&mut target).unwrap();
    assert_eq!(target, buffer.to_bytes().unwrap());
    assert_eq!(read.wait().unwrap(), target);
}

#[test]
fn read_outlives_its_buffer() {
    let Some(client) = client() else { return };
    let buffer = client.put(&[7_i32; 1000], &[1000]).unwrap();
    let read = buffer.start_read().unwrap();
    drop(buffer.start_read().unwrap());
    drop(buffer);
    assert_eq!(
        read.wait().unwrap(),
        bytemuck::cast_slice::<i32, u8>(&[7; 1000])
    );
}

#[test]
fn wrong_sizes_are_refused() {
    let Some(client) = client() else { return };
    let error = client.put(&[1.0_f32; 5], &[2, 3]).unwrap_err();
    let expected = "cannot put a `f32[2,3]`: expected 24 bytes, found 20 bytes";
    assert!(error.to_string().starts_with(expected), "{error}");
    let error = client.put(&[1.0_f32], &[1 << 40, 1 << 40]).unwrap_err();
    let expected = "expected an array that fits into memory, found 4 bytes";
    assert!(error.to_string().contains(expected), "{error}");
    let buffer = client.put(&[1.0_f32; 6], &[2, 3]).unwrap();
    let error = buffer.read_bytes(&mut [0; 20]).unwrap_err();
    assert!(
        matches!(&error, PjrtError::Size { array, found: 20 } if array.bytes() == 24),
        "{error}"
    );
    let error = buffer.to_vec::<i32>().unwrap_err();
    let expected =
        "cannot read a buffer as elements of `i32`: found a `f32[2,3]`; read it as `f32`";
    assert!(error.to_string().starts_with(expected), "{error}");
}
