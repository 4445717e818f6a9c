//! Answers in JSON, in a buffer of their size.
//!
//! A buffer that grows takes up to three times the memory of a large answer.

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
        let mut bytes = Vec::with_capacity(size(&self.0));
        match serde_json::to_writer(&mut bytes, &self.0) {
            Ok(()) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => Problem::bug(&error).into_response(),
        }
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
