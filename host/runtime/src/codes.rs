//! The codes of the errors that the runtime reports.

use windlass_model::Code;

/// The input does not fit the workflow's schema.
pub const INPUT_INVALID: Code = Code::new("WL-R070");
/// The id belongs to a run that was started with another request.
pub const ID_CONFLICT: Code = Code::new("WL-R071");
/// There is no such run.
pub const NOT_FOUND: Code = Code::new("WL-R072");
/// The host died too often while the node was executed.
pub const LOST: Code = Code::new("WL-R073");
/// The node suspended in a way that is not possible.
pub const SUSPENDED: Code = Code::new("WL-R074");
/// A template of the node could not be rendered.
pub const RENDER: Code = Code::new("WL-R075");
/// An expression exceeds its limit of steps, work or memory.
pub const EXPRESSION_BUDGET: Code = Code::new("WL-R140");
/// The rendered configuration does not fit the plugin's schema.
pub const CONFIG_INVALID: Code = Code::new("WL-R076");
/// A consumer rejected the trigger.
pub const REJECTED: Code = Code::new("WL-R077");
/// The node failed on purpose.
pub const FAIL_NODE: Code = Code::new("WL-R078");
/// The data of a `fail` node exceeds the limit of the details of a failure.
pub const DETAILS_TOO_LARGE: Code = Code::new("WL-R086");
/// The sub-workflow cannot be started, or did not complete.
pub const CHILD: Code = Code::new("WL-R084");
/// An external trigger cannot be carried out.
pub const EXTERNAL: Code = Code::new("WL-R103");
/// The process is shutting down and accepts no more work.
pub const DRAINING: Code = Code::new("WL-R079");
/// The process is paused and accepts no new work.
pub const PAUSED: Code = Code::new("WL-R085");
/// The trigger's consumer or a plugin of the run is missing.
pub const PARKED: Code = Code::new("WL-R080");
/// The workflow's output could not be rendered.
pub const OUTPUT: Code = Code::new("WL-R081");
/// The value exceeds the limit of a payload.
pub const PAYLOAD_TOO_LARGE: Code = Code::new("WL-R082");
/// A run cannot be archived before it is deleted.
pub const ARCHIVE: Code = Code::new("WL-R090");
/// A plugin that the workflow uses is missing.
pub const PLUGIN_MISSING: Code = Code::new("WL-D110");
/// The configuration of a node does not fit the plugin's schema.
pub const WITH_INVALID: Code = Code::new("WL-D111");
/// A plugin refuses the configuration of a node.
pub const WITH_REFUSED: Code = Code::new("WL-D112");
/// A definition runs a workflow that does not exist yet. A warning.
pub const NO_CHILD: Code = Code::new("WL-D091");
/// No plugin consumes the triggers of a route that a definition names. A warning.
pub const UNCONSUMED_ROUTE: Code = Code::new("WL-D094");
/// No grant covers an address that a definition requests. A warning.
pub const NOT_GRANTED: Code = Code::new("WL-D092");
/// Another trigger of the same path answers requests, too. A warning.
pub const ANSWERED_TWICE: Code = Code::new("WL-D173");
/// The input of a schedule does not fit the workflow's schema.
pub const SCHEDULE_INPUT: Code = Code::new("WL-D166");
/// A reference to a secret stands inside of a text, where it has no effect. A warning.
pub const SECRET_IN_TEXT: Code = Code::new("WL-D168");
/// Two source files define the same workflow.
pub const SAME_WORKFLOW: Code = Code::new("WL-D140");
/// There is no draft of this workflow.
pub const NO_DRAFT: Code = Code::new("WL-D141");
/// The draft has another revision than the expected one.
pub const DRAFT_MOVED: Code = Code::new("WL-D142");
/// The draft cannot be saved.
pub const BAD_DRAFT: Code = Code::new("WL-D143");
/// Another process carries out the same operation.
pub const IN_PROGRESS: Code = Code::new("WL-D144");
/// A source file of a definition cannot be read.
pub const SOURCE_UNREADABLE: Code = Code::new("WL-D146");
/// There is no such version of the workflow.
pub const NO_VERSION: Code = Code::new("WL-D145");
/// The stored state of a run cannot be decoded.
pub const STATE_UNREADABLE: Code = Code::new("WL-R083");
/// The workflow of a run has no such node.
pub const NO_SUCH_NODE: Code = Code::new("WL-R100");
/// A stimulus is out of bounds.
pub const BAD_STIMULUS: Code = Code::new("WL-R101");
/// No run of a published workflow can begin on the current plugins.
pub const CANNOT_RUN: Code = Code::new("WL-R111");
/// A run that excludes this one has not ended.
pub const RESERVED: Code = Code::new("WL-R110");
/// The workflows that a stimulus starts are published again and again.
pub const STIMULUS_BUSY: Code = Code::new("WL-R102");
/// The run has ended, and the operation is only for a run that has not.
pub const ENDED: Code = Code::new("WL-R130");
/// The run cannot be retried as requested.
pub const NO_RETRY: Code = Code::new("WL-R132");
/// The id belongs to a run that was deleted.
pub const DELETED: Code = Code::new("WL-R131");
/// The run cannot be exported in its present state.
pub const NO_EXPORT: Code = Code::new("WL-R133");
/// The document is no exported run, or was changed.
pub const BAD_EXPORT: Code = Code::new("WL-R134");
/// The run was exported in a format that this host does not know.
pub const EXPORT_VERSION: Code = Code::new("WL-R135");
/// The imported run needs a component that is missing.
pub const NO_COMPONENT: Code = Code::new("WL-R136");
/// The run cannot be imported under this id.
pub const NO_IMPORT: Code = Code::new("WL-R137");
/// The store refuses the write or the read of a step.
pub const REFUSED: Code = Code::new("WL-R151");
/// An answer does not fit the schema of the bookmark.
pub const ANSWER: Code = Code::new("WL-R160");
/// The keyring cannot be used, so the host cannot make links or sign exports.
pub const KEYRING: Code = Code::new("WL-R161");
/// No known key has signed the imported run.
pub const UNSIGNED: Code = Code::new("WL-R162");
/// The imported run has an id that is derived from something else.
pub const DERIVED_ID: Code = Code::new("WL-R163");
/// The imported run uses a component that the configuration denies.
pub const DENIED_COMPONENT: Code = Code::new("WL-R165");
/// The keyring lacks the key that the other hosts of the store sign with.
pub const OTHER_KEYRING: Code = Code::new("WL-R164");
/// A text is not a valid key: it is too long, or contains a zero character.
pub const BAD_KEY: Code = Code::new("WL-R152");
/// The tags of a run cannot be made of its input.
pub const TAGS: Code = Code::new("WL-R153");
/// No published workflow has such a schedule.
pub const NO_SCHEDULE: Code = Code::new("WL-R154");
/// Several published workflows have a schedule with this key.
pub const AMBIGUOUS_SCHEDULE: Code = Code::new("WL-R155");
/// The operation or the filter of a batch is wrong.
pub const BAD_BATCH: Code = Code::new("WL-R156");
/// There is no such batch.
pub const NO_BATCH: Code = Code::new("WL-R157");
/// Too many batches go on.
pub const TOO_MANY_BATCHES: Code = Code::new("WL-R158");
