//! What is measured: recorded by the loop in slices, written and summed up by a second thread.

pub mod earlier;
pub mod evidence;
pub mod report;
mod rows;
pub mod slice;
pub mod summary;
pub mod verdict;
pub mod whole;
pub mod writer;

pub use slice::{Counts, ErrorKind, Outcome, Slice};
