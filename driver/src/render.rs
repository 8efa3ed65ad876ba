//! What values are written with: their digits, and why there may be none.

use std::fmt;

/// Why a value of a request could not be written.
#[derive(Debug, PartialEq)]
pub enum RenderError {
    /// The index of a variable that no earlier request extracted.
    Missing(usize),
    NotANumber(String),
    /// A feed without a free row.
    Exhausted(String),
    /// A link to another server.
    Elsewhere(String),
    /// JSON that is no such message of gRPC.
    NoMessage(String),
    /// Loops that went round and never came to a request.
    Rounds(u32),
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RenderError::Missing(_) => write!(f, "a variable has no value yet"),
            RenderError::NotANumber(text) => write!(f, "`{text}` is not a whole number"),
            RenderError::Exhausted(feed) => write!(f, "feed `{feed}` has no free row left"),
            RenderError::Elsewhere(link) => write!(f, "`{link}` leads to another server"),
            RenderError::NoMessage(error) => f.write_str(error),
            RenderError::Rounds(most) => write!(f, "{most} rounds of loops without a request"),
        }
    }
}

/// Appends the decimal digits.
pub fn push_number(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}
