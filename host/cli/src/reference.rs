//! Generates the reference of the command line from the commands.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::app::Cli;
use crate::exit::Exit;

const INTRODUCTION: &str = "\
# Command line

Generated from the commands themselves: run `cargo xtask bless` after a change.

Data goes to stdout, everything else to stderr, so every command can be piped. `-o json` prints
one JSON document and `-o jsonl` one on a line for each item; errors are printed alike. Colours
follow `NO_COLOR` and `CLICOLOR_FORCE`. Where the id of a run is asked for, its beginning is
enough.
";

/// The text of `docs/cli.md`.
fn reference() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (exit, meaning) in Exit::ALL {
        writeln!(text, "| {} | {meaning} |", exit.number()).unwrap();
    }
    text.push_str("\n## Options of all commands\n\n");
    options(
        &mut text,
        root.get_arguments()
            .filter(|argument| argument.is_global_set()),
    );
    commands(&mut text, &root, "windlass");
    text
}

fn commands(text: &mut String, above: &Command, path: &str) {
    for command in above
        .get_subcommands()
        .filter(|command| command.get_name() != "help" && !command.is_hide_set())
    {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            commands(text, command, &path);
            continue;
        }
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        let operands: String = command
            .get_positionals()
            .map(|argument| {
                let name = argument.get_id().as_str().to_uppercase();
                let many = if argument
                    .get_num_args()
                    .is_some_and(|count| count.max_values() > 1)
                {
                    "…"
                } else {
                    ""
                };
                if argument.is_required_set() {
                    format!(" {name}{many}")
                } else {
                    format!(" [{name}]{many}")
                }
            })
            .collect();
        writeln!(text, "\n## `{path}{operands}`\n\n{about}.\n").unwrap();
        let local = |argument: &&Arg| {
            !argument.is_global_set() && !matches!(argument.get_id().as_str(), "help" | "version")
        };
        options(text, command.get_arguments().filter(local));
        if let Some(after) = command.get_after_help() {
            writeln!(text, "\n{after}").unwrap();
        }
    }
}

fn options<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    for argument in arguments {
        let value = match argument.get_value_names() {
            Some([name, ..]) if argument.is_require_equals_set() => format!("[={name}]"),
            Some([name, ..]) if argument.get_action().takes_values() => format!(" {name}"),
            _ => String::new(),
        };
        let mut names = Vec::new();
        names.extend(argument.get_short().map(|short| format!("-{short}")));
        names.extend(argument.get_long().map(|long| format!("--{long}{value}")));
        if names.is_empty() {
            names.push(argument.get_id().as_str().to_uppercase());
        }
        let help = argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let values: Vec<_> = argument
            .get_possible_values()
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let listed = argument.get_action().takes_values()
            && !values.is_empty()
            && !argument.is_hide_possible_values_set();
        let values = if listed {
            format!(": {}", values.join(", "))
        } else {
            String::new()
        };
        writeln!(text, "* `{}`: {help}{values}", names.join(", ")).unwrap();
    }
}

#[test]
fn the_checked_in_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(checked_in, reference(), "run the test again with BLESS=1");
}

#[test]
fn the_commands_do_not_contradict_each_other() {
    Cli::command().debug_assert();
}
