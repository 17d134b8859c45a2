//! A communicator between threads, which stand for processes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pytree::collectives::{CollectiveCall, Communicator};

/// How long a thread waits for the others. If they do something else, the test fails and does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    /// What this thread did together with others.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns what this thread has done together with others since the last call of this function.
#[allow(dead_code, reason = "only some tests count the exchanges")]
pub(crate) fn calls() -> Vec<String> {
    CALLS.take()
}

/// The values that the threads exchange.
#[derive(Debug)]
struct Exchange {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Exchange {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }
}

#[derive(Debug, Default)]
struct State {
    /// The number of exchanges that have ended.
    ended: usize,
    /// The exchanges of groups, by the number of the division into groups, and the number of the group.
    groups: HashMap<(usize, usize), Arc<Exchange>>,
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
    /// How often the threads were divided into groups.
    splits: Cell<usize>,
}

impl Member {
    fn new(rank: usize, exchange: Arc<Exchange>) -> Self {
        Self {
            rank,
            exchange,
            splits: Cell::new(0),
        }
    }

    /// Gives a value to all threads, and returns the values of all threads.
    fn exchange(&self, call: &CollectiveCall<'_>, own: &[u8]) -> Arc<Vec<(u64, Vec<u8>)>> {
        CALLS.with_borrow_mut(|calls| calls.push(call.to_string()));
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

    fn split(&self, call: &CollectiveCall<'_>, group: usize) -> Rc<dyn Communicator> {
        let groups = self.exchange(call, &group.to_le_bytes());
        let is_same = |value: &Vec<u8>| *value == group.to_le_bytes();
        let members = groups.iter().filter(|(_, value)| is_same(value)).count();
        let before = groups[..self.rank].iter();
        let rank = before.filter(|(_, value)| is_same(value)).count();
        let mut state = self.exchange.state.lock().unwrap();
        let key = (self.splits.replace(self.splits.get() + 1), group);
        let exchange = state.groups.entry(key);
        let exchange = Arc::clone(exchange.or_insert_with(|| Exchange::new(members)));
        drop(state);
        Rc::new(Self::new(rank, exchange))
    }
}

/// Calls `body` in `size` threads with a communicator that connects them. Returns the results in the order of the ranks.
pub(crate) fn in_threads<R: Send>(
    size: usize,
    body: impl Fn(&Rc<dyn Communicator>) -> R + Sync,
) -> Vec<R> {
    let exchange = Exchange::new(size);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (exchange, body) = (Arc::clone(&exchange), &body);
                scope.spawn(move || {
                    let member: Rc<dyn Communicator> = Rc::new(Member::new(rank, exchange));
                    body(&member)
                })
            })
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.collect()
    })
}
