//! How requests get to the servers: which servers, from which addresses, over what.

use crate::http::target::Target;
use crate::nearest::meant;
use crate::sys::tls::{Tls, Trust, H1, H2};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1; over TLS what the server prefers of HTTP/2 and HTTP/1.1.
    #[default]
    Auto,
    One,
    Two,
}

impl Http {
    pub const WORDS: [(&'static str, Http); 3] = [("auto", Http::Auto), ("1.1", Http::One), ("2", Http::Two)];

    pub fn as_str(self) -> &'static str {
        Http::WORDS.iter().find(|(_, http)| *http == self).map_or("", |(word, _)| word)
    }
}

/// The command line's part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransportOptions {
    /// Addresses of the servers with their weights.
    pub urls: Vec<(String, f64)>,
    pub sources: Vec<IpAddr>,
    pub http: Http,
    /// 0: no limit.
    pub requests_per_connection: u32,
    /// Sessions share connections.
    pub shared: bool,
    /// Shared connections to each server from each address; None: as many as sessions.
    pub most_connections: Option<u64>,
    pub trust: Trust,
}

impl TransportOptions {
    /// Takes `--name value` in if it is one of the transport's; false when it is not.
    pub fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "--url" => self.urls.push(weighted(value)?),
            "--source-address" => self.sources.append(&mut sources(value)?),
            "--http" => {
                let valid = Http::WORDS.map(|(word, _)| word);
                let found = Http::WORDS.iter().find(|(word, _)| *word == value);
                self.http = found
                    .map(|(_, http)| *http)
                    .ok_or_else(|| format!("--http {value}: not one of auto, 1.1, 2{}", meant(value, &valid)))?;
            }
            "--requests-per-connection" => {
                self.requests_per_connection = match value.parse() {
                    Ok(number) if number > 0 => number,
                    _ => return Err(format!("{name} {value}: not a whole number above 0")),
                }
            }
            "--connections" => {
                self.shared = match value {
                    "session" => false,
                    "shared" => true,
                    _ => {
                        let hint = meant(value, &["session", "shared"]);
                        return Err(format!("--connections {value}: not one of session, shared{hint}"));
                    }
                }
            }
            "--max-connections" => {
                self.most_connections = match value.parse() {
                    Ok(number) if (1..=1_000_000).contains(&number) => Some(number),
                    _ => return Err(format!("{name} {value}: not a whole number from 1 to 1000000")),
                }
            }
            "--ca" if self.trust != Trust::Anyone => self.trust = Trust::Authorities(PathBuf::from(value)),
            "--insecure" if self.trust == Trust::System => self.trust = Trust::Anyone,
            "--ca" | "--insecure" => return Err("--insecure trusts everyone: leave --ca out".into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What does not fit together.
    pub fn check(&self) -> Result<(), String> {
        if self.most_connections.is_some() && !self.shared {
            return Err(
                "--max-connections belongs to --connections shared; a session has a connection of its own".into()
            );
        }
        Ok(())
    }

    /// All addresses as one text.
    pub fn url(&self) -> String {
        self.urls.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// `URL` or `URL=WEIGHT`.
fn weighted(text: &str) -> Result<(String, f64), String> {
    let split = text.rsplit_once('=').and_then(|(url, weight)| Some((url, weight.parse::<f64>().ok()?)));
    match split {
        Some((_, weight)) if !(weight > 0.0 && weight <= 1e6) => {
            Err(format!("--url {text}: a weight is a number above 0 (at most 1000000)"))
        }
        Some((url, weight)) => Ok((url.to_string(), weight)),
        None => Ok((text.to_string(), 1.0)),
    }
}

/// Most addresses of one range.
const LONGEST_RANGE: u32 = 65_536;

/// `A,B,...`, each an address or a range `FIRST-LAST` of IPv4 addresses.
fn sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let address = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| format!("--source-address {text}: not an IP address"))
        };
        let Some((first, last)) = part.split_once('-') else {
            found.push(address(part)?);
            continue;
        };
        match (address(first)?, address(last)?) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
                let (first, last) = (u32::from(first), u32::from(last));
                if last - first >= LONGEST_RANGE {
                    return Err(format!("--source-address {part}: more than {LONGEST_RANGE} addresses"));
                }
                found.extend((first..=last).map(|address| IpAddr::V4(Ipv4Addr::from(address))));
            }
            _ => return Err(format!("--source-address {part}: a range is FIRST-LAST of IPv4 addresses")),
        }
    }
    Ok(found)
}

/// The same for the loop.
#[derive(Clone, Debug)]
pub struct Transport {
    pub targets: Vec<Target>,
    /// Shares of the sessions, added up: the last one is 1.
    shares: Vec<f64>,
    pub sources: Vec<IpAddr>,
    pub http: Http,
    pub requests_per_connection: u32,
    /// Where sessions share connections: most to each server from each address.
    pub shared: Option<usize>,
    pub tls: Option<Tls>,
}

