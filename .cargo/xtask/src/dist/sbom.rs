//! The bill of materials, in the format CycloneDX 1.5.

use super::Release;
use super::crates::Crate;
use crate::vendored;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bill<'a> {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata<'a>,
    components: Vec<Component<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    id: String,
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<Licence<'a>>,
    /// The address of the package: [purl](https://github.com/package-url/purl-spec).
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
}

#[derive(Serialize)]
struct Licence<'a> {
    expression: &'a str,
}

/// The bill of the program, with every crate that is compiled into it.
pub(super) fn text(release: &Release, crates: &[Crate]) -> Result<String> {
    let program = Component {
        kind: "application",
        id: format!("windlass@{}", release.version),
        name: "windlass",
        version: &release.version,
        licenses: licences(Some("Apache-2.0")),
        purl: None,
    };
    let library = |it: &'_ Crate| {
        let address = format!("pkg:cargo/{}@{}", it.name, it.version);
        (it.is_foreign, address)
    };
    let components = crates.iter().map(|it| {
        let (is_foreign, address) = library(it);
        Component {
            kind: "library",
            id: format!("{}@{}", it.name, it.version),
            name: &it.name,
            version: &it.version,
            licenses: licences(it.licence.as_deref()),
            purl: is_foreign.then_some(address),
        }
    });
    let libraries = vendored::libraries()?;
    let of_console = libraries.iter().map(|it| Component {
        kind: "library",
        id: format!("{}@{}", it.package, it.version),
        name: &it.package,
        version: &it.version,
        licenses: licences(Some(&it.licence)),
        purl: Some(format!("pkg:npm/{}@{}", it.package, it.version)),
    });
    let bill = Bill {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        version: 1,
        metadata: Metadata { component: program },
        components: components.chain(of_console).collect(),
    };
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn licences(expression: Option<&str>) -> Vec<Licence<'_>> {
    let licence = expression.map(|expression| Licence { expression });
    licence.into_iter().collect()
}
