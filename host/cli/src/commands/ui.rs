//! `windlass ui`: the address of the console, and the place of the token that a browser needs once.

use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;
use url::Url;

use crate::app::Context;
use crate::codes;
use crate::commands::health::here;
use crate::error::Expected;
use crate::exit::Exit;
use crate::token_file;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --server, the address is that of the host at the configured `listen` \
    address, or its `public-url`. The command does not ask whether the host runs."
)]
pub(crate) struct Arguments {
    /// Open the address in the browser of this machine
    #[arg(long)]
    open: bool,
}

/// The way into the console.
#[derive(Debug, Serialize)]
struct Shown {
    address: String,
    /// The file with the token that the host has made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<String>,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let host = match &context.server {
            Some(server) => server.address().to_owned(),
            None => {
                let section = context.configure("warn")?.server;
                match section.public_url.clone() {
                    Some(public) => public,
                    None => here(&section)?,
                }
            }
        };
        let url = Url::parse(&host).ok();
        let file = url.as_ref().and_then(token_file::place);
        let shown = Shown {
            address: console(&host),
            token_file: file.map(|file| file.display().to_string()),
        };
        context.output.show(&shown, || shown.address.clone())?;
        if let Some(file) = &shown.token_file {
            let text =
                format!("The console asks once for the token of the host, which is in {file}.");
            context.output.note(&text);
        }
        if self.open {
            open(&shown.address)?;
        }
        Ok(Exit::Done)
    }
}

/// The console of a host.
fn console(host: &str) -> String {
    format!("{}/ui/", host.trim_end_matches('/'))
}

/// The program that opens addresses on this system.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

fn open(address: &str) -> Result<(), Expected> {
    let failed = |why: String| {
        Expected::new(codes::OUTPUT, format!("{address} cannot be opened: {why}"))
            .help("Open the address by hand.")
    };
    let mut command = Command::new(OPENER);
    command
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status = command
        .status()
        .map_err(|error| failed(format!("{OPENER} does not start: {error}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(format!("{OPENER} ended with {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_below_the_address_of_its_host() {
        for (host, address) in [
            ("http://127.0.0.1:7433", "http://127.0.0.1:7433/ui/"),
            ("https://flows.example/", "https://flows.example/ui/"),
            ("https://example/flows", "https://example/flows/ui/"),
        ] {
            assert_eq!(console(host), address);
        }
    }
}
