//! A serving host, reached over HTTP by hand, so that a test can also send requests that no client
//! would.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::place::Place;
use super::process::Process;
use super::wait::{PATIENCE, until_some};

/// A host that serves over HTTP.
pub struct Web {
    /// The process.
    pub process: Process,
    /// Its address.
    pub address: SocketAddr,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status, like 200.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

/// A persistent connection.
pub struct Line {
    stream: BufReader<TcpStream>,
}

impl Web {
    /// Starts `serve`, and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn serve(place: &Place) -> Self {
        let process = place.serve();
        let address = until_some("it says where it listens", || {
            let text = process.stderr();
            let line = text.lines().find(|line| line.contains("listening"))?;
            let (_, address) = line.split_once("address=")?;
            address.split_whitespace().next()?.parse().ok()
        });
        Self { process, address }
    }

    /// A new connection.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn line(&self) -> Line {
        Line::to(self.address)
    }

    /// A request on a separate connection.
    ///
    /// # Panics
    ///
    /// If it is not answered.
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.line().ask(method, path, headers, body)
    }

    /// Gets a resource, which has to exist and be JSON.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &[], "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Sends JSON.
    ///
    /// # Panics
    ///
    /// If it is not answered.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let json = "content-type: application/json";
        self.ask("POST", path, &[json], &body.to_string())
    }

    /// Publishes a workflow.
    ///
    /// # Panics
    ///
    /// If it cannot be.
    pub fn publish(&self, workflow: &Value) {
        let name = workflow["workflow"].as_str().unwrap_or_default();
        let json = "content-type: application/json";
        let path = format!("/api/v1/definitions/{name}");
        let answer = self.ask("PUT", &path, &[json], &workflow.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Starts a run, and returns its id.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(&self, workflow: &str, input: &Value) -> String {
        let request = serde_json::json!({ "workflow": workflow, "input": input });
        let answer = self.post("/api/v1/runs", &request);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for the end of a run, and returns its outcome.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn result(&self, id: &str) -> Value {
        until_some("the run ends", || {
            let result = self.get_any(&format!("/api/v1/runs/{id}/result?wait=5s"));
            (result.status == 200).then(|| result.json())
        })
    }

    /// Gets a resource, with any status.
    pub fn get_any(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }
}

impl Line {
    /// A new connection.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn to(address: SocketAddr) -> Self {
        Self::try_to(address).expect("the host takes connections")
    }

    /// A new connection; none if the host takes none, as one that has just died.
    ///
    /// # Panics
    ///
    /// If its times cannot be set.
    pub fn try_to(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream
            .set_read_timeout(Some(PATIENCE.min(Duration::from_secs(100))))
            .expect("a time can be set");
        stream.set_nodelay(true).expect("it can be set");
        Some(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends raw bytes. Returns whether that succeeded.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Everything until the host closes the connection.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        // A connection that is cut off has ended, too.
        let _ = self.stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What has arrived, at most this many bytes.
    pub fn read_some(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let read = self.stream.read(&mut bytes).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    /// The next line; none if there is no more.
    pub fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// A request on this connection.
    ///
    /// # Panics
    ///
    /// If it is not answered.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.try_ask(method, path, headers, body)
            .unwrap_or_else(|| panic!("{method} {path} is not answered"))
    }

    /// A request on this connection; none if the connection ends before the answer.
    pub fn try_ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Option<Answer> {
        self.send(request(method, path, headers, body).as_bytes());
        self.answer_with(method != "HEAD")
    }

    /// The answer to the last request; none if the connection ends before it.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_with(true)
    }

    fn answer_with(&mut self, body: bool) -> Option<Answer> {
        let first = self.read_line()?;
        let status = first.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.filter(|_| body);
        let length = length.and_then(|(_, value)| value.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut body).ok()?;
        let body = String::from_utf8_lossy(&body).into_owned();
        Some(Answer {
            status,
            headers,
            body,
        })
    }
}

/// The text of a request.
pub fn request(method: &str, path: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The status and the code of a problem.
    ///
    /// # Panics
    ///
    /// If the answer is not a problem.
    pub fn problem(&self) -> (u16, String) {
        let media = self.header("content-type");
        assert_eq!(media, Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        (
            self.status,
            problem["code"].as_str().unwrap_or_default().to_owned(),
        )
    }
}
