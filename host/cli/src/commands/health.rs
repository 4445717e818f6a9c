//! `windlass health`: the check of a container or a supervisor, in place of curl.

use clap::Args;

use crate::app::Context;
use crate::client::Api;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::{token_file, web};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --server, the command asks the host at the configured `listen` address. \
    It exits with 0 if the host accepts work. It exits with 30 if the host does not answer, is \
    paused, drains, or has no store or lease."
)]
pub(crate) struct Arguments {}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let address = match &context.server {
            Some(server) => server.address().to_owned(),
            None => here(&context.configure("warn")?.server)?,
        };
        Api::ready(&address)?;
        context.output.print("ready\n")?;
        Ok(Exit::Done)
    }
}

/// The address of the host that has this configuration on this machine.
pub(super) fn here(section: &crate::config::Server) -> Result<String, Expected> {
    match web::check(section)? {
        Some(listen) if listen.port() != 0 => Ok(format!("http://{}", token_file::local(listen))),
        _ => {
            let text = "The configured host has no web server, or no fixed port";
            Err(Expected::new(codes::SERVER_URL, text)
                .help("Set `listen` in [server], or name the host by `--server URL`."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_looked_for_where_it_listens() {
        let of = |listen: &str| {
            here(&crate::config::Server {
                listen: listen.to_owned(),
                token: Some("0123456789abcdef".to_owned()),
                ..crate::config::Server::default()
            })
            .ok()
        };
        assert_eq!(of("127.0.0.1:1").unwrap(), "http://127.0.0.1:1");
        assert_eq!(of("0.0.0.0:80").unwrap(), "http://127.0.0.1:80");
        assert_eq!(of("[::]:7433").unwrap(), "http://[::1]:7433");
        assert_eq!(of("10.1.2.3:7").unwrap(), "http://10.1.2.3:7");
        assert_eq!(of("off"), None);
        assert_eq!(of("127.0.0.1:0"), None);
    }
}
