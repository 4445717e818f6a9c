//! Error codes of workflow files, and of values that have a schema.

use crate::Code;

/// The text is not YAML, or not JSON.
pub const SYNTAX: Code = Code::new("WL-D001");
/// A key occurs twice in one map.
pub const DUPLICATE_KEY: Code = Code::new("WL-D002");
/// A key that the format does not have.
pub const UNKNOWN_KEY: Code = Code::new("WL-D003");
/// A value has another type than its key needs.
pub const WRONG_TYPE: Code = Code::new("WL-D004");
/// A required key is missing.
pub const MISSING_KEY: Code = Code::new("WL-D005");
/// A name is not valid.
pub const BAD_NAME: Code = Code::new("WL-D006");
/// A node names no kind, or several.
pub const NODE_KIND: Code = Code::new("WL-D007");
/// An edge that cannot be read.
pub const BAD_EDGE: Code = Code::new("WL-D008");
/// Without quotes, YAML reads the text as a value of another type.
pub const NEEDS_QUOTES: Code = Code::new("WL-D009");
/// Not a duration.
pub const BAD_DURATION: Code = Code::new("WL-D010");
/// Not the name of a node type.
pub const BAD_USE: Code = Code::new("WL-D011");
/// An alias without an anchor, or one that grows without bound.
pub const BAD_ALIAS: Code = Code::new("WL-D012");
/// The file is too large, or nests too deeply.
pub const TOO_LARGE: Code = Code::new("WL-D013");
/// The file contains no document, or several.
pub const DOCUMENTS: Code = Code::new("WL-D014");
/// YAML parsers read the value differently.
pub const AMBIGUOUS: Code = Code::new("WL-D015");
/// A value is not one that its key accepts.
pub const BAD_VALUE: Code = Code::new("WL-D016");
/// The input of the workflow is not a JSON Schema.
pub const BAD_SCHEMA: Code = Code::new("WL-D017");
/// Two nodes have the same name, in different bodies.
pub const DUPLICATE_NODE: Code = Code::new("WL-D018");
/// A trigger names no kind, or several.
pub const TRIGGER_KIND: Code = Code::new("WL-D019");
/// A trigger by a web request is on a host without a web server.
pub const NO_WEB_SERVER: Code = Code::new("WL-D020");

/// A value does not match its schema.
pub const SCHEMA_VALUE: Code = Code::new("WL-D100");
/// A value has a property that the schema does not allow.
pub const SCHEMA_UNKNOWN: Code = Code::new("WL-D101");
/// A property that the schema requires is missing.
pub const SCHEMA_MISSING: Code = Code::new("WL-D102");

/// Not a cron expression.
pub const BAD_CRON: Code = Code::new("WL-D120");
/// Not a time zone.
pub const UNKNOWN_ZONE: Code = Code::new("WL-D121");
/// A schedule is never due.
pub const NEVER_DUE: Code = Code::new("WL-D122");
/// A schedule exceeds a bound.
pub const BAD_SCHEDULE: Code = Code::new("WL-D123");
/// A step of a cron expression goes beyond its field.
pub const STEP_BEYOND: Code = Code::new("WL-D124");

/// A JSON Schema would take too long to compile or to apply.
pub const SCHEMA_BOUNDS: Code = Code::new("WL-D155");
/// A pattern in a JSON Schema cannot be matched in linear time.
pub const SCHEMA_PATTERN: Code = Code::new("WL-D156");
/// A reference in a JSON Schema leads out of it, to no subschema, or to itself.
pub const SCHEMA_REFERENCE: Code = Code::new("WL-D157");
/// A value would take too long to check against its schema.
pub const SCHEMA_STEPS: Code = Code::new("WL-D158");
/// A default in a JSON Schema does not fit the schema itself, or does not end.
pub const SCHEMA_DEFAULT: Code = Code::new("WL-D159");
/// A JSON Schema has a keyword that is not supported.
pub const SCHEMA_KEYWORD: Code = Code::new("WL-D160");

/// A trigger by `http` names no scheme for verification, or several.
pub const VERIFY_SCHEME: Code = Code::new("WL-D170");
/// The node that answers a request is not at the outermost level of the workflow.
pub const NO_ANSWER_NODE: Code = Code::new("WL-D171");
/// A request can never be, or become, the input of the workflow.
pub const HOOK_INPUT: Code = Code::new("WL-D174");
/// The constant answer of a node to a request can never be sent.
pub const NEVER_AN_ANSWER: Code = Code::new("WL-D175");
/// A trigger by `http` names a secret that this host does not have for the workflow.
pub const NO_SECRET: Code = Code::new("WL-D172");
