//! Traces: the spans of runs as a collector of OpenTelemetry receives them, and collectors that harm
//! no run.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Kind;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;
use windlass_model::Clock as _;
use windlass_model::trace::{TraceContext, span_of_run, trace_of};
use windlass_runtime::SystemClock;
use windlass_tests::harness::{Listener, Place, Process, Signal, Web, response, until, until_some};

const JSON: &str = "content-type: application/json";

const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector that takes everything.
fn collector() -> Listener {
    Listener::start(|_| Some(response("200 OK", &[], b"")))
}

/// A place whose hosts send their spans to this collector at once.
fn place(components: &[&str], origin: &str) -> Place {
    Place::new(components)
        .with_variable("OTEL_EXPORTER_OTLP_ENDPOINT", origin)
        .with_variable("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
        .with_variable("OTEL_SERVICE_NAME", "shop")
        .with_variable("OTEL_BSP_SCHEDULE_DELAY", "10")
}

/// The spans that a collector has received, by their ids; a span that came twice was equal.
fn spans(collector: &Listener) -> BTreeMap<Vec<u8>, Span> {
    let mut all: BTreeMap<Vec<u8>, Span> = BTreeMap::new();
    for request in collector.received() {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(
            request.header("content-type"),
            Some("application/x-protobuf")
        );
        assert_eq!(request.header("x-key"), Some("a b"));
        let sent = ExportTraceServiceRequest::decode(&*request.body).expect("it is protobuf");
        for of_resource in sent.resource_spans {
            let resource = of_resource.resource.expect("there is a resource");
            let name = resource
                .attributes
                .iter()
                .find(|it| it.key == "service.name");
            assert!(format!("{name:?}").contains("\"shop\""), "{name:?}");
            for span in of_resource.scope_spans.into_iter().flat_map(|it| it.spans) {
                let old = all.insert(span.span_id.clone(), span.clone());
                assert!(old.is_none_or(|old| old == span), "{span:?}");
            }
        }
    }
    all
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == key)?;
    Some(match found.value.clone()?.value? {
        Kind::StringValue(text) => text,
        Kind::IntValue(number) => number.to_string(),
        other => panic!("{key} is {other:?}"),
    })
}

/// The spans of the executions of a node of a workflow.
fn of_node<'a>(spans: &'a BTreeMap<Vec<u8>, Span>, workflow: &str, node: &str) -> Vec<&'a Span> {
    let is_of = |span: &&Span| {
        attribute(span, "windlass.workflow.name").as_deref() == Some(workflow)
            && attribute(span, "windlass.node.name").as_deref() == Some(node)
    };
    let mut found: Vec<_> = spans.values().filter(is_of).collect();
    found.sort_by_key(|span| span.start_time_unix_nano);
    found
}

/// The span of the run of a workflow.
fn of_run<'a>(spans: &'a BTreeMap<Vec<u8>, Span>, workflow: &str) -> Option<&'a Span> {
    spans
        .values()
        .find(|span| span.name == workflow && attribute(span, "windlass.node.name").is_none())
}

fn started(answer: &windlass_tests::harness::Answer) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    let started = answer.json()["started"][0].clone();
    started.as_str().expect("a run has started").to_owned()
}

