//! TLS for clients: what is trusted and offered, and the records of one connection.

use super::socket::Socket;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, ClientConfig, ClientConnection, Resumption, WebPkiServerVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Servers whose sessions one user remembers; each with its tickets.
const REMEMBERED: usize = 8;
/// Records without a byte for HTTP, in a row: tickets, keys.
const MOST_SILENT: usize = 64 << 10;
/// Reads that the longest record needs.
const READS: usize = 5;
/// Bytes of a private key's file; one may hold certificates too.
const LONGEST_KEY: usize = 1 << 20;
/// The number of the private key's file where it was opened by root, who then became another user.
const HANDED_OVER: &str = "LEADLINE_CLIENT_KEY_FD";
pub const H2: &[u8] = b"h2";
pub const H1: &[u8] = b"http/1.1";

/// Whose certificates are accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Trust {
    /// The authorities of the system.
    #[default]
    System,
    /// The certificates in a PEM file and what they vouch for, and no others.
    Authorities(PathBuf),
    /// Anyone: encryption without authentication.
    Anyone,
}

/// Who the client is, for servers that ask: PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: PathBuf,
    /// In the certificate's file where there is no other.
    pub key: Option<PathBuf>,
}

/// What all connections share. A user (a session) takes a [`User`] of it.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
}

/// One user's TLS: remembers the sessions of its own earlier connections, as a browser does, and nobody else's.
#[derive(Clone, Debug)]
pub struct User {
    all: Arc<ClientConfig>,
    /// The same for connections that must speak HTTP/1.1.
    plain: Arc<ClientConfig>,
}

impl Tls {
    /// `alpn`: the protocols offered, the preferred one first.
    pub fn new(trust: &Trust, identity: Option<&Identity>, alpn: &[&[u8]]) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS: {e}"))?;
        let verifier = |accepted| Arc::new(Verifier { accepted, provider: Arc::clone(&provider) });
        let builder = match trust {
            Trust::System => builder.with_root_certificates(system()?),
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(verifier(Accepted::Anyone)),
            Trust::Authorities(path) => {
                let listed = Accepted::read(path, &provider)?;
                builder.dangerous().with_custom_certificate_verifier(verifier(listed))
            }
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = identity.read()?;
                builder.with_client_auth_cert(certificates, key).map_err(|e| identity.unfit(&e))?
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(Tls { config: Arc::new(config) })
    }

    pub fn user(&self) -> User {
        let mut all = ClientConfig::clone(&self.config);
        all.resumption = Resumption::in_memory_sessions(REMEMBERED);
        let mut plain = all.clone();
        plain.alpn_protocols = vec![H1.to_vec()];
        User { all: Arc::new(all), plain: Arc::new(plain) }
    }
}

impl Identity {
    /// The file of the key and the option that names it.
    fn of_key(&self) -> (&Path, &str) {
        self.key.as_deref().map_or((&self.certificate, "--client-certificate"), |key| (key, "--client-key"))
    }

    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let ((path, option), own) = (self.of_key(), "--client-certificate");
        let text = read_key(path).map_err(|e| format!("{option} {}: {e}", path.display()))?;
        let certificates = match &self.key {
            Some(_) => certificates(own, &self.certificate, CertificateDer::pem_file_iter(&self.certificate))?,
            None => certificates(own, &self.certificate, Ok(CertificateDer::pem_slice_iter(&text)))?,
        };
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
            let hint = if self.key.is_none() { "; a file of its own is named by --client-key" } else { "" };
            format!("{option} {}: no private key in it (PEM without a password is expected){hint}", path.display())
        })?;
        Ok((certificates, key))
    }

    fn unfit(&self, error: &rustls::Error) -> String {
        let ((path, option), certificate) = (self.of_key(), self.certificate.display());
        match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("{option} {}: the key is not that of the first certificate in {certificate}", path.display())
            }
            _ => format!("{option} {}: cannot be used with {certificate}: {error}", path.display()),
        }
    }
}

