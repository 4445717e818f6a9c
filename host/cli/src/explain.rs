//! The error pages inside the binary.

use windlass_model::nearest::nearest;

/// Every page, by code.
pub(crate) static PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The page for a code, which may be written as `WL-D004`, `wl-d004` or `d004`.
pub(crate) fn page(code: &str) -> Option<(&'static str, &'static str)> {
    let wanted = code.trim().to_ascii_uppercase();
    let wanted = wanted.strip_prefix("WL-").unwrap_or(&wanted);
    PAGES
        .iter()
        .copied()
        .find(|(code, _)| code.strip_prefix("WL-") == Some(wanted))
}

/// The title of a page, without its code.
pub(crate) fn title(page: &str) -> &str {
    let line = page.lines().next().unwrap_or_default();
    line.split_once(": ").map_or(line, |(_, title)| title)
}

/// The code nearest to an unknown one.
pub(crate) fn near(code: &str) -> Option<&'static str> {
    nearest(code, PAGES.iter().map(|(code, _)| *code))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// The codes that are constants in the sources of the host.
    fn constants() -> BTreeSet<String> {
        let host = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(host).unwrap() {
            let source = entry.unwrap().path().join("src");
            if source.is_dir() {
                sources(&source, &mut files);
            }
        }
        let mut codes = BTreeSet::new();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            for (at, call) in text.match_indices("Code::new(") {
                let argument = text[at + call.len()..].trim_start();
                let Some(code) = argument.strip_prefix("\"WL-") else {
                    continue;
                };
                codes.insert(format!("WL-{}", code.split('"').next().unwrap()));
            }
        }
        codes
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let pages: BTreeSet<_> = PAGES.iter().map(|(code, _)| (*code).to_owned()).collect();
        let constants = constants();
        let missing: Vec<_> = constants.difference(&pages).collect();
        let stale: Vec<_> = pages.difference(&constants).collect();
        assert!(
            missing.is_empty(),
            "codes without a page in docs/errors: {missing:?}"
        );
        assert!(
            stale.is_empty(),
            "pages without a code in host/*/src: {stale:?}"
        );
    }

    #[test]
    fn pages_have_the_common_form() {
        for (code, page) in PAGES {
            let first = page.lines().next().unwrap();
            assert!(
                first.starts_with(&format!("# {code}: ")),
                "{code} begins with {first:?}"
            );
            assert!(
                page.contains("\n## What to do\n"),
                "{code} does not say what to do"
            );
            assert!(page.lines().count() <= 40, "{code} is too long");
        }
    }
}
