//! A price service for the examples: a few fixed prices and exchange rates, on loopback.
//!
//! It answers the first request for prices with 503, so that the client has to retry. One
//! connection is served at a time, each for one request and for at most five seconds.

mod answer;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use answer::{Answer, Service};

/// Bytes of a request's head that are read; a longer one is cut, and therefore refused.
const HEAD_BYTES: u64 = 16 * 1024;

/// How long the client may take to send or to receive.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match port().and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr cannot be written, the failure cannot be reported either.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// The port of the command line: `--port N`, where 0 means any free port.
fn port() -> io::Result<u16> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let port = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => Some(0),
        ["--port", port] => port.parse().ok(),
        _ => None,
    };
    port.ok_or_else(|| io::Error::other("usage: windlass-example-prices [--port N]"))
}

/// Serves until the process ends.
fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut out = io::stdout();
    writeln!(out, "http://{}", listener.local_addr()?)?;
    out.flush()?;
    let mut service = Service::default();
    for stream in listener.incoming() {
        // A client that disconnects in the middle does not stop the service.
        if let Err(error) = stream.and_then(|stream| one(&stream, &mut service)) {
            let _ = writeln!(io::stderr(), "a connection broke: {error}");
        }
    }
    Ok(())
}

/// Serves one connection.
fn one(stream: &TcpStream, service: &mut Service) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.take(HEAD_BYTES)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The headers are not needed, but closing the connection before they are read would reset it
    // and lose the answer.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let answer = service.answer(&request);
    send(stream, &answer)
}

fn send(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    let body = answer.body.to_string();
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.status,
        body.len(),
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
