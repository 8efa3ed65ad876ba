//! A small cookie jar for one host (RFC 6265bis).

use super::date;
use super::target::Target;
use std::net::Ipv4Addr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Cookies kept in one jar, name and value of the longest one, and its longest attribute that counts.
const MOST: usize = 64;
const LONGEST: usize = 4096;
const LONGEST_ATTRIBUTE: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    /// The one it was set for, in small letters, where that is not the host itself.
    domain: Vec<u8>,
    /// Unix milliseconds; None: with the session.
    expiry: Option<i64>,
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

    /// Takes in one `Set-Cookie` of a response of `target` to `path` (RFC 6265bis, 5.6 and 5.7, for one host).
    pub fn store(&mut self, header: &[u8], path: &[u8], target: &Target) {
        self.store_at(header, path, target, now());
    }

    fn store_at(&mut self, header: &[u8], path: &[u8], target: &Target, now: i64) {
        if header.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f) {
            return;
        }
        let mut fields = header.split(|b| *b == b';');
        let Some(pair) = fields.next() else { return };
        let Some(equals) = pair.iter().position(|b| *b == b'=') else { return };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.is_empty() || name.len() + value.len() > LONGEST {
            return;
        }
        let attributes = Attributes::read(fields, now);
        let host = target.host().to_ascii_lowercase();
        let own = attributes.domain.is_empty() || attributes.domain == host.as_bytes();
        if !own && !within(&host, &attributes.domain) || attributes.secure && !target.trustworthy() {
            return;
        }
        if !attributes.allow(name) {
            return;
        }
        let cookie = Cookie {
            name: name.to_vec(),
            value: value.to_vec(),
            path: attributes.path.unwrap_or(default_path(path)).to_vec(),
            domain: if own { Vec::new() } else { attributes.domain },
            expiry: attributes.expiry,
        };
        self.keep(cookie, now);
    }

    fn keep(&mut self, cookie: Cookie, now: i64) {
        let same = |c: &Cookie| c.name == cookie.name && c.path == cookie.path && c.domain == cookie.domain;
        match (self.cookies.iter().position(same), cookie.is_over(now)) {
            (Some(at), true) => {
                self.cookies.remove(at);
            }
            (Some(at), false) => self.cookies[at] = cookie,
            (None, false) => {
                if self.cookies.len() >= MOST {
                    self.cookies.retain(|other| !other.is_over(now));
                }
                if self.cookies.len() < MOST {
                    self.cookies.push(cookie);
                }
            }
            (None, true) => {}
        }
    }

    /// The percent-decoded value of the last one of this name, as a page's script reads it to send it in a header.
    pub fn value(&self, name: &[u8]) -> Option<Vec<u8>> {
        let now = now();
        let cookie = self.cookies.iter().rev().find(|c| c.name == name && !c.is_over(now))?;
        let (mut decoded, mut rest) = (Vec::with_capacity(cookie.value.len()), &cookie.value[..]);
        while let [first, after @ ..] = rest {
            let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
            if let (b'%', Some(high), Some(low)) = (first, digit(0), digit(1)) {
                decoded.push((high * 16 + low) as u8);
                rest = &after[2..];
            } else {
                decoded.push(*first);
                rest = after;
            }
        }
        Some(decoded)
    }

    /// Writes the `Cookie` header for a request to `path`, if any cookie belongs there; longest paths first.
    pub fn write(&self, path: &[u8], out: &mut Vec<u8>) {
        if !self.cookies.is_empty() {
            self.write_at(path, out, now());
        }
    }

    fn write_at(&self, path: &[u8], out: &mut Vec<u8>, now: i64) {
        let path = path.split(|b| *b == b'?').next().unwrap_or(path);
        let mut matching: Vec<&Cookie> =
            self.cookies.iter().filter(|c| matches(path, &c.path) && !c.is_over(now)).collect();
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

impl Cookie {
    fn is_over(&self, now: i64) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }
}

