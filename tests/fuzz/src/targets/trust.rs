//! A `windlass.toml`, a NUL, and the user's record of trusted projects: no sensitive setting
//! remains of an untrusted project, and none is lost of a trusted one.

#[path = "../../../../host/cli/src/config/sensitive.rs"]
mod sensitive;

use toml::Table;

use super::halves;
use sensitive::{SENSITIVE, Trusted, hash_of, sift};

/// The path of the project file.
const PATH: &str = "/p/windlass.toml";

pub(crate) fn run(data: &[u8]) {
    let (project, trusted) = halves(data);
    let trusted = Trusted::read(trusted).unwrap_or_default();
    let Ok(project) = std::str::from_utf8(project) else {
        return;
    };
    let Ok(whole) = project.parse::<Table>() else {
        return;
    };
    let settings = sensitive::sensitive(&whole);
    let is_trusted = trusted.has(PATH, &settings);
    let hash = hash_of(&settings);
    assert_eq!(is_trusted, trusted.projects.get(PATH) == Some(&hash));

    let mut rest = whole.clone();
    let taken = sift(&mut rest, |asked| trusted.has(PATH, asked));
    if is_trusted {
        assert_eq!(hash_of(&rest), hash_of(&whole), "trusted settings count");
        return;
    }
    assert!(sensitive::sensitive(&rest).is_empty(), "{taken:?} stays");
    for key in SENSITIVE {
        assert_eq!(at(&rest, key), None, "{key} stays");
        assert_eq!(taken.contains(&key), at(&whole, key).is_some(), "{key}");
    }
    // Only a change of the removed settings changes the hash.
    assert_eq!(hash_of(&sensitive::sensitive(&whole)), hash);
    for (section, before) in &whole {
        let is_there = SENSITIVE.contains(&section.as_str()) || rest.get(section).is_some();
        assert!(is_there, "{section} = {before:?} is gone");
    }
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a toml::Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((section, name)) => table.get(section)?.as_table()?.get(name),
    }
}
