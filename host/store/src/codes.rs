//! The codes of the errors of this crate. Each has a page in `docs/errors`.

use windlass_model::Code;

/// The store's file or directory cannot be opened or created.
pub const CANNOT_OPEN: Code = Code::new("WL-S001");
/// The file is not a database, or it belongs to another program.
pub const NOT_A_STORE: Code = Code::new("WL-S002");
/// A newer Windlass wrote the file.
pub const NEWER: Code = Code::new("WL-S003");
/// The file is damaged, or a row in it is invalid.
pub const CORRUPT: Code = Code::new("WL-S004");
/// The file, its directory or the disk cannot be written.
pub const READ_ONLY: Code = Code::new("WL-S005");
/// The disk is full.
pub const FULL: Code = Code::new("WL-S006");
/// Another process has held the write lock for too long.
pub const BUSY: Code = Code::new("WL-S007");
/// The disk failed.
pub const IO: Code = Code::new("WL-S008");
/// The store has been closed.
pub const CLOSED: Code = Code::new("WL-S009");
/// A write contradicts stored rows.
pub const CONTRADICTION: Code = Code::new("WL-S010");
/// There are no incarnations left.
pub const NO_INCARNATIONS: Code = Code::new("WL-S011");
/// The host cannot watch for changes of other processes.
pub const CANNOT_WATCH: Code = Code::new("WL-S012");
/// It is not known whether a write is durable.
pub const UNKNOWN_OUTCOME: Code = Code::new("WL-S013");
/// The lock file of a member cannot be created.
pub const MEMBER_LOCK: Code = Code::new("WL-S014");
/// The log beside the file has outgrown its bound.
pub const LOG_TOO_LONG: Code = Code::new("WL-S015");
/// A sub-workflow could not be started.
pub const CHILD_REFUSED: Code = Code::new("WL-S016");
/// The rows of a read have more bytes than its caller may hold.
pub const ALLOWANCE: Code = Code::new("WL-S028");
/// The root of a tree of runs has had as many descendants as it may.
pub const TOO_MANY_DESCENDANTS: Code = Code::new("WL-S026");
/// A sub-workflow could not be started, because a run above it is being cancelled.
pub const CHILD_ENDING: Code = Code::new("WL-S027");

/// The database file is missing or empty, but files beside it show that it existed.
pub const LEFT_BEHIND: Code = Code::new("WL-S050");
/// The file or its log was removed or replaced while the process used it.
pub const REPLACED: Code = Code::new("WL-S051");
/// The store lacks writes that were acknowledged.
pub const WENT_BACK: Code = Code::new("WL-S052");
/// The marker beside the store is damaged, or belongs to another store.
pub const FOREIGN_MARK: Code = Code::new("WL-S053");
/// A process uses the store that was to be replaced.
pub const IN_USE: Code = Code::new("WL-S054");
/// The backup that was to be restored is inconsistent.
pub const UNSOUND: Code = Code::new("WL-S055");
/// A value in the store differs from the value that was written.
pub const ALTERED: Code = Code::new("WL-S056");

/// A step of the layout is refused while older programs are members.
pub const MEMBERS_BEHIND: Code = Code::new("WL-S022");
/// The store has an older layout, and this process is not to migrate it.
pub const NOT_MIGRATED: Code = Code::new("WL-S023");
/// The store already keeps the maximum number of plugin components.
pub const TOO_MANY_COMPONENTS: Code = Code::new("WL-S025");

/// The database server cannot be reached.
pub const UNREACHABLE: Code = Code::new("WL-S030");
/// The database rejects the user's login.
pub const LOGIN: Code = Code::new("WL-S031");
/// The database does not exist.
pub const NO_DATABASE: Code = Code::new("WL-S032");
/// The user lacks a permission in the database.
pub const NOT_ALLOWED: Code = Code::new("WL-S033");
/// The connection cannot be encrypted as configured.
pub const TLS: Code = Code::new("WL-S034");
/// The tables in the database belong to another program.
pub const NOT_LAID_OUT: Code = Code::new("WL-S035");
/// The store's URL is invalid.
pub const BAD_URL: Code = Code::new("WL-S036");
/// The server has no connection left.
pub const CONNECTIONS: Code = Code::new("WL-S037");
/// Two rows in the store contradict each other.
pub const INCONSISTENT: Code = Code::new("WL-S017");
/// An older Windlass laid the store out.
pub const OLDER: Code = Code::new("WL-S018");
/// A file or directory already exists where a backup was to be written.
pub const BACKUP_EXISTS: Code = Code::new("WL-S019");
/// Backups of this database are made with the database's own tool.
pub const BACKUP_ELSEWHERE: Code = Code::new("WL-S020");
/// A run is too large to be exported as a whole.
pub const TOO_LARGE: Code = Code::new("WL-S021");
