//! What a suspended run waits for, in words: for whom or for what, until when, and how it is
//! let go on.

use windlass_model::{TriggerState, TriggerType};
use windlass_store::Store;
use windlass_store::rows::{InstanceRow, TriggerRow};
use windlass_store::stimuli::{BookmarkQuery, BookmarkRow};

use crate::commands::{definition, moment, node_name};

/// Things that are named at most. A run may wait for thousands.
const NAMED: u32 = 10;

/// A line for each thing that a run waits for, the first of them.
pub(crate) fn describe(store: &dyn Store, run: &InstanceRow) -> anyhow::Result<Vec<String>> {
    let bookmarks = store.bookmarks(&BookmarkQuery {
        instance: Some(run.no),
        limit: NAMED,
        ..BookmarkQuery::default()
    })?;
    let rows = store.triggers(run.no)?;
    let mut lines: Vec<String> = bookmarks.iter().map(|at| bookmark(at, &rows)).collect();
    let workflow = definition(store, run)?;
    for row in rows {
        if lines.len() >= NAMED as usize {
            lines.push("It waits for more: `windlass trigger list` shows all.".to_owned());
            break;
        }
        let Some(node) = row.node.filter(|_| row.state == TriggerState::Pending) else {
            continue;
        };
        let node = node_name(workflow.as_ref(), node);
        match row.kind {
            // Its bookmarks are named already.
            TriggerType::Resume => {}
            TriggerType::Child => lines.push(format!("Node `{node}` waits for a sub-workflow.")),
            _ if row.due_ms < i64::MAX => {
                let due = moment(row.due_ms);
                lines.push(format!("Node `{node}` goes on at {due}."));
            }
            _ => {}
        }
    }
    Ok(lines)
}

fn bookmark(row: &BookmarkRow, triggers: &[TriggerRow]) -> String {
    let bookmark = &row.bookmark;
    // The trigger behind it is due when the wait is over, whatever ends it.
    let waits = triggers.iter().find(|row| row.no == bookmark.trigger);
    let due_ms = waits
        .map(|row| row.due_ms)
        .filter(|due_ms| *due_ms < i64::MAX);
    let matches = match &*bookmark.matches {
        b"null" => String::new(),
        json => format!(" with {}", String::from_utf8_lossy(json)),
    };
    let ends_ms = bookmark.expires_ms.into_iter().chain(due_ms).min();
    let until = ends_ms
        .map(moment)
        .map_or_else(String::new, |at| format!(" until {at}"));
    format!(
        "It waits for `{}`{matches}{until}: `windlass bookmark resume {}` lets it go on.",
        bookmark.name, row.no
    )
}
