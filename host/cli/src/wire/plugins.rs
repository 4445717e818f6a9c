//! The options of the plugin host: directories, limits, grants, proofs and secrets.

use std::collections::BTreeSet;
use std::env::VarError;
use std::path::PathBuf;
use std::str::FromStr;

use windlass_model::Digest;
use windlass_plugins as plugins;
use windlass_plugins::Options;
use windlass_plugins::compiler::{self, Compiler};

use super::{library, or_cores};
use crate::codes;
use crate::config::plugins::{Grant, Isolation, Limits, Plugins};
use crate::config::{Config, Secret};
use crate::error::Expected;
use crate::output::Output;
use crate::private;
use crate::wire::budgets::Budgets;

/// The directories of plugins: the library first, if it is not the one inside the program.
pub(crate) fn plugin_directories(config: &Config) -> Vec<PathBuf> {
    let library = config.plugins.library.clone();
    library
        .into_iter()
        .chain([config.plugins.directory.clone()])
        .collect()
}

/// Where the node library is, or why there is none and the remedy.
pub(crate) fn library_in_use(config: &Config) -> Result<String, (String, &'static str)> {
    match &config.plugins.library {
        Some(path) if path.is_dir() => Ok(path.display().to_string()),
        Some(path) => Err((
            format!("{} is not a directory", path.display()),
            "Correct `library` in the section [plugins].",
        )),
        None if library::bundle().is_empty() => Err((
            library::UNKNOWN.to_owned(),
            "`windlass explain WL-P022` says more.",
        )),
        None => Ok("inside the program".to_owned()),
    }
}

/// The directory of compiled code.
pub(crate) fn cache(config: &Config) -> Result<PathBuf, Expected> {
    let cache = config.plugins.cache.clone().or_else(private::cache);
    cache.ok_or_else(|| {
        let instead = "set `cache` in [plugins]";
        private::no_home(codes::CONFIG_VALUE, "compiled code", instead)
    })
}

/// The file of the key that authenticates compiled code.
fn code_key(config: &Config) -> Result<PathBuf, Expected> {
    let own = || Some(private::data()?.join("code-key"));
    let key = config.plugins.code_key.clone().or_else(own);
    key.ok_or_else(|| {
        let instead = "set `code-key` in [plugins]";
        private::no_home(codes::CONFIG_VALUE, "the key of compiled code", instead)
    })
}

/// Refuses settings of plugins that `serve` refuses. Reads no secret.
pub(super) fn check(section: &Plugins) -> Result<(), Expected> {
    denied(section)?;
    for (package, grant) in &section.grants {
        settings(package, grant, &section.limits)?;
    }
    Ok(())
}

fn denied(section: &Plugins) -> Result<BTreeSet<Digest>, Expected> {
    read_all("plugins.deny", &section.deny, "digest")
}

/// The variables of this process that name proxies which cannot be used, each with the reason.
pub(crate) fn proxy_faults() -> Vec<String> {
    plugins::Proxies::of_process().faults()
}

/// The options of the plugin host.
pub(super) fn options(config: &Config) -> Result<Options, Expected> {
    let section = &config.plugins;
    let budgets = Budgets::of(config);
    let mut options = Options::in_dir(cache(config)?);
    options.code_key = code_key(config)?;
    options.limits = limits(&section.limits);
    options.threads = or_cores(section.threads);
    options.max_slow_inline = (options.threads / 2).max(1);
    options.slow = section.slow.duration();
    options.quarantine_after = (section.quarantine_after > 0).then_some(section.quarantine_after);
    options.max_component_bytes = section.max_component.0;
    options.compiler = Compiler::Worker(compiler::Worker {
        program: own_program(),
        arguments: vec![compiler::WORD.into()],
        memory_bytes: budgets.compiler.0,
        timeout: section.compile_timeout.duration(),
    });
    options.memory_bytes = budgets.plugins.0;
    options.pool = plugins::PoolSize {
        instances: section.pool.instances,
        fibers: section.pool.fibers,
        compiles: budgets.compilers as usize,
        max_memory_bytes: section.pool.max_memory.bytes(),
        slot_calls: section.pool.instance_calls,
        slot_idle: section.pool.instance_idle.duration(),
    };
    options.http = plugins::HttpPolicy {
        timeout: section.http.timeout.duration(),
        connect_timeout: section.http.connect_timeout.duration(),
        max_response_bytes: section.http.max_response.0,
        max_redirects: section.http.max_redirects,
        max_headers: section.http.max_headers as usize,
        concurrency: section.http.concurrency as usize,
        lookups: section.http.lookups as usize,
        roots: roots(section)?,
        proxies: plugins::Proxies::of_process(),
    };
    options.secrets = secrets(config)?;
    options.bundle = library::bundle().clone();
    options.load_bundle = section.library.is_none();
    options.library_missing = match (library_in_use(config), &section.library) {
        (Err((why, remedy)), _) => format!("{why}. {remedy}"),
        (Ok(place), Some(_)) => format!(
            "`library` in [plugins] names {place}, which has no such component. Leave the setting \
             out to use the library inside the program."
        ),
        (Ok(_), None) => "a component of it was not loaded, and the log says why".to_owned(),
    };
    options.library = options.bundle.digests().collect();
    options.denied = denied(section)?;
    options.grants_file.clone_from(&config.grants_file);
    for (package, grant) in &section.grants {
        options
            .settings
            .insert(package.clone(), settings(package, grant, &section.limits)?);
    }
    Ok(options)
}

