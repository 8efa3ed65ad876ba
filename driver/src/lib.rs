//! The load driver of leadline: sessions over HTTP from one epoll thread, measured from the
//! moment each request was due.

pub mod arrivals;
pub mod cli;
pub mod control;
pub mod engine;
pub mod feeds;
pub mod grpc;
pub mod http;
pub mod measure;
pub mod merge;
pub mod nearest;
pub mod pattern;
pub mod plan;
pub mod processes;
pub mod random;
pub mod render;
pub mod run;
pub mod scenario;
pub mod select;
pub mod session;
pub mod share;
pub mod sys;
pub mod template;
pub mod textfile;
pub mod timer;
pub mod transport;
pub mod units;

/// What a crash-free caller needs to know about a failed run.
#[derive(Debug)]
pub enum Failure {
    /// Bad input: exit code 2.
    Usage(String),
    /// The run could not be done: exit code 1.
    Run(String),
}

impl Failure {
    pub fn exit_code(&self) -> i32 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
        }
    }

    pub fn message(&self) -> &str {
        match self {
            Failure::Usage(text) | Failure::Run(text) => text,
        }
    }
}

/// What went wrong while a run was done.
impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Failure::Run(problem)
    }
}
