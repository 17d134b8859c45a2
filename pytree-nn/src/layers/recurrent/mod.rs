//! Recurrent layers: cells, which compute one time step, and [`Rnn`], which applies a cell along a time axis.

mod bidirectional;
mod cell;
mod gru;
mod lstm;
mod rnn;
mod simple;

pub use self::{bidirectional::*, cell::*, gru::*, lstm::*, rnn::*, simple::*};
