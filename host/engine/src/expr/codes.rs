//! Codes of mistakes in expressions.

use windlass_model::Code;

/// An expression or template does not parse.
pub const SYNTAX: Code = Code::new("WL-D060");
/// An expression uses a name that does not exist.
pub const UNKNOWN_NAME: Code = Code::new("WL-D061");
/// An expression uses a filter, test or function that does not exist.
pub const UNKNOWN_FILTER: Code = Code::new("WL-D062");
/// A condition is written as a template.
pub const CONDITION_TEMPLATE: Code = Code::new("WL-D063");
/// The name of a property is written as a template.
pub const TEMPLATED_KEY: Code = Code::new("WL-D064");
/// An expression is too long.
pub const TOO_LONG: Code = Code::new("WL-D065");
/// A template assigns to a name that already has a meaning.
pub const SHADOWED_NAME: Code = Code::new("WL-D066");
