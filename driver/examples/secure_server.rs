//! A server behind TLS, for bench/driver: one thread, HTTP/2 and HTTP/1.1 by ALPN, answers everything at once with
//! `--body` bytes. Its certificate is made at its start and signed by nobody. Loopback only.
//!
//! secure_server --port 16000 --body 100

use bytes::Bytes;
use rustls::pki_types::PrivateKeyDer;
use rustls::ServerConfig;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_rustls::TlsAcceptor;

/// Longest request taken, bytes.
const MOST: usize = 64 << 10;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, otherwise: usize| -> usize {
        let at = arguments.iter().position(|a| a == name);
        let text = at.and_then(|at| arguments.get(at + 1));
        text.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} {text}: not a whole number")))
    };
    let body = Bytes::from(vec![b'x'; option("--body", 100)]);
    let acceptor = TlsAcceptor::from(Arc::new(configuration()));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", option("--port", 16000) as u16)).await?;
        println!("listening on {}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(serve(acceptor.clone(), stream, body.clone()));
        }
    })
}

fn configuration() -> ServerConfig {
    let names = ["localhost".to_string(), "127.0.0.1".to_string()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a usable certificate");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// A connection to its end, whichever side ends it.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream, body: Bytes) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let _ = serve_streams(stream, body).await;
    } else {
        let _ = serve_requests(stream, &body).await;
    }
}

async fn serve_streams(stream: TlsStream<TcpStream>, body: Bytes) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted?;
        tokio::spawn(answer_stream(request.into_body(), respond, body.clone()));
    }
    Ok(())
}

/// Reads a request's body to its end and answers.
async fn answer_stream(
    mut asked: h2::RecvStream,
    mut respond: h2::server::SendResponse<Bytes>,
    body: Bytes,
) -> Result<(), h2::Error> {
    while let Some(part) = asked.data().await {
        let length = part?.len();
        asked.flow_control().release_capacity(length)?;
    }
    let head = http::Response::builder().header("content-type", "text/plain").header("content-length", body.len());
    let mut stream = respond.send_response(head.body(()).expect("a response"), body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(body, true)?;
    }
    Ok(())
}

async fn serve_requests(mut stream: TlsStream<TcpStream>, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = [head.as_bytes(), body].concat();
    let mut received = Vec::new();
    while stream.read_buf(&mut received).await? > 0 && received.len() <= MOST {
        while let Some(length) = request_length(&received) {
            received.drain(..length);
            stream.write_all(&answer).await?;
            stream.flush().await?;
        }
    }
    Ok(())
}

/// Bytes of the first request, where it is complete.
fn request_length(received: &[u8]) -> Option<usize> {
    let end = received.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    Some(end + length.unwrap_or(0)).filter(|all| *all <= received.len())
}
