//! Whether another user can change a file.
//!
//! A project file is found in the directory where a command begins, or above it: perhaps in one
//! that others can write, like `/tmp`. A file from another user would decide what this user's host
//! does. The same holds for a component that a grant names by its file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// How another user can change a file or directory, if one can: the reason, as a clause. A file
/// that is missing or cannot be examined counts, too.
pub fn foreign(path: &Path) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    // A link of another user may lead to a file of this one.
    let looked = std::fs::symlink_metadata(path)
        .and_then(|link| Ok((Of::link(&link), Of::file(&std::fs::metadata(path)?))));
    let (link, file) = match looked {
        Ok(both) => both,
        Err(error) => return Some(format!("it cannot be looked at: {error}")),
    };
    let is_private = || is_private(group, user);
    fault_of(&link, user, group, &is_private)
        .or_else(|| fault_of(&file, user, group, &is_private))
        .map(str::to_owned)
}

/// The owner of a file, and the permissions of others.
struct Of {
    user: u32,
    group: u32,
    mode: u32,
}

impl Of {
    fn file(about: &Metadata) -> Self {
        Self {
            user: about.uid(),
            group: about.gid(),
            mode: about.mode(),
        }
    }

    /// The permissions of a link have no meaning.
    fn link(about: &Metadata) -> Self {
        let mode = if about.is_symlink() { 0 } else { about.mode() };
        Self {
            mode,
            ..Self::file(about)
        }
    }
}

fn fault_of(of: &Of, user: u32, group: u32, is_private: &dyn Fn() -> bool) -> Option<&'static str> {
    if of.user != user && of.user != 0 {
        return Some("it belongs to another user");
    }
    if of.mode & 0o002 != 0 {
        return Some("every user can write it");
    }
    // With the umask 002, a user whose private group contains no other user lets that group write.
    let own = of.group == group && is_private();
    if of.mode & 0o020 != 0 && of.group != 0 && !own {
        return Some("other users of its group can write it");
    }
    None
}

/// Whether a group is a user's private one: it has the user's number or name, and no other member.
fn is_private(group: u32, user: u32) -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    is_private_by(&read("/etc/passwd"), &read("/etc/group"), group, user)
}

/// As [`is_private`], by the texts of `/etc/passwd` and `/etc/group`.
fn is_private_by(users: &str, groups: &str, group: u32, user: u32) -> bool {
    let users = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        let first = fields.next()?;
        Some((
            name,
            number.parse::<u32>().ok()?,
            first.parse::<u32>().ok()?,
        ))
    });
    let users: Vec<(&str, u32, u32)> = users.collect();
    if users
        .iter()
        .any(|(_, number, first)| *number != user && *first == group)
    {
        return false;
    }
    let own = users.iter().find(|(_, number, _)| *number == user);
    let own = own.map(|(name, ..)| *name);
    let entry = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        let members = fields.next().unwrap_or_default();
        (number.parse() == Ok(group)).then_some((name, members))
    });
    match entry {
        Some((name, members)) => {
            let mut members = members.split(',').map(str::trim);
            let alone = members.all(|member| member.is_empty() || Some(member) == own);
            alone && (group == user || Some(name) == own)
        }
        None => group == user,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n\
        bob:x:1001:100::/home/bob:/bin/sh\neve:x:1002:100::/home/eve:/bin/sh\n\
        zoe:x:1003:2003::/home/zoe:/bin/sh\n";
    const GROUPS: &str = "root:x:0:\nusers:x:100:\nada:x:1000:\nzoe:x:2003:zoe\n";

    #[test]
    fn a_group_is_private_if_its_user_is_the_only_member() {
        assert!(is_private_by(USERS, GROUPS, 1000, 1000));
        assert!(is_private_by(USERS, GROUPS, 2003, 1003), "by its name");
        assert!(!is_private_by(USERS, GROUPS, 100, 1001), "eve has it, too");
        let shared = GROUPS.replace("ada:x:1000:", "ada:x:1000:ada,eve");
        assert!(!is_private_by(USERS, &shared, 1000, 1000));
        assert!(
            is_private_by("", "", 1000, 1000),
            "a container without names"
        );
        assert!(!is_private_by("", "", 1000, 1001));
        assert!(!is_private_by(":::\nx", "::\n:x:1000", 1000, 1001));
    }

    #[track_caller]
    fn check(user: u32, group: u32, mode: u32, private: bool, good: bool) {
        let of = Of { user, group, mode };
        let fault = fault_of(&of, 1000, 1000, &|| private);
        assert_eq!(fault.is_none(), good, "{user} {group} {mode:o}: {fault:?}");
    }

    #[test]
    fn files_of_others_are_refused() {
        check(1000, 1000, 0o644, false, true);
        check(1000, 1000, 0o664, true, true);
        check(1000, 1000, 0o664, false, false);
        check(1000, 100, 0o664, true, false);
        check(1000, 100, 0o644, false, true);
        check(1000, 1000, 0o666, true, false);
        check(1001, 1000, 0o600, true, false);
        check(0, 0, 0o644, false, true);
        check(0, 0, 0o664, false, true);
        check(0, 100, 0o664, false, false);
    }

    #[test]
    fn a_path_that_cannot_be_inspected_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("none"), &link).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        for path in [link, dir.path().join("none"), dir.path().join("file/below")] {
            let fault = foreign(&path).unwrap();
            assert!(fault.starts_with("it cannot be looked at: "), "{fault}");
        }
    }

    #[test]
    fn a_file_of_ones_own_is_good_and_one_for_all_is_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("windlass.toml");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(foreign(&path), None);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(foreign(&link), None);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o646)).unwrap();
        assert!(foreign(&path).is_some());
        assert!(foreign(&link).is_some());
    }
}
