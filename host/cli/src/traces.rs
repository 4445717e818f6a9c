//! The export of traces, as the environment of the process says (`docs/operating.md`).

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, redirect};
use windlass_model::span::SpanSink;
use windlass_traces::{Exporter, Read};

use crate::codes;
use crate::wire::Machine;

/// How long a connection to the collector may take.
const CONNECT: Duration = Duration::from_secs(5);

/// The exporter of a process, if it has one.
pub(crate) struct Traces(Option<Exporter>);

impl Traces {
    /// Starts to export if the environment names a collector. A value that cannot be used is logged,
    /// and never ends the process.
    pub(crate) fn begin(machine: &Machine) -> Self {
        let Read { settings, mistakes } = Read::of(&|name| std::env::var(name).ok());
        for mistake in mistakes {
            tracing::warn!(code = %codes::TRACING, "{mistake}");
        }
        let Some(settings) = settings else {
            return Self(None);
        };
        // Another part of the process may have installed a provider; it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = || {
            Client::builder()
                .connect_timeout(CONNECT)
                // The headers may have a token, which is for this collector alone.
                .redirect(redirect::Policy::none())
        };
        // Plain HTTP needs no certificates, and a small container has none.
        let made = match settings.endpoint.scheme() {
            "http" => client().tls_certs_only([]).build(),
            _ => windlass_plugins::client_with_roots(client),
        };
        match made {
            Ok(client) => {
                let exporter =
                    Exporter::start(settings, client, machine.metrics(), machine.tokio.handle());
                Self(Some(exporter))
            }
            Err(error) => {
                tracing::warn!(code = %codes::TRACING, %error, "the collector of traces cannot be verified");
                Self(None)
            }
        }
    }

    /// The entry for spans.
    pub(crate) fn sink(&self) -> Option<Arc<dyn SpanSink>> {
        self.0.as_ref().map(Exporter::sink)
    }

    /// Sends the last spans.
    pub(crate) fn end(self, machine: &Machine) {
        if let Some(exporter) = self.0 {
            machine.tokio.block_on(exporter.finish());
        }
    }
}
