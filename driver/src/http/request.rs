//! Writes requests.

use super::cookies::Jar;
use super::target::{push_path, Target};
use crate::grpc;
use crate::render::{push_number, RenderError};
use crate::scenario::{Body, Method, Request, Scenario};
use crate::template::{push_url_encoded, Template, Values};

/// A request line's method and path, kept for redirects and error messages.
#[derive(Clone, Debug)]
pub struct Sent {
    pub method: Method,
    /// Path as sent, context root included.
    pub path: Vec<u8>,
}

/// Where a session stands when it asks for something.
pub struct Place<'a> {
    pub target: &'a Target,
    pub jar: &'a Jar,
    /// The path of the page before; empty at the beginning.
    pub page: &'a [u8],
    /// What that page says its links are relative to, as it stands there.
    pub base: Option<&'a [u8]>,
    /// The connection is closed after the response.
    pub closes: bool,
}

/// Renders `request` to `out`; `scratch` is reused between calls. A path that begins with an expression is a link on
/// that page.
pub fn write(
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    place: &Place<'_>,
    scenario: &Scenario,
    request: &Request,
    values: &mut Values<'_>,
) -> Result<Sent, RenderError> {
    out.clear();
    scratch.clear();
    let target = place.target;
    request.path.render(values, scratch)?;
    let mut path;
    if request.path.begins_with_an_expression() {
        let page = if place.page.is_empty() { b"/" } else { place.page };
        path = target.follow_on(scratch, page, place.base).ok_or_else(|| {
            let link = String::from_utf8_lossy(scratch);
            RenderError::Elsewhere(link.chars().take(80).collect())
        })?;
    } else {
        path = Vec::with_capacity(target.root.len() + scratch.len());
        path.extend_from_slice(target.root.as_bytes());
        let sent = scratch.iter().position(|b| *b == b'#').unwrap_or(scratch.len()); // a fragment stays here
        push_path(&mut path, &scratch[..sent]);
    }
    begin(out, place, scenario, request.method, &path);
    let named = |name: &str| request.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let general = scenario.headers.iter().filter(|(name, _)| !named(name));
    for (name, value) in general.chain(&request.headers) {
        header(out, scratch, name, value, values)?;
    }
    scratch.clear();
    let kind: &[u8] = match &request.body {
        Body::None => b"",
        Body::Form(fields) => {
            let mut text = Vec::new();
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    scratch.push(b'&');
                }
                push_url_encoded(scratch, name.as_bytes());
                scratch.push(b'=');
                text.clear();
                value.render(values, &mut text)?;
                push_url_encoded(scratch, &text);
            }
            b"application/x-www-form-urlencoded"
        }
        Body::Json(template) => {
            template.render(values, scratch)?;
            b"application/json"
        }
        Body::Text(template) => {
            template.render(values, scratch)?;
            b"text/plain; charset=utf-8"
        }
        Body::Grpc(messages, kind) => {
            let mut text = Vec::new();
            for message in messages {
                text.clear();
                message.render(values, &mut text)?;
                grpc::frame(kind, &text, scratch).map_err(RenderError::NoMessage)?;
            }
            out.extend_from_slice(b"TE: trailers\r\n");
            b"application/grpc"
        }
    };
    let headers = || scenario.headers.iter().chain(&request.headers);
    if !kind.is_empty() && !headers().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(kind);
        out.extend_from_slice(b"\r\n");
    }
    if matches!(request.body, Body::Grpc(..)) {
        // Their number need not be known.
    } else if !kind.is_empty() || !matches!(request.method, Method::Get | Method::Head | Method::Delete) {
        out.extend_from_slice(b"Content-Length: ");
        push_number(out, scratch.len() as i64);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(scratch);
    Ok(Sent { method: request.method, path })
}

/// The GET for something that a page embeds; it carries the scenario's own headers too.
pub fn write_resource(
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    place: &Place<'_>,
    scenario: &Scenario,
    sent: &Sent,
    values: &mut Values<'_>,
) -> Result<(), RenderError> {
    out.clear();
    begin(out, place, scenario, sent.method, &sent.path);
    for (name, value) in &scenario.headers {
        header(out, scratch, name, value, values)?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Turns the request in `out` into the one for method and path of `sent`, a redirect of it to the same server: with the
/// cookies as they are now and its other headers, those of its body only `with_body` (Fetch, 4.4).
pub fn rewrite(out: &mut Vec<u8>, place: &Place<'_>, sent: &Sent, with_body: bool) {
    const ANEW: [&[u8]; 3] = [b"host:", b"cookie:", b"connection:"];
    const OF_BODY: [&[u8]; 6] = [
        b"content-type:",
        b"content-length:",
        b"content-encoding:",
        b"content-language:",
        b"content-location:",
        b"transfer-encoding:",
    ];
    let old = std::mem::take(out);
    request_line(out, place, sent.method, &sent.path);
    place.jar.write(&sent.path, out);
    let end = memchr::memmem::find(&old, b"\r\n\r\n").map_or(old.len(), |at| at + 2);
    for line in old[..end].split_inclusive(|b| *b == b'\n').skip(1) {
        let own = |name: &[u8]| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name);
        if !ANEW.into_iter().any(own) && (with_body || !OF_BODY.into_iter().any(own)) {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(if with_body { &old[end..] } else { b"\r\n" });
}

fn request_line(out: &mut Vec<u8>, place: &Place<'_>, method: Method, path: &[u8]) {
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(place.target.authority.as_bytes());
    out.extend_from_slice(b"\r\n");
    if place.closes {
        out.extend_from_slice(b"Connection: close\r\n");
    }
}

fn begin(out: &mut Vec<u8>, place: &Place<'_>, scenario: &Scenario, method: Method, path: &[u8]) {
    request_line(out, place, method, path);
    if scenario.compression {
        out.extend_from_slice(b"Accept-Encoding: gzip, deflate\r\n");
    }
    place.jar.write(path, out);
}

fn header(
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    name: &str,
    value: &Template,
    values: &mut Values<'_>,
) -> Result<(), RenderError> {
    scratch.clear();
    value.render(values, scratch)?;
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(scratch.iter().filter(|b| **b >= b' ' || **b == b'\t'));
    out.extend_from_slice(b"\r\n");
    Ok(())
}
