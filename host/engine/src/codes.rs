//! Codes of mistakes in a graph, and of failures that the engine itself reports.

use windlass_model::Code;

/// An edge leaves or reaches a node that does not exist.
pub const UNKNOWN_NODE: Code = Code::new("WL-D070");
/// Two edges have the same id.
pub const DUPLICATE_EDGE: Code = Code::new("WL-D071");
/// The workflow has no entry.
pub const NO_ENTRY: Code = Code::new("WL-D072");
/// A node can never run.
pub const UNREACHABLE: Code = Code::new("WL-D073");
/// `else` is used where it has no meaning.
pub const ELSE: Code = Code::new("WL-D074");
/// `join: count` needs no edge, or more edges than there are.
pub const COUNT: Code = Code::new("WL-D075");
/// A join that waits for several edges is on a cycle with several entries.
pub const JOIN_ON_CYCLE: Code = Code::new("WL-D076");
/// A retry policy allows no execution.
pub const ATTEMPTS: Code = Code::new("WL-D077");
/// Too many nodes or edges, or loops nested too deep.
pub const TOO_LARGE: Code = Code::new("WL-D078");
/// An edge leaves a node that ends its branch.
pub const EDGE_AFTER_END: Code = Code::new("WL-D079");
/// A node marked as start is also reached from another.
pub const START_REACHED: Code = Code::new("WL-D080");
/// A port is used that the node never takes.
pub const PORT: Code = Code::new("WL-D081");
/// Two nodes of a workflow have the same name.
pub const DOUBLED_NODE: Code = Code::new("WL-D082");
/// A repetition allows no execution, or never ends.
pub const REPEAT: Code = Code::new("WL-D083");
/// A node waits for a critical section that the for-each around it holds.
pub const MUTEX: Code = Code::new("WL-D084");
/// A compensating node cannot undo another node.
pub const COMPENSATE: Code = Code::new("WL-D085");
/// An output is read where its node has not run, or may not have run. A mistake, or a warning.
pub const NOT_RUN: Code = Code::new("WL-D086");
/// A member is read that the schema of the value rules out, or does not declare. A mistake, or a
/// warning.
pub const NO_MEMBER: Code = Code::new("WL-D087");
/// Nothing ends a cycle. A mistake, or a warning.
pub const ENDLESS: Code = Code::new("WL-D088");
/// No edge connects a node with the rest of the workflow. A warning.
pub const ISLAND: Code = Code::new("WL-D089");
/// A variable is read that nothing sets. A warning.
pub const NEVER_SET: Code = Code::new("WL-D090");
/// An operator fails with all values that its operands can have.
pub const ALWAYS_FAILS: Code = Code::new("WL-D093");
/// An edge from a node that decides does not name the answer.
pub const DECISION: Code = Code::new("WL-D096");
/// A text looks like an expression, and is none. A warning.
pub const LOOKS_LIKE_EXPRESSION: Code = Code::new("WL-D167");

/// A node waits while it is in a critical section. A warning.
pub const WAITS_IN_MUTEX: Code = Code::new("WL-D165");

/// A condition of an edge could not be evaluated.
pub const CONDITION: Code = Code::new("WL-R001");
/// A node took longer than its `total-timeout`.
pub const TOTAL_TIMEOUT: Code = Code::new("WL-R002");
/// The run took longer than its `timeout`.
pub const TIMED_OUT: Code = Code::new("WL-R003");
/// The run has nothing left to execute while a join is half decided.
pub const HALF_DECIDED: Code = Code::new("WL-R004");
/// The run has reached its limit of executions.
pub const TOO_MANY_STEPS: Code = Code::new("WL-R005");
/// Too many decisions of one edge wait at a join.
pub const TOO_MANY_DECISIONS: Code = Code::new("WL-R006");
/// A node was suspended for longer than its `wait-timeout`.
pub const WAIT_TIMEOUT: Code = Code::new("WL-R007");
