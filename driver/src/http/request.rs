//! Writes requests.

use super::cookies::Jar;
use super::target::{push_path, Target};
use crate::scenario::{Body, Method, Request, Scenario};
use crate::template::{push_number, push_url_encoded, RenderError, Template, Values};

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
        path = target.follow(scratch, if place.page.is_empty() { b"/" } else { place.page }).ok_or_else(|| {
            let link = String::from_utf8_lossy(scratch);
            RenderError::Elsewhere(link.chars().take(80).collect())
        })?;
    } else {
        path = Vec::with_capacity(target.root.len() + scratch.len());
        path.extend_from_slice(target.root.as_bytes());
        push_path(&mut path, scratch);
    }
    begin(out, target, scenario, request.method, &path, place.jar);
    for (name, value) in scenario.headers.iter().chain(&request.headers) {
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
    };
    if !kind.is_empty() && !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(kind);
        out.extend_from_slice(b"\r\n");
    }
    if !kind.is_empty() || !matches!(request.method, Method::Get | Method::Head | Method::Delete) {
        out.extend_from_slice(b"Content-Length: ");
        push_number(out, scratch.len() as i64);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(scratch);
    Ok(Sent { method: request.method, path })
}

/// A redirect's GET (or HEAD); it carries the scenario's own headers too.
pub fn write_redirect(
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    target: &Target,
    scenario: &Scenario,
    sent: &Sent,
    jar: &Jar,
    values: &mut Values<'_>,
) -> Result<(), RenderError> {
    out.clear();
    begin(out, target, scenario, sent.method, &sent.path, jar);
    for (name, value) in &scenario.headers {
        header(out, scratch, name, value, values)?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn begin(out: &mut Vec<u8>, target: &Target, scenario: &Scenario, method: Method, path: &[u8], jar: &Jar) {
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(target.authority.as_bytes());
    out.extend_from_slice(b"\r\n");
    if scenario.compression {
        out.extend_from_slice(b"Accept-Encoding: gzip, deflate\r\n");
    }
    jar.write(path, out);
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
