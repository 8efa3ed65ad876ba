//! A small cookie jar: name, value and path; one host. What expires later is kept as long as the session.

use super::date;
use std::time::{SystemTime, UNIX_EPOCH};

/// Cookies kept in one jar, and the longest one, so that no server can make a session grow.
const MOST: usize = 64;
const LONGEST: usize = 4096;

#[derive(Debug, Clone, PartialEq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

impl Jar {
    pub fn clear(&mut self) {
        self.cookies.clear();
    }

    pub fn len(&self) -> usize {
        self.cookies.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Takes in one `Set-Cookie` of an answer to `path` (RFC 6265, 5.2 and 5.3, for one host).
    pub fn store(&mut self, header: &[u8], path: &[u8]) {
        if header.len() > LONGEST {
            return;
        }
        let mut fields = header.split(|b| *b == b';');
        let Some(pair) = fields.next() else { return };
        let Some(equals) = pair.iter().position(|b| *b == b'=') else { return };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.is_empty() || pair.iter().any(|b| *b < b' ' && *b != b'\t') {
            return;
        }
        let mut cookie = Cookie { name: name.to_vec(), value: value.to_vec(), path: default_path(path).to_vec() };
        let (mut age, mut expiry) = (None, None);
        for field in fields {
            let mut halves = field.splitn(2, |b| *b == b'=');
            let key = halves.next().unwrap_or_default().trim_ascii();
            let value = halves.next().unwrap_or_default().trim_ascii();
            if key.eq_ignore_ascii_case(b"path") && value.first() == Some(&b'/') {
                cookie.path = value.to_vec();
            } else if key.eq_ignore_ascii_case(b"max-age") {
                age = positive(value).or(age);
            } else if key.eq_ignore_ascii_case(b"expires") {
                expiry = date::parse(value).or(expiry);
            }
        }
        let gone = match age {
            Some(positive) => !positive,
            None => expiry.is_some_and(|expiry| expiry <= now()),
        };
        let found = self.cookies.iter().position(|c| c.name == cookie.name && c.path == cookie.path);
        match (found, gone) {
            (Some(at), true) => {
                self.cookies.remove(at);
            }
            (Some(at), false) => self.cookies[at].value = cookie.value,
            (None, false) if self.cookies.len() < MOST => self.cookies.push(cookie),
            (None, _) => {}
        }
    }

    /// Writes the `Cookie` header for a request to `path`, if any cookie belongs there; longest paths first.
    pub fn write(&self, path: &[u8], out: &mut Vec<u8>) {
        if self.cookies.is_empty() {
            return;
        }
        let path = path.split(|b| *b == b'?').next().unwrap_or(path);
        let mut matching: Vec<&Cookie> = self.cookies.iter().filter(|c| matches(path, &c.path)).collect();
        if matching.is_empty() {
            return;
        }
        matching.sort_by_key(|c| std::cmp::Reverse(c.path.len()));
        for (at, cookie) in matching.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b"Cookie: " } else { b"; " });
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Whether a Max-Age is above zero; None where it is no number.
fn positive(age: &[u8]) -> Option<bool> {
    let digits = age.strip_prefix(b"-").unwrap_or(age);
    let number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    number.then(|| digits == age && digits.iter().any(|b| *b != b'0'))
}

/// Seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn default_path(path: &[u8]) -> &[u8] {
    let path = path.split(|b| *b == b'?').next().unwrap_or(path);
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) if at > 0 => &path[..at],
        _ => b"/",
    }
}

fn matches(path: &[u8], cookie: &[u8]) -> bool {
    path == cookie || path.starts_with(cookie) && (cookie.ends_with(b"/") || path.get(cookie.len()) == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(jar: &Jar, path: &str) -> String {
        let mut out = Vec::new();
        jar.write(path.as_bytes(), &mut out);
        String::from_utf8(out).expect("ascii cookies")
    }

    #[test]
    fn keeps_replaces_and_removes() {
        let mut jar = Jar::default();
        jar.store(b"JSESSIONID=abc; Path=/brokerage; HttpOnly", b"/brokerage/login");
        jar.store(b"theme=dark", b"/brokerage/login");
        assert_eq!(sent(&jar, "/brokerage/home"), "Cookie: JSESSIONID=abc; theme=dark\r\n");
        assert_eq!(sent(&jar, "/brokerages"), "");
        assert_eq!(sent(&jar, "/brokerage?x=1"), "Cookie: JSESSIONID=abc; theme=dark\r\n");
        jar.store(b"JSESSIONID=def;path=/brokerage", b"/x");
        assert!(sent(&jar, "/brokerage/a").contains("JSESSIONID=def"));
        jar.store(b"JSESSIONID=; Max-Age=0; path=/brokerage", b"/x");
        jar.store(b"theme=; Expires=Thu, 01-Jan-1970 00:00:10 GMT", b"/brokerage/login");
        assert!(jar.is_empty());
    }

    #[test]
    fn the_past_removes_and_max_age_outranks_it() {
        let removing = [
            "expires=Thu, 01-Dec-1994 16:00:00 GMT",
            "Expires=Mon, 1 Jan 1990 00:00:00; Path=/",
            "Expires=Wed Dec 31 23:59:59 1969",
            "Max-Age=-1",
            "max-age=00",
            "Max-Age=x; Expires=1 jan 1999 1:2:3",
            "Max-Age=-; Expires=1 jan 1999 1:2:3",
            "Expires=1 jan 1999 1:2:3; Expires=1970",
            "Max-Age=1; Max-Age=0",
        ];
        let keeping = [
            "Expires=Fri, 31 Dec 9999 23:59:59 GMT",
            "Expires=1970",
            "Expires",
            "Max-Age=99999999999999999999",
            "Max-Age=3600; Expires=1 jan 1970 0:0:0",
            "Expires=1 jan 1970 0:0:0; Max-Age=3600",
            "Max-Age=0; Max-Age=1",
        ];
        let all = removing.map(|how| (how, "")).into_iter().chain(keeping.map(|how| (how, "Cookie: SID=\r\n")));
        for (how, left) in all {
            let mut jar = Jar::default();
            jar.store(b"SID=1", b"/");
            jar.store(format!("SID=; Path=/; {how}").as_bytes(), b"/x/y");
            assert_eq!(sent(&jar, "/"), left, "{how}");
        }
    }

    #[test]
    fn cannot_grow_without_bound() {
        let mut jar = Jar::default();
        for i in 0..5000 {
            jar.store(format!("c{i}=v").as_bytes(), b"/");
        }
        assert_eq!(jar.len(), MOST);
        jar.store(&vec![b'a'; 10_000], b"/");
        jar.store(b"=nameless", b"/");
        jar.store(b"a=b\r\nc", b"/");
        jar.store(b"", b"/");
        assert_eq!(jar.len(), MOST);
    }
}
