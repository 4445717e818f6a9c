//! The web server of `serve`: from its settings to the server that listens.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use windlass_plugins::Host;
use windlass_runtime::Runtime;
use windlass_runtime::definitions::Definitions;
use windlass_server::{Bounds, Hub, Options, Server};
use windlass_store::Store;

use crate::config;
use crate::error::Expected;
use crate::exit::Exit;
use crate::explain;
use crate::wire::Machine;

/// Turns the web server off.
const OFF: &str = "off";

/// Where to listen; none if there is no web server. Refuses what must not be before anything
/// has begun.
pub(crate) fn check(section: &config::Server) -> Result<Option<SocketAddr>, Expected> {
    if section.listen == OFF {
        return Ok(None);
    }
    let found = section.listen.to_socket_addrs();
    let address = found.ok().and_then(|mut found| found.next());
    let address = address.ok_or_else(|| {
        let text = format!("`{}` is no address to listen on", section.listen);
        Expected::new(windlass_server::codes::SETTING, text)
            .help("Write `listen` in [server] like `127.0.0.1:7433`, or `off`.")
            .exit(Exit::Usage)
    })?;
    let good = |url: &str| {
        let known = url.starts_with("http://") || url.starts_with("https://");
        known && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if let Some(url) = section.public_url.as_deref().filter(|url| !good(url)) {
        let text = format!("`{url}` is nothing that a server is reached by");
        return Err(Expected::new(windlass_server::codes::SETTING, text)
            .help("Write `public-url` in [server] like `https://flows.example`.")
            .exit(Exit::Usage));
    }
    windlass_server::check(address, section.token.as_deref()).map_err(refused)?;
    Ok(Some(address))
}

/// Begins to listen.
pub(crate) fn begin(
    machine: &Machine,
    listen: SocketAddr,
    store: &Arc<dyn Store>,
    plugins: &Arc<Host>,
    definitions: &Arc<Definitions>,
    runtime: &Arc<Runtime>,
    hub: Arc<Hub>,
) -> Result<windlass_server::Handle, Expected> {
    let section = &machine.config.server;
    let options = Options {
        listen,
        token: section.token.clone(),
        public_url: section.public_url.clone(),
        bounds: Bounds {
            connections: section.connections as usize,
            requests: section.requests as usize,
            streams: section.streams as usize,
            blocking: section.blocking as usize,
            body_bytes: section.max_body.bytes(),
            timeout_ms: section.timeout.0,
            wait_ms: section.max_wait.0,
        },
        store: Arc::clone(store),
        plugins: Arc::clone(plugins),
        definitions: Arc::clone(definitions),
        runtime: Arc::clone(runtime),
        clock: Arc::clone(&machine.clock),
        locks: runtime.topology().locks().cloned(),
        hub,
        page: |code| explain::page(code).map(|(_, page)| page),
    };
    let server = Server::new(options).map_err(refused)?;
    let handle = machine.tokio.block_on(server.listen()).map_err(refused)?;
    tracing::info!(address = %handle.address(), "listening");
    Ok(handle)
}

fn refused(error: windlass_server::Error) -> Expected {
    Expected::new(error.code(), crate::error::sentence(&error.to_string()))
        .help(error.help())
        .exit(Exit::Usage)
}
