//! The errors that only the command line knows. Each has a page in `docs/errors`.

use windlass_model::Code;

/// The configuration file cannot be read.
pub(crate) const CONFIG_UNREADABLE: Code = Code::new("WL-C001");
/// The configuration file is not TOML.
pub(crate) const CONFIG_SYNTAX: Code = Code::new("WL-C002");
/// A setting has a value that it cannot have.
pub(crate) const CONFIG_VALUE: Code = Code::new("WL-C003");
/// There is no such setting. A warning.
pub(crate) const CONFIG_UNKNOWN: Code = Code::new("WL-C004");
/// The log filter cannot be understood.
pub(crate) const LOG_FILTER: Code = Code::new("WL-C005");
/// A secret cannot be read.
pub(crate) const SECRET_UNREADABLE: Code = Code::new("WL-C006");
/// The store's URL is of a kind that this build does not know.
pub(crate) const STORE_URL: Code = Code::new("WL-C007");
/// A cluster whose locks reach no further than one machine.
pub(crate) const LOCAL_LOCKS: Code = Code::new("WL-C020");
/// A cluster on a store that is a file.
pub(crate) const CLUSTER_ON_A_FILE: Code = Code::new("WL-C021");
/// The provider of the locks is a server that is not named.
pub(crate) const LOCKS_URL: Code = Code::new("WL-C022");

/// The command line cannot be understood.
pub(crate) const USAGE: Code = Code::new("WL-U001");
/// A file named on the command line cannot be read.
pub(crate) const FILE_UNREADABLE: Code = Code::new("WL-U002");
/// An `--input` is neither JSON, nor a file, nor `key=value`.
pub(crate) const INPUT: Code = Code::new("WL-U003");
/// There is no page for this code.
pub(crate) const NO_PAGE: Code = Code::new("WL-U004");
/// No instance has an id that begins like this.
pub(crate) const NO_INSTANCE: Code = Code::new("WL-U005");
/// Several instances have ids that begin like this.
pub(crate) const AMBIGUOUS: Code = Code::new("WL-U006");
/// An id is no UUID, nor the beginning of one.
pub(crate) const NO_ID: Code = Code::new("WL-U007");
/// The terminal, or what the output is piped to, cannot be written.
pub(crate) const OUTPUT: Code = Code::new("WL-U008");

/// There is no such plugin, or no such node type in it.
pub(crate) const NO_PLUGIN: Code = Code::new("WL-U009");
/// The store that is to be looked at is not there.
pub(crate) const NO_STORE: Code = Code::new("WL-U010");
/// The file of the metrics cannot be written.
pub(crate) const METRICS: Code = Code::new("WL-U020");
/// No workflow of this name is published.
pub(crate) const NO_WORKFLOW: Code = Code::new("WL-U011");
/// What cannot be undone has to be confirmed.
pub(crate) const CONFIRM: Code = Code::new("WL-U012");
/// There is no such trigger.
pub(crate) const NO_TRIGGER: Code = Code::new("WL-U013");
/// A run waits at several bookmarks, and it was not said at which it is meant.
pub(crate) const SEVERAL_BOOKMARKS: Code = Code::new("WL-U017");
/// There is no such bookmark, or no run waits at this bookmark any more.
pub(crate) const NO_BOOKMARK: Code = Code::new("WL-U014");
/// There is no such dead letter.
pub(crate) const NO_LETTER: Code = Code::new("WL-U015");
/// It is too late for what was asked.
pub(crate) const TOO_LATE: Code = Code::new("WL-U016");

/// A project file was found that another user can decide about.
pub(crate) const FOREIGN_PROJECT: Code = Code::new("WL-C008");
/// Settings of a project do not count, because the project is not trusted.
pub(crate) const UNTRUSTED: Code = Code::new("WL-C009");
/// What is trusted cannot be read or written down.
pub(crate) const TRUST: Code = Code::new("WL-C010");

/// The keyring cannot be used.
pub(crate) const KEYRING: Code = Code::new("WL-C011");

/// The address of a host means nothing.
pub(crate) const SERVER_URL: Code = Code::new("WL-C040");
/// The host does not answer.
pub(crate) const SERVER_UNREACHABLE: Code = Code::new("WL-C041");
/// The host wants another token.
pub(crate) const SERVER_UNAUTHORISED: Code = Code::new("WL-C042");
/// A host cannot be asked for this.
pub(crate) const NOT_BY_SERVER: Code = Code::new("WL-C043");
/// What the host answers cannot be used.
pub(crate) const SERVER_ANSWER: Code = Code::new("WL-C044");

/// A bug in windlass.
pub(crate) const BUG: Code = Code::new("WL-X001");
