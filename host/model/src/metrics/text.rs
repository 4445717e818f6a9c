//! The text format of Prometheus.

use std::fmt::Write as _;

use super::{About, Counter, Family, Gauge, Histogram};

/// A page of metrics. Writing to a string cannot fail.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn counter(&mut self, about: &About, counter: &Counter) {
        self.head(about);
        let _ = writeln!(self.0, "{} {}", about.name, counter.get());
    }

    pub(super) fn gauge(&mut self, about: &About, gauge: &Gauge) {
        self.head(about);
        let _ = writeln!(self.0, "{} {}", about.name, gauge.get());
    }

    /// A value for each value of the one label.
    pub(super) fn labelled(
        &mut self,
        about: &About,
        values: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        self.head(about);
        let label = about.labels.first().copied().unwrap_or_default();
        for (name, value) in values {
            let _ = writeln!(self.0, "{}{{{label}=\"{name}\"}} {value}", about.name);
        }
    }

    pub(super) fn histogram(&mut self, about: &About, histogram: &Histogram) {
        self.head(about);
        self.series(about, &[], histogram);
    }

    pub(super) fn family(&mut self, about: &About, family: &Family) {
        self.head(about);
        for (labels, histogram) in family.all() {
            self.series(about, &labels, &histogram);
        }
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn head(&mut self, about: &About) {
        let About {
            name, kind, help, ..
        } = about;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn series(&mut self, about: &About, values: &[String], histogram: &Histogram) {
        let name = about.name;
        let mut labels = String::new();
        for (label, value) in about.labels.iter().zip(values) {
            let comma = if labels.is_empty() { "" } else { "," };
            let _ = write!(labels, "{comma}{label}=\"{}\"", escape(value));
        }
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        let mut bounds = histogram.bounds.iter();
        for in_bucket in histogram.each() {
            count += in_bucket;
            let bound = match bounds.next() {
                Some(bound) => shown(*bound, histogram.scale),
                None => "+Inf".to_owned(),
            };
            let _ = writeln!(
                self.0,
                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"
            );
        }
        let braces = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{labels}}}"),
        };
        let sum = shown(histogram.sum(), histogram.scale);
        let _ = writeln!(
            self.0,
            "{name}_sum{braces} {sum}\n{name}_count{braces} {count}"
        );
    }
}

/// A value in the shown unit, without rounding.
fn shown(value: u64, scale: u64) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = scale.ilog10() as usize;
    let text = format!("{whole}.{rest:0digits$}");
    text.trim_end_matches('0').to_owned()
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
