//! Where the requests go.

use crate::sys::socket::Peer;
use crate::template::push_percent;
use rustls::pki_types::ServerName;
use std::net::ToSocketAddrs;
use std::path::PathBuf;

/// A server and the path all paths of a scenario stand below.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub peer: Peer,
    /// For TLS: the name the server's certificate must bear.
    pub name: Option<ServerName<'static>>,
    /// `host:port` as in the address given, for the Host header and for redirects.
    pub authority: String,
    /// Context root without a trailing slash: `/brokerage` or empty.
    pub root: String,
}

const FORMS: &str = "write http://host:port/root, https://host:port/root or unix:/path/of/socket:/root";

impl Target {
    /// Reads `http[s]://host[:port][/root]` and resolves the name once, or `unix:/path/of/socket[:/root]`.
    pub fn parse(url: &str) -> Result<Self, String> {
        if let Some(rest) = url.strip_prefix("unix:") {
            let (path, root) = rest.split_once(":/").map_or((rest, ""), |(path, _)| (path, &rest[path.len() + 1..]));
            check_path(url, root)?;
            if !path.starts_with('/') || path.len() > 107 {
                return Err(format!("--url {url}: {FORMS}; a socket's path is absolute and has at most 107 bytes"));
            }
            let peer = Peer::Unix(PathBuf::from(path));
            return Ok(Target { peer, name: None, authority: "localhost".into(), root: root_of(root) });
        }
        let (secure, authority, path) = split(url)?;
        let port = if secure { 443 } else { 80 };
        let with_port = if has_port(authority) { authority.to_string() } else { format!("{authority}:{port}") };
        let address = with_port
            .to_socket_addrs()
            .map_err(|e| format!("--url {url}: cannot resolve `{with_port}`: {e}"))?
            .next()
            .ok_or_else(|| format!("--url {url}: `{with_port}` has no address"))?;
        let host = host_of(authority);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let name = match secure {
            true => Some(ServerName::try_from(host).map_err(|_| format!("--url {url}: no name that TLS can check"))?),
            false => None,
        };
        Ok(Target { peer: Peer::Tcp(address), name, authority: authority.to_string(), root: root_of(path) })
    }

    /// The host's name or address, one of IPv6 in its brackets.
    pub fn host(&self) -> &str {
        host_of(&self.authority)
    }

    pub fn secure(&self) -> bool {
        self.name.is_some()
    }

    /// Nobody listens on the way: TLS, this host's loopback or a socket of its own.
    pub fn trustworthy(&self) -> bool {
        self.secure()
            || match &self.peer {
                Peer::Unix(_) => true,
                Peer::Tcp(address) => address.ip().is_loopback(),
            }
    }

    /// The path (with query) a `Location` names, or None when it leads to another server.
    pub fn follow(&self, location: &[u8], from: &[u8]) -> Option<Vec<u8>> {
        let location = location.split(|b| *b == b'#').next().unwrap_or(location);
        let path = if let Some((scheme, rest)) = absolute(location) {
            let own: &[u8] = if self.secure() { b"https" } else { b"http" };
            if !scheme.eq_ignore_ascii_case(own) {
                return None;
            }
            self.strip_authority(rest.strip_prefix(b"//")?)?
        } else if location.is_empty() {
            from.to_vec()
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

    /// As [`Target::follow`], of a link on the page at `page` whose `<base>` says `base`.
    pub fn follow_on(&self, link: &[u8], page: &[u8], base: Option<&[u8]>) -> Option<Vec<u8>> {
        let Some(base) = base else { return self.follow(link, page) };
        match self.follow(base, page) {
            Some(base) => self.follow(link, &base),
            None if absolute(link).is_some() => self.follow(link, page),
            None => None, // relative to another server
        }
    }

    fn strip_authority(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
        let port: &[u8] = if self.secure() { b":443" } else { b":80" };
        if !without(port, &rest[..end]).eq_ignore_ascii_case(without(port, self.authority.as_bytes())) {
            return None;
        }
        let mut path = rest[end..].to_vec();
        if path.first() != Some(&b'/') {
            path.insert(0, b'/');
        }
        Some(path)
    }
}

/// The scheme of a reference and what follows its colon, if it has one (RFC 3986, 3.1).
fn absolute(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let (scheme, rest) = reference.split_at(reference.iter().position(|b| *b == b':')?);
    let letter = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let named = scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(letter);
    Some((scheme, rest.strip_prefix(b":").filter(|_| named)?))
}

/// An authority whose port is left out where it is the scheme's own (RFC 3986, 6.2.3).
fn without<'a>(port: &[u8], authority: &'a [u8]) -> &'a [u8] {
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}

