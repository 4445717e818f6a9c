//! Who holds which lock, for people.

use windlass_locks::{Key, Listed};
use windlass_model::Status;
use windlass_store::Store;
use windlass_store::read::InstanceQuery;

use crate::error::Error;

/// Runs that are looked through for owners; beyond, older ones are left out.
const LOOKED_THROUGH: u32 = 10_000;

/// Runs that are read at once.
const PAGE: u32 = 500;

/// The runs that a process owns at this moment, as locks: where no provider is configured for
/// it, ownership in the store is the lock `workflow-instance:{id}`, and its epoch the token. It
/// lasts for as long as the owner is a member. By key, and at most `limit`.
///
/// # Errors
///
/// The store is in trouble.
pub fn owned(store: &dyn Store, limit: u32) -> Result<Vec<Listed>, Error> {
    let members = store.members()?;
    let (mut owned, mut seen, mut before) = (Vec::new(), 0, None);
    while seen < LOOKED_THROUGH {
        let rows = store.instances(&InstanceQuery {
            statuses: vec![
                Status::Pending,
                Status::Running,
                Status::Suspended,
                Status::Paused,
            ],
            before,
            limit: PAGE,
            ..InstanceQuery::default()
        })?;
        let Some(last) = rows.last() else {
            break;
        };
        before = Some(last.no);
        seen += PAGE;
        for row in &rows {
            let Some(owner) = row.owner else {
                continue;
            };
            let member = members.iter().find(|member| member.incarnation == owner);
            owned.push(Listed {
                key: Key::instance(row.id).to_string(),
                owner: member.map_or_else(
                    || format!("a process that is gone ({})", owner.0),
                    |member| member.name.clone(),
                ),
                token: u64::try_from(row.epoch.0).unwrap_or_default(),
                lease_ms: None,
            });
        }
        if owned.len() >= limit as usize {
            break;
        }
    }
    owned.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    owned.truncate(limit as usize);
    Ok(owned)
}