/// Takes the grants, limits and secrets of these settings into a running host. Blocks.
pub(crate) fn reconfigure(config: &Config, host: &plugins::Host) -> Result<(), Expected> {
    let section = &config.plugins;
    let grants = section.grants.iter();
    let grants = grants
        .map(|(package, grant)| Ok((package.clone(), settings(package, grant, &section.limits)?)));
    let settings = grants.collect::<Result<_, Expected>>()?;
    let done = host.reconfigure(limits(&section.limits), settings, secrets(config)?);
    done.map_err(|error| {
        let text = format!("[plugins.limits] or a grant needs a restart: {error}");
        Expected::new(codes::CONFIG_VALUE, text).help("Restart the host, or lower the limit.")
    })
}

/// The program of this process, even if its file was replaced since.
fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_default()
}

/// The largest file of certificates, in bytes: some ten times what a system has.
const MOST_ROOTS: u64 = 8 << 20;

/// The certificates by which servers are verified.
fn roots(section: &Plugins) -> Result<plugins::Roots, Expected> {
    let Some(path) = &section.roots else {
        return Ok(plugins::Roots::System);
    };
    let pem = windlass_files::read_regular(path, MOST_ROOTS).map_err(|error| {
        let text = format!("plugins.roots: {} cannot be read: {error}", path.display());
        Expected::new(codes::CONFIG_VALUE, text)
            .help("Name a file of certificates in PEM, or take `roots` out of [plugins].")
    })?;
    Ok(plugins::Roots::Only(pem))
}

fn limits(limits: &Limits) -> plugins::Limits {
    plugins::Limits {
        memory_bytes: limits.memory.bytes(),
        deadline: limits.deadline.duration(),
        table_elements: limits.table_elements as usize,
        payload_bytes: limits.payload.bytes(),
        handles: limits.handles as usize,
        log_lines: limits.log_lines as usize,
        log_bytes: limits.log_bytes.bytes(),
        blob_writers: limits.blob_writers as usize,
        blob_bytes: limits.blob_bytes.bytes(),
        http_requests: limits.http_requests,
        events: limits.events as usize,
        event_bytes: limits.event_bytes.bytes(),
    }
}

fn settings(
    package: &str,
    grant: &Grant,
    defaults: &Limits,
) -> Result<plugins::Settings, Expected> {
    let http = grant.http.iter().map(|text| {
        text.parse().map_err(|error| {
            let key = format!("plugins.grants.{package}.http");
            Expected::new(
                codes::CONFIG_VALUE,
                format!("{key}: `{text}` is no grant: {error}"),
            )
            .help("Write it like `https://prices.example` or `http://10.0.0.7:8080`.")
        })
    });
    Ok(plugins::Settings {
        grants: plugins::Grants {
            http: http.collect::<Result<_, _>>()?,
            secrets: grant.secrets.clone(),
            events: grant.events,
            consumer: grant.consumer,
        },
        proofs: proofs(package, grant)?,
        limits: Some(limits(&grant.limits.over(defaults))),
        isolation: match grant.isolation {
            None | Some(Isolation::Warm) => plugins::Isolation::Warm,
            Some(Isolation::Run) => plugins::Isolation::Run,
            Some(Isolation::Call) => plugins::Isolation::Call,
        },
    })
}

/// The proofs by which a grant recognises its components.
fn proofs(package: &str, grant: &Grant) -> Result<plugins::Proofs, Expected> {
    let key = |name: &str| format!("plugins.grants.{package}.{name}");
    Ok(plugins::Proofs {
        digests: read_all(&key("digest"), &grant.digest.0, "digest")?,
        keys: read_all(&key("key"), &grant.key.0, "key")?,
        files: grant.file.0.iter().map(PathBuf::from).collect(),
    })
}

