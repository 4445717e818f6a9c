//! The text format of Prometheus.

use std::fmt::Write as _;

use super::{About, Counter, Family, Gauge, Histogram, Tally};

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

    /// A value for each value of the labels.
    pub(super) fn values(
        &mut self,
        about: &About,
        values: impl IntoIterator<Item = (Vec<String>, u64)>,
    ) {
        self.head(about);
        for (labels, value) in values {
            let labels = labels_of(about, &labels);
            let _ = writeln!(self.0, "{}{{{labels}}} {value}", about.name);
        }
    }

    /// The counts of one kind, by the labels of their family.
    pub(super) fn tally(&mut self, about: &About, family: &Family<Tally>, kind: usize) {
        let all = family.all().into_iter();
        self.values(about, all.map(|(labels, tally)| (labels, tally.get(kind))));
    }

    /// The counts of several kinds, whose name is the last label. A kind that is not counted yet
    /// has no line, unless it is one of the first `always` kinds.
    pub(super) fn tallies(
        &mut self,
        about: &About,
        family: &Family<Tally>,
        kinds: &[(usize, &str)],
        always: usize,
    ) {
        let all = family.all().into_iter();
        let lines = all.flat_map(|(labels, tally)| {
            let counts = kinds.iter().enumerate().filter_map(|(at, (kind, name))| {
                let count = tally.get(*kind);
                let mut labels = labels.clone();
                labels.push((*name).to_owned());
                (at < always || count > 0).then_some((labels, count))
            });
            counts.collect::<Vec<_>>()
        });
        self.values(about, lines);
    }

    pub(super) fn family(&mut self, about: &About, family: &Family<Histogram>) {
        self.head(about);
        for (labels, histogram) in family.all() {
            self.series(about, &labels, &histogram);
        }
    }

    /// A number that is already text, if there is one.
    pub(super) fn number(&mut self, about: &About, value: Option<String>) {
        self.head(about);
        if let Some(value) = value {
            let _ = writeln!(self.0, "{} {value}", about.name);
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
        let labels = labels_of(about, values);
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

/// The labels of a series, without braces.
fn labels_of(about: &About, values: &[String]) -> String {
    let mut labels = String::new();
    for (label, value) in about.labels.iter().zip(values) {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = write!(labels, "{comma}{label}=\"{}\"", escape(value));
    }
    labels
}

/// A value in the shown unit, without rounding.
pub(super) fn shown(value: u64, scale: u64) -> String {
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
