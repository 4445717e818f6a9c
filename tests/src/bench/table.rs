//! The results as a table for people.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};

use super::Record;

/// A table of the results.
pub fn table(records: &[Record]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "scenario",
        "in flight",
        "durability",
        "isolation",
        "store",
        "nodes/s",
        "runs/s",
        "p50 ms",
        "p99 ms",
        "RSS MB",
        "flush ms",
        "besides",
    ]);
    for record in records {
        table.add_row([
            record.scenario.clone(),
            record.in_flight.to_string(),
            record.durability.clone(),
            record.isolation.clone(),
            record.store.clone(),
            format!("{:.0}", record.node_executions_per_second),
            format!("{:.0}", record.runs_per_second),
            format!("{:.2}", record.p50_ms),
            format!("{:.2}", record.p99_ms),
            format!("{:.0}", record.rss_mb),
            format!("{:.2}", record.flush_ms),
            record.extras(),
        ]);
    }
    for column in table.column_iter_mut().skip(5).take(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
