//! How transactions end.

/// Why a transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ErrorKind {
    /// No connection could be made.
    Connect,
    /// A request was not answered in time.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the first byte of the response.
    Closed,
    /// The response was no valid HTTP.
    Protocol,
    /// Too many redirects, or one to another server.
    Redirect,
    Status3xx,
    Status4xx,
    Status5xx,
    /// A 2xx that the scenario does not accept.
    Status2xx,
    /// A check of the body failed.
    Check,
    /// An event stream or a WebSocket ended before the events or messages that the scenario waits for.
    Event,
    /// A call of gRPC ended with a status that the scenario does not accept.
    Grpc,
    /// A value was not found in the body.
    Extract,
    /// A template needed a value that was not there.
    Template,
    /// The run ended before the transaction did.
    Unfinished,
}

impl ErrorKind {
    pub const ALL: [ErrorKind; 16] = [
        ErrorKind::Connect,
        ErrorKind::Timeout,
        ErrorKind::Reset,
        ErrorKind::Closed,
        ErrorKind::Protocol,
        ErrorKind::Redirect,
        ErrorKind::Status3xx,
        ErrorKind::Status4xx,
        ErrorKind::Status5xx,
        ErrorKind::Status2xx,
        ErrorKind::Check,
        ErrorKind::Event,
        ErrorKind::Grpc,
        ErrorKind::Extract,
        ErrorKind::Template,
        ErrorKind::Unfinished,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Connect => "connect",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Reset => "reset",
            ErrorKind::Closed => "closed",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Redirect => "redirect",
            ErrorKind::Status3xx => "status_3xx",
            ErrorKind::Status4xx => "status_4xx",
            ErrorKind::Status5xx => "status_5xx",
            ErrorKind::Status2xx => "status_2xx",
            ErrorKind::Check => "check",
            ErrorKind::Event => "event",
            ErrorKind::Grpc => "grpc",
            ErrorKind::Extract => "extract",
            ErrorKind::Template => "template",
            ErrorKind::Unfinished => "unfinished",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        ErrorKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the server said nothing.
    pub fn is_silence(self) -> bool {
        use ErrorKind::{Closed, Connect, Reset, Timeout, Unfinished};
        matches!(self, Connect | Timeout | Reset | Closed | Unfinished)
    }

    pub fn of_status(status: u16) -> Self {
        match status / 100 {
            2 => ErrorKind::Status2xx,
            3 => ErrorKind::Status3xx,
            4 => ErrorKind::Status4xx,
            _ => ErrorKind::Status5xx,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Skipped,
    Failed(ErrorKind),
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Skipped => "skipped",
            Outcome::Failed(kind) => kind.as_str(),
        }
    }

    /// Whether it was given up while its response might still have come.
    pub fn is_unanswered(self) -> bool {
        matches!(self, Outcome::Failed(ErrorKind::Timeout | ErrorKind::Unfinished))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ok: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    pub fn total(&self) -> u64 {
        self.ok + self.failed + self.skipped
    }
}
