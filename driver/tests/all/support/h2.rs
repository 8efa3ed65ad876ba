//! Servers that speak HTTP/2: a well-behaved one by another implementation, and one whose every frame a test writes.

use super::server;
use rustls::ServerConfig;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What a request was, and what it is answered.
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: http::HeaderMap,
    pub authority: Option<String>,
    pub body: Vec<u8>,
}

pub struct Answered {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Before it is sent.
    pub delay_ms: u64,
}

pub fn plain(body: impl Into<Vec<u8>>) -> Answered {
    Answered { status: 200, headers: Vec::new(), body: body.into(), delay_ms: 0 }
}

type Answer = dyn Fn(Asked) -> Answered + Send + Sync;

/// Serves HTTP/2 with the h2 crate, behind TLS where a configuration is given; says good-bye in good order after
/// `most` requests of a connection.
pub fn h2_server(
    tls: Option<Arc<ServerConfig>>,
    builder: h2::server::Builder,
    most: usize,
    answer: impl Fn(Asked) -> Answered + Send + Sync + 'static,
) -> String {
    let secure = tls.is_some();
    let answer: Arc<Answer> = Arc::new(answer);
    let url = server(move |stream| {
        stream.set_nonblocking(true).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (tls, builder, answer) = (tls.clone(), builder.clone(), Arc::clone(&answer));
        runtime.block_on(async move {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
            match tls {
                None => serve(stream, builder, most, answer).await,
                Some(config) => {
                    if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                        serve(stream, builder, most, answer).await;
                    }
                }
            }
        });
    });
    if secure {
        url.replace("http://", "https://")
    } else {
        url
    }
}

async fn serve<S>(stream: S, builder: h2::server::Builder, most: usize, answer: Arc<Answer>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let Ok(mut connection) = builder.handshake::<_, bytes::Bytes>(stream).await else { return };
    let mut served = 0;
    while let Some(Ok((request, respond))) = connection.accept().await {
        served += 1;
        if served == most {
            connection.graceful_shutdown();
        }
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let _ = one(request, respond, answer).await;
        });
    }
}

async fn one(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<bytes::Bytes>,
    answer: Arc<Answer>,
) -> Result<(), h2::Error> {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        body.extend_from_slice(&part);
        stream.flow_control().release_capacity(part.len())?;
    }
    let path = head.uri.path_and_query().map_or(String::new(), ToString::to_string);
    let authority = head.uri.authority().map(ToString::to_string);
    let asked = Asked { method: head.method.to_string(), path, headers: head.headers, authority, body };
    let answered = answer(asked);
    if answered.delay_ms > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(answered.delay_ms)).await;
    }
    let mut response = http::Response::builder().status(answered.status);
    for (name, value) in answered.headers {
        response = response.header(name, value);
    }
    let response = response.body(()).expect("a response");
    let mut stream = respond.send_response(response, answered.body.is_empty())?;
    if !answered.body.is_empty() {
        stream.send_data(answered.body.into(), true)?;
    }
    Ok(())
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// SETTINGS, empty.
pub fn greeting() -> Vec<u8> {
    frame(4, 0, 0, b"")
}

/// HEADERS with `:status: 200` and what else is given, in HPACK.
pub fn head(flags: u8, stream: u32, more: &[u8]) -> Vec<u8> {
    frame(1, flags, stream, &[&[0x88], more].concat())
}

/// The connection of a client, frame by frame.
pub struct Frames {
    reader: BufReader<TcpStream>,
    pub writer: TcpStream,
    greeted: bool,
}

impl Frames {
    pub fn new(stream: TcpStream) -> Self {
        let writer = stream.try_clone().expect("a second handle");
        Frames { reader: BufReader::new(stream), writer, greeted: false }
    }

    /// Waits for the next HEADERS; its stream. None at the end of the connection.
    pub fn request(&mut self) -> Option<u32> {
        if !self.greeted {
            let mut preface = [0; 24];
            self.reader.read_exact(&mut preface).ok()?;
            assert!(preface.starts_with(b"PRI * HTTP/2.0"));
            self.greeted = true;
        }
        loop {
            let mut head = [0; 9];
            self.reader.read_exact(&mut head).ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.reader.read_exact(&mut payload).ok()?;
            if head[3] == 1 {
                return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
            }
        }
    }

    /// False when the client is gone.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.writer.write_all(bytes).is_ok()
    }

    /// Closes in good order: what the client still sends is read, so that nothing is reset.
    pub fn end(&mut self) {
        let _ = self.writer.shutdown(std::net::Shutdown::Write);
        self.wait();
    }

    /// Until the client goes.
    pub fn wait(&mut self) {
        while self.request().is_some() {}
    }
}
