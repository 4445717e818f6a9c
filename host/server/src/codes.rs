//! The error codes that only the HTTP API reports. Each has a page in `docs/errors`.

use windlass_model::Code;

/// The request has no token, or not the right one.
pub const UNAUTHORISED: Code = Code::new("WL-H001");
/// There is no such path.
pub const NO_PATH: Code = Code::new("WL-H002");
/// The path exists, but not with this method.
pub const NO_METHOD: Code = Code::new("WL-H003");
/// The media type of the body is not accepted.
pub const MEDIA_TYPE: Code = Code::new("WL-H004");
/// The body is not JSON, or not of the right shape.
pub const BODY: Code = Code::new("WL-H005");
/// The body is larger than it may be.
pub const BODY_TOO_LARGE: Code = Code::new("WL-H006");
/// The body does not arrive, or arrives too slowly.
pub const BODY_SLOW: Code = Code::new("WL-H007");
/// A parameter of the query, a header or a part of the path cannot be understood.
pub const PARAMETER: Code = Code::new("WL-H008");
/// The host has as many requests of this kind as it can serve.
pub const BUSY: Code = Code::new("WL-H009");
/// The request took longer than it may.
pub const TOO_LONG: Code = Code::new("WL-H010");
/// The requested resource does not exist.
pub const NOT_FOUND: Code = Code::new("WL-H011");
/// The request comes too late.
pub const TOO_LATE: Code = Code::new("WL-H012");
/// The resource is not in the state that the request expects.
pub const PRECONDITION: Code = Code::new("WL-H013");
/// An `Idempotency-Key` was used for another request.
pub const KEY_REUSED: Code = Code::new("WL-H014");
/// The hook starts no workflow, and no run waits for it.
pub const NO_HOOK: Code = Code::new("WL-H015");
/// The request is not a CloudEvent.
pub const CLOUD_EVENT: Code = Code::new("WL-H016");
/// The lease of the host in its store does not hold.
pub const NO_LEASE: Code = Code::new("WL-H017");
/// The request asks for a longer wait than the host allows.
pub const WAIT_TOO_LONG: Code = Code::new("WL-H018");
/// The store of the host does not answer.
pub const NO_STORE: Code = Code::new("WL-H035");
/// The server would listen beyond this machine without a token.
pub const NO_TOKEN: Code = Code::new("WL-H020");
/// The address cannot be listened on.
pub const CANNOT_LISTEN: Code = Code::new("WL-H021");
/// A setting of the server cannot be used.
pub const SETTING: Code = Code::new("WL-H022");
/// A request has no `Host`, several, or one that is malformed.
pub const HOST: Code = Code::new("WL-H023");
/// A hook is called more often than it may.
pub const HOOK_RATE: Code = Code::new("WL-H024");
/// A client calls hooks and resume links more often than it may.
pub const CLIENT_RATE: Code = Code::new("WL-H025");
/// The `Host` of a request without a token is no name of this host.
pub const NOT_OUR_NAME: Code = Code::new("WL-H026");
/// A page in a browser that is not of this host sent a request that changes something.
pub const FOREIGN_PAGE: Code = Code::new("WL-H027");
/// A request to a hook does not come from its sender.
pub const NOT_VERIFIED: Code = Code::new("WL-H045");
/// A secret that requests to a hook are verified by cannot be used.
pub const NO_SECRET: Code = Code::new("WL-H046");
/// A request to a hook wants to wait for a run, but has no token.
pub const NO_WAIT: Code = Code::new("WL-H047");
/// The run of a hook gave no answer to its sender.
pub const NO_ANSWER: Code = Code::new("WL-H048");
