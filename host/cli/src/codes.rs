//! The error codes of the command line. Each has a page in `docs/errors`.

use windlass_model::Code;

/// The configuration file cannot be read.
pub(crate) const CONFIG_UNREADABLE: Code = Code::new("WL-C001");
/// The configuration file is not TOML.
pub(crate) const CONFIG_SYNTAX: Code = Code::new("WL-C002");
/// A setting has a value that it cannot have.
pub(crate) const CONFIG_VALUE: Code = Code::new("WL-C003");
/// There is no such setting. This is a warning.
pub(crate) const CONFIG_UNKNOWN: Code = Code::new("WL-C004");
/// The log filter cannot be understood.
pub(crate) const LOG_FILTER: Code = Code::new("WL-C005");
/// A secret cannot be read.
pub(crate) const SECRET_UNREADABLE: Code = Code::new("WL-C006");
/// This build does not know the kind of the store's URL.
pub(crate) const STORE_URL: Code = Code::new("WL-C007");
/// The locks of a cluster reach no further than one machine.
pub(crate) const LOCAL_LOCKS: Code = Code::new("WL-C020");
/// The store of a cluster is a file.
pub(crate) const CLUSTER_ON_A_FILE: Code = Code::new("WL-C021");
/// The lock provider is a server, but no URL names it.
pub(crate) const LOCKS_URL: Code = Code::new("WL-C022");

/// A variable of the environment about tracing cannot be used. This is a warning.
pub(crate) const TRACING: Code = Code::new("WL-C023");

/// The command line cannot be understood.
pub(crate) const USAGE: Code = Code::new("WL-U001");
/// A file named on the command line cannot be read.
pub(crate) const FILE_UNREADABLE: Code = Code::new("WL-U002");
/// An `--input` is neither JSON, nor a file, nor `key=value`.
pub(crate) const INPUT: Code = Code::new("WL-U003");
/// There is no page for this code.
pub(crate) const NO_PAGE: Code = Code::new("WL-U004");
/// No run has an id that begins like this.
pub(crate) const NO_RUN: Code = Code::new("WL-U005");
/// Several runs have ids that begin like this.
pub(crate) const AMBIGUOUS: Code = Code::new("WL-U006");
/// An id is neither a UUID nor the beginning of one.
pub(crate) const NO_ID: Code = Code::new("WL-U007");
/// Standard output cannot be written.
pub(crate) const OUTPUT: Code = Code::new("WL-U008");

/// There is no such plugin, or no such node type in it.
pub(crate) const NO_PLUGIN: Code = Code::new("WL-U009");
/// The store does not exist.
pub(crate) const NO_STORE: Code = Code::new("WL-U010");
/// The file of the metrics cannot be written.
pub(crate) const METRICS: Code = Code::new("WL-U020");
/// The bundle for a bug report cannot be written.
pub(crate) const BUNDLE: Code = Code::new("WL-U031");
/// The files of a plugin's project cannot be written.
pub(crate) const NEW_PLUGIN: Code = Code::new("WL-U032");
/// A program of a language's toolchain is missing.
pub(crate) const TOOLCHAIN: Code = Code::new("WL-U033");
/// A plugin's project does not build.
pub(crate) const BUILD: Code = Code::new("WL-U034");
/// A file of examples cannot be understood.
pub(crate) const EXAMPLE: Code = Code::new("WL-U035");
/// Tests of a plugin failed.
pub(crate) const TESTS: Code = Code::new("WL-U036");
/// The files of a project cannot be written.
pub(crate) const INIT: Code = Code::new("WL-U030");
/// No workflow of this name is published.
pub(crate) const NO_WORKFLOW: Code = Code::new("WL-U011");
/// An action that cannot be undone has to be confirmed.
pub(crate) const CONFIRM: Code = Code::new("WL-U012");
/// There is no such trigger.
pub(crate) const NO_TRIGGER: Code = Code::new("WL-U013");
/// A run waits at several bookmarks, and the command does not say which one to resume.
pub(crate) const SEVERAL_BOOKMARKS: Code = Code::new("WL-U017");
/// There is no such bookmark, or no run waits at it any more.
pub(crate) const NO_BOOKMARK: Code = Code::new("WL-U014");
/// There is no such dead letter.
pub(crate) const NO_LETTER: Code = Code::new("WL-U015");
/// The request comes too late.
pub(crate) const TOO_LATE: Code = Code::new("WL-U016");

/// The project file belongs to another user, or another user can write it.
pub(crate) const FOREIGN_PROJECT: Code = Code::new("WL-C008");
/// Sensitive settings of a project do not count, because the project is not trusted.
pub(crate) const UNTRUSTED: Code = Code::new("WL-C009");
/// The record of trusted projects cannot be read or written.
pub(crate) const TRUST: Code = Code::new("WL-C010");

/// The keyring cannot be used.
pub(crate) const KEYRING: Code = Code::new("WL-C011");

/// The address of a host is not valid.
pub(crate) const SERVER_URL: Code = Code::new("WL-C040");
/// The host does not answer.
pub(crate) const SERVER_UNREACHABLE: Code = Code::new("WL-C041");
/// The host requires another token.
pub(crate) const SERVER_UNAUTHORISED: Code = Code::new("WL-C042");
/// The command cannot be sent to a host.
pub(crate) const NOT_BY_SERVER: Code = Code::new("WL-C043");
/// The host's answer cannot be used.
pub(crate) const SERVER_ANSWER: Code = Code::new("WL-C044");

/// A bug in windlass.
pub(crate) const BUG: Code = Code::new("WL-X001");
