//! Batches and `.npy` files, against figures of JAX and NumPy, and as users combine them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pytree_io::checkpoint;
use pytree_io::data::{Batches, LastBatch, Source, examples, npy};
use pytree_nn::Key;
use pytree_transform::{DType, Tensor, jit};
use serde_json::Value;

use crate::panics::catch;
use crate::support::{golden, tensor};

fn integers(value: &Value) -> Vec<usize> {
    let numbers = value.as_array().unwrap().iter();
    numbers
        .map(|number| usize::try_from(number.as_u64().unwrap()).unwrap())
        .collect()
}

/// Returns the positions of all examples of an epoch, in the order of the batches.
fn order<S: Source<Example = Tensor>>(batches: &Batches<S>, epoch: usize) -> Vec<usize> {
    let batches = batches.epoch(epoch).flat_map(|batch| batch.to_vec::<i32>());
    batches
        .map(|position| usize::try_from(position).unwrap())
        .collect()
}

fn numbered(count: usize) -> Tensor {
    Tensor::arange(DType::I32, count)
}

#[test]
fn shuffled_order_is_that_of_jax() {
    for case in golden("data")["orders"].as_array().unwrap() {
        let count = integers(&Value::from(vec![case["examples"].clone()]))[0];
        let key = Key::new(case["seed"].as_u64().unwrap());
        let batches = Batches::new(numbered(count), 7).shuffle(&key);
        let orders = case["orders"].as_array().unwrap();
        for (epoch, expected) in integers(&case["epochs"]).into_iter().zip(orders) {
            let expected = integers(expected);
            assert_eq!(order(&batches, epoch), expected, "epoch {epoch} of {count}");
            let ahead = batches.clone().prefetch(3);
            assert_eq!(
                order(&ahead, epoch),
                expected,
                "epoch {epoch} of {count}, prefetched"
            );
        }
    }
}

#[test]
fn npy_files_are_those_of_numpy() {
    let golden = golden("data");
    let files = golden["files"].as_array().unwrap();
    assert!(files.len() > 40);
    for file in files {
        let bytes = base64(file["bytes"].as_str().unwrap());
        let header = String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
        let found = npy::decode(&bytes).unwrap();
        let expected = half_or_tensor(&file["array"]);
        assert_eq!(found.info(), expected.info(), "{header}");
        let written = npy::encode(&found).unwrap();
        assert_eq!(written, npy::encode(&expected).unwrap(), "{header}");
        if file["written"] == true {
            assert!(written == bytes, "{header}");
        }
    }
}

