//! The files of the web console, as a part of the program.
//!
//! The files in `app` are what the browser runs: modules, a style sheet, and libraries that are
//! stored unmodified in `app/vendor`. The program contains them compressed, and a server answers
//! with these bytes. The page is the only text that depends on a request: its `base` leads from the
//! address of the request to the root of the console, so all addresses are relative and a proxy may
//! add a prefix.

use std::io::Read as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

/// A file of the console.
#[derive(Debug)]
pub struct File {
    /// Its path below the folder of the console, like `vendor/preact.mjs`.
    pub name: &'static str,
    /// Its media type, for `Content-Type`.
    pub media: &'static str,
    /// Its content in the format of gzip.
    pub gzip: &'static [u8],
}

/// All files, in the order of their names.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The page before its `base` is set.
const PAGE: &str = include_str!("../app/index.html");

/// What the page has in place of the address of the console's root.
const BASE: &str = "{{base}}";

/// The beginning of the only script in the page: the names of the libraries.
const MAP: &str = "<script type=\"importmap\">";

/// The policy of the page and the hash of the names of its libraries.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let map = PAGE
        .split_once(MAP)
        .and_then(|(_, rest)| rest.split_once("</script>"));
    let map = map.map_or("", |(map, _)| map);
    let hash = STANDARD.encode(Sha256::digest(map));
    format!(
        "default-src 'none'; script-src 'self' 'sha256-{hash}'; style-src 'self'; \
         img-src 'self' data:; connect-src 'self'; base-uri 'self'; form-action 'self'; \
         frame-ancestors 'none'"
    )
});

impl File {
    /// The file with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        let at = FILES.binary_search_by(|file| file.name.cmp(name)).ok()?;
        FILES.get(at)
    }

    /// All files, by name.
    pub fn all() -> &'static [Self] {
        FILES
    }

    /// A value that is different for other content, for `ETag`, with its quotes.
    pub fn tag(&self) -> String {
        tag(self.gzip)
    }

    /// The content for a client that does not read gzip.
    pub fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        // The build has compressed it.
        let read = flate2::read::GzDecoder::new(self.gzip).read_to_end(&mut plain);
        debug_assert!(read.is_ok(), "{} is no gzip", self.name);
        plain
    }
}

/// The page for an address that has so many slashes below the root of the console: `runs` has none,
/// `runs/7` has one.
pub fn page(depth: usize) -> String {
    let base = match depth {
        0 => "./".to_owned(),
        depth => "../".repeat(depth),
    };
    PAGE.replace(BASE, &base)
}

/// The content security policy of the page: scripts, styles and requests of this origin alone.
pub fn policy() -> &'static str {
    &POLICY
}

/// A value that is different for other content, for `ETag`, with its quotes.
pub fn tag(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let short = digest.get(..16).unwrap_or_default();
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_found_and_unpacks_to_its_source() {
        assert!(File::all().len() > 5);
        for file in File::all() {
            let found = File::find(file.name).expect("it is in the table");
            let source = format!("{}/app/{}", env!("CARGO_MANIFEST_DIR"), file.name);
            assert_eq!(found.plain(), std::fs::read(&source).unwrap(), "{source}");
        }
        for name in ["", "index.html", "../Cargo.toml", "vendor", "main.js/"] {
            assert!(File::find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_files_stay_small() {
        let all: usize = File::all().iter().map(|file| file.gzip.len()).sum();
        assert!(all < 200 * 1024, "{all} bytes");
    }

    #[test]
    fn the_page_leads_to_its_root_and_runs_no_other_script() {
        assert!(page(0).contains("<base href=\"./\">"));
        assert!(page(2).contains("<base href=\"../../\">"));
        for depth in 0..3 {
            let page = page(depth);
            assert!(!page.contains(BASE));
            // The map, and the module that is a file.
            assert_eq!(page.matches("<script").count(), 2);
            assert!(page.contains("<script type=\"module\" src=\"app/main.js\"></script>"));
            assert!(!page.contains("style="));
        }
        let before = PAGE.split(MAP).next().unwrap();
        assert!(before.contains("<base "), "the map follows the base");
        assert_eq!(policy().matches("sha256-").count(), 1);
        assert!(!policy().contains("unsafe"));
        // The hash of no text.
        assert!(!policy().contains("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="));
    }

    #[test]
    fn no_file_names_another_place() {
        for file in File::all() {
            if file.name.starts_with("vendor/") {
                continue;
            }
            let text = String::from_utf8(file.plain()).unwrap();
            for part in ["http://", "https://", "innerHTML", "eval(", "new Function"] {
                // The name of the space of SVG is no address.
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(part), "{} has {part}", file.name);
            }
        }
    }
}
