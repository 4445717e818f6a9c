//! The budgets of memory of a running host: their use, their highest use and their bounds, from its
//! metrics.

use serde::Serialize;
use windlass_model::metrics::BUDGETS;

use crate::client::Api;
use crate::config::Size;
use crate::output::Paint;

/// A budget of a host, in bytes.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Budget {
    name: &'static str,
    #[serde(skip)]
    of: &'static str,
    used: u64,
    peak: u64,
    limit: u64,
}

/// The budgets of the host at an address.
///
/// # Errors
///
/// The host does not answer, or wants another token.
pub(super) fn of_host(address: &str, token: Option<String>) -> anyhow::Result<Vec<Budget>> {
    Ok(read(&Api::metrics(address, token)?))
}

/// The budgets in metrics, in the text format of Prometheus.
fn read(text: &str) -> Vec<Budget> {
    let number = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    let budgets = BUDGETS.iter().filter_map(|about| {
        let [used, limit, peak] = about.metrics;
        Some(Budget {
            name: about.name,
            of: about.of,
            used: number(used.name)?,
            peak: number(peak.name)?,
            limit: number(limit.name)?,
        })
    });
    budgets.collect()
}

/// The budgets as a table.
pub(super) fn table(budgets: &[Budget], paint: Paint) -> String {
    if budgets.is_empty() {
        return String::new();
    }
    let head = format!(
        "              {:>9}  {:>9}  {:>9}  memory of\n",
        "in use", "peak", "bound"
    );
    budgets.iter().fold(paint.dim(head), |text, it| {
        let [used, peak, limit] = [it.used, it.peak, it.limit].map(shown);
        text + &format!(
            "              {used:>9}  {peak:>9}  {limit:>9}  {}\n",
            it.of
        )
    })
}

/// A size to a unit, rounded up: only nothing is 0.
fn shown(bytes: u64) -> String {
    let unit = if bytes < 10 << 20 { 1 << 10 } else { 1 << 20 };
    Size(bytes.div_ceil(unit).saturating_mul(unit)).to_string()
}

#[cfg(test)]
mod tests {
    use windlass_model::metrics::Metrics;

    use super::*;

    #[test]
    fn the_budgets_are_those_of_the_metrics() {
        let metrics = Metrics::default();
        metrics.run_data.set_limit(128 << 20);
        metrics.run_data.add(5 << 20);
        metrics.run_data.sub(1);
        let found = read(&metrics.text());
        assert_eq!(found.len(), BUDGETS.len());
        let data = found.iter().find(|it| it.name == "run_data").unwrap();
        assert_eq!(
            (data.used, data.peak, data.limit),
            ((5 << 20) - 1, 5 << 20, 128 << 20)
        );
        assert_eq!(read("windlass_run_data_bytes x\nanything"), []);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(shown(0), "0B");
        assert_eq!(shown(1), "1KiB");
        assert_eq!(shown((100 << 20) + 1), "101MiB");
        assert_eq!(shown(u64::MAX - (1 << 20)).len(), "17592186044415MiB".len());
    }
}