/// Returns the tensor of a golden file, also of half-precision floats.
fn half_or_tensor(value: &Value) -> Tensor {
    let dtype = match value["dtype"].as_str().unwrap() {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        _ => return tensor(value),
    };
    let mut wide = value.clone();
    wide["dtype"] = Value::from("f64");
    tensor(&wide).convert(dtype)
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|&letter| letter != b'=') {
        let digit = LETTERS.iter().position(|&other| other == letter).unwrap();
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn last_batch_is_kept_dropped_or_padded() {
    let batches = Batches::new(numbered(10), 4);
    let lengths = |batches: &Batches<_>| -> Vec<usize> {
        let iterator = batches.epoch(0);
        assert_eq!(iterator.len(), batches.per_epoch());
        iterator.map(|batch: Tensor| batch.len()).collect()
    };
    assert_eq!(lengths(&batches), [4, 4, 2]);
    assert_eq!(
        lengths(&batches.clone().last_batch(LastBatch::Drop)),
        [4, 4]
    );
    let even = Batches::new(numbered(8), 4);
    assert_eq!(
        lengths(&even),
        lengths(&even.clone().last_batch(LastBatch::Drop))
    );

    let padded: Vec<_> = batches.padded().prefetch(1).epoch(0).collect();
    let (last, mask) = &padded[2];
    assert_eq!(last.to_vec::<i32>(), [8, 9, 9, 9]);
    assert_eq!(mask.to_vec::<bool>(), [true, true, false, false]);
    assert_eq!(padded[1].1.to_vec::<bool>(), [true; 4]);
    let sum = padded
        .iter()
        .map(|(batch, mask)| batch.sum_where(mask).item::<i32>());
    assert_eq!(sum.sum::<i32>(), 45);
}

#[test]
fn padded_batches_compile_once() {
    let batches = Batches::new(Tensor::arange(DType::F32, 10), 4).padded();
    let mean = jit(|(x, mask): (Tensor, Tensor)| x.mean_where(&mask));
    let means = batches
        .epoch(0)
        .map(|(x, mask)| mean((x, mask)).item::<f32>());
    assert_eq!(means.collect::<Vec<_>>(), [1.5, 5.5, 8.5]);
    assert_eq!(mean.traces(), 1);
}

#[test]
fn any_pytree_of_tensors_is_dataset() {
    let words = vec![numbered(5), Tensor::zeros(DType::Bool, [5, 2])];
    let data = (words, Some(Tensor::zeros(DType::F64, [5, 2, 3])));
    let batches = Batches::new(data, 3).shuffle(&Key::new(1));
    let (words, numbers) = batches.epoch(0).next().unwrap();
    assert_eq!(words[1].shape(), [3, 2]);
    assert_eq!(numbers.unwrap().shape(), [3, 2, 3]);
}

#[test]
fn mistakes_are_described() {
    fn message<T: std::fmt::Debug>(outcome: Result<T, impl std::fmt::Display>) -> String {
        outcome.unwrap_err().to_string()
    }
    let arrays = |length| Batches::try_new((numbered(10), numbered(length)), 4);
    assert_eq!(
        message(arrays(9)),
        "cannot make batches: expected leaves whose first axes have the same length, found\n  [0]: i32[10], length 10\n  [1]: i32[9], length 9\nthe first axis counts the examples: check that all leaves have the same examples"
    );
    let scalar = Batches::try_new(vec![numbered(2), Tensor::from(1.0_f32)], 1);
    assert!(message(scalar).contains("[1]: f32[], no first axis"));
    assert_eq!(
        message(Batches::try_new(numbered(3), 0)),
        "cannot make batches: expected a batch size of at least 1, found 0"
    );
    let empty = Batches::try_new(Tensor::zeros(DType::F32, [0, 3]), 1);
    assert!(message(empty).contains("the dataset has no examples: "));
    assert!(message(Batches::try_new(Vec::<Tensor>::new(), 1)).contains("without tensors"));
    let all = Batches::new(numbered(3), 4).try_last_batch(LastBatch::Drop);
    assert_eq!(
        message(all),
        "cannot drop the last batch: the dataset has 3 examples and the batch size is 4, so no batch would be left; use a batch size of at most 3, or keep or pad the last batch"
    );
    let order = |order: Vec<usize>| {
        let batches = Batches::new(numbered(3), 2).order_by(move |_| order.clone());
        batches.try_epoch(5).map(|_| ())
    };
    assert_eq!(
        message(order(vec![0, 1, 3])),
        "cannot order the examples of epoch 5: expected 3 positions from 0 to 2, found 3 at place 2"
    );
    assert!(message(order(vec![0])).contains("found 1 positions"));
    assert!(order(vec![2, 2, 0]).is_ok());
}

#[test]
fn position_of_other_batches_is_refused() {
    let (data, key) = (numbered(10), Key::new(3));
    let batches = Batches::new(data.clone(), 4).shuffle(&key);
    let (position, _) = batches.resume(&batches.start()).nth(1).unwrap();
    assert_eq!((position.epoch(), position.batch()), (0, 2));
    let message = |batches: Batches<_>| batches.try_resume(&position).err().unwrap().to_string();
    assert_eq!(
        message(Batches::new(numbered(11), 4).shuffle(&key)),
        "cannot resume the batches: expected 11 examples, found 10 in the position; resume with the data and the batch size of the interrupted run, or begin with `start()`"
    );
    assert!(message(Batches::new(data.clone(), 5).shuffle(&key)).contains("5 examples in a batch"));
    assert_eq!(
        message(Batches::new(data.clone(), 4).shuffle(&Key::new(4))),
        "cannot resume the batches: expected shuffling with the key [0, 4], found shuffling with the key [0, 3] in the position; pass the key of the interrupted run to `shuffle`, or begin with `start()`"
    );
    assert!(message(Batches::new(data, 4)).contains("expected no shuffling"));
    let shorter = batches.last_batch(LastBatch::Drop);
    assert!(message(shorter).contains("expected a batch from 0 to 1, found batch 2 of epoch 0"));
}

/// Returns the batches from a position up to the end of an epoch, and the position behind each.
fn rest<S: Source<Example = Tensor>>(
    batches: &Batches<S>,
    mut position: pytree_io::data::Position,
    epochs: usize,
) -> Vec<(pytree_io::data::Position, Vec<i32>)> {
    let mut seen = Vec::new();
    while position.epoch() < epochs {
        for (next, batch) in batches.resume(&position) {
            position = next.clone();
            seen.push((next, batch.to_vec::<i32>()));
        }
    }
    seen
}

#[test]
fn resumed_run_gets_the_same_batches() {
    for ahead in [0, 2] {
        let batches = Batches::new(numbered(10), 4)
            .shuffle(&Key::new(5))
            .prefetch(ahead);
        let whole = rest(&batches, batches.start(), 3);
        assert_eq!(whole.len(), 9);
        let epochs = (0..3)
            .flat_map(|epoch| batches.epoch(epoch))
            .map(|batch| batch.to_vec::<i32>());
        assert!(epochs.eq(whole.iter().map(|(_, batch)| batch.clone())));
        let path =
            std::env::temp_dir().join(format!("pytree-position-{}-{ahead}", std::process::id()));
        for (place, (position, _)) in whole.iter().enumerate() {
            checkpoint::save(&path, position).unwrap();
            let loaded = checkpoint::load(&path, &batches.start()).unwrap();
            assert_eq!(rest(&batches, loaded, 3), whole[place + 1..]);
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn examples_of_function_are_stacked() {
    let source = |limit: usize| {
        examples(5, move |position| {
            if position == limit {
                Err(format!("no file {position}"))
            } else {
                Ok((
                    Tensor::from([position as f32, 1.0]),
                    Tensor::from(position as f32),
                ))
            }
        })
    };
    let batches = Batches::from_source(source(9), 2).prefetch(2);
    let last = batches.epoch(0).last().unwrap();
    assert_eq!(last.0.to_vec::<f32>(), [4.0, 1.0]);
    assert_eq!(last.0.shape(), [1, 2]);
    for ahead in [0, 2] {
        let batches = Batches::from_source(source(3), 2).prefetch(ahead);
        let results: Vec<_> = batches.try_epoch(0).unwrap().collect();
        assert_eq!(results.len(), 2, "the iterator ends after the error");
        let error = results[1].as_ref().err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot read example 3 of batch 1 of epoch 0: no file 3"
        );
    }
    let ragged = examples(3, |position| Ok::<_, String>(numbered(1 + position / 2)));
    let mut batches = Batches::from_source(ragged, 3).try_epoch(0).unwrap();
    assert_eq!(
        batches.next().unwrap().unwrap_err().to_string(),
        "cannot stack the examples 0 and 2: expected i32[1] at the root, found i32[2] at the root in example 2; all examples need the same structure, shapes and dtypes"
    );
}

#[test]
#[should_panic(
    expected = "the thread that prepares batches panicked while it read example 2 of batch 2 of epoch 0: broken at 2"
)]
fn panic_of_producer_reaches_consumer() {
    let source = examples(4, |position| {
        assert!(position != 2, "broken at {position}");
        Ok::<_, String>(Tensor::from(0))
    });
    let batches = Batches::from_source(source, 1).prefetch(2);
    assert_eq!(batches.epoch(0).count(), 4);
}

/// A source whose batches and length are what the fields say.
struct Liar {
    count: Arc<AtomicUsize>,
    longer: usize,
}

impl Source for Liar {
    type Example = (Tensor, Tensor);

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn example(&self, _: usize) -> Result<Self::Example, pytree_io::data::SourceError> {
        Err("only batches are read".into())
    }

    fn batch(&self, positions: &[usize]) -> Result<Self::Example, pytree_io::data::DataError> {
        let length = positions.len();
        Ok((numbered(length), numbered(length + self.longer)))
    }
}

#[test]
fn source_that_lies_about_its_length_is_noticed() {
    for ahead in [0, 2] {
        let source = |longer| Liar {
            count: Arc::new(AtomicUsize::new(5)),
            longer,
        };
        let batches = Batches::from_source(source(1), 2).prefetch(ahead);
        let error = batches.try_epoch(3).unwrap().next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot use batch 0 of epoch 3: expected 2 examples along the first axis of each tensor, found i32[3] at [1]; `Source::batch` returns one example for each position"
        );
        let padded = Batches::from_source(source(1), 2).padded().prefetch(ahead);
        let error = padded.try_epoch(0).unwrap().next().unwrap().unwrap_err();
        assert!(
            error.to_string().contains("found i32[3] at [0][1]"),
            "{error}"
        );

        let source = source(0);
        let count = Arc::clone(&source.count);
        let batches = Batches::from_source(source, 2).prefetch(ahead);
        assert_eq!(batches.epoch(0).count(), 3);
        assert_eq!(batches.clone().padded().epoch(0).count(), 3);
        count.store(4, Ordering::SeqCst);
        let results: Vec<_> = batches.try_epoch(0).unwrap().collect();
        assert_eq!(
            results.last().unwrap().as_ref().unwrap_err().to_string(),
            "cannot read the examples: the source had 5 when the batches were made, and now has 4; make new batches when the data change"
        );
    }
}

