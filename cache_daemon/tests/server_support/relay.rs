//! A TCP relay in front of a server: counts connections, and tells when the server has ended one.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

pub(crate) struct Relay {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    /// One message for each connection that the server ended, sent after the client's side was told.
    pub(crate) ended_by_server: mpsc::Receiver<()>,
}

impl Relay {
    /// Relays to `server`; its threads end with the test program.
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let (ended, ended_by_server) = mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(server) else { continue };
                let up =
                    (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
                std::thread::spawn(move || copy(up.0, up.1));
                let ended = ended.clone();
                std::thread::spawn(move || {
                    copy(server, client);
                    let _ = ended.send(());
                });
            }
        });
        Self { port, connections, ended_by_server }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