impl Transport {
    /// `most`: shared connections to each server from each address, where sessions share them.
    pub fn new(options: &TransportOptions, most: usize) -> Result<Self, String> {
        let targets = options.urls.iter().map(|(url, _)| Target::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let total: f64 = options.urls.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let mut share = |weight: f64| {
            sum += weight / total;
            sum
        };
        let secure = targets.iter().any(Target::secure);
        if !secure && options.trust != Trust::System {
            return Err("--ca and --insecure belong to an https address".into());
        }
        // As reverse proxies do, unless told otherwise.
        let http = if options.shared && options.http == Http::Auto { Http::One } else { options.http };
        let alpn: &[&[u8]] = match http {
            Http::Auto => &[H2, H1],
            Http::One => &[H1],
            Http::Two => &[H2],
        };
        for source in &options.sources {
            use crate::sys::socket::Peer;
            let other = |target: &&Target| !matches!(&target.peer, Peer::Tcp(to) if to.is_ipv4() == source.is_ipv4());
            if let Some(target) = targets.iter().find(other) {
                let peer = &target.authority;
                return Err(format!(
                    "--source-address {source}: {peer} cannot be reached from an address of this kind"
                ));
            }
            std::net::TcpListener::bind((*source, 0))
                .map_err(|e| format!("--source-address {source}: not an address of this host ({e})"))?;
        }
        Ok(Transport {
            shares: options.urls.iter().map(|(_, weight)| share(*weight)).collect(),
            tls: if secure { Some(Tls::new(&options.trust, alpn)?) } else { None },
            targets,
            sources: options.sources.clone(),
            http,
            shared: options.shared.then_some(most),
            requests_per_connection: options.requests_per_connection,
        })
    }

    /// The target of the `number`-th session: each gets its share of any run of consecutive sessions, as evenly as can be.
    pub fn choose(&self, number: u64) -> usize {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let point = (number as f64 * GOLDEN).fract();
        self.shares.iter().position(|share| point < *share).unwrap_or(self.shares.len().saturating_sub(1))
    }

    /// Where sessions share connections: most there can be.
    pub fn most_shared(&self) -> Option<u64> {
        self.shared.map(|most| most as u64 * self.targets.len() as u64 * self.sources.len().max(1) as u64)
    }

    /// The address the `number`-th session (from 1) connects from; sessions take turns.
    pub fn source(&self, number: u64) -> Option<IpAddr> {
        let count = self.sources.len() as u64;
        (count > 0).then(|| self.sources[((number - 1) % count) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[(&str, &str)]) -> Result<TransportOptions, String> {
        let mut found = TransportOptions::default();
        for (name, value) in words {
            assert!(found.take(name, value)?);
        }
        Ok(found)
    }

    #[test]
    fn sessions_are_shared_out_by_weight() {
        let words = [("--url", "http://127.0.0.1:1/=3"), ("--url", "http://127.0.0.1:2"), ("--url", "unix:/x=0.5")];
        let transport = Transport::new(&options(&words).unwrap(), 1).unwrap();
        for sessions in [45u64, 450, 4500] {
            let mut counts = [0f64; 3];
            (1..=sessions).for_each(|number| counts[transport.choose(number)] += 1.0);
            for (count, weight) in counts.iter().zip([3.0, 1.0, 0.5]) {
                let expected = sessions as f64 * weight / 4.5;
                assert!((count - expected).abs() <= 2.0, "{counts:?} of {sessions}");
            }
        }
    }

    #[test]
    fn sources_take_turns() {
        let words = [("--url", "http://127.0.0.1:1"), ("--source-address", "127.0.0.9,127.0.0.2-127.0.0.4")];
        let transport = Transport::new(&options(&words).unwrap(), 1).unwrap();
        let used: Vec<String> = (1..=5).map(|number| transport.source(number).unwrap().to_string()).collect();
        assert_eq!(used, ["127.0.0.9", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.9"]);
    }

    #[test]
    fn mistakes_have_messages() {
        for (words, part) in [
            (vec![("--url", "http://h=0")], "a weight is"),
            (vec![("--http", "3")], "not one of auto, 1.1, 2"),
            (vec![("--requests-per-connection", "0")], "above 0"),
            (vec![("--source-address", "here")], "not an IP address"),
            (vec![("--source-address", "127.0.0.9-127.0.0.2")], "FIRST-LAST"),
            (vec![("--source-address", "10.0.0.0-10.255.0.0")], "more than 65536"),
            (vec![("--connections", "share")], "did you mean `shared`"),
            (vec![("--max-connections", "0")], "from 1 to"),
            (vec![("--insecure", ""), ("--ca", "x")], "leave --ca out"),
            (vec![("--ca", "x"), ("--insecure", "")], "leave --ca out"),
        ] {
            let error = options(&words).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        for (words, part) in [
            (vec![("--url", "http://127.0.0.1"), ("--insecure", "")], "belong to an https"),
            (vec![("--url", "https://127.0.0.1"), ("--ca", "/nowhere/ca.pem")], "--ca /nowhere/ca.pem"),
            (vec![("--url", "http://127.0.0.1"), ("--source-address", "192.0.2.1")], "not an address of this host"),
            (vec![("--url", "http://127.0.0.1"), ("--source-address", "::1")], "of this kind"),
            (vec![("--url", "unix:/x"), ("--source-address", "127.0.0.2")], "of this kind"),
        ] {
            let error = Transport::new(&options(&words).unwrap(), 1).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