#[test]
fn numbers_from_outside_need_no_memory() {
    // A first batch needs memory for itself only.
    let source = || {
        examples(1 << 40, |position| {
            Ok::<_, String>(Tensor::from(position as f32))
        })
    };
    let batches = Batches::from_source(source(), 2).prefetch(1 << 40);
    assert_eq!(batches.per_epoch(), 1 << 39);
    assert_eq!(batches.epoch(0).nth(1).unwrap().to_vec::<f32>(), [2.0, 3.0]);
    let shuffled = Batches::from_source(source(), 2).shuffle(&Key::new(0));
    assert_eq!(
        shuffled.try_epoch(0).err().unwrap().to_string(),
        "cannot shuffle 1099511627776 examples: expected at most 2147483647; shuffle parts of them in the source, for instance the order of files"
    );
    assert_eq!(
        Batches::new(numbered(3), 2)
            .prefetch(usize::MAX)
            .epoch(0)
            .count(),
        2
    );
    for size in [1 << 31, usize::MAX] {
        let batches = Batches::new(numbered(3), size);
        assert_eq!(batches.epoch(0).next().unwrap().shape(), [3]);
        assert_eq!(
            batches.padded().try_epoch(0).err().unwrap().to_string(),
            format!(
                "cannot pad 3 examples to a batch of {size}: expected at most 2^24 examples of padding; use a smaller batch size"
            )
        );
    }
    let whole = Batches::from_source(source(), 1 << 40);
    let error = whole.try_epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot make a batch of 1099511627776 examples: the memory"),
        "{error}"
    );
}

