//! Lists locks and their holders for people.

use windlass_locks::{Key, Listed};
use windlass_store::{Store, next_rows};

use crate::error::Error;

/// The number of runs in one read.
const PAGE: u32 = 500;

/// The runs that processes own now, as locks. Without a configured provider, ownership in the store
/// is the lock `workflow-instance:{id}`, and its epoch is the token. The lock lasts as long as the
/// owner's membership. Sorted by key, at most `limit`.
///
/// # Errors
///
/// The store fails.
pub fn owned(store: &dyn Store, limit: u32) -> Result<Vec<Listed>, Error> {
    let members = store.members()?;
    let (mut owned, mut after) = (Vec::new(), None);
    while owned.len() < limit as usize {
        let rows = next_rows(PAGE, |limit| store.owned(after, limit))?;
        let Some(last) = rows.last() else {
            break;
        };
        after = last.owner.map(|owner| (owner, last.no));
        for row in &rows {
            let Some(owner) = row.owner else {
                continue;
            };
            let member = members.iter().find(|member| member.incarnation == owner);
            owned.push(Listed {
                key: Key::run(row.id).to_string(),
                owner: member.map_or_else(
                    || format!("a process that is gone ({})", owner.0),
                    |member| member.name.clone(),
                ),
                token: u64::try_from(row.epoch.0).unwrap_or_default(),
                lease_ms: None,
            });
        }
    }
    owned.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    // A run that changes its owner meanwhile may be read twice.
    owned.dedup_by(|a, b| a.key == b.key);
    owned.truncate(limit as usize);
    Ok(owned)
}
