//! Bounds that cannot be configured because stored data or formats depend on them. Bounds that an
//! operator may tune are in the configuration.

/// Payloads over this many bytes are stored as blobs.
pub const INLINE_PAYLOAD_BYTES: usize = 64 * 1024;

/// Bytes of the message of a failure; the rest is left out. It is part of the execution record and
/// of the run.
pub const MESSAGE_BYTES: usize = 4 * 1024;

/// Bytes of the reason for which a trigger is parked or dead-lettered; the rest is left out.
pub const REASON_BYTES: usize = 1024;

/// Bytes of JSON in the details of a failure: they are part of the execution record, of the run
/// and of the output of the port `error`.
pub const DETAILS_BYTES: usize = 16 * 1024;

/// Bytes of the stack of a failure.
pub const STACK_BYTES: usize = 8 * 1024;

/// Rules in the `on-error` of one node.
pub const ERROR_RULES: usize = 16;

/// Nodes in one workflow.
pub const NODES: usize = 10_000;

/// Edges in one workflow.
pub const EDGES: usize = 50_000;

/// Variables that one workflow names, in `vars` and in `set`, and that one trigger assigns.
pub const VARIABLES: usize = 10_000;

/// Bytes of one workflow file.
pub const WORKFLOW_BYTES: usize = 4 * 1024 * 1024;

/// How long the name of a workflow may be, in bytes.
pub const WORKFLOW_NAME_BYTES: usize = 128;

/// How deep a workflow file may nest.
pub const NESTING: usize = 32;

/// Decisions of one edge that may wait for the other edges of its join.
pub const WAITING_DECISIONS: usize = 1024;

/// The longest duration, in milliseconds: a hundred years of at most 366 days.
pub const DURATION_MS: u64 = 100 * 366 * 24 * 60 * 60 * 1000;

/// The shortest interval of a schedule, in milliseconds.
pub const INTERVAL_MS: u64 = 1_000;

/// Occurrences that a schedule may catch up with.
pub const CATCH_UP: u32 = 1_000;

/// Items that a for-each may process at the same time.
pub const CONCURRENCY: u32 = 1_000;

/// Items of all for-each nodes of a run that are processed at the same time. Beyond it, each for-each
/// goes on with one.
pub const SCOPES: usize = 10_000;

/// The highest priority of a trigger, and negated the lowest: a claim looks at each priority
/// separately.
pub const PRIORITY: i32 = 100;

/// The priority of the cancellations that follow from another one: before all but requests. They may be
/// thousands.
pub const FOLLOWING_PRIORITY: i32 = PRIORITY + 1;

/// The priority of control triggers that were requested: before everything else.
pub const CONTROL_PRIORITY: i32 = PRIORITY + 2;

/// Bookmarks of one suspension.
pub const BOOKMARKS: usize = 64;

/// How long the name of a bookmark or stimulus may be, in bytes.
pub const STIMULUS_NAME_BYTES: usize = 256;

/// How long a correlation id may be, in bytes. The key by which a run reserves it also contains a
/// workflow's name and a word, and an entry of PostgreSQL's indexes has at most 2,704 bytes.
pub const CORRELATION_BYTES: usize = 1024;

/// Tags of one run.
pub const TAGS: usize = 16;

/// How long the name of a tag may be, in bytes.
pub const TAG_NAME_BYTES: usize = 64;

/// How long the value of a tag may be, in bytes.
pub const TAG_BYTES: usize = 256;

/// How long the name of a variable may be, in bytes.
pub const VARIABLE_NAME_BYTES: usize = 256;

/// How long the `match` of a bookmark or stimulus may be, in bytes of canonical JSON.
pub const MATCH_BYTES: usize = 16 * 1024;

/// How long a setting of the system as a whole may be, in bytes.
pub const SETTING_BYTES: usize = 16 * 1024;

/// How large a component may be that is stored for other processes, in bytes.
pub const COMPONENT_BYTES: usize = 64 * 1024 * 1024;

/// Components that are stored for other processes.
pub const COMPONENTS: u64 = 512;

/// How large all these components together may be, in bytes.
pub const COMPONENTS_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Triggers that start one workflow.
pub const TRIGGERS: usize = 1_000;

/// The size of a JSON Schema: the bytes of its names, texts and numbers, and one for each value.
pub const SCHEMA_BYTES: u64 = 1024 * 1024;

/// How deep a JSON Schema may nest.
pub const SCHEMA_NESTING: usize = 64;

/// Digits of a number in a JSON Schema, with its exponent written out.
pub const SCHEMA_DIGITS: u64 = 400;

/// Subschemas in one JSON Schema that can be reached. The validator compiles long chains of them in a
/// time and memory that grow with the square.
pub const SCHEMA_PARTS: usize = 2_000;

/// How long the pointers to all subschemas of a JSON Schema may be together, in bytes.
pub const SCHEMA_PATHS_BYTES: usize = 32 * 1024 * 1024;

/// Subschemas of a JSON Schema that may apply to one value, with repetitions.
pub const SCHEMA_EXPANSIONS: u64 = 4_096;

/// How deep subschemas may apply each other to one value.
pub const SCHEMA_CHAIN: usize = 64;

/// Steps that checking one value against a JSON Schema may take.
pub const SCHEMA_STEPS: u64 = 10_000_000;

/// How deep subschemas may apply each other to a value and to its members and items.
pub const SCHEMA_DEPTH: usize = 512;

/// How much text the defaults of a JSON Schema may add to one value, in bytes. Each default counts
/// 32 bytes more.
pub const SCHEMA_DEFAULTS_BYTES: u64 = 4 * 1024 * 1024;

/// How large the compiled patterns of one JSON Schema may be together, in bytes.
pub const PATTERNS_BYTES: usize = 4 * 1024 * 1024;

/// How large the compiled patterns in all schemas of one plugin may be, in bytes.
pub const PLUGIN_PATTERNS_BYTES: usize = 16 * 1024 * 1024;

/// How long a pattern may be, in bytes.
pub const PATTERN_BYTES: usize = 1024;

/// How large a compiled pattern may be, in bytes.
pub const PATTERN_PROGRAM_BYTES: usize = 256 * 1024;

/// How much additional memory a search for a pattern may take, in bytes.
pub const PATTERN_CACHE_BYTES: usize = 256 * 1024;
