//! The contract in `wit/`, as Rust types.
//!
//! The imports are generated. The exports of guests are written by hand in [`node`], [`consumer`]
//! and [`check`], because the generated code decides between plain calls and fibers at compile time
//! and copies its arguments; here one instance serves both, and payloads are [`Bytes`].
//!
//! [`Bytes`]: bytes::Bytes

pub(crate) mod check;
pub(crate) mod consumer;
pub(crate) mod node;

/// The version of the contract, without its patch.
pub(crate) const VERSION: &str = "0.1";

/// The imports. Imports that may wait are asynchronous and only in the second linker.
pub(crate) mod host {
    wasmtime::component::bindgen!({
        path: [
            "../../wit/types/0.1.0",
            "../../wit/log/0.1.0",
            "../../wit/context/0.1.0",
            "../../wit/clock/0.1.0",
            "../../wit/random/0.1.0",
            "../../wit/preview1/0.1.0",
            "../../wit/memory/0.1.0",
            "../../wit/blobs/0.1.0",
            "../../wit/http/0.1.0",
            "../../wit/events/0.1.0",
        ],
        inline: "
            package windlass:host;
            world imports {
                import windlass:log/log@0.1.0;
                import windlass:context/context@0.1.0;
                import windlass:clock/clock@0.1.0;
                import windlass:random/random@0.1.0;
                import windlass:preview1/process@0.1.0;
                import windlass:preview1/sleep@0.1.0;
                import windlass:memory/memory@0.1.0;
                import windlass:blobs/blobs@0.1.0;
                import windlass:http/http@0.1.0;
                import windlass:events/events@0.1.0;
            }
        ",
        world: "windlass:host/imports",
        imports: {
            "windlass:memory/memory": async,
            "windlass:blobs/blobs": async,
            "windlass:http/http": async,
            "windlass:preview1/process.exit": trappable,
            "windlass:preview1/sleep": async,
        },
    });
}
