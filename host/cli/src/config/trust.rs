//! The user's trust in the sensitive settings of a project.
//!
//! A project is a folder of unknown origin. Most settings of its file cannot harm the user who runs
//! a command there. Some can: which code runs, what it may do and know, and who may send requests.
//! These count only after the user has trusted this file with these values: the record contains the
//! path of the file and a hash of these settings.

use std::path::{Path, PathBuf};

use toml::Table;

pub(crate) use super::sensitive::{SENSITIVE, sensitive, sift};
use super::sensitive::{Trusted, hash_of};
use crate::codes;
use crate::error::Expected;
use crate::private;

/// The largest record that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// The error for a path that cannot be recorded.
const NO_UNICODE: &str = "The path of the project file is no Unicode";

/// The file with a user's record; none without a home.
#[derive(Clone, Debug)]
pub(crate) struct Trust(Option<PathBuf>);

impl Trust {
    /// The record of the user of this process.
    pub(crate) fn of_user() -> Self {
        Self(private::state().map(|state| state.join("trusted.json")))
    }

    /// The file of the record.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.0.clone()
    }

    /// The record in a file.
    #[cfg(test)]
    pub(crate) fn in_file(path: PathBuf) -> Self {
        Self(Some(path))
    }

    /// Whether the user trusts these settings of a project file.
    pub(crate) fn has(&self, project: &Path, settings: &Table) -> bool {
        let trusted = self.read().unwrap_or_default();
        absolute(project).is_some_and(|path| trusted.has(&path, settings))
    }

    /// Records that the user trusts these settings of a project file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(crate) fn add(&self, project: &Path, settings: &Table) -> Result<(), Expected> {
        let path = absolute(project).ok_or_else(|| self.unusable(NO_UNICODE))?;
        self.change(|trusted| {
            trusted.projects.insert(path, hash_of(settings));
        })
    }

    /// Removes a project from the record. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(crate) fn remove(&self, project: &Path) -> Result<bool, Expected> {
        let path = absolute(project).ok_or_else(|| self.unusable(NO_UNICODE))?;
        let mut was = false;
        self.change(|trusted| was = trusted.projects.remove(&path).is_some())?;
        Ok(was)
    }

    fn change(&self, change: impl FnOnce(&mut Trusted)) -> Result<(), Expected> {
        let Some(file) = &self.0 else {
            let instead = "name the project by `--config FILE`, or say `--trust`";
            return Err(private::no_home(
                codes::TRUST,
                "the list of trusted projects",
                instead,
            ));
        };
        let mut trusted = match self.read() {
            Ok(trusted) => trusted,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Trusted::default(),
            Err(error) => return Err(self.unusable(&error.to_string())),
        };
        change(&mut trusted);
        let text = serde_json::to_string_pretty(&trusted);
        let text = text.map_err(|error| self.unusable(&error.to_string()))?;
        windlass_files::write(file, text.as_bytes())
            .map_err(|error| self.unusable(&error.to_string()))
    }

    fn read(&self) -> std::io::Result<Trusted> {
        let file = self.0.as_deref().ok_or(std::io::ErrorKind::NotFound)?;
        let text = private::read(file, LONGEST)?;
        Ok(Trusted::read(text.as_bytes())?)
    }

    fn unusable(&self, why: &str) -> Expected {
        let file = self.0.as_deref().unwrap_or(Path::new("trusted.json"));
        let text = format!("{} cannot be used: {why}", file.display());
        Expected::new(codes::TRUST, text)
            .help("Take the file away, and say `windlass trust` again where it is needed.")
    }
}

/// The canonical path of a file, with the links of its folder resolved. A link that is the file
/// itself is kept: the settings are relative to the folder that contains it.
fn absolute(path: &Path) -> Option<String> {
    let whole = std::path::absolute(path).ok()?;
    let folder = std::fs::canonicalize(whole.parent()?).ok()?;
    let path = folder.join(whole.file_name()?);
    path.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sensitive::tests::{PROJECT, table};

    #[test]
    fn trust_is_of_one_file_and_its_values() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::in_file(dir.path().join("state/trusted.json"));
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        for path in [&one, &other] {
            std::fs::write(path, "").unwrap();
        }
        let settings = sensitive(&table(PROJECT));
        assert!(!trust.has(&one, &settings));
        trust.add(&one, &settings).unwrap();
        assert!(trust.has(&one, &settings));
        assert!(!trust.has(&other, &settings));
        let changed = sensitive(&table(&PROJECT.replace("PRICE", "PATH")));
        assert!(!trust.has(&one, &changed));
        trust.add(&other, &changed).unwrap();
        assert!(trust.remove(&one).unwrap());
        assert!(!trust.remove(&one).unwrap());
        assert!(!trust.has(&one, &settings) && trust.has(&other, &changed));
    }

    #[test]
    fn a_link_to_a_trusted_file_is_not_trusted_in_another_folder() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::in_file(dir.path().join("trusted.json"));
        let folder = |name: &str| dir.path().join(name);
        for name in ["one", "other"] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        let project = folder("one").join("windlass.toml");
        std::fs::write(&project, PROJECT).unwrap();
        let link = folder("other").join("windlass.toml");
        symlink(&project, &link).unwrap();
        symlink(folder("one"), folder("same")).unwrap();
        let settings = sensitive(&table(PROJECT));
        trust.add(&project, &settings).unwrap();
        assert!(!trust.has(&link, &settings));
        assert!(trust.has(&folder("same").join("windlass.toml"), &settings));
        assert!(trust.has(&folder("other").join("../one/windlass.toml"), &settings));
        trust.add(&link, &settings).unwrap();
        assert!(trust.remove(&project).unwrap());
        assert!(trust.has(&link, &settings) && !trust.has(&project, &settings));
    }

    #[test]
    fn without_a_home_nothing_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("windlass.toml");
        std::fs::write(&project, PROJECT).unwrap();
        let settings = sensitive(&table(PROJECT));
        let error = Trust(None).add(&project, &settings).unwrap_err();
        assert_eq!(error.code, codes::TRUST);
        assert!(!Trust(None).has(&project, &settings));
    }

    #[test]
    fn a_file_that_others_can_write_says_nothing_of_trust() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::in_file(dir.path().join("trusted.json"));
        let project = dir.path().join("windlass.toml");
        std::fs::write(&project, "").unwrap();
        let settings = sensitive(&table(PROJECT));
        trust.add(&project, &settings).unwrap();
        let wide = std::fs::Permissions::from_mode(0o622);
        std::fs::set_permissions(dir.path().join("trusted.json"), wide).unwrap();
        assert!(!trust.has(&project, &settings));
        assert_eq!(
            trust.add(&project, &settings).unwrap_err().code,
            codes::TRUST
        );
        std::fs::remove_file(dir.path().join("trusted.json")).unwrap();
        trust.add(&project, &settings).unwrap();
        for damaged in ["", "{", "[]", "{\"projects\": 1}"] {
            std::fs::write(dir.path().join("trusted.json"), damaged).unwrap();
            assert!(!trust.has(&project, &settings), "{damaged}");
        }
    }
}
