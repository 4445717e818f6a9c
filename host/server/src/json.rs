//! Answers in JSON, in a buffer of their size.
//!
//! A buffer that grows takes up to three times the memory of a large answer, so a large one is
//! written twice: first to count its bytes.

use std::io;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::Problem;

/// An answer in JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut small = Small(Vec::with_capacity(SMALL_BYTES));
        let written = match serde_json::to_writer(&mut small, &self.0) {
            Ok(()) => Ok(small.0),
            Err(_) => whole(&self.0),
        };
        match written {
            Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => Problem::bug(&error).into_response(),
        }
    }
}

/// Answers up to this size, in bytes, are written once.
const SMALL_BYTES: usize = 512;

fn whole<T: Serialize>(item: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size(item));
    serde_json::to_writer(&mut bytes, item)?;
    Ok(bytes)
}

/// Takes a small answer, and fails at a larger one.
struct Small(Vec<u8>);

impl io::Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > SMALL_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The size of a value in an answer, in bytes.
pub(crate) fn size<T: Serialize>(item: &T) -> usize {
    let mut count = Count(0);
    // A failure of the serialisation is reported when the answer is written.
    let _ = serde_json::to_writer(&mut count, item);
    count.0
}

/// Counts the bytes that are written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn small_and_large_answers_are_whole() {
        for length in [
            0,
            1,
            SMALL_BYTES - 3,
            SMALL_BYTES - 2,
            SMALL_BYTES - 1,
            100_000,
        ] {
            let text = "x".repeat(length);
            let answer = Json(&text).into_response();
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).now_or_never();
            let body = body.unwrap().unwrap();
            assert_eq!(serde_json::from_slice::<String>(&body).unwrap(), text);
        }
    }
}
