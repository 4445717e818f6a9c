//! Codes of mistakes in workflow files, and in values that have a schema.

use crate::Code;

/// The text is not YAML, or not JSON.
pub const SYNTAX: Code = Code::new("WL-D001");
/// A key stands twice in one map.
pub const DUPLICATE_KEY: Code = Code::new("WL-D002");
/// A key that the format does not have.
pub const UNKNOWN_KEY: Code = Code::new("WL-D003");
/// A value of another kind than the key takes.
pub const WRONG_TYPE: Code = Code::new("WL-D004");
/// A key that has to be there is not.
pub const MISSING_KEY: Code = Code::new("WL-D005");
/// A name that cannot be one.
pub const BAD_NAME: Code = Code::new("WL-D006");
/// A node that says nothing of what it does, or more than one thing.
pub const NODE_KIND: Code = Code::new("WL-D007");
/// An edge that cannot be read.
pub const BAD_EDGE: Code = Code::new("WL-D008");
/// YAML takes the text for something else, because it has no quotes.
pub const NEEDS_QUOTES: Code = Code::new("WL-D009");
/// Not a duration.
pub const BAD_DURATION: Code = Code::new("WL-D010");
/// Not the name of a node type.
pub const BAD_USE: Code = Code::new("WL-D011");
/// An alias without an anchor, or one that grows without bound.
pub const BAD_ALIAS: Code = Code::new("WL-D012");
/// The file is too large, or nests too deeply.
pub const TOO_LARGE: Code = Code::new("WL-D013");
/// No document in the file, or several.
pub const DOCUMENTS: Code = Code::new("WL-D014");
/// A value that readers of YAML understand differently.
pub const AMBIGUOUS: Code = Code::new("WL-D015");
/// A value that the key does not take.
pub const BAD_VALUE: Code = Code::new("WL-D016");
/// The input of the workflow is not a JSON Schema.
pub const BAD_SCHEMA: Code = Code::new("WL-D017");
/// Two nodes have the same name, in different bodies.
pub const DUPLICATE_NODE: Code = Code::new("WL-D018");
/// A trigger that says nothing of what starts the workflow, or more than one thing.
pub const TRIGGER_KIND: Code = Code::new("WL-D019");
/// A trigger by a web request, in a host without a web server.
pub const NO_WEB_SERVER: Code = Code::new("WL-D020");

/// A value is not as its schema wants it.
pub const SCHEMA_VALUE: Code = Code::new("WL-D100");
/// A property that the schema does not have.
pub const SCHEMA_UNKNOWN: Code = Code::new("WL-D101");
/// A property that the schema wants is missing.
pub const SCHEMA_MISSING: Code = Code::new("WL-D102");

/// Not a cron expression.
pub const BAD_CRON: Code = Code::new("WL-D120");
/// Not a time zone.
pub const UNKNOWN_ZONE: Code = Code::new("WL-D121");
/// A schedule that never happens.
pub const NEVER_DUE: Code = Code::new("WL-D122");
/// A schedule with a bound that it does not keep.
pub const BAD_SCHEDULE: Code = Code::new("WL-D123");

/// A JSON Schema would take too long to use.
pub const SCHEMA_BOUNDS: Code = Code::new("WL-D155");
/// A pattern in a JSON Schema cannot be looked for in linear time.
pub const SCHEMA_PATTERN: Code = Code::new("WL-D156");
/// A reference in a JSON Schema leads out of it, to nothing, or to itself.
pub const SCHEMA_REFERENCE: Code = Code::new("WL-D157");
/// A value would take too long to check against its schema.
pub const SCHEMA_STEPS: Code = Code::new("WL-D158");

/// A trigger by `http` that names no scheme to verify requests by, or several.
pub const VERIFY_SCHEME: Code = Code::new("WL-D170");
/// The node that is to answer a request is not at the outermost level of the workflow.
pub const NO_ANSWER_NODE: Code = Code::new("WL-D171");
/// A trigger by `http` names a secret that this host does not have for its workflow.
pub const NO_SECRET: Code = Code::new("WL-D172");