#[test]
fn one_trace_has_a_webhook_two_nodes_a_request_and_a_child_although_the_host_is_killed() {
    let (collector, target) = (collector(), collector());
    let place = place(&["echo", "fetch"], &collector.origin())
        .with_http("fetch", &format!("[\"{}\"]", target.origin()));
    let begun_ms = SystemClock::new().wall_ms();
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "packed",
        "nodes": { "only": { "use": "echo/echo" } },
    }));
    web.publish(&json!({
        "workflow": "order",
        "triggers": { "hook": { "http": { "path": "/order" } } },
        "nodes": {
            "take": { "use": "echo/echo" },
            "ask": { "use": "fetch/fetch", "with": { "url": format!("{}/stock", target.origin()) } },
            "paid": { "event": "paid" },
            "pack": { "workflow": "packed" },
        },
        "edges": ["take -> ask", "ask -> paid", "paid -> pack"],
    }));
    let (trace, state) = (
        format!("traceparent: {CALLER}"),
        format!("tracestate: {STATE}"),
    );
    let headers = [JSON, &trace, &state];
    let id = started(&web.ask("POST", "/hooks/order", &headers, "{}"));
    until("the first spans have come", || {
        !of_node(&spans(&collector), "order", "ask").is_empty()
    });
    until("it waits", || {
        !web.get("/api/v1/bookmarks")["items"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    web.process.kill();

    let web = Web::serve(&place);
    let event = json!({ "specversion": "1.0", "id": "1", "source": "bank", "type": "paid" });
    let structured = "content-type: application/cloudevents+json";
    let sent = web.ask("POST", "/events", &[structured], &event.to_string());
    assert_eq!(sent.status, 202, "{sent:?}");
    assert_eq!(web.result(&id)["status"], "completed");
    until("the spans of the runs have come", || {
        let spans = spans(&collector);
        of_run(&spans, "order").is_some() && of_run(&spans, "packed").is_some()
    });

    let all = spans(&collector);
    let caller = TraceContext::read(CALLER).unwrap();
    for span in all.values() {
        assert_eq!(span.trace_id, caller.trace, "{span:?}");
        assert_eq!(span.trace_state, STATE, "{span:?}");
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        let earliest = u64::try_from(begun_ms).unwrap() * 1_000_000;
        assert!(earliest <= start && start <= end, "{span:?}");
        assert!(span.links.is_empty() && span.status.is_none(), "{span:?}");
    }
    let order = of_run(&all, "order").unwrap();
    let run = windlass_model::RunId(id.parse().unwrap());
    assert_eq!(order.span_id, span_of_run(run));
    assert_eq!(order.parent_span_id, caller.span);
    assert_eq!(attribute(order, "windlass.run.id").as_deref(), Some(&*id));
    assert_eq!(
        attribute(order, "windlass.status").as_deref(),
        Some("completed")
    );
    for node in ["take", "ask", "paid", "pack"] {
        for span in of_node(&all, "order", node) {
            assert_eq!(span.parent_span_id, order.span_id, "{node}");
            assert_eq!(attribute(span, "windlass.attempt").as_deref(), Some("1"));
            assert!(span.start_time_unix_nano >= order.start_time_unix_nano);
            assert!(span.end_time_unix_nano <= order.end_time_unix_nano + 1_000_000);
        }
    }
    let ask = of_node(&all, "order", "ask")[0];
    assert_eq!(
        attribute(ask, "windlass.node.type").as_deref(),
        Some("fetch/fetch")
    );
    assert!(
        attribute(ask, "windlass.plugin.digest")
            .unwrap()
            .starts_with("sha256:")
    );
    let request = &target.received()[0];
    let outgoing = TraceContext::read(request.header("traceparent").unwrap()).unwrap();
    assert_eq!(
        (outgoing.trace, &outgoing.span[..]),
        (caller.trace, &*ask.span_id)
    );
    assert!(outgoing.is_sampled());
    assert_eq!(request.header("tracestate"), Some(STATE));
    let packed = of_run(&all, "packed").unwrap();
    let pack = of_node(&all, "order", "pack");
    assert_eq!(packed.parent_span_id, pack[0].span_id);
    let only = of_node(&all, "packed", "only");
    assert_eq!(only[0].parent_span_id, packed.span_id);
}

#[test]
fn a_failure_has_its_code_and_an_item_its_place_and_a_run_is_its_own_trace() {
    let collector = collector();
    let place = place(&["echo"], &collector.origin());
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "fails",
        "nodes": { "each": {
            "for-each": "{{ [1, 0] }}",
            "nodes": { "divide": { "set": { "x": "{{ 1 // item }}" } } },
        } },
    }));
    let id = web.start("fails", &json!(null));
    assert_eq!(web.result(&id)["status"], "faulted");
    until("the span of the run has come", || {
        of_run(&spans(&collector), "fails").is_some()
    });
    let all = spans(&collector);
    let run = of_run(&all, "fails").unwrap();
    let id = windlass_model::RunId(id.parse().unwrap());
    assert_eq!(run.trace_id, trace_of(id));
    assert!(run.parent_span_id.is_empty(), "{run:?}");
    let divided = of_node(&all, "fails", "divide");
    let failed = divided.iter().find(|span| span.status.is_some());
    let failed = failed.expect("an item fails");
    assert_eq!(attribute(failed, "windlass.item").as_deref(), Some("1"));
    for span in [*failed, run] {
        let status = span.status.as_ref().unwrap();
        assert_eq!(status.code, 2, "{span:?}");
        assert!(!status.message.is_empty(), "{span:?}");
        assert!(
            attribute(span, "error.type").unwrap().starts_with("WL-"),
            "{span:?}"
        );
    }
}

