//! The error codes of this crate. Each has a page in `docs/errors`.

use windlass_model::Code;

/// The caller holds the lock already.
pub const REENTRANT: Code = Code::new("WL-L001");
/// The backend does not answer.
pub const UNREACHABLE: Code = Code::new("WL-L002");
/// The backend answers, but refuses the request.
pub const REFUSED: Code = Code::new("WL-L003");
/// A provider cannot be made from its settings.
pub const SETTINGS: Code = Code::new("WL-L004");
