//! Calls with extreme arguments: each gives the right result, or panics at the caller's line with a message that names
//! the function called. None gives a wrong result, and none a message of the standard library.

mod harness;
mod numbers;
mod positions;
mod sizes;
mod windows;
