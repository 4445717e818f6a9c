//! The error codes of loading and calling plugins.

use windlass_model::Code;

/// The file is not WebAssembly, or is cut off or damaged.
pub const MALFORMED: Code = Code::new("WL-P001");
/// The file is larger than a component may be.
pub const TOO_LARGE: Code = Code::new("WL-P002");
/// The component has more parts, or a larger function, than the host compiles.
pub const TOO_COMPLEX: Code = Code::new("WL-P003");
/// The component does not compile.
pub const COMPILE: Code = Code::new("WL-P004");
/// The component exports neither a node executor nor a trigger consumer.
pub const NO_EXPORT: Code = Code::new("WL-P005");
/// The component imports an interface that this host does not offer, or offers with another type.
pub const IMPORTS: Code = Code::new("WL-P006");
/// `describe` did not return.
pub const DESCRIBE: Code = Code::new("WL-P007");
/// The description breaks the rules of its format.
pub const DESCRIPTION: Code = Code::new("WL-P008");
/// A schema in the description is not a JSON Schema.
pub const SCHEMA: Code = Code::new("WL-P009");
/// A file or directory cannot be read or written.
pub const FILE: Code = Code::new("WL-P010");
/// A core module cannot be made a component.
pub const WRAP: Code = Code::new("WL-P011");
/// The file is compiled code, which the host never accepts.
pub const PRECOMPILED: Code = Code::new("WL-P012");
/// Another file offers the same version of the same package.
pub const CONFLICT: Code = Code::new("WL-P013");
/// The engine does not start.
pub const ENGINE: Code = Code::new("WL-P014");
/// The component needs more at its start than the limits allow.
pub const NEEDS_TOO_MUCH: Code = Code::new("WL-P015");
/// A folder cannot be watched.
pub const WATCH: Code = Code::new("WL-P016");
/// The component store has no component with this digest.
pub const NOT_STORED: Code = Code::new("WL-P017");
/// A grant cannot be read.
pub const GRANT: Code = Code::new("WL-P018");
/// Other users can access the key of compiled code.
pub const CODE_KEY: Code = Code::new("WL-P019");
/// Nothing proves that the settings of a package apply to this component.
pub const UNPROVED: Code = Code::new("WL-P020");
/// The component exports a trigger consumer, but has no grant for it.
pub const NO_CONSUMER: Code = Code::new("WL-P021");
/// The host was built without the digests of its library.
pub const NO_LIBRARY: Code = Code::new("WL-P022");
/// The configuration denies the component.
pub const DENIED: Code = Code::new("WL-P023");
/// A variable of the environment names a proxy that cannot be used. A warning.
pub const NO_PROXY: Code = Code::new("WL-P024");
/// Compiling the component took more memory or time than it may, or the compiler's process died.
pub const CUT_OFF: Code = Code::new("WL-P025");
/// The component is not compiled yet.
pub const COMPILING: Code = Code::new("WL-P026");
/// The process of the compiler cannot be started.
pub const NO_COMPILER: Code = Code::new("WL-P027");

/// The guest crashed.
pub const TRAP: Code = Code::new("WL-R030");
/// The guest used up its stack.
pub const STACK: Code = Code::new("WL-R031");
/// The call exceeded its time limit.
pub const DEADLINE: Code = Code::new("WL-R032");
/// The guest used up its memory or its tables.
pub const MEMORY: Code = Code::new("WL-R033");
/// The configuration or the input is larger than a payload may be.
pub const INPUT_SIZE: Code = Code::new("WL-R034");
/// The guest returned more than a payload may hold.
pub const OUTPUT_SIZE: Code = Code::new("WL-R035");
/// The guest held more handles than it may.
pub const HANDLES: Code = Code::new("WL-R036");
/// The call was cancelled.
pub const CANCELLED: Code = Code::new("WL-R037");
/// The node finds its configuration or input invalid.
pub const INVALID: Code = Code::new("WL-R038");
/// The node reports that a retry may succeed.
pub const RETRYABLE: Code = Code::new("WL-R039");
/// The node reports that a retry cannot succeed.
pub const PERMANENT: Code = Code::new("WL-R040");
/// The node failed in a way without a code of its own.
pub const OTHER: Code = Code::new("WL-R041");
/// The host itself failed while it served the guest.
pub const HOST: Code = Code::new("WL-R042");
/// The plugin crashed too often in a row in one workflow, whose calls of it are delayed.
pub const QUARANTINED: Code = Code::new("WL-R043");
/// No instance of the plugin could be made.
pub const INSTANTIATE: Code = Code::new("WL-R044");
/// The guest's result is not valid.
pub const RESULT: Code = Code::new("WL-R045");
/// The plugin does not export the requested function.
pub const WRONG_KIND: Code = Code::new("WL-R046");
/// The call needs more memory than all plugins together may have.
pub const BUDGET: Code = Code::new("WL-R150");
/// The node took a port that it does not declare.
pub const PORT: Code = Code::new("WL-R047");
