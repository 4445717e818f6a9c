//! The web server of `serve`, from its settings.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use rustix::process::{Resource, getrlimit, setrlimit};
use url::Url;
use windlass_runtime::Runtime;
use windlass_runtime::definitions::Definitions;
use windlass_server::{Bounds, Callers, LiveFeed, Options, Server};
use windlass_store::Store;

use crate::config;
use crate::error::Expected;
use crate::exit::Exit;
use crate::explain;
use crate::reload::Reloader;
use crate::token_file::{self, TokenFile};
use crate::wire::budgets::Budgets;
use crate::wire::place::{StoreLocation, without_password};
use crate::wire::{HostResources, Machine};

/// The value of `listen` that turns the web server off.
const OFF: &str = "off";

/// The address to listen on; none without a web server. Refuses unsafe settings before any part of
/// the host starts.
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
        // Links for people repeat it, so it has no user and no password.
        let read = Url::parse(url);
        let is_plain = read.is_ok_and(|it| it.username().is_empty() && it.password().is_none());
        known && is_plain && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if let Some(url) = section.public_url.as_deref().filter(|url| !good(url)) {
        let shown = without_password(url);
        let text = format!("`{shown}` is nothing that a server is reached by");
        return Err(Expected::new(windlass_server::codes::SETTING, text)
            .help("Write `public-url` in [server] like `https://flows.example`.")
            .exit(Exit::Usage));
    }
    names(section)?;
    networks(&section.trusted_proxies)?;
    match (&section.token, &section.token_file) {
        (Some(_), Some(_)) => {
            let text = "Both `token` and `token-file` are set, and a host has one token";
            return Err(Expected::new(windlass_server::codes::SETTING, text)
                .help("Remove one of them from [server] and from the environment.")
                .exit(Exit::Usage));
        }
        // The file is read when the host starts. A generated token is always long enough.
        (None, Some(_)) => {}
        (Some(token), None) if token == token_file::AUTO => {}
        (token, None) => {
            windlass_server::check(address, token.as_deref()).map_err(refused)?;
        }
    }
    Ok(Some(address))
}

/// Refuses names and origins that no request could have.
fn names(section: &config::Server) -> Result<(), Expected> {
    let wrong = |key: &str, text: &str, example: &str| {
        let text = format!("`{text}` in `{key}` cannot be in a request");
        Expected::new(windlass_server::codes::SETTING, text)
            .help(format!("Write `{key}` in [server] like {example}."))
            .exit(Exit::Usage)
    };
    let bad = |text: &&String, good: fn(&str) -> bool| !good(text);
    let hosts = &section.hosts;
    if let Some(host) = hosts
        .iter()
        .find(|text| bad(text, windlass_server::is_host))
    {
        return Err(wrong("hosts", host, "[\"flows.example\"]"));
    }
    let origins = &section.origins;
    if let Some(origin) = origins
        .iter()
        .find(|text| bad(text, windlass_server::is_origin))
    {
        return Err(wrong("origins", origin, "[\"https://shop.example\"]"));
    }
    Ok(())
}

/// The networks of the trusted proxies.
fn networks(texts: &[String]) -> Result<Vec<windlass_server::IpNet>, Expected> {
    let read = |text: &String| {
        windlass_server::network(text.trim()).ok_or_else(|| {
            let text = format!("`{text}` is no network of proxies");
            Expected::new(windlass_server::codes::SETTING, text)
                .help("Write `trusted-proxies` in [server] like [\"10.0.0.0/8\", \"::1\"].")
                .exit(Exit::Usage)
        })
    };
    texts.iter().map(read).collect()
}

fn rate(rate: Option<config::Rate>, burst: Option<u32>) -> Option<windlass_server::Rate> {
    rate.map(|rate| windlass_server::Rate {
        count: rate.count,
        per: std::time::Duration::from_millis(rate.per_ms),
        burst: burst.unwrap_or(rate.count),
    })
}

/// Files that the other parts may need: the store, plugins, and their requests.
const OTHER_FILES: u64 = 512;

/// The wanted number of connections, or fewer if the process may not open enough files.
fn connections(wanted: u32) -> usize {
    let needed = u64::from(wanted) + windlass_server::RESERVED as u64 + OTHER_FILES;
    let mut limit = getrlimit(Resource::Nofile);
    // Without a limit there is nothing to raise.
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return wanted as usize;
    }
    limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
    let _ = setrlimit(Resource::Nofile, limit);
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if files >= needed {
        return wanted as usize;
    }
    let taken = windlass_server::RESERVED as u64 + OTHER_FILES;
    // At least half of the files, if the process may open few.
    let fitting = files.saturating_sub(taken).max(files / 2);
    tracing::warn!(
        files,
        connections = fitting,
        "the process may open too few files for the \
        connections of [server]: there are fewer of them, and smaller pools"
    );
    usize::try_from(fitting).unwrap_or(usize::MAX)
}