/// The destructor of what a source panics with panics, too.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panics");
    }
}

#[test]
fn epoch_of_dead_thread_does_not_end_early() {
    let source = examples(4, |position| {
        if position == 2 {
            std::panic::panic_any(Bomb);
        }
        Ok::<_, String>(Tensor::from(0))
    });
    let batches = Batches::from_source(source, 1).prefetch(2);
    let results: Vec<_> = batches.try_epoch(0).unwrap().collect();
    assert_eq!(results.len(), 3);
    assert_eq!(
        results[2].as_ref().unwrap_err().to_string(),
        "the thread that prepares batches panicked while it read example 2 of batch 2 of epoch 0: the payload of the panic is not a text"
    );
}

#[test]
fn error_of_source_is_at_line_of_loop() {
    let source = examples(4, |position| match position {
        0..3 => Ok(Tensor::from(0)),
        _ => Err("no file"),
    });
    let batches = Batches::from_source(source, 2);
    let first = line!() + 2;
    let epoch = || {
        for batch in batches.epoch(0) {
            assert_eq!(batch.shape(), [2]);
        }
    };
    let panic = catch(epoch).unwrap_err();
    let second = line!() + 2;
    let resumed = || {
        for (_, batch) in batches.resume(&batches.start()) {
            assert_eq!(batch.shape(), [2]);
        }
    };
    let again = catch(resumed).unwrap_err();
    assert_eq!(
        panic.message,
        "cannot read example 3 of batch 1 of epoch 0: no file"
    );
    let places = [(panic.file.as_str(), panic.line), (&again.file, again.line)];
    assert_eq!(places, [(file!(), first), (file!(), second)]);
}

#[test]
fn dropped_consumer_ends_thread() {
    let reads = Arc::new(AtomicUsize::new(0));
    let (ended, end) = mpsc::channel::<()>();
    let counter = Arc::clone(&reads);
    // The closure, and so the sender, is dropped when the thread and the batches are gone.
    let source = examples(1000, move |_| {
        let _alive = &ended;
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<_, String>(Tensor::from(0))
    });
    let batches = Batches::from_source(source, 1).prefetch(2);
    let mut iterator = batches.epoch(0);
    iterator.next().unwrap();
    drop((iterator, batches));
    let outcome = end.recv_timeout(Duration::from_secs(60));
    assert_eq!(
        outcome,
        Err(mpsc::RecvTimeoutError::Disconnected),
        "the thread has ended"
    );
    // One batch was consumed, one was queued, one was waiting for the queue, and one may have been begun.
    assert!(reads.load(Ordering::SeqCst) <= 4);
}