#[test]
fn after_a_wait_of_over_an_hour_a_linked_trace_begins() {
    let collector = collector();
    let place = place(&["echo"], &collector.origin());
    let offset = place.file("offset", "0");
    let serve = || {
        let mut command = place.armed("");
        command.arg("serve").env("WINDLASS_CLOCK_OFFSET", &offset);
        let mut process = Process::start("serve", &mut command);
        place.until_member(&mut process);
        process
    };
    let host = serve();
    let workflow = place.workflow(
        "waits",
        &json!({
            "workflow": "waits",
            "nodes": {
                "before": { "use": "echo/echo" },
                "hear": { "event": "go" },
                "after": { "use": "echo/echo" },
                "last": { "use": "echo/echo" },
            },
            "edges": ["before -> hear", "hear -> after", "after -> last"],
        }),
    );
    let id = place.ask(&["runs", "start", &workflow.display().to_string()]);
    let id = id.trim();
    until("it waits", || {
        place.ask(&["bookmark", "list"]).contains("go")
    });
    until("the spans before the wait have come", || {
        !of_node(&spans(&collector), "waits", "before").is_empty()
    });
    end(host);
    std::fs::write(&offset, (2 * 3_600_000).to_string()).expect("a file can be written");
    let host = serve();
    place.ask(&["event", "send", "go"]);
    place.look().ended(id);
    until("the span of the run has come", || {
        of_run(&spans(&collector), "waits").is_some()
    });
    end(host);
    let all = spans(&collector);
    let run = of_run(&all, "waits").unwrap();
    let before = of_node(&all, "waits", "before")[0];
    assert_eq!(before.trace_id, run.trace_id);
    let hear = of_node(&all, "waits", "hear");
    let (waiting, heard) = (hear[0], hear[1]);
    assert_eq!(waiting.trace_id, run.trace_id);
    // The first span after the wait is the root of the new trace, and names the last one before it.
    assert_ne!(heard.trace_id, run.trace_id);
    assert!(heard.parent_span_id.is_empty(), "{heard:?}");
    let link = &heard.links[0];
    assert_eq!(
        (&link.trace_id, &link.span_id),
        (&run.trace_id, &waiting.span_id)
    );
    for node in ["after", "last"] {
        let span = of_node(&all, "waits", node)[0];
        assert_eq!(
            (&span.trace_id, &span.parent_span_id),
            (&heard.trace_id, &heard.span_id)
        );
    }
    let link = &run.links[0];
    assert_eq!(
        (&link.trace_id, &link.span_id),
        (&heard.trace_id, &heard.span_id)
    );
}

/// Ends a host, which sends its last spans.
fn end(mut host: Process) {
    host.signal(Signal::TERM);
    assert!(host.wait().success(), "{}", host.stderr());
}

/// The value of a metric of a host.
fn metric(web: &Web, name: &str) -> u64 {
    let text = web.ask("GET", "/metrics", &[], "").body;
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("there is no {name} in {text}"));
    let (_, value) = line.rsplit_once(' ').expect("a metric has a value");
    value.parse().expect("it is a count")
}

#[test]
fn a_collector_that_hangs_costs_spans_beyond_the_queue_and_no_run_and_no_end() {
    let collector = Listener::start(|_| None);
    let place = place(&["echo"], &collector.origin())
        .with_variable("OTEL_BSP_MAX_QUEUE_SIZE", "8")
        .with_variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4");
    let web = Web::serve(&place);
    web.publish(&json!({ "workflow": "one", "nodes": { "a": { "use": "echo/echo" } } }));
    for _ in 0..20 {
        let id = web.start("one", &json!(null));
        assert_eq!(web.result(&id)["status"], "completed");
    }
    // Of 40 spans at most 4 are being sent, and 8 are in the queue.
    let dropped = metric(&web, "windlass_spans_dropped_total");
    assert!((28..=31).contains(&dropped), "{dropped} spans were dropped");
    assert_eq!(metric(&web, "windlass_spans_exported_total"), 0);
    let Web { mut process, .. } = web;
    process.signal(Signal::TERM);
    assert!(process.wait().success());
    let said = process.stderr();
    assert!(said.contains("the last spans were not sent"), "{said}");
    assert!(said.contains(&format!("spans={}", 40 - dropped)), "{said}");
}

#[test]
fn spans_that_a_collector_refuses_for_now_are_sent_again_and_the_last_ones_are_flushed() {
    let collector = Listener::start(|number| {
        Some(match number {
            0 => response("503 Service Unavailable", &["retry-after: 1"], b"later"),
            _ => response("200 OK", &[], b"\xff garbage"),
        })
    });
    let place = place(&["echo"], &collector.origin())
        .with_variable("OTEL_BSP_SCHEDULE_DELAY", "60000")
        .with_variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2");
    let web = Web::serve(&place);
    web.publish(&json!({ "workflow": "one", "nodes": { "a": { "use": "echo/echo" } } }));
    let id = web.start("one", &json!(null));
    web.result(&id);
    until("they are taken", || {
        metric(&web, "windlass_spans_exported_total") == 2
    });
    assert_eq!(collector.received().len(), 2);
    assert_eq!(collector.received()[0].body, collector.received()[1].body);
    // A run whose last span waits for others of its request.
    web.publish(&json!({
        "workflow": "three",
        "nodes": { "a": { "use": "echo/echo" }, "b": { "use": "echo/echo" } },
        "edges": ["a -> b"],
    }));
    let id = web.start("three", &json!(null));
    web.result(&id);
    end(web.process);
    assert_eq!(spans(&collector).len(), 5);
}

#[test]
fn an_environment_that_cannot_be_used_is_logged_and_keeps_no_host_from_starting() {
    let place = Place::new(&["echo"])
        .with_variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:pass@c.example");
    let web = Web::serve(&place);
    let said = until_some("it says so", || {
        let said = web.process.stderr();
        said.contains("WL-C023").then_some(said)
    });
    assert!(said.contains("$OTEL_EXPORTER_OTLP_ENDPOINT"), "{said}");
    assert!(!said.contains("pass@"), "{said}");
}
