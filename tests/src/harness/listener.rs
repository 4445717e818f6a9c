//! An HTTP server on loopback that keeps the requests that it receives, and answers as a test says.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path.
    pub path: String,
    /// The names of the headers in small letters, with their values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer: the bytes of a response; none: the server never answers.
pub type Answered = Option<Vec<u8>>;

/// The server.
pub struct Listener {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Listener {
    /// A server whose answers `answer` makes, from the number of the request from 0.
    ///
    /// # Panics
    ///
    /// If there is no loopback.
    pub fn start(answer: impl Fn(usize) -> Answered + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (kept, answer) = (Arc::clone(&received), Arc::new(answer));
        // The threads end with the process, and hold no resource that others wait for.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(request) = read(&mut stream) else {
                        return;
                    };
                    let number = {
                        let mut kept = kept.lock().expect("the listener does not panic");
                        kept.push(request);
                        kept.len() - 1
                    };
                    match answer(number) {
                        Some(bytes) => drop(stream.write_all(&bytes)),
                        // Until the client gives up.
                        None => drop(stream.read_to_end(&mut Vec::new())),
                    }
                });
            }
        });
        Self { address, received }
    }

    /// Its origin.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    ///
    /// # Panics
    ///
    /// If a thread of the server has panicked.
    pub fn received(&self) -> Vec<Received> {
        let received = self.received.lock();
        received.expect("the listener does not panic").clone()
    }
}

/// A response with a status, headers and a body.
pub fn response(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\nconnection: close\r\n").into_bytes();
    for header in headers {
        bytes.extend(format!("{header}\r\n").into_bytes());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    bytes.extend(body);
    bytes
}

/// Reads a request with a length; none: the client is gone.
fn read(stream: &mut TcpStream) -> Option<Received> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut part) {
            Ok(length @ 1..) => bytes.extend_from_slice(&part[..length]),
            _ => return None,
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(Some(0), |(_, value)| value.parse().ok())?;
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        match stream.read(&mut part) {
            Ok(read @ 1..) => body.extend_from_slice(&part[..read]),
            _ => return None,
        }
    }
    Some(Received {
        path,
        headers,
        body,
    })
}
