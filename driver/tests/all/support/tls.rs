//! Servers behind TLS, with a certificate of their own for `localhost` and `127.0.0.1`.

use super::server;
use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion, ServerConfig, ServerConnection, StreamOwned};
use rustls::{RootCertStore, SupportedCipherSuite};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub type TlsStream = StreamOwned<ServerConnection, TcpStream>;

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    file: PathBuf,
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let names = ["localhost".to_string(), "127.0.0.1".to_string()];
        // As `openssl req -x509` makes them: signed by itself and marked as an authority's.
        let mut wanted = rcgen::CertificateParams::new(names).expect("names");
        wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key_pair = rcgen::KeyPair::generate().expect("a key");
        let cert = wanted.self_signed(&key_pair).expect("a certificate");
        let made = rcgen::CertifiedKey { cert, key_pair };
        let file = std::env::temp_dir().join(format!("leadline-load-test-{}-ca.pem", std::process::id()));
        std::fs::write(&file, made.cert.pem()).expect("a file for the certificate");
        let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).expect("a key");
        Identity { certificate: made.cert.der().clone(), key, file }
    })
}

/// The option that makes the driver trust these servers.
pub fn trusted() -> String {
    format!("--ca {}", identity().file.display())
}

pub fn config(alpn: &[&str]) -> Arc<ServerConfig> {
    config_of(alpn, identity().certificate.clone(), identity().key.secret_der().to_vec())
}

pub fn config_of(alpn: &[&str], certificate: CertificateDer<'static>, key: Vec<u8>) -> Arc<ServerConfig> {
    config_for(alpn, certificate, key, WebPkiClientVerifier::no_client_auth())
}

/// Lets in only clients whose certificate `authority` signed.
pub fn mutual(alpn: &[&str], authority: CertificateDer<'static>) -> Arc<ServerConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    config_for(alpn, identity().certificate.clone(), identity().key.secret_der().to_vec(), clients)
}

fn config_for(
    alpn: &[&str],
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    clients: Arc<dyn ClientCertVerifier>,
) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate], PrivateKeyDer::try_from(key).expect("a key"))
        .expect("a usable certificate");
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Serves each connection on a thread of its own after the handshake; its address, by IP.
pub fn tls_server(handle: impl Fn(TlsStream) + Send + Sync + 'static) -> String {
    tls_server_of(config(&["http/1.1"]), handle)
}

pub fn tls_server_of(config: Arc<ServerConfig>, handle: impl Fn(TlsStream) + Send + Sync + 'static) -> String {
    server(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        handle(StreamOwned::new(connection, stream));
    })
    .replace("http://", "https://")
}

/// A configuration whose connections [`tickets`] can go on with.
pub fn extractable() -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(&config(&["http/1.1"]));
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// Makes one record of session tickets after the other, in place of what `connection` would send next.
pub fn tickets(connection: &mut ServerConnection) -> impl FnMut() -> Vec<u8> {
    let other = ServerConnection::new(extractable()).expect("a connection");
    let connection = std::mem::replace(connection, other);
    let Some(SupportedCipherSuite::Tls13(suite)) = connection.negotiated_cipher_suite() else { panic!("not TLS 1.3") };
    let (mut number, secrets) = connection.dangerous_extract_secrets().expect("secrets").tx;
    let mut encrypter = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => suite.aead_alg.encrypter(key, iv),
        _ => panic!("another cipher"),
    };
    // RFC 8446, 4.6.1: lifetime, age_add, nonce, ticket, extensions.
    let ticket = [&[4, 0, 0, 46, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 32][..], &[7; 32], &[0, 0]].concat();
    let payload = ticket.repeat(200);
    move || {
        let message = OutboundPlainMessage {
            typ: ContentType::Handshake,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(&payload),
        };
        let record = encrypter.encrypt(message, number).expect("a record");
        number += 1;
        record.encode()
    }
}
