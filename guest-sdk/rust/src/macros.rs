//! The macro that makes a component, and the macros that write to the log.

/// Makes a component of nodes, of a trigger consumer, or of both. Nodes are types that
/// implement [`Node`](crate::Node), and functions `fn(Input) -> Result<Output>`, which need no
/// configuration; the function `to_upper` is the node `to-upper`.
///
/// ```ignore
/// windlass::plugin! {
///     package: "text",
///     version: "1.2.0",                 // if absent, the crate's
///     title: "Text",                    // optional
///     description: "Works on text.",    // if absent, the crate's
///     nodes: [Find, Replace],
///     functions: [shout, to_upper],
///     checks: [Find],                   // optional: these implement `Check`
///     consumer: Gate,
/// }
/// ```
///
/// It defines the type `Plugin`, which [`crate::testkit::describe`] takes.
#[macro_export]
macro_rules! plugin {
    (
        package: $package:expr
        $(, version: $version:expr)?
        $(, title: $title:expr)?
        $(, description: $description:expr)?
        $(, nodes: [$($node:ty),+ $(,)?])?
        $(, functions: [$($function:ident),+ $(,)?])?
        $(, checks: [$($check:ty),+ $(,)?])?
        $(, consumer: $consumer:ty)?
        $(,)?
    ) => {
        /// This component as a whole.
        pub struct Plugin;

        impl $crate::__private::Plugin for Plugin {
            const PACKAGE: &'static str = $package;
            const VERSION: &'static str =
                $crate::__first!($($version,)? ::core::env!("CARGO_PKG_VERSION"));
            const TITLE: &'static str = $crate::__first!($($title,)? "");
            const DESCRIPTION: &'static str =
                $crate::__first!($($description,)? ::core::env!("CARGO_PKG_DESCRIPTION"));
            const NODES: &'static [$crate::__private::NodeEntry] =
                &[
                    $($($crate::__private::NodeEntry::of::<$node>(),)+)?
                    $($($crate::__private::NodeEntry {
                        name: ::core::stringify!($function),
                        describe: || $crate::__private::describe_function(
                            ::core::stringify!($function),
                            $function,
                        ),
                        run: |request| $crate::__private::run_function($function, request),
                    },)+)?
                ];
            const CONSUMER: ::core::option::Option<$crate::__private::ConsumerInfo> =
                $crate::__first!(
                    $(
                        ::core::option::Option::Some($crate::__private::ConsumerInfo {
                            types: <$consumer as $crate::Consumer>::TYPES,
                            routes: <$consumer as $crate::Consumer>::ROUTES,
                        }),
                    )?
                    ::core::option::Option::None
                );
        }

        $crate::__export_nodes!($($($node),+)? ; $($($function),+)?);
        $($crate::__export_checks!($($check),+);)?
        $($crate::__export_consumer!($consumer);)?
    };
}

/// The first of its arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __first {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}

/// Exports the nodes of `Plugin`. Only a component has exports.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_nodes {
    (;) => {};
    ($($node:ty),* ; $($function:ident),*) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::node::exports::windlass::node::node as wit;

            impl wit::Guest for Plugin {
                fn describe() -> wit::Payload {
                    $crate::__private::describe::<Plugin>()
                }

                fn execute(
                    request: wit::NodeRequest,
                ) -> ::core::result::Result<wit::Outcome, wit::NodeError> {
                    $crate::__private::execute::<Plugin>(request)
                }
            }

    $crate::bindings::node::export_node!(Plugin with_types_in $crate::bindings::node);
        };
    };
}

/// Exports the checks of `Plugin`. Only a component has exports.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_checks {
    ($($check:ty),+) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::check::exports::windlass::check::check as wit;

            impl wit::Guest for Plugin {
                fn check(request: wit::CheckRequest) -> ::std::vec::Vec<wit::FindingLevel> {
                    const CHECKS: &[$crate::__private::CheckEntry] =
                        &[$($crate::__private::CheckEntry::of::<$check>()),+];
                    $crate::__private::check(CHECKS, request)
                }
            }

            $crate::bindings::check::export_check!(
                Plugin with_types_in $crate::bindings::check
            );
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: &[$crate::__private::CheckEntry] =
            &[$($crate::__private::CheckEntry::of::<$check>()),+];
    };
}

/// Exports the consumer of `Plugin`. Only a component has exports.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_consumer {
    ($consumer:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::consumer::exports::windlass::consumer::consumer as wit;

            impl wit::Guest for Plugin {
                fn describe() -> wit::Payload {
                    $crate::__private::describe::<Plugin>()
                }

                fn accept(
                    trigger: wit::Trigger,
                ) -> ::core::result::Result<wit::Disposition, wit::ConsumerError> {
                    $crate::__private::accept::<$consumer>(trigger)
                }
            }

            $crate::bindings::consumer::export_consumer!(
                Plugin with_types_in $crate::bindings::consumer
            );
        };
    };
}

/// Writes a line to the log of the run: `log!(Level::Info, "{n} lines"; shop = name)`.
/// The fields after the semicolon are optional.
#[macro_export]
macro_rules! log {
    ($level:expr, $($message:expr),+ $(; $($name:ident = $value:expr),+)? $(,)?) => {
        $crate::__private::log(
            $level,
            &::std::format!($($message),+),
            &[$($((::core::stringify!($name), ::std::string::ToString::to_string(&$value))),+)?],
        )
    };
}

/// Writes a line for debugging; see [`log!`](crate::log!).
#[macro_export]
macro_rules! debug {
    ($($arguments:tt)+) => { $crate::log!($crate::Level::Debug, $($arguments)+) };
}

/// Writes a line about normal progress; see [`log!`](crate::log!).
#[macro_export]
macro_rules! info {
    ($($arguments:tt)+) => { $crate::log!($crate::Level::Info, $($arguments)+) };
}

/// Writes a line about a problem; see [`log!`](crate::log!).
#[macro_export]
macro_rules! warn {
    ($($arguments:tt)+) => { $crate::log!($crate::Level::Warn, $($arguments)+) };
}

/// Writes a line about a failure; see [`log!`](crate::log!).
#[macro_export]
macro_rules! error {
    ($($arguments:tt)+) => { $crate::log!($crate::Level::Error, $($arguments)+) };
}