/// What follows a cookie's name and value; of one that comes twice the last counts.
#[derive(Default)]
struct Attributes<'a> {
    path: Option<&'a [u8]>,
    /// A path that is exactly the root's was given.
    root: bool,
    domain: Vec<u8>,
    /// A domain was given.
    broad: bool,
    secure: bool,
    /// Unix milliseconds.
    expiry: Option<i64>,
}

impl<'a> Attributes<'a> {
    fn read(fields: impl Iterator<Item = &'a [u8]>, now: i64) -> Self {
        let (mut found, mut age, mut date) = (Attributes::default(), None, None);
        for field in fields {
            let mut halves = field.splitn(2, |b| *b == b'=');
            let key = halves.next().unwrap_or_default().trim_ascii();
            let value = halves.next().unwrap_or_default().trim_ascii();
            if value.len() > LONGEST_ATTRIBUTE {
                continue;
            }
            if key.eq_ignore_ascii_case(b"path") {
                found.path = Some(value).filter(|path| path.first() == Some(&b'/'));
                found.root = value == b"/";
            } else if key.eq_ignore_ascii_case(b"max-age") {
                age = seconds(value).or(age);
            } else if key.eq_ignore_ascii_case(b"expires") {
                date = date::parse(value).or(date);
            } else if key.eq_ignore_ascii_case(b"secure") {
                found.secure = true;
            } else if key.eq_ignore_ascii_case(b"domain") && !value.is_empty() {
                found.domain = value.strip_prefix(b".").unwrap_or(value).to_ascii_lowercase();
                found.broad = true;
            }
        }
        found.expiry = match age {
            Some(age) if age <= 0 => Some(i64::MIN),
            Some(age) => Some(now.saturating_add(age.saturating_mul(1000))),
            None => date.map(|date| date.saturating_mul(1000)),
        };
        found
    }

    /// Whether a cookie of that name may have them: two prefixes promise something (RFC 6265bis, 4.1.3).
    fn allow(&self, name: &[u8]) -> bool {
        let begins = |word: &[u8]| name.len() >= word.len() && name[..word.len()].eq_ignore_ascii_case(word);
        if begins(b"__Host-") {
            return self.secure && self.root && !self.broad;
        }
        self.secure || !begins(b"__Secure-")
    }
}

/// Whether a host's name lies in a domain above it (RFC 6265, 5.1.3).
fn within(host: &str, domain: &[u8]) -> bool {
    let address = host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok();
    !address && host.as_bytes().strip_suffix(domain).is_some_and(|before| before.ends_with(b"."))
}

/// A Max-Age; None where it is no number. What is too large is as large as can be.
fn seconds(age: &[u8]) -> Option<i64> {
    let digits = age.strip_prefix(b"-").unwrap_or(age);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |sum: i64, b: &u8| sum.saturating_mul(10).saturating_add(i64::from(b - b'0'));
    let number = digits.iter().fold(0, digit);
    Some(if digits == age { number } else { -number })
}

