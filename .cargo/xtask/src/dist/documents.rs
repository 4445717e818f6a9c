//! The documents of the archive: the pages, and everything that they link to.
//!
//! Only files that git tracks are taken, so that what a build has left beside them is not.

use super::read;
use super::tree::Tree;
use crate::place;
use anyhow::{Result, ensure};
use std::process::Command;

/// Files and directories that the archive has at the same paths as the repository.
const TAKEN: [&str; 14] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs",
    "examples",
    "guest-sdk",
    "plugins/README.md",
    "plugins/audit",
    "plugins/chain-executor",
    "tests",
    "wit",
];

/// The parts of `tests` that documents link to.
const TESTS: [&str; 2] = ["tests/clients/", "tests/foreign/"];

/// Adds them.
pub(super) fn add(tree: &mut Tree) -> Result<()> {
    let root = place::root()?;
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--"]).args(TAKEN);
    let listed = place::output(list.current_dir(&root))?;
    let files = listed.split('\0').filter(|file| !file.is_empty());
    let mut found = 0;
    for file in files {
        if file.starts_with("tests/") && !TESTS.iter().any(|part| file.starts_with(part)) {
            continue;
        }
        tree.add(file, 0o644, read(&root.join(file))?);
        found += 1;
    }
    ensure!(found > TAKEN.len(), "git lists no documents");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Component, Path, PathBuf};

    /// The targets of the links of a page, without those in samples of code.
    fn links(text: &str) -> Vec<&str> {
        let (mut links, mut code) = (Vec::new(), false);
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                code = !code;
            }
            let parts = line.split("](").skip(1).filter(|_| !code);
            links.extend(parts.filter_map(|part| part.split_once(')').map(|(link, _)| link)));
        }
        links
    }

    /// The path in the archive to which a page links; none outside of the archive.
    fn target(page: &str, link: &str) -> Option<PathBuf> {
        let mut path = Path::new(page).parent()?.to_owned();
        for part in Path::new(link).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => path.push(name),
                Component::ParentDir if path.pop() => {}
                _ => return None,
            }
        }
        Some(path)
    }

    #[test]
    fn pages_link_to_nothing_outside_of_the_archive() {
        let mut tree = Tree::default();
        add(&mut tree).unwrap();
        let is_there = |path: &Path| {
            let mut files = tree.0.keys().map(Path::new);
            files.any(|file| file.starts_with(path))
        };
        let (mut seen, mut wrong) = (0, Vec::new());
        // The pages of a template link to the files that the template has when it is filled.
        let pages = tree
            .0
            .iter()
            .filter(|(path, _)| path.ends_with(".md") && !path.contains("/template/"));
        for (page, (_, bytes)) in pages {
            for link in links(std::str::from_utf8(bytes).unwrap()) {
                let link = link.split('#').next().unwrap_or_default();
                if link.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                seen += 1;
                if !target(page, link).is_some_and(|path| is_there(&path)) {
                    wrong.push(format!("{page}: {link}"));
                }
            }
        }
        assert!(seen > 500, "links are found: {seen}");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn links_are_found_in_text_alone() {
        let page = "See [a](a.md#b) and [b](../c).\n```\n[no](x)\n```\n![c](d.png)";
        assert_eq!(links(page), ["a.md#b", "../c", "d.png"]);
        let at = |link| target("docs/errors/e.md", link);
        assert_eq!(at("../a.md"), Some("docs/a.md".into()));
        assert_eq!(at("../../README.md"), Some("README.md".into()));
        assert_eq!(at("../../../out.md"), None);
        assert_eq!(at("/etc/passwd"), None);
    }

    #[test]
    fn the_archive_has_the_readme_the_pages_of_plugins_and_all_examples() {
        let mut tree = Tree::default();
        add(&mut tree).unwrap();
        for file in [
            "README.md",
            "docs/writing-a-plugin.md",
            "guest-sdk/rust/README.md",
        ] {
            assert!(tree.0.contains_key(file), "{file}");
        }
        let examples = place::root().unwrap().join("examples");
        for example in std::fs::read_dir(examples).unwrap() {
            let name = example.unwrap().file_name();
            let within = format!("examples/{}/", name.to_string_lossy());
            assert!(
                tree.0.keys().any(|file| file.starts_with(&within)),
                "{within}"
            );
        }
        let bytes: usize = tree.0.values().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 4_000_000, "{bytes} bytes of documents");
    }
}
