//! How requests get to the servers: which servers, from which addresses, over what.

use crate::http::target::Target;
use crate::sys::tls::{Identity, Tls, Trust, H1, H2};
use clap::{Args, ValueEnum};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Http {
    /// HTTP/1.1; over TLS what the server prefers of HTTP/2 and HTTP/1.1.
    #[default]
    Auto,
    #[value(name = "1.1")]
    One,
    #[value(name = "2")]
    Two,
}

/// Whose the connections are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Connections {
    /// Each session has its own, as users of browsers.
    #[default]
    Session,
    /// A request takes an idle one from a pool, as behind a proxy; with HTTP/2 a stream of one.
    Shared,
}

/// A server and how much of the load it gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub url: String,
    pub weight: f64,
}

/// The command line's part of it.
#[derive(Clone, Debug, Args)]
pub struct TransportOptions {
    /// Server and context root, e.g. http://127.0.0.1:9080/brokerage, https://... or unix:/path/of/socket:/root;
    /// repeated: each session keeps to one of them, chosen by weight.
    #[arg(long = "url", value_name = "URL[=WEIGHT]", required = true, value_parser = weighted)]
    pub servers: Vec<Server>,
    /// Sessions of a population of the scenario talk to this server instead; may be repeated.
    #[arg(long = "population-url", value_name = "NAME=URL", value_parser = of_population)]
    pub populations: Vec<(String, String)>,
    /// Addresses to connect from, A,B or FIRST-LAST; sessions take turns.
    #[arg(long = "source-address", value_name = "A", value_parser = sources)]
    pub sources: Vec<Sources>,
    /// auto: HTTP/1.1, over TLS what the server prefers.
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub http: Http,
    /// Close a connection after N requests; 1 is a connection for each (default: keep).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_per_connection: Option<u32>,
    /// Whose the connections are.
    #[arg(long, value_name = "WORD", default_value = "session")]
    pub connections: Connections,
    /// shared: at most so many to each server from each address; further requests wait (default: as many as sessions).
    #[arg(long = "max-connections", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub most_connections: Option<u64>,
    /// https: trust the certificates in this PEM file (the server's own, or authorities), not the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// https: trust every certificate.
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// https: show this certificate to servers that ask for one; PEM, its issuers' may follow it.
    #[arg(long, value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,
    /// The certificate's private key, PEM without a password (default: in the certificate's file).
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub client_key: Option<PathBuf>,
}

/// Addresses of one option.
#[derive(Clone, Debug, PartialEq)]
pub struct Sources(pub Vec<IpAddr>);

impl TransportOptions {
    /// What does not fit together.
    pub fn check(&self) -> Result<(), String> {
        if self.most_connections.is_some() && self.connections != Connections::Shared {
            return Err(
                "--max-connections belongs to --connections shared; a session has a connection of its own".into()
            );
        }
        Ok(())
    }

    /// All addresses as one text.
    pub fn url(&self) -> String {
        let shared = self.servers.iter().map(|server| server.url.clone());
        let own = self.populations.iter().map(|(name, url)| format!("{name}={url}"));
        shared.chain(own).collect::<Vec<_>>().join(" ")
    }

    fn trust(&self) -> Trust {
        match &self.ca {
            Some(path) => Trust::Authorities(path.clone()),
            None if self.insecure => Trust::Anyone,
            None => Trust::System,
        }
    }

    fn identity(&self) -> Option<Identity> {
        let certificate = self.client_certificate.clone()?;
        Some(Identity { certificate, key: self.client_key.clone() })
    }
}

/// `URL` or `URL=WEIGHT`.
fn weighted(text: &str) -> Result<Server, String> {
    let split = text.rsplit_once('=').and_then(|(url, weight)| Some((url, weight.parse::<f64>().ok()?)));
    match split {
        Some((_, weight)) if !(weight > 0.0 && weight <= 1e6) => {
            Err("a weight is a number above 0 (at most 1000000)".into())
        }
        Some((url, weight)) => Ok(Server { url: url.to_string(), weight }),
        None => Ok(Server { url: text.to_string(), weight: 1.0 }),
    }
}