/// What a private key's file holds. Several processes may share the descriptor: nothing moves in it.
fn read_key(path: &Path) -> io::Result<Vec<u8>> {
    let number = std::env::var(HANDED_OVER).ok().and_then(|number| number.parse().ok());
    let file = match number {
        // SAFETY: whoever sets the variable leaves the descriptor open for as long as this process lives.
        Some(number) => ManuallyDrop::new(unsafe { File::from_raw_fd(number) }),
        None => ManuallyDrop::new(File::open(path)?),
    };
    let mut text = vec![0; LONGEST_KEY + 1];
    let mut length = 0;
    while length < text.len() {
        match file.read_at(&mut text[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    if number.is_none() {
        drop(ManuallyDrop::into_inner(file));
    }
    if length > LONGEST_KEY {
        return Err(io::Error::other("more than 1 MiB"));
    }
    text.truncate(length);
    Ok(text)
}

/// Those of a PEM file, of which there is at least one.
fn certificates(
    option: &str,
    path: &Path,
    listed: Result<impl Iterator<Item = Result<CertificateDer<'static>, pem::Error>>, pem::Error>,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let at = |error: &dyn std::fmt::Display| format!("{option} {}: {error}", path.display());
    let certificates = listed.map_err(|e| at(&e))?.collect::<Result<Vec<_>, _>>().map_err(|e| at(&e))?;
    if certificates.is_empty() {
        return Err(at(&"no certificate in it (PEM is expected)"));
    }
    Ok(certificates)
}

fn system() -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        return Err("https: this system has no certificate authorities; give --ca FILE or --insecure".into());
    }
    Ok(store)
}

/// Whose certificates are accepted where the system's authorities do not decide. Signatures are always checked, so that
/// a handshake costs the same whoever is trusted.
#[derive(Debug)]
struct Verifier {
    accepted: Accepted,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Accepted {
    Anyone,
    /// What the certificates of a file vouch for, and servers whose own certificate is in it: one signed by itself is
    /// often marked as an authority's, which is none a server may show otherwise.
    Listed {
        certificates: Vec<CertificateDer<'static>>,
        authorities: Arc<WebPkiServerVerifier>,
    },
}

impl Accepted {
    fn read(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let at = |error: &dyn std::fmt::Display| format!("--ca {}: {error}", path.display());
        let certificates = certificates("--ca", path, CertificateDer::pem_file_iter(path))?;
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|e| at(&e))?;
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
        Ok(Accepted::Listed { certificates, authorities: authorities.map_err(|e| at(&e))? })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.accepted {
            Accepted::Anyone => Ok(ServerCertVerified::assertion()),
            Accepted::Listed { certificates, .. } if certificates.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Accepted::Listed { authorities, .. } => {
                authorities.verify_server_cert(certificate, others, name, stapled, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The TLS side of one connection.
#[derive(Debug)]
pub struct Records {
    connection: ClientConnection,
    /// Bytes taken in since the last one for HTTP.
    silent: usize,
    /// Something for HTTP came in: the server has let this client in.
    accepted: bool,
    cut: bool,
}

impl Records {
    /// A new one for `name`; `h1_only` leaves HTTP/2 out of what is offered.
    pub fn new(user: &User, name: &ServerName<'static>, h1_only: bool) -> io::Result<Self> {
        let config = Arc::clone(if h1_only { &user.plain } else { &user.all });
        let connection = ClientConnection::new(config, name.clone()).map_err(invalid)?;
        Ok(Records { connection, silent: 0, accepted: false, cut: false })
    }

    /// Goes on with the handshake as far as the socket lets it; true when it is done.
    pub fn handshake(&mut self, socket: &Socket) -> io::Result<bool> {
        loop {
            self.flush(socket)?;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match self.take_in(socket) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed inside the TLS handshake")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    let _ = self.flush(socket); // the alert that says why
                    return Err(error);
                }
            }
        }
    }

    /// The session was taken up where an earlier connection left it.
    pub fn resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub fn is_h2(&self) -> bool {
        self.connection.alpn_protocol() == Some(H2)
    }

    fn take_in(&mut self, socket: &Socket) -> io::Result<usize> {
        let count = self.connection.read_tls(&mut Bytes(socket))?;
        match self.connection.process_new_packets() {
            Ok(_) => Ok(count),
            // With TLS 1.3 the client has ended the handshake by then, and may have sent a request.
            Err(rustls::Error::AlertReceived(alert)) if !self.accepted => {
                let text = format!("refused by the server with the alert {alert:?}");
                Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
            }
            Err(error) => Err(invalid(error)),
        }
    }

    /// Like reading from the socket: 0 at the end, announced by the peer or not; interrupted where what came in had
    /// nothing for HTTP, and there may be more; refused where the server ended the handshake with an alert.
    pub fn read(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        for _ in 0..=READS {
            match self.connection.reader().read(buffer) {
                Ok(count) => {
                    self.silent = 0;
                    self.accepted = true;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.cut = true;
                    return Ok(0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let taken = self.take_in(socket);
            if self.connection.wants_write() {
                let _ = self.flush(socket); // what came in before a reset counts
            }
            self.silent += taken?;
            if self.silent > MOST_SILENT {
                let text = "TLS: 64 KiB without a byte of a response";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// The end came without the peer's good-bye: something may be missing (RFC 9112, 9.8).
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Encrypts and sends what it can of `bytes`; what was taken but not yet sent goes with [`Records::flush`].
    pub fn write(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        if self.connection.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.connection.writer().write(bytes)?;
        self.flush(socket)?;
        Ok(count)
    }

    /// Says good-bye before the socket is closed, where it can be said at once.
    pub fn close(&mut self, socket: &Socket) {
        if !self.connection.is_handshaking() {
            self.connection.send_close_notify();
            let _ = self.flush(socket);
        }
    }

    /// Sends what is encrypted, as far as the socket takes it.
    pub fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Bytes(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

struct Bytes<'a>(&'a Socket);

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
