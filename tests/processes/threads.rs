//! A communicator between threads, which stand for processes.

use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pytree::collectives::{CollectiveCall, Communicator, with_communicator};

/// How long a thread waits for the others. If they do something else, the test fails and does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// The values that the threads exchange.
#[derive(Debug)]
struct Exchange {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of exchanges that have ended.
    ended: usize,
    /// The value of each thread that has begun the exchange.
    values: Vec<(usize, u64, Vec<u8>)>,
    /// The values of the last exchange, in the order of the ranks.
    last: Arc<Vec<(u64, Vec<u8>)>>,
}

/// One of the threads.
#[derive(Debug)]
struct Member {
    rank: usize,
    exchange: Arc<Exchange>,
}

impl Member {
    /// Gives a value to all threads, and returns the values of all threads.
    fn exchange(&self, call: &CollectiveCall<'_>, own: &[u8]) -> Arc<Vec<(u64, Vec<u8>)>> {
        let exchange = &*self.exchange;
        let mut state = exchange.state.lock().unwrap();
        let number = state.ended;
        state
            .values
            .push((self.rank, call.fingerprint(), own.to_vec()));
        if state.values.len() == exchange.size {
            let mut values = std::mem::take(&mut state.values);
            values.sort();
            let values = values.into_iter().map(|(_, call, value)| (call, value));
            state.last = Arc::new(values.collect());
            state.ended += 1;
            exchange.changed.notify_all();
        }
        let is_open = |state: &mut State| state.ended == number;
        let waited = exchange
            .changed
            .wait_timeout_while(state, PATIENCE, is_open);
        let (state, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "rank {} waits at {call}", self.rank);
        let all = Arc::clone(&state.last);
        drop(state);
        for (other, _) in &*all {
            assert_eq!(*other, call.fingerprint(), "another call than {call}");
        }
        all
    }
}

impl Communicator for Member {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.exchange.size
    }

    fn all_gather(&self, call: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]) {
        let values = self.exchange(call, own);
        let joined: Vec<u8> = values.iter().flat_map(|(_, value)| value.clone()).collect();
        all.copy_from_slice(&joined);
    }

    fn all_to_all(&self, call: &CollectiveCall<'_>, sent: &[u8], received: &mut [u8]) {
        let part = sent.len() / self.size();
        let values = self.exchange(call, sent);
        for (sender, (_, value)) in values.iter().enumerate() {
            let own = &value[self.rank * part..][..part];
            received[sender * part..][..part].copy_from_slice(own);
        }
    }

    fn permute(
        &self,
        call: &CollectiveCall<'_>,
        own: &[u8],
        _: Option<usize>,
        source: Option<usize>,
        received: &mut [u8],
    ) {
        let values = self.exchange(call, own);
        if let Some(source) = source {
            received.copy_from_slice(&values[source].1);
        }
    }
}

/// Calls `body` with the rank of each of `size` threads, while the axis `data` connects them. Returns the results in the
/// order of the ranks.
pub(crate) fn in_threads<R: Send>(size: usize, body: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let exchange = Arc::new(Exchange {
        size,
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let member = |rank| Member {
        rank,
        exchange: Arc::clone(&exchange),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (member, body) = (member(rank), &body);
                scope.spawn(move || with_communicator("data", Rc::new(member), || body(rank)))
            })
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.collect()
    })
}