/// `NAME=URL`.
fn of_population(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !name.contains('/') => Ok((name.to_string(), url.to_string())),
        _ => Err("write NAME=URL, such as plant=http://127.0.0.1:9081/dealership".into()),
    }
}

/// Most addresses of one range.
const LONGEST_RANGE: u32 = 65_536;

/// `A,B,...`, each an address or a range `FIRST-LAST` of IPv4 addresses.
fn sources(text: &str) -> Result<Sources, String> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| format!("{text} is not an IP address"));
        let Some((first, last)) = part.split_once('-') else {
            found.push(address(part)?);
            continue;
        };
        match (address(first)?, address(last)?) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
                let (first, last) = (u32::from(first), u32::from(last));
                if last - first >= LONGEST_RANGE {
                    return Err(format!("{part} is more than {LONGEST_RANGE} addresses"));
                }
                found.extend((first..=last).map(|address| IpAddr::V4(Ipv4Addr::from(address))));
            }
            _ => return Err(format!("{part}: a range is FIRST-LAST of IPv4 addresses")),
        }
    }
    Ok(Sources(found))
}

/// The same for the loop.
#[derive(Clone, Debug)]
pub struct Transport {
    pub targets: Vec<Target>,
    /// Shares of the sessions, added up: the last one is 1.
    shares: Vec<f64>,
    /// Index of the population and of its own target, which comes after those that sessions are shared out to.
    own: Vec<(usize, usize)>,
    pub sources: Vec<IpAddr>,
    pub http: Http,
    pub requests_per_connection: u32,
    /// Where sessions share connections: most to each server from each address.
    pub shared: Option<usize>,
    pub tls: Option<Tls>,
}

impl Transport {
    /// `most`: shared connections to each server from each address, where sessions share them; `populations`: the
    /// names of those of the scenario.
    pub fn new(options: &TransportOptions, most: usize, populations: &[&str]) -> Result<Self, String> {
        let urls =
            options.servers.iter().map(|server| &server.url).chain(options.populations.iter().map(|(_, url)| url));
        let targets = urls.map(|url| Target::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let own = own_targets(options, populations)?;
        let total: f64 = options.servers.iter().map(|server| server.weight).sum();
        let sources: Vec<IpAddr> = options.sources.iter().flat_map(|sources| sources.0.iter().copied()).collect();
        let (trust, shared) = (options.trust(), options.connections == Connections::Shared);
        let mut sum = 0.0;
        let mut share = |weight: f64| {
            sum += weight / total;
            sum
        };
        let secure = targets.iter().any(Target::secure);
        if !secure && trust != Trust::System {
            return Err("--ca and --insecure belong to an https address".into());
        }
        let identity = options.identity();
        if !secure && identity.is_some() {
            return Err("--client-certificate belongs to an https address".into());
        }
        // As reverse proxies do, unless told otherwise.
        let http = if shared && options.http == Http::Auto { Http::One } else { options.http };
        let alpn: &[&[u8]] = match http {
            Http::Auto => &[H2, H1],
            Http::One => &[H1],
            Http::Two => &[H2],
        };
        for source in &sources {
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
            shares: options.servers.iter().map(|server| share(server.weight)).collect(),
            tls: if secure { Some(Tls::new(&trust, identity.as_ref(), alpn)?) } else { None },
            targets,
            own,
            sources,
            http,
            shared: shared.then_some(most),
            requests_per_connection: options.requests_per_connection.unwrap_or(0),
        })
    }

    /// The target of the `number`-th session: that of its population where this has its own; else each gets its share
    /// of any run of consecutive sessions, as evenly as can be.
    pub fn choose(&self, number: u64, population: usize) -> usize {
        if let Some((_, target)) = self.own.iter().find(|(index, _)| *index == population) {
            return *target;
        }
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

/// Index of each population that has its own server, and of this among the targets.
fn own_targets(options: &TransportOptions, populations: &[&str]) -> Result<Vec<(usize, usize)>, String> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, (name, _)) in options.populations.iter().enumerate() {
        let Some(index) = populations.iter().position(|known| known == name) else {
            let known = populations.join(", ");
            let has = if known.is_empty() { "none".to_string() } else { known };
            return Err(format!("--population-url: the scenario has no population `{name}`; it has {has}"));
        };
        if found.iter().any(|(other, _)| *other == index) {
            return Err(format!("--population-url: population `{name}` is named twice"));
        }
        found.push((index, options.servers.len() + at));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        transport: TransportOptions,
    }

