//! A server on loopback that lets a test keep nodes in flight for any time.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::wait::until;

/// A server that answers no request before it is opened. Nodes of the fixture `fetch` that send a
/// request to it are in flight until then.
pub struct Gate {
    origin: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    open: Mutex<bool>,
    opened: Condvar,
    asked: AtomicUsize,
}

impl Gate {
    /// A closed gate.
    ///
    /// # Panics
    ///
    /// If there is no loopback.
    pub fn shut() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let state = Arc::new(State::default());
        let for_listener = Arc::clone(&state);
        // The thread ends with the process, and holds no resource that others wait for.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&for_listener);
                std::thread::spawn(move || state.serve(stream));
            }
        });
        Self {
            origin: format!("http://{address}"),
            state,
        }
    }

    /// Its origin, for grants.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The setting that lets the fixture `fetch` send requests to it.
    pub fn grant(&self) -> String {
        format!("[\"{}\"]", self.origin)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}/", self.origin)
    }

    /// How many requests have arrived.
    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// Waits until so many requests have arrived.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub fn until_asked(&self, times: usize) {
        until(&format!("{times} node(s) stand at the gate"), || {
            self.asked() >= times
        });
    }

    /// Answers every request from now on, the waiting ones first.
    ///
    /// # Panics
    ///
    /// If a thread of the gate has panicked.
    pub fn open(&self) {
        *self.state.open.lock().expect("the gate does not panic") = true;
        self.state.opened.notify_all();
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        let mut part = [0; 1024];
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut part) {
                Ok(length @ 1..) => request.extend_from_slice(&part[..length]),
                // The client is gone.
                _ => return,
            }
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().expect("the gate does not panic");
        let open = self.opened.wait_while(open, |open| !*open);
        drop(open.expect("the gate does not panic"));
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nopen");
    }
}