/// A web server that listens.
pub(crate) struct Web {
    /// Ends the server.
    pub(crate) handle: windlass_server::Handle,
    /// The generated token. Its file exists as long as the server listens.
    _token: Option<TokenFile>,
}

/// The token that requests have to carry.
pub(crate) enum Token {
    /// None is required.
    None,
    /// The operator's.
    Given(String),
    /// One that this process has made.
    Made(String),
}

/// The token for a host that listens on this address. Reads the token's file.
pub(crate) fn token(section: &config::Server, listen: SocketAddr) -> Result<Token, Expected> {
    if let Some(path) = &section.token_file {
        let token = token_file::given(path)?;
        windlass_server::check(listen, Some(&token)).map_err(refused)?;
        return Ok(Token::Given(token));
    }
    Ok(match section.token.as_deref() {
        Some(token_file::AUTO) => Token::Made(token_file::random()),
        Some(token) => Token::Given(token.to_owned()),
        None => Token::None,
    })
}

/// Begins to listen.
pub(crate) fn begin(
    machine: &Machine,
    (listen, token): (SocketAddr, Token),
    store: &Arc<dyn Store>,
    definitions: &Arc<Definitions>,
    runtime: &Arc<Runtime>,
    live_feed: Arc<LiveFeed>,
    reloader: &Arc<Reloader>,
) -> anyhow::Result<Web> {
    let section = &machine.config.server;
    let connections = connections(section.connections);
    // Reduce the pools in proportion: together they must not exceed the connections.
    let share = |slots: u32| {
        let fitting = u128::from(slots) * connections as u128;
        let fitting = fitting.div_ceil(u128::from(section.connections.max(1)));
        usize::try_from(fitting).unwrap_or(usize::MAX)
    };
    let (token, made) = match token {
        Token::None => (None, None),
        Token::Given(token) => (Some(token), None),
        Token::Made(token) => (Some(token.clone()), Some(token)),
    };
    let budgets = Budgets::of(&machine.config);
    let options = Options {
        listen,
        token,
        public_url: section.public_url.clone(),
        callers: Callers {
            hosts: section.hosts.clone(),
            origins: section.origins.clone(),
            trusted_proxies: networks(&section.trusted_proxies)?,
            hook_rate: rate(section.hook_rate, section.hook_burst),
            client_rate: rate(section.client_rate, section.client_burst),
        },
        bounds: Bounds {
            connections,
            requests: share(section.requests),
            hooks: share(section.hooks),
            streams: share(section.streams),
            waiting: share(section.waiting),
            hooks_waiting: share(section.hooks_waiting),
            blocking: section.blocking as usize,
            body_bytes: section.max_body.bytes(),
            bodies: budgets.bodies.bytes(),
            body_rate: section.body_rate.0,
            answers: budgets.answers.bytes(),
            most_read: budgets.most_read.bytes(),
            answer_bytes: section.max_answer.bytes(),
            stall_ms: section.stall_timeout.0,
            header_ms: section.header_timeout.0,
            timeout_ms: section.timeout.0,
            wait_ms: section.max_wait.0,
        },
        store: Arc::clone(store),
        store_place: StoreLocation::of(&machine.config)
            .ok()
            .map(|place| place.to_string()),
        resources: Arc::new(HostResources::new(
            Arc::clone(&machine.setup),
            Arc::clone(runtime),
            Arc::clone(definitions),
        )),
        runtime: Some(Arc::clone(runtime)),
        clock: Arc::clone(&machine.clock),
        metrics: machine.metrics(),
        live_feed,
        page: |code| explain::page(code).map(|(_, page)| page),
        reload: Some({
            let reloader = Arc::clone(reloader);
            Arc::new(move || {
                let taken = reloader.reload();
                taken.map_err(|error| (error.code.clone(), error.to_string()))
            })
        }),
    };
    let server = Server::new(options).map_err(refused)?;
    let handle = machine.tokio.block_on(server.listen()).map_err(refused)?;
    let address = handle.address();
    let file = made.map(|token| TokenFile::write(address, token));
    let file = file.transpose()?;
    let token_file = file
        .as_ref()
        .map(|file| tracing::field::display(file.path().display()));
    let console = format!("http://{}/ui/", token_file::local(address));
    tracing::info!(%address, console, token_file, "listening");
    Ok(Web {
        handle,
        _token: file,
    })
}

fn refused(error: windlass_server::Error) -> Expected {
    Expected::new(error.code(), crate::error::sentence(&error.to_string()))
        .help(error.help())
        .exit(Exit::Usage)
}
