//! The interfaces under `wit/`, as `wit-bindgen` generates them.
//!
//! There are three worlds. Each export macro carries the description of its own
//! world into the component that uses it, so that a component only claims to
//! export its own functions; the imports of all are one and the same Rust code.
#![allow(missing_docs, unreachable_pub, clippy::all)]

pub mod node {
    wit_bindgen::generate!({
        path: [
            "../../wit/types/0.1.0",
            "../../wit/log/0.1.0",
            "../../wit/context/0.1.0",
            "../../wit/memory/0.1.0",
            "../../wit/blobs/0.1.0",
            "../../wit/http/0.1.0",
            "../../wit/events/0.1.0",
            "../../wit/clock/0.1.0",
            "../../wit/random/0.1.0",
            "../../wit/node/0.1.0",
            "../../wit/consumer/0.1.0",
            "../../wit/check/0.1.0",
            "../../wit/plugin/0.1.0",
        ],
        world: "windlass:plugin/full@0.1.0",
        pub_export_macro: true,
        export_macro_name: "export_node",
        default_bindings_module: "windlass::bindings::node",
        additional_derives: [PartialEq],
        generate_all,
    });
}

pub mod consumer {
    wit_bindgen::generate!({
        path: [
            "../../wit/types/0.1.0",
            "../../wit/log/0.1.0",
            "../../wit/context/0.1.0",
            "../../wit/memory/0.1.0",
            "../../wit/blobs/0.1.0",
            "../../wit/http/0.1.0",
            "../../wit/events/0.1.0",
            "../../wit/clock/0.1.0",
            "../../wit/random/0.1.0",
            "../../wit/consumer/0.1.0",
        ],
        inline: "
            package windlass:sdk;
            world consumer {
                import windlass:log/log@0.1.0;
                import windlass:context/context@0.1.0;
                import windlass:memory/memory@0.1.0;
                import windlass:blobs/blobs@0.1.0;
                import windlass:http/http@0.1.0;
                import windlass:events/events@0.1.0;
                import windlass:clock/clock@0.1.0;
                import windlass:random/random@0.1.0;
                export windlass:consumer/consumer@0.1.0;
            }
        ",
        world: "windlass:sdk/consumer",
        pub_export_macro: true,
        export_macro_name: "export_consumer",
        default_bindings_module: "windlass::bindings::consumer",
        additional_derives: [PartialEq],
        with: {
            "windlass:types/types@0.1.0": crate::bindings::node::windlass::types::types,
            "windlass:log/log@0.1.0": crate::bindings::node::windlass::log::log,
            "windlass:context/context@0.1.0": crate::bindings::node::windlass::context::context,
            "windlass:memory/memory@0.1.0": crate::bindings::node::windlass::memory::memory,
            "windlass:blobs/blobs@0.1.0": crate::bindings::node::windlass::blobs::blobs,
            "windlass:http/http@0.1.0": crate::bindings::node::windlass::http::http,
            "windlass:events/events@0.1.0": crate::bindings::node::windlass::events::events,
            "windlass:clock/clock@0.1.0": crate::bindings::node::windlass::clock::clock,
            "windlass:random/random@0.1.0": crate::bindings::node::windlass::random::random,
        },
    });
}

pub mod check {
    wit_bindgen::generate!({
        path: ["../../wit/types/0.1.0", "../../wit/check/0.1.0"],
        inline: "
            package windlass:sdk;
            world check {
                export windlass:check/check@0.1.0;
            }
        ",
        world: "windlass:sdk/check",
        pub_export_macro: true,
        export_macro_name: "export_check",
        default_bindings_module: "windlass::bindings::check",
        additional_derives: [PartialEq],
        with: {
            "windlass:types/types@0.1.0": crate::bindings::node::windlass::types::types,
        },
    });
}
