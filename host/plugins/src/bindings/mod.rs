//! The contract in `wit/`, as Rust types.
//!
//! The host's code uses the newest version of each interface; [`old`] and [`old_host`] are the
//! versions before it, which are converted at the border.
//!
//! The imports are generated. The exports of guests are written by hand in [`node`], [`consumer`]
//! and [`check`], because the generated code decides between plain calls and fibers at compile time
//! and copies its arguments; here one instance serves both, and payloads are [`Bytes`].
//!
//! [`Bytes`]: bytes::Bytes

pub(crate) mod check;
pub(crate) mod consumer;
pub(crate) mod node;
pub(crate) mod old;

/// The imports. Imports that may wait are asynchronous and only in the second linker.
pub(crate) mod host {
    wasmtime::component::bindgen!({
        path: [
            "../../wit/types/0.1.0",
            "../../wit/types/0.2.0",
            "../../wit/log/0.1.0",
            "../../wit/context/0.2.0",
            "../../wit/clock/0.1.0",
            "../../wit/random/0.1.0",
            "../../wit/memory/0.2.0",
            "../../wit/blobs/0.1.0",
            "../../wit/http/0.2.0",
            "../../wit/events/0.2.0",
        ],
        inline: "
            package windlass:host;
            world imports {
                import windlass:log/log@0.1.0;
                import windlass:context/context@0.2.0;
                import windlass:clock/clock@0.1.0;
                import windlass:random/random@0.1.0;
                import windlass:memory/memory@0.2.0;
                import windlass:blobs/blobs@0.1.0;
                import windlass:http/http@0.2.0;
                import windlass:events/events@0.2.0;
            }
        ",
        world: "windlass:host/imports",
        imports: {
            "windlass:memory/memory": async,
            "windlass:blobs/blobs": async,
            "windlass:http/http": async,
        },
    });
}

/// Version 0.1 of the imports that have a newer version.
pub(crate) mod old_host {
    wasmtime::component::bindgen!({
        path: [
            "../../wit/types/0.1.0",
            "../../wit/context/0.1.0",
            "../../wit/memory/0.1.0",
            "../../wit/http/0.1.0",
            "../../wit/events/0.1.0",
        ],
        inline: "
            package windlass:host;
            world imports {
                import windlass:context/context@0.1.0;
                import windlass:memory/memory@0.1.0;
                import windlass:http/http@0.1.0;
                import windlass:events/events@0.1.0;
            }
        ",
        world: "windlass:host/imports",
        imports: {
            "windlass:memory/memory": async,
            "windlass:http/http": async,
        },
    });
}
