//! The waits of a suspended run, in words: their subject, their deadline, and how to resume them.

use windlass_model::{TriggerState, TriggerType};
use windlass_store::Store;
use windlass_store::rows::RunRow;
use windlass_store::stimuli::{BookmarkQuery, BookmarkRow};

use crate::commands::{definition, moment, node_name};

/// How many waits are described at most. A run may have thousands.
const NAMED: u32 = 10;

/// How many triggers of a run are read, the soonest first.
const LOOKED_AT: u32 = 50;

/// A line for each wait of a run, up to the limit.
pub(crate) fn describe(store: &dyn Store, run: &RunRow) -> anyhow::Result<Vec<String>> {
    let bookmarks = store.bookmarks(&BookmarkQuery {
        run: Some(run.no),
        limit: NAMED,
        ..BookmarkQuery::default()
    })?;
    let mut lines: Vec<String> = bookmarks.iter().map(bookmark).collect();
    let workflow = definition(store, run)?;
    let rows = store.triggers_after(run.no, None, LOOKED_AT)?;
    let more = rows.len() >= LOOKED_AT as usize;
    for row in rows {
        if lines.len() >= NAMED as usize {
            break;
        }
        let Some(node) = row.node.filter(|_| row.state == TriggerState::Pending) else {
            continue;
        };
        let node = node_name(workflow.as_ref(), node);
        match row.kind {
            // The bookmarks already describe it.
            TriggerType::Resume => {}
            TriggerType::Child => lines.push(format!("Node `{node}` waits for a sub-workflow.")),
            _ if row.due_ms < i64::MAX => {
                let due = moment(row.due_ms);
                lines.push(format!("Node `{node}` goes on at {due}."));
            }
            _ => {}
        }
    }
    if more || lines.len() >= NAMED as usize {
        lines.push("It may wait for more: `windlass trigger list` shows all.".to_owned());
    }
    Ok(lines)
}

fn bookmark(row: &BookmarkRow) -> String {
    let bookmark = &row.bookmark;
    let matches = match &*bookmark.matches {
        b"null" => String::new(),
        json => format!(" with {}", String::from_utf8_lossy(json)),
    };
    let ends_ms = bookmark.expires_ms.into_iter().chain(row.ends_ms).min();
    let until = ends_ms
        .map(moment)
        .map_or_else(String::new, |at| format!(" until {at}"));
    format!(
        "It waits for `{}`{matches}{until}: `windlass bookmark resume {}` lets it go on.",
        bookmark.name, row.no
    )
}
