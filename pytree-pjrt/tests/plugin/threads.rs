//! Several threads.

use pytree_pjrt::{Client, Options};

use crate::common::{ADD, client, compile, plugin, run};

#[test]
fn threads_share_a_program() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let one = client.put(&[1.0_f32; 4], &[4]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (add, one) = (&add, &one);
            scope.spawn(move || {
                let start = f32::from(thread);
                let mut sum = client.put(&[start; 4], &[4]).unwrap();
                for _ in 0..500 {
                    sum = add.run(&[&sum, one], &[0]).unwrap().remove(0);
                }
                assert_eq!(sum.to_vec::<f32>().unwrap(), [start + 500.0; 4]);
            });
        }
    });
}

/// One of the threads gets the buffer. The others get an error, and nobody reads freed memory.
#[test]
fn buffer_is_donated_to_one_thread() {
    let Some(client) = client() else { return };
    let add = compile(client, ADD);
    let one = client.put(&[1.0_f32; 4], &[4]).unwrap();
    for _ in 0..200 {
        let x = client.put(&[1.0_f32; 4], &[4]).unwrap();
        let runs = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| add.run(&[&x, &one], &[0])))
                .collect();
            runs.into_iter()
                .map(|run| run.join().unwrap())
                .collect::<Vec<_>>()
        });
        let (started, failed): (Vec<_>, Vec<_>) = runs.into_iter().partition(Result::is_ok);
        assert_eq!((started.len(), failed.len()), (1, 3));
        for result in started {
            assert_eq!(result.unwrap()[0].to_vec::<f32>().unwrap(), [2.0; 4]);
        }
        for error in failed {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("that was donated to `add`"), "{error}");
        }
    }
}

#[test]
fn plugin_is_loaded_once_by_threads() {
    let Some(plugin) = plugin() else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // By default, each client of a GPU reserves most of its memory.
                let few = Options::new().set("preallocate", false);
                let client = Client::load_with(&plugin, &few).or_else(|_| Client::load(&plugin));
                let client = client.unwrap();
                let add = compile(&client, ADD);
                let x = client.put(&[2.0_f32; 4], &[4]).unwrap();
                // A buffer keeps its client alive.
                let y = run(&add, &[&x, &x]);
                drop((client, add, x));
                assert_eq!(y.to_vec::<f32>().unwrap(), [4.0; 4]);
            });
        }
    });
}
