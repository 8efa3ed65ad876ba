//! HTTP/1.1 as a client sees it: target, requests, responses, cookies.

pub mod cookies;
pub mod encoding;
pub mod request;
pub mod response;
pub mod target;
