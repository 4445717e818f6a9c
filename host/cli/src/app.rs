//! From the command line to an exit code.

use std::ffi::OsString;
use std::panic;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser};
use toml::Value;
use windlass_store::Store;

use crate::client::Api;
use crate::commands::Command;
use crate::config::layers::scalar;
use crate::config::{Config, LogFormat, Sources};
use crate::error::{Expected, bug, classify};
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::report::report;
use crate::wire::{self, Machine, Setup};
use crate::{codes, crash, telemetry};

const EXPLAIN: &str = "Every error has a code; `windlass explain CODE` says more about it.";

/// Runs workflows whose nodes are WebAssembly components.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    max_term_width = 100,
    propagate_version = false
)]
#[command(after_help = EXPLAIN, after_long_help = format!("{EXPLAIN}\n\n{}", Exit::table()))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct Common {
    /// Format of data and errors: text, json or jsonl [default: text]
    #[arg(
        short = 'o',
        long = "output",
        global = true,
        value_enum,
        value_name = "FORMAT"
    )]
    #[arg(
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub(crate) format: Format,
    /// Location of the store: a directory, a database file, or a URL [default: .windlass]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) store: Option<String>,
    /// Folder of your own plugins [default: .windlass/plugins]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
    /// Send the command to the running host at this address, instead of working on the store here
    #[arg(long, global = true, value_name = "URL", env = "WINDLASS_SERVER")]
    pub(crate) server: Option<String>,
    /// The token that the host at `--server` accepts
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "WINDLASS_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// Project file [default: windlass.toml, here or in the nearest directory above]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Apply the project's security-sensitive settings for this command, without `windlass trust`
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Override a setting, like `scheduler.workers=2`; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Filter of the log on stderr, like `info` or `warn,windlass_runtime=debug`
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Format of log lines: text or json [default: text]
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        hide_possible_values = true
    )]
    pub(crate) log_format: Option<LogFormat>,
}

/// The output, the configuration and the host of a command.
pub(crate) struct Context {
    /// The output that the command prints to.
    pub(crate) output: Output,
    /// The sources of the configuration.
    pub(crate) sources: Sources,
    /// The host that gets the command, in place of the store here.
    pub(crate) server: Option<Server>,
}

/// The address and the token of a running host.
pub(crate) struct Server {
    address: String,
    token: Option<String>,
}

impl Server {
    /// The address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The token.
    pub(crate) fn token(&self) -> Option<String> {
        self.token.clone()
    }
}

/// The default log filter of a command that uses the handlers of this process: the command itself
/// reports the problems that the handlers log.
const ASKING: &str = "warn,windlass_server=off";

impl Context {
    /// The configuration. Prints warnings, and begins to log with `log` as the default filter.
    pub(crate) fn configure(&self, log: &str) -> Result<Config, Expected> {
        let loaded = self.sources.load()?;
        for warning in &loaded.warnings {
            self.output.warn(warning);
        }
        telemetry::begin(&loaded.config.telemetry, log, self.output.notes.0)?;
        wire::use_zones(&loaded.config)?;
        Ok(loaded.config)
    }

    /// The API: of the host that `--server` names, or else of this process on the store, which has
    /// to exist.
    pub(crate) fn api(&self) -> anyhow::Result<Api> {
        self.api_by(Setup::existing_store)
    }

    /// As [`Self::api`], for a command that may be the first on its store: it creates a missing
    /// store.
    pub(crate) fn api_and_store(&self) -> anyhow::Result<Api> {
        self.api_by(Setup::unmigrated_store)
    }

    fn api_by(
        &self,
        open: impl Fn(&Setup) -> anyhow::Result<Arc<dyn Store>>,
    ) -> anyhow::Result<Api> {
        if let Some(server) = &self.server {
            return Api::of_host(&server.address, server.token.clone());
        }
        let machine = Machine::new(self.configure(ASKING)?)?;
        let store = open(&machine)?;
        Api::of_process(machine, store, self.output)
    }
}

impl Common {
    fn sources(&self) -> Result<Sources, Expected> {
        let mut sources = Sources::of_process();
        sources.project.clone_from(&self.config);
        sources.trusts_all = self.trust;
        let mut flag = |flag: &str, key: &str, value: String| {
            sources
                .flags
                .push((flag.to_owned(), key.to_owned(), Value::String(value)));
        };
        if let Some(store) = &self.store {
            flag("--store", "store.url", store.clone());
        }
        if let Some(plugins) = &self.plugins {
            flag(
                "--plugins",
                "plugins.directory",
                plugins.to_string_lossy().into_owned(),
            );
        }
        if let Some(log) = &self.log {
            flag("--log", "telemetry.log", log.clone());
        }
        if let Some(format) = self.log_format {
            let name = if format == LogFormat::Json {
                "json"
            } else {
                "text"
            };
            flag("--log-format", "telemetry.log-format", name.to_owned());
        }
        for setting in &self.set {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(
                    Expected::new(codes::USAGE, format!("`--set {setting}` has no `=`"))
                        .help("Write it like `--set scheduler.workers=2`."),
                );
            };
            sources
                .flags
                .push(("--set".into(), key.trim().to_owned(), scalar(value.trim())));
        }
        Ok(sources)
    }
}

