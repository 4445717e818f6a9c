//! Spans as messages of OTLP.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Sent, Status};
use prost::Message as _;
use windlass_model::TraceContext;
use windlass_model::span::Span;

/// The body of a request.
pub(crate) fn request(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let attributes = resource.iter();
    let scope = InstrumentationScope {
        name: "windlass".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let of_scope = ScopeSpans {
        scope: Some(scope),
        spans: spans.iter().map(sent).collect(),
        ..ScopeSpans::default()
    };
    let of_resource = ResourceSpans {
        resource: Some(Resource {
            attributes: attributes.map(|(key, value)| text(key, value)).collect(),
            ..Resource::default()
        }),
        scope_spans: vec![of_scope],
        ..ResourceSpans::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![of_resource],
    };
    request.encode_to_vec()
}

fn sent(span: &Span) -> Sent {
    let state = |of: &TraceContext| {
        let state = of.state.as_ref();
        state.map_or_else(String::new, |state| state.as_str().to_owned())
    };
    let link = span.link.as_ref().map(|link| Link {
        trace_state: state(link),
        trace_id: link.trace.to_vec(),
        span_id: link.span.to_vec(),
        flags: link.flags.into(),
        ..Link::default()
    });
    let name = match &span.execution {
        Some(execution) => &execution.node,
        None => &span.workflow,
    };
    Sent {
        trace_id: span.at.trace.to_vec(),
        span_id: span.at.span.to_vec(),
        trace_state: state(&span.at),
        parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
        flags: span.at.flags.into(),
        name: name.to_string(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: span.start_us.saturating_mul(1_000),
        end_time_unix_nano: span.end_us.saturating_mul(1_000),
        attributes: attributes(span),
        links: link.into_iter().collect(),
        status: span.failure.as_ref().map(|failure| Status {
            code: StatusCode::Error.into(),
            message: failure.message.clone(),
        }),
        ..Sent::default()
    }
}

fn attributes(span: &Span) -> Vec<KeyValue> {
    let mut all = vec![
        text("windlass.run.id", &span.run.to_string()),
        text("windlass.workflow.name", &span.workflow),
        text("windlass.workflow.digest", &span.definition.to_string()),
        text("windlass.status", span.status),
    ];
    if let Some(execution) = &span.execution {
        all.push(text("windlass.node.name", &execution.node));
        all.push(number("windlass.attempt", execution.attempt.into()));
        all.push(text("windlass.trigger.kind", execution.kind.name()));
        if !execution.item.is_empty() {
            let item: Vec<String> = execution.item.iter().map(u32::to_string).collect();
            all.push(text("windlass.item", &item.join(".")));
        }
        if let Some(plugin) = &execution.plugin {
            all.push(text("windlass.node.type", &plugin.node_type));
            all.push(text("windlass.plugin.version", &plugin.version));
            all.push(text("windlass.plugin.digest", &plugin.digest.to_string()));
        }
    }
    if let Some(failure) = &span.failure {
        all.push(text("error.type", &failure.code.to_string()));
        all.push(text("windlass.failure.class", failure.class.name()));
    }
    all
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