/// Unix milliseconds.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
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

    fn store_from(url: &str, jar: &mut Jar, header: &str) {
        jar.store(header.as_bytes(), b"/", &Target::parse(url).expect("an address"));
    }

    fn store(jar: &mut Jar, header: &[u8], path: &[u8]) {
        jar.store(header, path, &Target::parse("http://127.0.0.1").expect("an address"));
    }

    fn sent(jar: &Jar, path: &str) -> String {
        let mut out = Vec::new();
        jar.write(path.as_bytes(), &mut out);
        String::from_utf8(out).expect("ascii cookies")
    }

    #[test]
    fn gives_the_decoded_value_of_the_last_of_a_name() {
        let mut jar = Jar::default();
        store(&mut jar, b"XSRF-TOKEN=first; Path=/shop", b"/shop");
        store(&mut jar, b"XSRF-TOKEN=a%2Fb%3d%zz%4; Path=/", b"/");
        assert_eq!(jar.value(b"XSRF-TOKEN").as_deref(), Some(&b"a/b=%zz%4"[..]));
        store(&mut jar, b"XSRF-TOKEN=; Max-Age=0; Path=/", b"/");
        assert_eq!(jar.value(b"XSRF-TOKEN").as_deref(), Some(&b"first"[..]));
        assert_eq!(jar.value(b"xsrf-token"), None);
    }

    #[test]
    fn keeps_replaces_and_removes() {
        let mut jar = Jar::default();
        store(&mut jar, b"JSESSIONID=abc; Path=/brokerage; HttpOnly", b"/brokerage/login");
        store(&mut jar, b"theme=dark", b"/brokerage/login");
        assert_eq!(sent(&jar, "/brokerage/home"), "Cookie: JSESSIONID=abc; theme=dark\r\n");
        assert_eq!(sent(&jar, "/brokerages"), "");
        assert_eq!(sent(&jar, "/brokerage?x=1"), "Cookie: JSESSIONID=abc; theme=dark\r\n");
        store(&mut jar, b"JSESSIONID=def;path=/brokerage", b"/x");
        assert!(sent(&jar, "/brokerage/a").contains("JSESSIONID=def"));
        store(&mut jar, b"JSESSIONID=; Max-Age=0; path=/brokerage", b"/x");
        store(&mut jar, b"theme=; Expires=Thu, 01-Jan-1970 00:00:10 GMT", b"/brokerage/login");
        assert!(jar.is_empty());
        store(&mut jar, b"last=1; Path=/; Path", b"/own/page");
        assert_eq!((sent(&jar, "/"), sent(&jar, "/own/x")), (String::new(), "Cookie: last=1\r\n".into()));
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
            store(&mut jar, b"SID=1", b"/");
            store(&mut jar, format!("SID=; Path=/; {how}").as_bytes(), b"/x/y");
            assert_eq!(sent(&jar, "/"), left, "{how}");
        }
    }

    #[test]
    fn domains_are_those_of_the_host() {
        for (url, domain, kept) in [
            ("http://localhost:8080", "other.example", false),
            ("http://localhost:8080", "LocalHost", true),
            ("http://localhost:8080", ".localhost", true),
            ("http://localhost:8080", "", true),
            ("http://localhost:8080", "other.example; Domain=", false),
            ("http://localhost:8080", "other.example; Domain=.", true),
            ("http://localhost:8080", "localhost; domain=a.localhost", false),
            ("http://localhost:8080", "host", false),
            ("http://localhost:8080", "localhost:8080", false),
            ("https://127.0.0.1", "127.0.0.1", true),
            ("https://127.0.0.1", "0.0.1", false),
            ("http://[::1]:80", "[::1]", true),
            ("http://[::1]", "other.example", false),
            ("unix:/run/app.sock", "localhost", true),
        ] {
            let mut jar = Jar::default();
            store_from(url, &mut jar, &format!("a=b; Domain={domain}"));
            assert_eq!(jar.len(), usize::from(kept), "{domain} at {url}");
        }
        let mut target = Target::parse("http://127.0.0.1:9080").expect("an address");
        target.authority = "www.Shop.example:9080".into();
        let mut jar = Jar::default();
        for header in ["a=1", "a=2; Domain=.SHOP.example", "a=3; domain=shop.Example", "a=4; Domain=hop.example"] {
            jar.store(header.as_bytes(), b"/", &target);
        }
        assert_eq!(sent(&jar, "/"), "Cookie: a=1; a=3\r\n");
        jar.store(b"a=; Max-Age=0; Domain=www.shop.example", b"/", &target);
        assert_eq!(sent(&jar, "/"), "Cookie: a=3\r\n");
    }

    #[test]
    fn secure_ones_go_over_plain_http_on_this_host_only() {
        let kept = "Cookie: a=3; b=1\r\n";
        let urls = [("http://192.0.2.1", "Cookie: a=2\r\n"), ("https://192.0.2.1", kept), ("http://localhost", kept)];
        for (url, left) in urls.into_iter().chain([("http://[::1]:80", kept), ("unix:/run/app.sock", kept)]) {
            let mut jar = Jar::default();
            for header in ["a=1; Secure", "a=2", "a=3;secure; HttpOnly", "b=1; Path=/; SECURE=x"] {
                store_from(url, &mut jar, header);
            }
            assert_eq!(sent(&jar, "/"), left, "{url}");
        }
    }

    #[test]
    fn a_cookie_ends_when_its_server_said() {
        let target = Target::parse("http://127.0.0.1").expect("an address");
        let mut jar = Jar::default();
        for header in
            ["a=1; Max-Age=2; Expires=Thu, 01-Dec-1994 16:00:00 GMT", "b=1", "c=1; max-age=99999999999999999999"]
        {
            jar.store_at(header.as_bytes(), b"/", &target, 10_000);
        }
        let sent = |jar: &Jar, now: i64| {
            let mut out = Vec::new();
            jar.write_at(b"/", &mut out, now);
            String::from_utf8(out).expect("ascii cookies")
        };
        assert_eq!(sent(&jar, 11_999), "Cookie: a=1; b=1; c=1\r\n");
        assert_eq!(sent(&jar, 12_000), "Cookie: b=1; c=1\r\n");
        jar.store_at(b"b=2; Expires=Thu, 01 Jan 1970 00:00:20 GMT", b"/", &target, 12_000);
        assert_eq!((sent(&jar, 19_999), sent(&jar, 20_000)), ("Cookie: b=2; c=1\r\n".into(), "Cookie: c=1\r\n".into()));
        for number in 0..MOST {
            jar.store_at(format!("n{number}=").as_bytes(), b"/", &target, 20_000);
        }
        assert!(sent(&jar, 20_000).contains("n61="), "those that are over make room");
    }

    #[test]
    fn prefixes_keep_their_promise() {
        for (header, kept) in [
            ("__Host-a=1; Secure; Path=/", true),
            ("__Host-a=1; Path=/", false),
            ("__Host-a=1; Secure", false),
            ("__Host-a=1; Secure; Path=/x", false),
            ("__Host-a=1; Secure; Path=/; Path=/x", false),
            ("__Host-a=1; Secure; Path=/; Domain=localhost", false),
            ("__hOsT-a=1; Path=/", false),
            ("__Secure-a=1; Secure; Path=/x; Domain=localhost", true),
            ("__Secure-a=1", false),
            ("__SECURE-a=1", false),
            ("__Hosta=1", true),
        ] {
            let mut jar = Jar::default();
            store_from("https://localhost", &mut jar, header);
            assert_eq!(jar.len(), usize::from(kept), "{header}");
        }
        let mut jar = Jar::default();
        store_from("http://192.0.2.1", &mut jar, "__Host-a=1; Secure; Path=/");
        assert!(jar.is_empty(), "over plain HTTP");
    }

    #[test]
    fn long_attributes_do_not_count() {
        let mut jar = Jar::default();
        store(&mut jar, format!("a={}; Path=/{}", "v".repeat(4000), "x".repeat(1024)).as_bytes(), b"/y/z");
        assert!(sent(&jar, "/y/w").starts_with("Cookie: a=v"));
        store(&mut jar, format!("b={}", "v".repeat(4096)).as_bytes(), b"/");
        store(&mut jar, b"c=1; Path=/\x7f", b"/");
        assert_eq!(jar.len(), 1);
    }

    #[test]
    fn cannot_grow_without_bound() {
        let mut jar = Jar::default();
        for i in 0..5000 {
            store(&mut jar, format!("c{i}=v").as_bytes(), b"/");
        }
        assert_eq!(jar.len(), MOST);
        store(&mut jar, &vec![b'a'; 10_000], b"/");
        store(&mut jar, b"=nameless", b"/");
        store(&mut jar, b"a=b\r\nc", b"/");
        store(&mut jar, b"", b"/");
        assert_eq!(jar.len(), MOST);
    }
}
