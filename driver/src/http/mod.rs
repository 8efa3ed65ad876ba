//! HTTP as a client sees it: target, requests, responses, cookies; HTTP/1.1 and HTTP/2.

pub mod cookies;
pub mod date;
pub mod encoding;
pub mod error;
pub mod events;
pub mod h2;
pub mod request;
pub mod response;
pub mod target;
pub mod websocket;
