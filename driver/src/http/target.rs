//! Where the requests go.

use crate::template::push_percent;
use std::net::{SocketAddr, ToSocketAddrs};

/// A server and the path all paths of a scenario stand below.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub address: SocketAddr,
    /// `host:port` as in the address given, for the Host header and for redirects.
    pub authority: String,
    /// Context root without a trailing slash: `/brokerage` or empty.
    pub root: String,
}

impl Target {
    /// Reads `http://host[:port][/root]` and resolves the name once.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (authority, path) = split(url)?;
        let with_port = if has_port(authority) { authority.to_string() } else { format!("{authority}:80") };
        let address = with_port
            .to_socket_addrs()
            .map_err(|e| format!("--url {url}: cannot resolve `{with_port}`: {e}"))?
            .next()
            .ok_or_else(|| format!("--url {url}: `{with_port}` has no address"))?;
        let path = path.split(['?', '#']).next().unwrap_or("");
        Ok(Target { address, authority: authority.to_string(), root: path.trim_end_matches('/').to_string() })
    }

    /// The path (with query) a `Location` names, or None when it leads to another server.
    pub fn follow(&self, location: &[u8], from: &[u8]) -> Option<Vec<u8>> {
        let location = location.split(|b| *b == b'#').next().unwrap_or(location);
        let path = if let Some(scheme) = location.windows(3).position(|w| w == b"://") {
            if !location[..scheme].eq_ignore_ascii_case(b"http") {
                return None;
            }
            self.strip_authority(&location[scheme + 3..])?
        } else if let Some(rest) = location.strip_prefix(b"//") {
            self.strip_authority(rest)?
        } else if location.first() == Some(&b'/') {
            location.to_vec()
        } else if location.first() == Some(&b'?') {
            let mut path = from.split(|b| *b == b'?').next().unwrap_or(from).to_vec();
            path.extend_from_slice(location);
            path
        } else {
            let base = from.split(|b| *b == b'?').next().unwrap_or(from);
            let folder = base.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
            let mut path = base[..folder].to_vec();
            path.extend_from_slice(location);
            path
        };
        let mut safe = Vec::with_capacity(path.len());
        push_path(&mut safe, &remove_dots(&path));
        Some(safe)
    }

    fn strip_authority(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
        let same = |text: &[u8]| text.eq_ignore_ascii_case(self.authority.as_bytes());
        let host = &rest[..end];
        if !same(host) && !same(host.strip_suffix(b":80").unwrap_or(host)) {
            return None;
        }
        let mut path = rest[end..].to_vec();
        if path.first() != Some(&b'/') {
            path.insert(0, b'/');
        }
        Some(path)
    }
}

fn split(url: &str) -> Result<(&str, &str), String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("--url {url}: write http://host:port/root"));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(format!("--url {url}: `{scheme}` is not supported, only http"));
    }
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority.is_empty() || authority.contains('@') || authority.bytes().any(|b| b <= b' ') {
        return Err(format!("--url {url}: write http://host:port/root"));
    }
    if path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        return Err(format!("--url {url}: its path holds a character that must be percent-encoded"));
    }
    Ok((authority, path))
}

fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']'))
    })
}

/// Removes `.` and `..` segments (RFC 3986, 5.2.4).
fn remove_dots(path: &[u8]) -> Vec<u8> {
    let query = path.iter().position(|b| *b == b'?').unwrap_or(path.len());
    if !path[..query].windows(2).any(|w| w == b"/.") {
        return path.to_vec();
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path[..query].split(|b| *b == b'/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        match *segment {
            b".." => {
                kept.pop();
                if last {
                    kept.push(b"");
                }
            }
            b"." if last => kept.push(b""),
            b"." => {}
            other => kept.push(other),
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in &kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(&path[query..]);
    out
}

/// A path made safe for a request line: no byte in it can end the line or the request.
pub fn push_path(out: &mut Vec<u8>, path: &[u8]) {
    for byte in path {
        if *byte <= b' ' || *byte >= 0x7f {
            push_percent(out, *byte);
        } else {
            out.push(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        let target = Target::parse("http://127.0.0.1:9080/brokerage/").unwrap();
        assert_eq!((target.authority.as_str(), target.root.as_str()), ("127.0.0.1:9080", "/brokerage"));
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().address.port(), 80);
        assert_eq!(Target::parse("http://[::1]:81/x").unwrap().address.port(), 81);
        for url in ["127.0.0.1:80", "https://127.0.0.1", "http://", "http://a b/", "http://127.0.0.1/a b"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn resolves_locations() {
        let target = Target::parse("http://127.0.0.1:9080/app").unwrap();
        let follow = |to: &str| {
            target.follow(to.as_bytes(), b"/app/a/login?x=1").map(|p| String::from_utf8(p).expect("ascii path"))
        };
        assert_eq!(follow("/app/home").as_deref(), Some("/app/home"));
        assert_eq!(follow("home").as_deref(), Some("/app/a/home"));
        assert_eq!(follow("../home?y=2").as_deref(), Some("/app/home?y=2"));
        assert_eq!(follow("?z").as_deref(), Some("/app/a/login?z"));
        assert_eq!(follow("http://127.0.0.1:9080/b#top").as_deref(), Some("/b"));
        assert_eq!(follow("http://127.0.0.1:9080").as_deref(), Some("/"));
        assert_eq!(follow("//127.0.0.1:9080/c").as_deref(), Some("/c"));
        assert_eq!(follow("http://elsewhere/"), None);
        assert_eq!(follow("https://127.0.0.1:9080/"), None);
        assert_eq!(follow("/../../x").as_deref(), Some("/x"));
        assert_eq!(follow("/a b\r\nHost: x").as_deref(), Some("/a%20b%0D%0AHost:%20x"));
    }
}
