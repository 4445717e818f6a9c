//! The codes of what the runtime reports.

use windlass_model::Code;

/// The input does not fit the workflow's schema.
pub const INPUT_INVALID: Code = Code::new("WL-R070");
/// The id belongs to a run that was started with something else.
pub const ID_CONFLICT: Code = Code::new("WL-R071");
/// There is no such run.
pub const NOT_FOUND: Code = Code::new("WL-R072");
/// The host died too often while this ran.
pub const LOST: Code = Code::new("WL-R073");
/// The node suspended in a way that cannot be.
pub const SUSPENDED: Code = Code::new("WL-R074");
/// A template of the node could not be rendered.
pub const RENDER: Code = Code::new("WL-R075");
/// An expression takes more steps, work or memory than it may.
pub const EXPRESSION_BUDGET: Code = Code::new("WL-R140");
/// The rendered configuration does not fit the plugin's schema.
pub const CONFIG_INVALID: Code = Code::new("WL-R076");
/// A consumer rejected the trigger.
pub const REJECTED: Code = Code::new("WL-R077");
/// The node failed on purpose.
pub const FAIL_NODE: Code = Code::new("WL-R078");
/// The sub-workflow cannot be started, or did not complete.
pub const CHILD: Code = Code::new("WL-R084");
/// A trigger from outside cannot be carried out.
pub const OUTSIDE: Code = Code::new("WL-R103");
/// The process is shutting down and takes no more work.
pub const DRAINING: Code = Code::new("WL-R079");
/// The process is paused and takes no new work.
pub const PAUSED: Code = Code::new("WL-R085");
/// The trigger's consumer or a plugin of the run is missing.
pub const PARKED: Code = Code::new("WL-R080");
/// The workflow's output could not be rendered.
pub const OUTPUT: Code = Code::new("WL-R081");
/// The value is larger than a payload may be.
pub const PAYLOAD_TOO_LARGE: Code = Code::new("WL-R082");
/// What is to be forgotten cannot be written down before.
pub const ARCHIVE: Code = Code::new("WL-R090");
/// A plugin that the workflow uses is not there.
pub const PLUGIN_MISSING: Code = Code::new("WL-D110");
/// The configuration of a node does not fit the plugin's schema.
pub const WITH_INVALID: Code = Code::new("WL-D111");
/// The input of a schedule does not fit the workflow's schema.
pub const SCHEDULE_INPUT: Code = Code::new("WL-D166");
/// Two files that definitions are read from have the same workflow.
pub const SAME_WORKFLOW: Code = Code::new("WL-D140");
/// There is no draft of this workflow.
pub const NO_DRAFT: Code = Code::new("WL-D141");
/// The draft is another one than was expected.
pub const DRAFT_MOVED: Code = Code::new("WL-D142");
/// A draft cannot be saved like this.
pub const BAD_DRAFT: Code = Code::new("WL-D143");
/// Another process is doing the same.
pub const IN_PROGRESS: Code = Code::new("WL-D144");
/// A file that definitions are read from cannot be read.
pub const SOURCE_UNREADABLE: Code = Code::new("WL-D146");
/// There is no such version of the workflow.
pub const NO_VERSION: Code = Code::new("WL-D145");
/// What the store has of a run cannot be understood.
pub const STATE_UNREADABLE: Code = Code::new("WL-R083");
/// The workflow of a run has no such node.
pub const NO_SUCH_NODE: Code = Code::new("WL-R100");
/// A stimulus is out of bounds.
pub const BAD_STIMULUS: Code = Code::new("WL-R101");
/// A run that excludes this one has not ended.
pub const RESERVED: Code = Code::new("WL-R110");
/// What a stimulus starts changes all the time.
pub const STIMULUS_BUSY: Code = Code::new("WL-R102");
/// The run has ended, and what was asked for is only for one that has not.
pub const ENDED: Code = Code::new("WL-R130");
/// The run cannot be tried again as it was asked for.
pub const NO_RETRY: Code = Code::new("WL-R132");
/// The id is that of a run that was deleted.
pub const DELETED: Code = Code::new("WL-R131");
/// As the run stands, it cannot be exported.
pub const NO_EXPORT: Code = Code::new("WL-R133");
/// What is to be imported is no exported run, or was changed.
pub const BAD_EXPORT: Code = Code::new("WL-R134");
/// The run was exported in a form that this host does not know.
pub const EXPORT_VERSION: Code = Code::new("WL-R135");
/// The run that is to be imported needs a component that is not here.
pub const NO_COMPONENT: Code = Code::new("WL-R136");
/// The run cannot be imported to where it was to go.
pub const NO_IMPORT: Code = Code::new("WL-R137");
/// The store refuses what a step writes or reads.
pub const REFUSED: Code = Code::new("WL-R151");
/// An answer does not fit the schema of the bookmark.
pub const ANSWER: Code = Code::new("WL-R160");
/// The keyring cannot be used, so that no link can be made and no export signed.
pub const KEYRING: Code = Code::new("WL-R161");
/// No known key has signed the run that is to be imported.
pub const UNSIGNED: Code = Code::new("WL-R162");
/// The run that is to be imported would take an id that stands for something else.
pub const DERIVED_ID: Code = Code::new("WL-R163");
/// The run that is to be imported uses a component that the configuration denies.
pub const DENIED_COMPONENT: Code = Code::new("WL-R165");
/// The keyring lacks the key that the other hosts of the store sign with.
pub const OTHER_KEYRING: Code = Code::new("WL-R164");
/// A text is no key: it is too long, or has a zero character in it.
pub const BAD_KEY: Code = Code::new("WL-R152");
