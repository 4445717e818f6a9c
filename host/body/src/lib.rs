//! Reads the bodies of HTTP messages, of requests to the host and of responses to it.
//!
//! [`inflate`] removes the content codings of a body, [`decode_text`] reads its text in the
//! character set that its media type declares, [`header_text`] reads the value of a header, and
//! [`parameters`] the parameters in it.
//!
//! Everything here is hostile: a small body can inflate to gigabytes. So each function has a limit
//! of the size of its result, and charges memory to a [`Memory`] before it allocates.

mod inflate;
mod media;
mod memory;
mod text;

pub use inflate::{CODINGS, Inflate, inflate, is_coded};
pub use media::{MediaType, parameters};
pub use memory::{Memory, Uncounted};
pub use text::{NotText, decode_text, header_text, strip_bom};
