//! The memory that this process can have: that of the machine, or the limit of its control group.

use std::fs::read_to_string;
use std::path::Path;

/// The value if the system does not tell.
const UNKNOWN: u64 = 1 << 30;

/// The machine's memory in bytes, or the limit of the control group (version 2 or 1) that this
/// process is in, if that is less.
pub fn machine_memory() -> u64 {
    memory_of(Path::new("/"))
}

fn memory_of(root: &Path) -> u64 {
    let meminfo = read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let machine = total(&meminfo).unwrap_or(UNKNOWN);
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups
        .lines()
        .filter_map(|line| group_limit(root, line))
        .fold(machine, u64::min)
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The smallest limit of a group and of the groups that contain it. A line of `/proc/self/cgroup`
/// is `0::PATH` for version 2, and `N:memory:PATH` for the memory of version 1.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|one| one == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    // In a container the path may be the host's, while only the mount itself exists.
    let group = mount.join(path.trim_start_matches('/'));
    group
        .ancestors()
        .take_while(|dir| dir.starts_with(&mount))
        .filter_map(|dir| read_to_string(dir.join(file)).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], bytes: u64) {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        assert_eq!(memory_of(root.path()), bytes, "{files:?}");
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let machine = ("proc/meminfo", "MemTotal:       2048 kB\nMemFree:  1 kB\n");
        check(&[], UNKNOWN);
        check(&[machine], 2 << 20);
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        let unlimited = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        check(&[machine, v2, unlimited], 2 << 20);
        let above = ("sys/fs/cgroup/a/memory.max", "1048576\n");
        check(&[machine, v2, unlimited, above], 1 << 20);
        let v1 = (
            "proc/self/cgroup",
            "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
        );
        let limit = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "65536\n");
        let none = (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        check(&[machine, v1, none], 2 << 20);
        check(&[machine, v1, none, limit], 65_536);
    }
}
