//! Reads the answers of guests: outcomes of nodes, decisions of consumers, and their errors.

use windlass_model::limits::{DETAILS_BYTES, DURATION_MS, STACK_BYTES};
use windlass_model::{
    Again, Bookmark, Class, Code, Done, Failure, JsonText, Origin, Outcome, Position, Suspension,
};

use super::Disposition;
use crate::bindings::{consumer, node};
use crate::clean;
use crate::codes;
use crate::offer::reader::{Reader, nonsense};

/// Bookmarks of one suspension.
const MAX_BOOKMARKS: usize = 256;
/// Ports taken by one outcome.
const MAX_PORTS: usize = 256;
/// Bytes of the name of a source text.
const MAX_SOURCE: usize = 1024;

/// The port of an outcome that names none.
const DONE: &str = "done";

impl Reader<'_> {
    pub(crate) fn outcome(&self, outcome: node::Outcome) -> Result<Outcome, Failure> {
        Ok(match outcome {
            node::Outcome::Done(done) => {
                if done.ports.len() > MAX_PORTS {
                    return Err(nonsense("it took more ports than there can be"));
                }
                self.check_ports(&done.ports)?;
                Outcome::Done(Done {
                    output: self.payload(done.output)?,
                    ports: done.ports,
                })
            }
            node::Outcome::Suspend(suspension) => Outcome::Suspend(self.suspension(suspension)?),
            node::Outcome::Again(again) => Outcome::Again(Again {
                after_ms: bounded(again.after),
                state: self.optional(again.state)?,
            }),
        })
    }

    /// The graph was checked against the declared ports, so an undeclared port would lead nowhere
    /// and end the run as if it had succeeded.
    fn check_ports(&self, taken: &[String]) -> Result<(), Failure> {
        let Some(declared) = self.ports else {
            return Ok(());
        };
        let is_declared = |port: &str| declared.iter().any(|known| known == port);
        let taken = taken.iter().map(String::as_str);
        let Some(port) = taken.clone().find(|port| !is_declared(port)).or_else(|| {
            let none_taken = taken.len() == 0;
            (none_taken && !is_declared(DONE)).then_some(DONE)
        }) else {
            return Ok(());
        };
        let message = format!(
            "the node took the port `{}`, and declares {}",
            self.message(port),
            declared.join(", ")
        );
        Err(Failure::new(Class::Invalid, codes::PORT, message))
    }

    pub(crate) fn disposition(
        &self,
        disposition: consumer::Disposition,
    ) -> Result<Disposition, Failure> {
        Ok(match disposition {
            consumer::Disposition::Execute(patch) => Disposition::Execute {
                vars: self.optional(patch.vars)?,
            },
            consumer::Disposition::Handled => Disposition::Handled,
            consumer::Disposition::Later(after) => Disposition::Later {
                after_ms: bounded(after),
            },
            consumer::Disposition::Reject(failure) => {
                Disposition::Reject(self.failure(Class::Rejected, codes::OTHER, failure))
            }
        })
    }

    pub(crate) fn node_error(&self, error: node::NodeError) -> Failure {
        let (class, code, failure) = match error {
            node::NodeError::Invalid(failure) => (Class::Invalid, codes::INVALID, failure),
            node::NodeError::Retryable(hint) => {
                let failure = self.failure(Class::Retryable, codes::RETRYABLE, hint.failure);
                return Failure {
                    retry_after_ms: hint.after.map(bounded),
                    ..failure
                };
            }
            node::NodeError::Permanent(failure) => (Class::Permanent, codes::PERMANENT, failure),
            node::NodeError::Cancelled => {
                let message = "the node noticed that it was cancelled";
                return Failure::new(Class::Cancelled, codes::CANCELLED, message);
            }
            node::NodeError::Other(failure) => (Class::Permanent, codes::OTHER, failure),
        };
        self.failure(class, code, failure)
    }

    pub(crate) fn consumer_error(&self, error: consumer::ConsumerError) -> Failure {
        match error {
            consumer::ConsumerError::Retryable(failure) => {
                self.failure(Class::Retryable, codes::RETRYABLE, failure)
            }
            consumer::ConsumerError::Other(failure) => {
                self.failure(Class::Permanent, codes::OTHER, failure)
            }
        }
    }

    /// A failure never fails itself: malformed details and those over the limit are left out, and
    /// the message says so. Secrets are removed before a text is cut.
    fn failure(&self, class: Class, code: Code, failure: node::Failure) -> Failure {
        let mut message = self.message(&failure.message);
        let details = match failure.details.map(|details| self.details(details)) {
            None => None,
            Some(Ok(details)) => Some(details),
            Some(Err(why)) => {
                message.push_str(&format!(" (its details are left out: {why})"));
                None
            }
        };
        let cut = |text: String, max: usize| {
            let mut text = self.secrets.redact(&text);
            text.truncate(text.floor_char_boundary(max));
            text
        };
        let position = failure.position.map(|position| Position {
            source: position
                .source
                .map(|name| clean::escape(&cut(name, MAX_SOURCE))),
            line: position.line,
            column: position.column,
        });
        let stack = failure.stack.map(|stack| cut(stack, STACK_BYTES));
        let stack = stack.map(|stack| clean::escape_lines(&stack));
        let has_origin = stack.is_some() || position.is_some();
        Failure {
            details,
            origin: has_origin.then(|| Box::new(Origin { stack, position })),
            ..Failure::new(class, code, message)
        }
    }

    fn details(&self, details: node::Payload) -> Result<JsonText, String> {
        let Some(bytes) = details.body.into_bytes() else {
            return Err("they are a blob".to_owned());
        };
        if bytes.len() > DETAILS_BYTES {
            let bytes = bytes.len();
            return Err(format!(
                "they have {bytes} bytes, and the limit is {DETAILS_BYTES}"
            ));
        }
        let mut json = JsonText::checked(&bytes).map(Some);
        if let Ok(json) = &mut json {
            self.secrets.clean_json(json);
        }
        match json {
            Ok(Some(json)) => Ok(json),
            Ok(None) => Err("they contain a secret".to_owned()),
            Err(error) => Err(format!("they are no JSON: {error}")),
        }
    }

    fn suspension(&self, suspension: node::Suspension) -> Result<Suspension, Failure> {
        if suspension.bookmarks.is_empty() || suspension.bookmarks.len() > MAX_BOOKMARKS {
            return Err(nonsense("it suspended with no bookmark, or with too many"));
        }
        let bookmarks = suspension
            .bookmarks
            .into_iter()
            .map(|bookmark| self.bookmark(bookmark));
        Ok(Suspension {
            bookmarks: bookmarks.collect::<Result<_, _>>()?,
            state: self.optional(suspension.state)?,
        })
    }

    fn bookmark(&self, bookmark: node::Bookmark) -> Result<Bookmark, Failure> {
        Ok(Bookmark {
            name: bookmark.name,
            matches: match bookmark.matches {
                Some(matches) => inline_json(matches, |bytes| serde_json::from_slice(bytes))?,
                None => serde_json::Value::Null,
            },
            correlation: bookmark.correlation,
            private: bookmark.private.unwrap_or(false),
            auto_burn: bookmark.auto_burn.unwrap_or(true),
            metadata: match bookmark.metadata {
                Some(metadata) => Some(inline_json(metadata, JsonText::checked)?),
                None => None,
            },
            expires_ms: match bookmark.expires {
                Some(at) => Some(i64::try_from(at).map_err(|_| nonsense("it expires too late"))?),
                None => None,
            },
        })
    }
}

/// Reads JSON that a bookmark or a stimulus contains, which cannot be a blob.
fn inline_json<T>(
    payload: node::Payload,
    read: impl FnOnce(&[u8]) -> serde_json::Result<T>,
) -> Result<T, Failure> {
    let bytes = payload.body.into_bytes();
    let bytes = bytes.ok_or_else(|| nonsense("a bookmark cannot hold a blob"))?;
    read(&bytes).map_err(|error| nonsense(&format!("a bookmark holds no JSON: {error}")))
}

/// A duration in milliseconds, at most the longest one.
fn bounded(ms: u64) -> u64 {
    ms.min(DURATION_MS)
}
