//! What is measured: recorded by the loop in slices, written and summed up by a second thread.

pub mod document;
pub mod earlier;
pub mod evidence;
pub mod intervals;
pub mod losses;
pub mod outcome;
pub mod pending;
pub mod progress;
pub mod report;
pub mod rows;
pub mod slice;
pub mod summary;
pub mod threshold;
pub mod times;
pub mod verdict;
pub mod whole;
pub mod writer;

pub use outcome::{Counts, ErrorKind, Outcome};
pub use slice::{Ended, Mark, Marked, Slice};
