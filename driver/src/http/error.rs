//! What may be wrong with a response.

/// Why bytes are no response.
#[derive(Debug, PartialEq, Clone, Copy)]
pub enum ParseError {
    HeadTooLong,
    TooManyHeaders,
    BadHead,
    BadLength,
    BadChunk,
    BadEncoding,
    BodyTooLong,
    EventTooLong,
    CodedEvents,
    /// The connection ended inside a response.
    Truncated,
    /// The same, as far as one can know: TLS ended without an alert where the end of the body is that of the connection.
    Cut,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ParseError::HeadTooLong => "response head longer than 64 KiB",
            ParseError::TooManyHeaders => "more than 256 response headers",
            ParseError::BadHead => "malformed response head",
            ParseError::BadLength => "malformed or contradictory body length",
            ParseError::BadChunk => "malformed chunk",
            ParseError::BadEncoding => "the body is not in the content coding it names",
            ParseError::BodyTooLong => "response body longer than the limit",
            ParseError::EventTooLong => "an event or message longer than max_body",
            ParseError::CodedEvents => "a compressed stream of events or messages",
            ParseError::Truncated => "connection closed inside a response",
            ParseError::Cut => {
                "connection closed without TLS's close_notify, which would end a response without length"
            }
        })
    }
}
