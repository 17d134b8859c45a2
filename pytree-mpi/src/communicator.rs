//! The processes of MPI as a communicator of the library.
//!
//! Before each exchange, all processes of the run compare the fingerprints of what they are about to do, also before an
//! exchange of the processes along one axis of a mesh. A process that ends takes part in this comparison, too. So a process
//! never waits for a process that has ended or does something else: all processes notice the difference, and the run ends.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::rc::Rc;
use std::time::Duration;

use mpi::environment::Universe;
use mpi::request;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Destination as _, Source as _};
use pytree_transform::processes::{CollectiveCall, Communicator};

/// The fingerprint of a process that ends. No collective has this fingerprint.
const ENDED: u64 = 0;

/// The status of a run that ends because its processes do different things.
const STATUS: i32 = 1;

/// The length of a description of a collective in a message, in bytes.
const TEXT: usize = 256;

/// The maximum number of bytes of one message. MPI counts in `i32`. Debug builds send short messages, so that tests
/// send a tensor in several messages.
const LONGEST: usize = if cfg!(debug_assertions) {
    1 << 20
} else {
    i32::MAX as usize
};

/// The run: all processes that `mpiexec` started. Dropping this value ends MPI.
struct Run {
    // MPI must end after its communicators, so `universe` is the last field.
    all: SimpleCommunicator,
    rank: usize,
    size: usize,
    _universe: Universe,
}

/// Some of the processes of the run, which exchange bytes.
pub(crate) struct Group {
    // The run must end after its communicators, so `run` is the last field.
    members: SimpleCommunicator,
    rank: usize,
    size: usize,
    run: Rc<Run>,
}

/// Returns the position of this process, and the number of processes.
fn place(communicator: &SimpleCommunicator) -> (usize, usize) {
    let number = |rank: i32| usize::try_from(rank).unwrap_or_default();
    (number(communicator.rank()), number(communicator.size()))
}

impl Group {
    /// Returns the group of all processes.
    pub(crate) fn of_all(universe: Universe) -> Self {
        // Messages of the user's own use of MPI do not mix with those of a duplicate.
        let all = universe.world().duplicate();
        let (rank, size) = place(&all);
        Self {
            members: all.duplicate(),
            rank,
            size,
            run: Rc::new(Run {
                all,
                rank,
                size,
                _universe: universe,
            }),
        }
    }

    /// Calls `exchange` with parts of messages that MPI can count: the bytes `start..end` of each of the
    /// [`size`](Self::size) parts of a message.
    fn in_pieces(&self, part: usize, mut exchange: impl FnMut(usize, usize)) {
        let longest = LONGEST / self.size;
        let mut start = 0;
        while start < part {
            let end = part.min(start + longest);
            exchange(start, end);
            start = end;
        }
    }
}

impl Run {
    /// Compares what all processes are about to do. `None` means that this process ends. Ends the run if the processes
    /// differ.
    fn agree(&self, call: Option<&CollectiveCall<'_>>) {
        let own = call.map_or(ENDED, CollectiveCall::fingerprint);
        let mut all = vec![own; self.size];
        self.all.all_gather_into(&own, &mut all[..]);
        if all.iter().any(|other| *other != own) {
            self.end_of_different(call);
        }
    }

    /// Ends the run because the processes do different things. The process of rank 0 writes what each process does.
    #[cold]
    fn end_of_different(&self, call: Option<&CollectiveCall<'_>>) -> ! {
        let text = call.map_or_else(|| "has ended".to_owned(), |call| format!("calls {call:#}"));
        let mut own = [b' '; TEXT];
        let length = text.len().min(TEXT);
        own[..length].copy_from_slice(&text.as_bytes()[..length]);
        let mut all = vec![0_u8; TEXT * self.size];
        self.all.all_gather_into(&own[..], &mut all[..]);
        if self.rank != 0 {
            // Rank 0 ends all processes when it has written the message.
            std::thread::sleep(Duration::from_secs(2));
            self.all.abort(STATUS);
        }
        let mut message = String::from("the processes of the run do different things:\n");
        for (rank, text) in all.chunks(TEXT).enumerate() {
            let text = String::from_utf8_lossy(text);
            // Writing to a string cannot fail.
            let _ = writeln!(message, "  rank {rank} {}", text.trim_end());
        }
        message.push_str(
            "call the same collectives in the same order in all processes, and return errors in all of them\n",
        );
        let mut stderr = std::io::stderr().lock();
        // If the message cannot be written, the status still tells that the run failed.
        let _ = stderr.write_all(message.as_bytes());
        let _ = stderr.flush();
        self.all.abort(STATUS);
    }
}

