//! `windlass plugin list` and `inspect` for the plugins that a host has loaded. The API does not
//! reveal the paths of their files, nor their grants.

use serde_json::Value;

use crate::app::Context;
use crate::client::{picked, taken, text};
use crate::exit::Exit;
use crate::output::{members, table};

/// How many plugins are listed at most.
const LISTED: u32 = 10_000;

/// The members of a plugin in the host's answer.
const ORDER: [&str; 9] = [
    "package",
    "version",
    "title",
    "digest",
    "pure",
    "consumer",
    "description",
    "imports",
    "nodes",
];

/// Lists the plugins.
pub(super) fn list(context: &Context) -> anyhow::Result<Exit> {
    let mut items = context.api()?.list_whole(&["plugins"], &[], LISTED)?;
    let compiling = context.api()?.list_whole(&["compilations"], &[], LISTED)?;
    let compiling = compiling.into_iter().map(|mut item| {
        if let Value::Object(members) = &mut item {
            members.insert("compiling".to_owned(), Value::Bool(true));
        }
        item
    });
    items.extend(compiling);
    context.output.list(&items, || {
        let lines = items.iter().map(|item| {
            let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
            if item.get("compiling").is_some() {
                return compiled(item);
            }
            let nodes = item.get("nodes").and_then(Value::as_array);
            let nodes = nodes.into_iter().flatten().filter_map(Value::as_str);
            let pure = item.get("pure") == Some(&Value::Bool(true));
            vec![
                text("package").to_owned(),
                text("version").to_owned(),
                nodes.collect::<Vec<_>>().join(", "),
                if pure { "pure" } else { "effects" }.to_owned(),
            ]
        });
        table(&["package", "version", "nodes", "effects"], lines.collect())
    })?;
    Ok(Exit::Done)
}

/// The line of a component that is not compiled yet.
fn compiled(item: &Value) -> Vec<String> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
    let (package, version) = text("name").split_once('@').unwrap_or_default();
    let digest: String = text("digest").chars().take(19).collect();
    let package = match package {
        "" => digest,
        package => package.to_owned(),
    };
    let state = match item.get("running") == Some(&Value::Bool(true)) {
        true => "is being compiled",
        false => "waits for the compiler",
    };
    vec![package, version.to_owned(), state.to_owned(), String::new()]
}

/// Shows the plugin of a package.
pub(super) fn inspect(context: &Context, package: &str) -> anyhow::Result<Exit> {
    let mut shown = context.api()?.get(&["plugins", package])?;
    let mut item = taken(&mut shown, "plugin");
    if let (Value::Object(item), Value::Object(shown)) = (&mut item, &mut shown) {
        item.extend(std::mem::take(shown));
    }
    let item = picked(item, &ORDER);
    text(&item, "package")?;
    context.output.show(&item, || members(&item, &ORDER))?;
    Ok(Exit::Done)
}
