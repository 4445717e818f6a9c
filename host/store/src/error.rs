use windlass_model::Code;

/// What a backend could not do. A refused fence is not among these: it is an answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The page that explains it: `WL-S…`.
    pub code: Code,
    /// What happened and where, in one sentence.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Whether it may work later without anybody doing anything (busy, disk full).
    pub transient: bool,
}

/// The result of a store's verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;
