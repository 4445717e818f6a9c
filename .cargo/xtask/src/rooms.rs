//! The rooms of a crate: folders of which each uses only those below it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A crate with rooms.
struct House {
    /// The folder of its sources.
    sources: &'static str,
    /// Modules that every room may use.
    ground: &'static [&'static str],
    /// The rooms, from the bottom.
    rooms: &'static [&'static str],
}

const HOUSES: [House; 1] = [House {
    sources: "host/plugins/src",
    ground: &["bindings", "clean", "codes", "description", "error"],
    rooms: &["hold", "grant", "offer", "call", "load"],
}];

/// Reports imports from a room to one above it. A module that is neither ground nor a room is at
/// the top, and no room uses it.
pub(crate) fn upward(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    for house in HOUSES {
        for file in files {
            let Ok(inside) = file.strip_prefix(house.sources) else {
                continue;
            };
            if inside.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let path = root.join(file);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let own = inside.iter().next().unwrap_or_default();
            let own = own.to_string_lossy();
            let own = house.floor(own.trim_end_matches(".rs"));
            for (line, name) in named(&text) {
                if house.floor(name) > own {
                    let file = file.display();
                    wrong.push(format!(
                        "{file}:{line}: `crate::{name}` is in a room above this one"
                    ));
                }
            }
        }
    }
    Ok(())
}

impl House {
    /// The floor of a module: 0 is the ground.
    fn floor(&self, module: &str) -> usize {
        if self.ground.contains(&module) {
            return 0;
        }
        let at = self.rooms.iter().position(|room| *room == module);
        at.map_or(self.rooms.len(), |at| at) + 1
    }
}

/// The modules of its crate that a source names, with their lines. Comments do not count.
fn named(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines());
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(|(no, line)| {
        let parts = line.split("crate::").skip(1);
        parts.map(move |part| {
            let end = part.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            (
                no,
                part.get(..end.unwrap_or(part.len())).unwrap_or_default(),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{HOUSES, named};

    #[test]
    fn rooms_stand_above_the_ground_and_below_the_top() {
        let [plugins] = HOUSES;
        let floors = [
            "codes", "hold", "grant", "offer", "call", "load", "host", "Host",
        ];
        let floors = floors.map(|module| plugins.floor(module));
        assert_eq!(floors, [0, 1, 2, 3, 4, 5, 6, 6]);
    }

    #[test]
    fn modules_are_found_and_comments_are_not() {
        let text =
            "use crate::hold::budget;\n// crate::load\n    f(crate::call::Call, crate::Host)";
        let found: Vec<_> = named(text).collect();
        assert_eq!(found, [(1, "hold"), (3, "call"), (3, "Host")]);
    }
}