/// Whether it is TLS, the authority and the rest of a URL.
fn split(url: &str) -> Result<(bool, &str, &str), String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("--url {url}: {FORMS}"));
    };
    let secure = scheme.eq_ignore_ascii_case("https");
    if !secure && !scheme.eq_ignore_ascii_case("http") {
        return Err(format!("--url {url}: `{scheme}` is not supported; {FORMS}"));
    }
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority.is_empty() || authority.contains('@') || authority.bytes().any(|b| b <= b' ') {
        return Err(format!("--url {url}: {FORMS}"));
    }
    check_path(url, path)?;
    Ok((secure, authority, path))
}

fn check_path(url: &str, path: &str) -> Result<(), String> {
    if path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        return Err(format!("--url {url}: its path holds a character that must be percent-encoded"));
    }
    Ok(())
}

fn root_of(path: &str) -> String {
    path.split(['?', '#']).next().unwrap_or("").trim_end_matches('/').to_string()
}

fn host_of(authority: &str) -> &str {
    authority.rsplit_once(':').filter(|_| has_port(authority)).map_or(authority, |(host, _)| host)
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
        assert_eq!(target.host(), "127.0.0.1");
        for (url, port, secure) in [
            ("http://127.0.0.1", 80, false),
            ("http://[::1]:81/x", 81, false),
            ("https://127.0.0.1/x", 443, true),
            ("HTTPS://[::1]:8443", 8443, true),
        ] {
            let target = Target::parse(url).unwrap();
            assert!(matches!(&target.peer, Peer::Tcp(address) if address.port() == port), "{url}: {target:?}");
            assert_eq!(target.secure(), secure);
        }
        let unix = Target::parse("unix:/run/app.sock:/shop/").unwrap();
        assert_eq!((unix.peer, unix.root.as_str()), (Peer::Unix("/run/app.sock".into()), "/shop"));
        assert_eq!(Target::parse("unix:/run/app.sock").unwrap().root, "");
        let long = format!("unix:/{}", "x".repeat(107));
        let wrong =
            ["127.0.0.1:80", "ftp://127.0.0.1", "http://", "http://a b/", "http://127.0.0.1/a b", "unix:x", &long];
        for url in wrong {
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
        for itself in ["", "#top"] {
            assert_eq!(follow(itself).as_deref(), Some("/app/a/login?x=1"));
        }
        assert_eq!((follow("mailto:x"), follow("http:/x"), follow("http://elsewhere/")), (None, None, None));
        assert_eq!(follow("https://127.0.0.1:9080/"), None);
        for to in ["/login?next=http://127.0.0.1:9080/x", "/login/http://h/x"] {
            assert_eq!(follow(to).as_deref(), Some(to));
        }
        assert_eq!(follow("?u=http://x/y").as_deref(), Some("/app/a/login?u=http://x/y"));
        assert_eq!(follow("thumb?u=http://x/y").as_deref(), Some("/app/a/thumb?u=http://x/y"));
        assert_eq!(follow("1a://x").as_deref(), Some("/app/a/1a://x"));
        assert_eq!((follow("a+b-c.9://127.0.0.1:9080/"), follow("ftp://127.0.0.1:9080/")), (None, None));
        assert_eq!(follow("HTTP://127.0.0.1:9080/d").as_deref(), Some("/d"));
        let secure = Target::parse("https://127.0.0.1").unwrap();
        assert_eq!(secure.follow(b"https://127.0.0.1:443/b", b"/"), Some(b"/b".to_vec()));
        assert_eq!(secure.follow(b"http://127.0.0.1/b", b"/"), None);
        for url in ["http://LocalHost:80/app", "http://localhost", "unix:/run/app.sock"] {
            let target = Target::parse(url).unwrap();
            for to in ["http://localhost/x", "http://LOCALHOST:80/x", "//localhost:/x"] {
                assert_eq!(target.follow(to.as_bytes(), b"/"), Some(b"/x".to_vec()), "{to} at {url}");
            }
            for to in ["http://localhost:443/x", "http://localhost:8080/x", "http://local/x", "http://[::1]/x"] {
                assert_eq!(target.follow(to.as_bytes(), b"/"), None, "{to} at {url}");
            }
        }
        let six = Target::parse("https://[::1]:443/").unwrap();
        assert_eq!(six.follow(b"https://[::1]/x", b"/"), Some(b"/x".to_vec()));
        assert_eq!((six.follow(b"https://[::1]:80/x", b"/"), six.follow(b"https://[::/x", b"/")), (None, None));
        assert_eq!(follow("/../../x").as_deref(), Some("/x"));
        assert_eq!(follow("/a b\r\nHost: x").as_deref(), Some("/a%20b%0D%0AHost:%20x"));
    }
}