/// Copies the bytes `start..end` of each part of `parts` to `piece`.
fn gather_piece(parts: &[u8], part: usize, (start, end): (usize, usize), piece: &mut Vec<u8>) {
    piece.clear();
    for bytes in parts.chunks(part) {
        piece.extend_from_slice(&bytes[start..end]);
    }
}

/// Copies `piece` to the bytes `start..end` of each part of `parts`.
fn scatter_piece(parts: &mut [u8], part: usize, (start, end): (usize, usize), piece: &[u8]) {
    for (bytes, piece) in parts.chunks_mut(part).zip(piece.chunks(end - start)) {
        bytes[start..end].copy_from_slice(piece);
    }
}

impl Communicator for Group {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, call: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]) {
        self.run.agree(Some(call));
        if all.len() <= LONGEST {
            self.members.all_gather_into(own, all);
            return;
        }
        let mut gathered = Vec::new();
        self.in_pieces(own.len(), |start, end| {
            gathered.resize((end - start) * self.size, 0);
            self.members
                .all_gather_into(&own[start..end], &mut gathered[..]);
            scatter_piece(all, own.len(), (start, end), &gathered);
        });
    }

    fn all_to_all(&self, call: &CollectiveCall<'_>, sent: &[u8], received: &mut [u8]) {
        self.run.agree(Some(call));
        if sent.len() <= LONGEST {
            self.members.all_to_all_into(sent, received);
            return;
        }
        let part = sent.len() / self.size;
        let (mut from, mut to) = (Vec::new(), Vec::new());
        self.in_pieces(part, |start, end| {
            gather_piece(sent, part, (start, end), &mut from);
            to.resize(from.len(), 0);
            self.members.all_to_all_into(&from[..], &mut to[..]);
            scatter_piece(received, part, (start, end), &to);
        });
    }

    fn permute(
        &self,
        call: &CollectiveCall<'_>,
        own: &[u8],
        destination: Option<usize>,
        source: Option<usize>,
        received: &mut [u8],
    ) {
        self.run.agree(Some(call));
        let process = |rank: usize| {
            let rank = i32::try_from(rank).unwrap_or(i32::MAX);
            self.members.process_at_rank(rank)
        };
        for (own, received) in own.chunks(LONGEST).zip(received.chunks_mut(LONGEST)) {
            request::scope(|scope| {
                let receiving =
                    source.map(move |rank| process(rank).immediate_receive_into(scope, received));
                let sending = destination.map(move |rank| process(rank).immediate_send(scope, own));
                if let Some(receiving) = receiving {
                    receiving.wait();
                }
                if let Some(sending) = sending {
                    sending.wait();
                }
            });
        }
    }

    fn split(&self, call: &CollectiveCall<'_>, group: usize) -> Rc<dyn Communicator> {
        self.run.agree(Some(call));
        let color = Color::with_value(i32::try_from(group).unwrap_or(i32::MAX));
        // MPI returns no communicator only to processes without a color.
        let members = self.members.split_by_color(color);
        let members = members.unwrap_or_else(|| self.members.duplicate());
        let (rank, size) = place(&members);
        Rc::new(Self {
            members,
            rank,
            size,
            run: Rc::clone(&self.run),
        })
    }
}

impl Drop for Run {
    /// Ends the run if this process panics, or if other processes still communicate.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.all.abort(STATUS);
        }
        self.agree(None);
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank, self.size)
    }
}
