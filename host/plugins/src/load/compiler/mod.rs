//! Compiling in a process of its own.
//!
//! A compiler takes memory and time as the component makes it, many times the component's size, and
//! it may crash. So a host starts a process for each component (`parent.rs`), which is the same
//! program in another role (`child.rs`). The process limits its own memory and processor time
//! before it reads the component, and the host ends it when it takes too long by the clock. It has
//! no environment and no files but its input, its output, its errors, and the function cache
//! (`functions.rs`), which it reads.
//!
//! The request is a random key, the length of the offer of functions in four bytes, the offer, and
//! the component, until the end of the input. The answer is `MAGIC`, one of `CODE`, `REFUSED` and
//! `CRASHED`, the length of the body in eight bytes, the body, and its tag. The tag needs the key and
//! is also over the component, so an answer that is cut off, that is text of another program, or that
//! is for another component is none. Behind code stands the answer for the function cache:
//! four bytes with a bit for each file that was used, the length of a new file in eight bytes,
//! the file, and a tag.

mod child;
mod functions;
mod parent;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use windlass_model::Digest;
use windlass_model::mac::{KEY_BYTES, Message};

pub use child::compile_worker;
pub(crate) use functions::{FunctionFile, MAX_FILES, Offer};
pub(crate) use parent::{Fault, Output, Request, compile};

/// Where components are compiled.
#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// In this process, for a program that has no [`compile_worker`]. Only the sizes of the parts
    /// of a component are bounded.
    #[default]
    Here,
    /// In a process of its own for each component.
    Worker(Worker),
}

/// The process that compiles a component.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The program, as a whole path. With `arguments` it calls [`compile_worker`].
    pub program: PathBuf,
    /// The arguments before those of [`compile_worker`].
    pub arguments: Vec<OsString>,
    /// How much memory it may take, in bytes, beyond that of the program itself.
    pub memory_bytes: u64,
    /// How long it may take by the clock.
    pub timeout: Duration,
}

/// How long a caller waits for the compiler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience<'a> {
    /// Not at all.
    None,
    /// As long as the compiler may take.
    Whole,
    /// As long as the compiler may take, or until the value is true, or until the time is over.
    Until(&'a watch::Receiver<bool>, Option<Duration>),
}

impl Patience<'_> {
    /// Ends when the caller waits no longer.
    async fn over(self) {
        match self {
            Self::None => {}
            Self::Whole => std::future::pending().await,
            Self::Until(stopped, within) => {
                let mut stopped = stopped.clone();
                let stop = async move {
                    // Without the sender, nothing stops it.
                    if stopped.wait_for(|stopped| *stopped).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                match within {
                    Some(within) => drop(tokio::time::timeout(within, stop).await),
                    None => stop.await,
                }
            }
        }
    }
}

/// The word in front of the arguments of [`compile_worker`].
pub const WORD: &str = "compile-worker";

/// The beginning of an answer.
const MAGIC: &[u8; 16] = b"windlass code 2\n";

/// The body is compiled code.
const CODE: u8 = 0;
/// The body says why the component does not compile.
const REFUSED: u8 = 1;
/// The body says how the compiler crashed.
const CRASHED: u8 = 2;

/// The length of what stands before the body.
const HEAD_BYTES: usize = MAGIC.len() + 1 + 8;

/// The longest reason, in bytes.
const REASON_BYTES: usize = 16 * 1024;

/// The most compiled code of a component, in bytes. That of the largest known language runtimes is
/// a sixth of it.
pub(crate) const MAX_CODE_BYTES: u64 = 256 * 1024 * 1024;

/// The longest offer of functions, in bytes: a path, and the numbers and keys of files.
const MAX_OFFER_BYTES: u32 = 16 * 1024;

/// The tag of a new file of the function cache, before the file.
fn given_back(key: &[u8; KEY_BYTES], used: u32) -> Message {
    Message::begin(key, &[b"windlass functions 1", &used.to_le_bytes()])
}

/// The tag of an answer, before its body.
fn answer(key: &[u8; KEY_BYTES], component: &Digest, kind: u8) -> Message {
    Message::begin(key, &[MAGIC, &component.0, &[kind]])
}
