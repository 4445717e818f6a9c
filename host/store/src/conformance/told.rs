//! All rows of a store as lines of text: two stores with the same history give equal lines.

use windlass_model::{Body, Payload, RunNo, ScopeNo, Seq, TriggerId};

use crate::Store;
use crate::external::DueQuery;
use crate::letters::LetterQuery;
use crate::published::{PublicationQuery, ScheduleQuery};
use crate::read::{Counts, RunQuery};
use crate::stimuli::{BookmarkQuery, StimulusQuery};

/// The maximum number of rows of one kind: more than a test's history leaves.
const LIMIT: u32 = 100_000;

/// All rows of a store, except its process ids, which always differ. External
/// triggers are looked up by these names.
pub fn told(store: &dyn Store, named: &[TriggerId]) -> Vec<String> {
    // Each store clears the rows behind a tombstone at its own pace.
    let counts = Counts {
        runs: 0,
        executions: 0,
        blobs: 0,
        ..store.counts().unwrap()
    };
    let mut lines = vec![format!("{counts:?}")];
    let query = RunQuery {
        limit: LIMIT,
        ..Default::default()
    };
    for row in store.runs(&query).unwrap() {
        lines.push(format!("{row:?}"));
        run(store, row.no, &mut lines);
        let (definition, pins) = (store.definition(row.definition), store.pins(row.pins));
        let there = (definition.unwrap().is_some(), pins.unwrap().is_some());
        let same = store.run(row.id).unwrap() == Some(row);
        lines.push(format!("found by its name: {same}, documents: {there:?}"));
    }
    waiting(store, &mut lines);
    published(store, &mut lines);
    for name in named {
        lines.push(format!("{name:?}: {:?}", store.external(*name).unwrap()));
    }
    for member in store.members().unwrap() {
        lines.push(format!("{} {:?}", member.incarnation, member.name));
    }
    lines
}

fn run(store: &dyn Store, no: RunNo, lines: &mut Vec<String>) {
    let runs = store.executions(no, None, LIMIT).unwrap();
    let scopes = store.scopes(no).unwrap();
    let mut lists: Vec<Seq> = runs.iter().flat_map(|run| [run.seq, run.first]).collect();
    lists.sort_unstable();
    lists.dedup();
    let values = [store.input(no).unwrap(), store.output(no).unwrap()];
    let outputs = runs.iter().map(|run| run.output.clone());
    let values: Vec<Payload> = outputs.chain(values).flatten().collect();
    lines.push(format!("{values:?}"));
    for payload in &values {
        if let Body::Blob(blob) = &payload.body {
            let there = store.blob(*blob).unwrap().is_some();
            lines.push(format!("{blob:?} is there: {there}"));
        }
    }
    lines.extend(runs.iter().map(|run| format!("{run:?}")));
    let open = scopes.iter().map(|(scope, _)| *scope);
    for scope in open.chain([ScopeNo::ROOT]) {
        lines.push(format!("{scope:?}: {:?}", store.vars(no, scope).unwrap()));
    }
    lines.push(format!("{scopes:?}"));
    for list in lists {
        let items = store.items(no, list, 0, LIMIT).unwrap();
        if !items.is_empty() {
            lines.push(format!("items of {list}: {items:?}"));
        }
    }
    lines.push(format!("{:?}", store.journal(no).unwrap()));
    lines.push(format!("{:?}", store.events(no, 0, LIMIT).unwrap()));
    let triggers = store.triggers(no).unwrap();
    lines.extend(triggers.iter().map(|row| format!("{row:?}")));
    let children = store.children(no, None, LIMIT).unwrap();
    lines.extend(children.iter().map(|child| format!("child {}", child.no)));
}

fn waiting(store: &dyn Store, lines: &mut Vec<String>) {
    let limit = LIMIT;
    let bookmarks = BookmarkQuery {
        limit,
        ..Default::default()
    };
    let stimuli = StimulusQuery {
        limit,
        ..Default::default()
    };
    let letters = LetterQuery {
        limit,
        ..Default::default()
    };
    let due = DueQuery {
        after: None,
        until_ms: i64::MAX,
        limit,
    };
    lines.push(format!("{:?}", store.bookmarks(&bookmarks).unwrap()));
    lines.push(format!("{:?}", store.queued(&stimuli).unwrap()));
    lines.push(format!("{:?}", store.buffered(&stimuli).unwrap()));
    lines.push(format!("{:?}", store.dead_letters(&letters).unwrap()));
    lines.push(format!("{:?}", store.due(&due).unwrap()));
    lines.push(format!("{:?}", store.backlog(i64::MAX, limit).unwrap()));
    let expired = store.expired(i64::MAX, i64::MAX, limit).unwrap();
    lines.push(format!("{expired:?}"));
}

fn published(store: &dyn Store, lines: &mut Vec<String>) {
    let query = PublicationQuery {
        retracted: true,
        limit: LIMIT,
        ..Default::default()
    };
    let publications = store.publications(&query).unwrap();
    let mut names: Vec<&String> = publications.iter().map(|row| &row.name).collect();
    names.dedup();
    for name in names {
        lines.push(format!("{:?}", store.published(name).unwrap()));
        for binding in store.bindings_of(name).unwrap() {
            let of_hash = store.bindings(binding.binding.hash).unwrap().len();
            lines.push(format!("{binding:?} among {of_hash}"));
        }
    }
    lines.push(format!("{publications:?}"));
    let query = ScheduleQuery {
        limit: LIMIT,
        ..ScheduleQuery::default()
    };
    lines.push(format!("{:?}", store.schedules(&query).unwrap()));
    lines.push(format!("{:?}", store.drafts(None, LIMIT).unwrap()));
    lines.push(format!("{:?}", store.sources(None, LIMIT).unwrap()));
    lines.push(format!("{:?}", store.upkeep(LIMIT).unwrap()));
}
