//! The codes of this crate's errors. Each has a page in `docs/errors`.

use windlass_model::Code;

/// The store's file or directory cannot be opened or made.
pub const CANNOT_OPEN: Code = Code::new("WL-S001");
/// The file is no database, or one of another program.
pub const NOT_A_STORE: Code = Code::new("WL-S002");
/// A newer Windlass has written the file.
pub const NEWER: Code = Code::new("WL-S003");
/// The file is damaged, or a row in it means nothing.
pub const CORRUPT: Code = Code::new("WL-S004");
/// The file, its directory or the disk cannot be written.
pub const READ_ONLY: Code = Code::new("WL-S005");
/// There is no room left.
pub const FULL: Code = Code::new("WL-S006");
/// Another process has held the write lock for too long.
pub const BUSY: Code = Code::new("WL-S007");
/// The disk failed.
pub const IO: Code = Code::new("WL-S008");
/// The store has been closed.
pub const CLOSED: Code = Code::new("WL-S009");
/// A write contradicts what is stored.
pub const CONTRADICTION: Code = Code::new("WL-S010");
/// There are no incarnations left.
pub const NO_INCARNATIONS: Code = Code::new("WL-S011");
/// Changes of other processes cannot be watched.
pub const CANNOT_WATCH: Code = Code::new("WL-S012");
/// It is not known whether a write lasts.
pub const UNKNOWN_OUTCOME: Code = Code::new("WL-S013");
/// The lock file of a member cannot be made.
pub const MEMBER_LOCK: Code = Code::new("WL-S014");
/// The log beside the file has outgrown its bound.
pub const LOG_TOO_LONG: Code = Code::new("WL-S015");
/// A sub-workflow could not begin.
pub const CHILD_REFUSED: Code = Code::new("WL-S016");

/// The database file is missing or empty, and what lies beside it shows that there was one.
pub const LEFT_BEHIND: Code = Code::new("WL-S050");
/// The file, or its log, has been removed or replaced under the process.
pub const REPLACED: Code = Code::new("WL-S051");
/// The store lacks work that has been acknowledged.
pub const WENT_BACK: Code = Code::new("WL-S052");
/// The marker beside the store is damaged, or belongs to another store.
pub const FOREIGN_MARK: Code = Code::new("WL-S053");
/// A process works on the store that was to be replaced.
pub const IN_USE: Code = Code::new("WL-S054");
/// The backup that was to be restored contradicts itself.
pub const UNSOUND: Code = Code::new("WL-S055");
/// A value in the store is not what was written.
pub const ALTERED: Code = Code::new("WL-S056");

/// As many components of plugins are kept as may be.
pub const TOO_MANY_COMPONENTS: Code = Code::new("WL-S025");

/// The database server cannot be reached.
pub const UNREACHABLE: Code = Code::new("WL-S030");
/// The database does not let the user in.
pub const LOGIN: Code = Code::new("WL-S031");
/// There is no such database.
pub const NO_DATABASE: Code = Code::new("WL-S032");
/// The user may not do that in the database.
pub const NOT_ALLOWED: Code = Code::new("WL-S033");
/// The connection cannot be encrypted as asked for.
pub const TLS: Code = Code::new("WL-S034");
/// The tables in the database are of something else.
pub const NOT_LAID_OUT: Code = Code::new("WL-S035");
/// The store's URL cannot be read.
pub const BAD_URL: Code = Code::new("WL-S036");
/// The server has no connection left.
pub const CONNECTIONS: Code = Code::new("WL-S037");
/// Something in the store contradicts something else in it.
pub const INCONSISTENT: Code = Code::new("WL-S017");
/// An older Windlass has laid the store out.
pub const OLDER: Code = Code::new("WL-S018");
/// There is something where a backup was to be written.
pub const BACKUP_EXISTS: Code = Code::new("WL-S019");
/// The database's own tool makes backups of it.
pub const BACKUP_ELSEWHERE: Code = Code::new("WL-S020");
/// An instance is too large to be taken out as a whole.
pub const TOO_LARGE: Code = Code::new("WL-S021");
