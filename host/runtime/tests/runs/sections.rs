//! The listed holder of a critical section, and the event that it waits for.

use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, Status};
use windlass_runtime::operations::{self, Execution, Section, Waits};
use windlass_store::Reader as _;

use crate::rig::{Running, Setup};

fn shown(running: &Running, no: windlass_model::RunNo) -> Vec<Section> {
    let row = running.store.run_by_no(no).unwrap().unwrap();
    let stored = running.store.definition(row.definition).unwrap().unwrap();
    let definition = windlass_model::file::read_canonical(&stored.json).unwrap();
    operations::sections(&*running.store, &row, &definition).unwrap()
}

fn go(name: &str) -> Stimulus {
    Stimulus {
        name: name.to_owned(),
        matches: serde_json::json!({ "till": 1 }),
        correlation: None,
        run: None,
        input: Payload::null(),
        delivery: Delivery::Resume,
        ttl_ms: 60_000,
        trace: None,
    }
}

fn execution(node: &str, items: &[u32]) -> Execution {
    Execution {
        node: node.to_owned(),
        items: items.to_vec(),
    }
}

#[test]
fn a_holder_of_a_critical_section_is_shown_with_its_waits() {
    let running = Setup::default().start();
    let started = running.run(
        r#"
workflow: till
nodes:
  ask: { mutex: till, event: counted, match: { till: 1 } }
  book: { mutex: till, wait: 1h }
  lines:
    for-each: [a, b]
    concurrency: 2
    nodes:
      line: { mutex: till, set: { line: "{{ index }}" } }
  over: { join: all, set: { over: true } }
edges: [ask -> over, book -> over, lines -> over]
"#,
    );
    running.until("all of them wait", |_| {
        shown(&running, started.no)
            .first()
            .is_some_and(|section| section.waiting.len() == 3)
    });
    running.suspended(started.no);
    let sections = shown(&running, started.no);
    let [section] = &sections[..] else {
        panic!("{sections:?}")
    };
    assert_eq!(section.mutex, "till");
    let holder = section.holder.as_ref().unwrap();
    assert_eq!(holder.execution, execution("ask", &[]));
    let stimuli = vec![("counted".to_owned(), r#"{"till":1}"#.to_owned())];
    assert_eq!(holder.waits, Waits::Events(stimuli, None));
    let waiting = [
        execution("book", &[]),
        execution("line", &[0]),
        execution("line", &[1]),
    ];
    assert_eq!((&section.waiting[..], section.more), (&waiting[..], 0));
    running.send(&go("counted"));
    running.until("the next one is in", |_| {
        shown(&running, started.no).first().is_some_and(|section| {
            let holder = section.holder.as_ref();
            holder.is_some_and(|holder| matches!(holder.waits, Waits::Time(_)))
        })
    });
    let sections = shown(&running, started.no);
    let holder = sections[0].holder.as_ref().unwrap();
    assert_eq!(holder.execution, execution("book", &[]));
    assert_eq!(sections[0].waiting, waiting[1..]);
    running.cancel(started.id);
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
    assert!(shown(&running, started.no).is_empty());
}