/// Parses the texts of one setting.
fn read_all<T, C>(key: &str, texts: &[String], what: &str) -> Result<C, Expected>
where
    T: FromStr<Err: std::fmt::Display>,
    C: FromIterator<T>,
{
    let read = texts.iter().map(|text| {
        text.parse::<T>().map_err(|error| {
            let text = format!("{key}: `{text}` is no {what}: {error}");
            Expected::new(codes::CONFIG_VALUE, text)
                .help("`windlass plugin list` shows digests; `minisign -G` prints a public key.")
        })
    });
    read.collect()
}

/// The secrets, with their bindings.
fn secrets(config: &Config) -> Result<plugins::Secrets, Expected> {
    read_secrets(config.secrets.iter())
}

/// Leaves out the secrets that this process cannot read, with a warning for each: to check a
/// workflow, no value is needed.
///
/// # Errors
///
/// A secret is wrong in another way.
pub(crate) fn leave_unreadable_secrets_out(
    config: &mut Config,
    output: &Output,
) -> Result<(), Expected> {
    let mut unread = Vec::new();
    for (name, secret) in &config.secrets {
        match read_secrets(std::iter::once((name, secret))) {
            Ok(_) => {}
            Err(error) if error.code == codes::SECRET_UNREADABLE => {
                output.warn(&format!("[{}] {}", error.code, error.message));
                unread.push(name.clone());
            }
            Err(error) => return Err(error),
        }
    }
    config.secrets.retain(|name, _| !unread.contains(name));
    Ok(())
}

fn read_secrets<'s>(
    secrets: impl Iterator<Item = (&'s String, &'s Secret)>,
) -> Result<plugins::Secrets, Expected> {
    let all = secrets.map(|(name, secret)| {
        let secret = one_secret(name, secret)?;
        Ok((name.clone(), secret))
    });
    let all = all.collect::<Result<_, Expected>>()?;
    plugins::Secrets::new(all).map_err(|error| {
        let mut text = error.to_string();
        text.replace_range(..1, "T");
        Expected::new(codes::SECRET_UNREADABLE, text)
            .help("Make the file, or take the secret out of [secrets].")
    })
}

/// The error for a variable that holds no secret. The error itself would show the value.
fn no_variable(name: &str, variable: &str, error: &VarError) -> Expected {
    let why = match error {
        VarError::NotPresent => "is not set",
        VarError::NotUnicode(_) => "is no Unicode",
    };
    let text = format!("The secret `{name}` cannot be read: ${variable} {why}");
    Expected::new(codes::SECRET_UNREADABLE, text)
        .help("Set the variable, or take the secret out of [secrets].")
}

fn one_secret(name: &str, secret: &Secret) -> Result<plugins::Secret, Expected> {
    let wrong = |key: &str, text: &str, help: &str| {
        let text = format!("secrets.{name}{key}: {text}");
        Expected::new(codes::CONFIG_VALUE, text).help(help.to_owned())
    };
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        let help = "Use letters, digits, `-`, `_` and `.`.";
        return Err(wrong("", "this is no name of a secret", help));
    }
    let source = match (&secret.env, &secret.file, &secret.directory) {
        (Some(variable), None, None) => {
            let value = std::env::var(variable);
            plugins::Source::Value(value.map_err(|error| no_variable(name, variable, &error))?)
        }
        (None, Some(path), None) => plugins::Source::File(path.clone()),
        (None, None, Some(directory)) => plugins::Source::File(directory.join(name)),
        _ => {
            let help = "Give exactly one of `env`, `file` and `directory`.";
            return Err(wrong("", "its value has to come from one place", help));
        }
    };
    let to = secret.to.iter().map(|text| {
        text.parse().map_err(|error| {
            let help = "Write it like `https://prices.example`.";
            wrong(".to", &format!("`{text}` is no destination: {error}"), help)
        })
    });
    Ok(plugins::Secret {
        source,
        to: to.collect::<Result<_, _>>()?,
        workflows: secret.workflows.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_secret_that_is_no_text_is_not_shown() {
        let value = OsString::from_vec(b"hunter2\xff".to_vec());
        for (error, why) in [
            (VarError::NotUnicode(value), "$PRICE is no Unicode"),
            (VarError::NotPresent, "$PRICE is not set"),
        ] {
            let said = no_variable("price", "PRICE", &error);
            assert_eq!(said.code, codes::SECRET_UNREADABLE);
            assert!(said.message.ends_with(why), "{}", said.message);
            assert!(!said.message.contains("hunter2"), "{}", said.message);
        }
    }
}
