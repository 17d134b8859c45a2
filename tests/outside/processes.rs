//! A communicator: threads are the processes, and send their bytes through channels.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pytree::collectives::{
    CollectiveCall, Communicator, Tiling, all_to_all, axis_index, pmean, ppermute, psum,
};
use pytree::device::Mesh;
use pytree::prelude::*;
use pytree::spmd;

/// A call and the bytes that one process sends to another.
type Message = (u64, Vec<u8>);

/// A process, with a channel to and from each process of its run, and the members of its group in the order of their ranks.
#[derive(Debug, Clone)]
struct Process {
    channels: Rc<Channels>,
    members: Vec<usize>,
    rank: usize,
}

#[derive(Debug)]
struct Channels {
    senders: Vec<Sender<Message>>,
    receivers: RefCell<Vec<Receiver<Message>>>,
}

impl Process {
    fn send(&self, call: &CollectiveCall<'_>, rank: usize, bytes: &[u8]) {
        let message = (call.fingerprint(), bytes.to_vec());
        self.channels.senders[self.members[rank]]
            .send(message)
            .unwrap();
    }

    fn receive(&self, call: &CollectiveCall<'_>, rank: usize) -> Vec<u8> {
        let receivers = self.channels.receivers.borrow();
        let (found, bytes) = receivers[self.members[rank]].recv().unwrap();
        assert_eq!(
            found,
            call.fingerprint(),
            "process {rank} does not take part in {call:#}"
        );
        bytes
    }
}

impl Communicator for Process {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn all_gather(&self, call: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]) {
        (0..self.size()).for_each(|rank| self.send(call, rank, own));
        for rank in 0..self.size() {
            all[rank * own.len()..][..own.len()].copy_from_slice(&self.receive(call, rank));
        }
    }

    fn all_to_all(&self, call: &CollectiveCall<'_>, sent: &[u8], received: &mut [u8]) {
        let length = sent.len() / self.size();
        (0..self.size()).for_each(|rank| self.send(call, rank, &sent[rank * length..][..length]));
        for rank in 0..self.size() {
            received[rank * length..][..length].copy_from_slice(&self.receive(call, rank));
        }
    }

    fn permute(
        &self,
        call: &CollectiveCall<'_>,
        own: &[u8],
        destination: Option<usize>,
        source: Option<usize>,
        received: &mut [u8],
    ) {
        if let Some(destination) = destination {
            self.send(call, destination, own);
        }
        if let Some(source) = source {
            received.copy_from_slice(&self.receive(call, source));
        }
    }

    fn split(&self, call: &CollectiveCall<'_>, group: usize) -> Rc<dyn Communicator> {
        let mut groups = vec![0; 8 * self.size()];
        self.all_gather(call, &(group as u64).to_le_bytes(), &mut groups);
        let is_member = |rank: &usize| groups[8 * rank..][..8] == (group as u64).to_le_bytes();
        let ranks: Vec<usize> = (0..self.size()).filter(is_member).collect();
        Rc::new(Self {
            channels: Rc::clone(&self.channels),
            members: ranks.iter().map(|&rank| self.members[rank]).collect(),
            rank: ranks.iter().position(|&rank| rank == self.rank).unwrap(),
        })
    }
}

/// Calls `body` in `size` threads, which are connected. Returns the results in the order of the ranks.
pub fn in_processes<R: Send>(
    size: usize,
    body: impl Fn(&Rc<dyn Communicator>) -> R + Sync,
) -> Vec<R> {
    let (mut senders, mut receivers) = (vec![Vec::new(); size], Vec::new());
    for _ in 0..size {
        let (from, to): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
        senders
            .iter_mut()
            .zip(from)
            .for_each(|(senders, sender)| senders.push(sender));
        receivers.push(to);
    }
    std::thread::scope(|scope| {
        let ends = senders.into_iter().zip(receivers).enumerate();
        let threads = ends.map(|(rank, (senders, receivers))| {
            let body = &body;
            scope.spawn(move || {
                let channels = Rc::new(Channels {
                    senders,
                    receivers: RefCell::new(receivers),
                });
                let process: Rc<dyn Communicator> = Rc::new(Process {
                    channels,
                    members: (0..size).collect(),
                    rank,
                });
                body(&process)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn collectives_are_those_of_vmap() {
    let f = |x: Tensor| {
        let sum = psum(&x, "data") + axis_index("data").convert(DType::F32);
        let turned = all_to_all(&x, "data", 0, 0, Tiling::Stacked);
        (
            sum,
            pmean(&x.sin(), "data"),
            turned,
            ppermute(&x, "data", [(0, 1), (1, 2)]),
        )
    };
    let x = Tensor::arange(DType::F32, 9).reshape([3, 3]).cos();
    let expected = vmap(f).axis_name("data")(x.clone());
    let of_all = in_processes(3, |all| {
        let mesh = Mesh::new(all, [("data", 3)]);
        // Each process has one row.
        let one = move |part: Tensor| {
            tree::map(&f(part.reshape([3])), |leaf: &Tensor| leaf.expand_dims(0))
        };
        let parallel = spmd(one).over(&mesh).in_axes("data", 0).out_axes("data", 0);
        tree::map(&parallel(x.clone()), Tensor::to_host)
    });
    for found in of_all {
        assert_eq!(found, expected);
    }
}

#[test]
fn axes_of_a_mesh_are_groups_of_processes() {
    let f = |x: Tensor| psum(&x, "model") * 10.0 + psum(&x, "data");
    let x = Tensor::arange(DType::F32, 6).reshape([2, 3]);
    let expected = vmap(vmap(f).axis_name("model")).axis_name("data")(x.clone());
    let of_all = in_processes(6, |all| {
        let mesh = Mesh::new(all, [("data", 2), ("model", 3)]);
        let parallel = spmd(f).over(&mesh).in_axes("data", 0).in_axes("model", 1);
        let parallel = parallel.out_axes("data", 0).out_axes("model", 1);
        parallel(x.clone()).to_host()
    });
    assert!(of_all.iter().all(|found| *found == expected), "{of_all:?}");
}