/// Runs the command of this process.
pub(crate) fn main() -> Exit {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // An error of the command line comes before its `-o` is parsed.
    let format = guess_format(&arguments);
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&Output::new(format), error, &arguments),
    };
    let output = Output::new(cli.common.format);
    crash::report_panics(output, cli.command.name());
    let result = panic::catch_unwind(move || {
        let Common { server, token, .. } = &cli.common;
        let context = Context {
            output,
            sources: cli.common.sources()?,
            server: server.clone().map(|address| Server {
                address,
                token: token.clone(),
            }),
        };
        // Before a command reads a workflow. A mistake in the configuration is reported by the
        // commands that need it.
        if let Ok(loaded) = context.sources.load() {
            let _ = wire::use_zones(&loaded.config);
        }
        cli.command.run(&context)
    });
    telemetry::end();
    let error = match result {
        Ok(Ok(exit)) => return exit,
        Ok(Err(error)) => classify(error),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            bug(text.unwrap_or("a panic without a text"))
        }
    };
    report(&output, &error);
    error.exit
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut cli = Cli::try_parse_from(arguments)?;
    // clap keeps the values of a repeated global option behind the command, and drops those before
    // it.
    cli.common.set = settings(arguments);
    Ok(cli)
}

/// Each valid `--set` of a command line, in order.
fn settings(arguments: &[OsString]) -> Vec<String> {
    let texts = arguments.iter().filter_map(|argument| argument.to_str());
    let mut texts = texts.take_while(|text| *text != "--");
    let mut settings = Vec::new();
    while let Some(text) = texts.next() {
        if text == "--set" {
            settings.extend(texts.next().map(str::to_owned));
        } else if let Some(setting) = text.strip_prefix("--set=") {
            settings.push(setting.to_owned());
        }
    }
    settings
}

fn guess_format(arguments: &[OsString]) -> Format {
    let texts: Vec<_> = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .collect();
    let named = |text: &str| {
        texts.iter().any(|argument| {
            argument.strip_prefix("-o") == Some(text)
                || argument.strip_prefix("--output=") == Some(text)
        })
    };
    let follows = |text: &str| {
        texts.windows(2).any(|pair| {
        matches!(pair, [flag, value] if matches!(*flag, "-o" | "--output") && *value == text)
    })
    };
    if named("json") || follows("json") {
        Format::Json
    } else if named("jsonl") || follows("jsonl") {
        Format::Jsonl
    } else {
        Format::Text
    }
}

/// Words that people know from other programs, and the commands that do the same here.
const MEANT: [(&str, &str); 18] = [
    ("cancel", "runs cancel RUN"),
    ("check", "workflow validate FILE"),
    ("deploy", "workflow publish FILE"),
    ("kill", "runs cancel RUN"),
    ("list", "runs list"),
    ("logs", "runs trace RUN --logs"),
    ("ls", "runs list"),
    ("pause", "runs pause RUN"),
    ("ps", "runs list"),
    ("publish", "workflow publish FILE"),
    ("resume", "runs resume RUN"),
    ("retry", "runs retry RUN"),
    ("send", "event send NAME"),
    ("show", "runs show RUN"),
    ("start", "runs start FILE|NAME"),
    ("status", "runs list` or `windlass health"),
    ("stop", "runs cancel RUN"),
    ("validate", "workflow validate FILE"),
];

/// The command that a wrong first word of the arguments means.
fn meant(error: &clap::Error, arguments: &[OsString]) -> Option<&'static str> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    // A word behind another command is one of that command.
    let first = words.into_iter().find(|word| !word.starts_with('-'))?;
    let mut known = MEANT.iter().filter(|(word, _)| word == wrong);
    known
        .find(|(word, _)| *word == first)
        .map(|(_, meant)| *meant)
}

fn usage(output: &Output, mut error: clap::Error, arguments: &[OsString]) -> Exit {
    let meant = meant(&error, arguments);
    if meant.is_some() {
        // The command that clap suggests is only spelt alike.
        error.remove(ContextKind::SuggestedSubcommand);
    }
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if asked || output.is_text() {
        // clap chooses stdout or stderr by the kind of the message. A closed pipe is not an error.
        let _ = error.print();
        if let Some(meant) = meant {
            output.note(&format!("The command may be `windlass {meant}`."));
        }
    } else {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let expected = Expected::new(codes::USAGE, message)
            .help("`windlass help` lists the commands, `windlass help COMMAND` their options.");
        let expected = match meant {
            Some(meant) => expected.help(format!("The command may be `windlass {meant}`.")),
            None => expected,
        };
        report(output, &expected);
    }
    if asked { Exit::Done } else { Exit::Usage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_programs_suggest_the_command_that_is_meant() {
        let check = |line: &str, expected: Option<&str>| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = parse(&arguments).err().unwrap();
            assert_eq!(meant(&error, &arguments), expected, "{line}");
        };
        check("windlass stop", Some("runs cancel RUN"));
        check("windlass -o json logs", None);
        check("windlass logs 0193c0de", Some("runs trace RUN --logs"));
        check("windlass workflow stop", None);
        check("windlass nonsense", None);
        // The suggestion is a command.
        for (word, command) in MEANT {
            let words = command.split(['`', ' ']).take(2).map(OsString::from);
            let line: Vec<OsString> = ["windlass".into()].into_iter().chain(words).collect();
            let error = parse(&line).err();
            let is_known = error.is_none_or(|error| error.kind() != ErrorKind::InvalidSubcommand);
            assert!(is_known, "{word}");
        }
    }

    #[test]
    fn settings_count_wherever_they_stand() {
        let check = |line: &str, expected: &[&str]| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let cli = parse(&arguments).map_err(|error| error.to_string());
            assert_eq!(cli.map(|cli| cli.common.set).unwrap(), expected, "{line}");
        };
        check("windlass serve", &[]);
        check(
            "windlass --set a=1 --set=b=2 serve --set c=3 --set=d=4",
            &["a=1", "b=2", "c=3", "d=4"],
        );
        check("windlass --set a=1 run w.yaml --input b=2", &["a=1"]);
        check("windlass run --set a=1 -- --set", &["a=1"]);
    }
}