    fn options(words: &str) -> Result<TransportOptions, String> {
        let line = Line::try_parse_from(std::iter::once("leadline-load").chain(words.split_whitespace()));
        line.map(|line| line.transport).map_err(|error| error.to_string())
    }

    #[test]
    fn sessions_are_shared_out_by_weight() {
        let words = "--url http://127.0.0.1:1/=3 --url http://127.0.0.1:2 --url unix:/x=0.5";
        let transport = Transport::new(&options(words).unwrap(), 1, &[]).unwrap();
        for sessions in [45u64, 450, 4500] {
            let mut counts = [0f64; 3];
            (1..=sessions).for_each(|number| counts[transport.choose(number, 0)] += 1.0);
            for (count, weight) in counts.iter().zip([3.0, 1.0, 0.5]) {
                let expected = sessions as f64 * weight / 4.5;
                assert!((count - expected).abs() <= 2.0, "{counts:?} of {sessions}");
            }
        }
    }

    #[test]
    fn a_population_has_its_own_server() {
        let words = "--url http://h:1 --url http://h:2 --population-url plant=http://h:3/root";
        let given = options(words).unwrap();
        assert_eq!(given.url(), "http://h:1 http://h:2 plant=http://h:3/root");
        let own = own_targets(&given, &["dealers", "plant"]).unwrap();
        assert_eq!(own, [(1, 2)]);
        let local = options(&words.replace("//h:", "//127.0.0.1:")).unwrap();
        let transport = Transport::new(&local, 1, &["dealers", "plant"]).unwrap();
        assert!((1..50).all(|number| transport.choose(number, 1) == 2 && transport.choose(number, 0) < 2));
        let error = own_targets(&given, &["dealers"]).expect_err("not there");
        assert!(error.ends_with("no population `plant`; it has dealers"), "{error}");
        assert!(own_targets(&given, &[]).expect_err("not there").ends_with("it has none"));
        let twice = options(&format!("{words} --population-url plant=http://h:4")).unwrap();
        assert!(own_targets(&twice, &["plant"]).expect_err("twice").contains("named twice"));
    }

    #[test]
    fn sources_take_turns() {
        let words = "--url http://127.0.0.1:1 --source-address 127.0.0.9,127.0.0.2-127.0.0.4";
        let transport = Transport::new(&options(words).unwrap(), 1, &[]).unwrap();
        let used: Vec<String> = (1..=5).map(|number| transport.source(number).unwrap().to_string()).collect();
        assert_eq!(used, ["127.0.0.9", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.9"]);
    }

    #[test]
    fn mistakes_have_messages() {
        for (words, part) in [
            ("--url http://h=0", "a weight is"),
            ("", "required"),
            ("--url x --population-url http://h/?a=1", "write NAME=URL"),
            ("--url x --http 3", "possible values: auto, 1.1, 2"),
            ("--url x --requests-per-connection 0", "0 is not in 1.."),
            ("--url x --source-address here", "not an IP address"),
            ("--url x --source-address 127.0.0.9-127.0.0.2", "FIRST-LAST"),
            ("--url x --source-address 10.0.0.0-10.255.0.0", "more than 65536"),
            ("--url x --connections share", "'shared'"),
            ("--url x --max-connections 0", "0 is not in 1.."),
            ("--url x --insecure --ca x", "cannot be used with"),
            ("--url x --client-key x", "--client-certificate"),
        ] {
            let error = options(words).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        for (words, part) in [
            ("--url http://127.0.0.1 --insecure", "belong to an https"),
            ("--url https://127.0.0.1 --ca /nowhere/ca.pem", "--ca /nowhere/ca.pem"),
            ("--url http://127.0.0.1 --client-certificate x", "--client-certificate belongs to an https"),
            ("--url http://127.0.0.1 --source-address 192.0.2.1", "not an address of this host"),
            ("--url http://127.0.0.1 --source-address ::1", "of this kind"),
            ("--url unix:/x --source-address 127.0.0.2", "of this kind"),
        ] {
            let error = Transport::new(&options(words).unwrap(), 1, &[]).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
