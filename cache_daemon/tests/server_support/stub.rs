//! A TLS server that misbehaves on demand.
//!
//! It is a stand-in, not privacyIDEA: hangs, broken answers and foreign certificates are what the real one cannot be
//! asked to produce. How the real one answers is tested with the real one, in `server_real.rs`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server_support::Identity;

/// The server's side of a connection.
pub(crate) type Stream = StreamOwned<ServerConnection, TcpStream>;

/// What the server does after it has read a request: `true` to serve another one on the same connection.
pub(crate) type Behaviour = dyn Fn(&mut Stream) -> bool + Send + Sync;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Request line and header lines.
    pub(crate) head: Vec<String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

pub(crate) struct Stub {
    address: SocketAddr,
    shared: Arc<Record>,
    acceptor: Option<JoinHandle<()>>,
}

/// What came in so far.
#[derive(Default)]
pub(crate) struct Record {
    connections: AtomicUsize,
    requests: Mutex<Vec<Request>>,
    ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Stub {
    /// Serves on a free port of 127.0.0.1 until dropped.
    pub(crate) fn new(
        identity: &Identity,
        behaviour: impl Fn(&mut Stream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let config = server_config(identity);
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        Self::accepting(move |tcp, shared| {
            let connection = ServerConnection::new(config.clone()).expect("a TLS connection");
            serve(StreamOwned::new(connection, tcp), shared, behaviour.as_ref());
        })
    }

    /// Serves TCP connections with nothing on top.
    pub(crate) fn accepting(serve: impl Fn(TcpStream, &Record) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Record::default());
        let of_acceptor = Arc::clone(&shared);
        let serve = Arc::new(serve);
        let acceptor = std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                if of_acceptor.ended.load(Ordering::SeqCst) {
                    return;
                }
                of_acceptor.connections.fetch_add(1, Ordering::SeqCst);
                of_acceptor.open.lock().expect("lock").push(tcp.try_clone().expect("a descriptor"));
                let (shared, serve) = (Arc::clone(&of_acceptor), Arc::clone(&serve));
                std::thread::spawn(move || serve(tcp, &shared));
            }
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Requests read so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("lock").clone()
    }
}

fn server_config(identity: &Identity) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(&identity.certificate).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate and its key");
    Arc::new(config)
}

/// Reads requests and lets `behaviour` answer each, until it or the client has enough.
fn serve(mut stream: Stream, record: &Record, behaviour: &Behaviour) {
    while let Some(request) = read_request(&mut stream) {
        record.requests.lock().expect("lock").push(request);
        if !behaviour(&mut stream) {
            break;
        }
    }
    // The record keeps the socket open for `drop`: the end must be said.
    let _ = stream.sock.shutdown(std::net::Shutdown::Both);
}

fn read_request(stream: &mut Stream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let mut request = Request { head, body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().expect("a length"));
    reader.take(length).read_to_string(&mut request.body).ok()?;
    Some(request)
}

/// Sends bytes; whether the client takes them is not the stub's business.
pub(crate) fn send(stream: &mut Stream, bytes: &[u8]) {
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
}

/// A complete HTTP answer.
pub(crate) fn answer(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}")
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        for tcp in self.shared.open.lock().expect("lock").iter() {
            let _ = tcp.shutdown(std::net::Shutdown::Both);
        }
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}
