//! The plans of lists of runs.

use rusqlite::Connection;

use super::on_disk;
use crate::sql::listing;

#[test]
fn each_list_of_runs_walks_one_index_in_its_order() {
    let disk = on_disk();
    disk.store();
    let connection = Connection::open(disk.path()).unwrap();
    for (index, column, sql) in listing::statements() {
        let text = format!("EXPLAIN QUERY PLAN {}", sql.sqlite);
        let mut statement = connection.prepare(&text).unwrap();
        let key = rusqlite::params_from_iter(vec![0; statement.parameter_count()]);
        let rows = statement.query_map(key, |row| row.get::<_, String>(3));
        let plan = rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let sorted = plan.iter().find(|step| step.contains("B-TREE"));
        assert_eq!(sorted, None, "{plan:?}: {text}");
        let scans = plan.iter().filter(|step| step.starts_with("SCAN"));
        for scan in scans {
            let small = ["VIRTUAL TABLE", "found"]
                .iter()
                .any(|of| scan.contains(of));
            assert!(small, "{plan:?}: {text}");
        }
        let walked = match (index, column) {
            (listing::TAGS, _) => {
                "t USING PRIMARY KEY (name=? AND value=? AND (created_ms,run)".into()
            }
            (index, "") => format!("INDEX {index} (created_ms"),
            ("run_owner", _) => "INDEX run_owner (owner>".into(),
            (index, column) => format!("INDEX {index} ({column}=? AND created_ms"),
        };
        let walks = plan.iter().filter(|step| step.contains(&walked)).count();
        assert_eq!(walks, 1, "{walked}: {plan:?}: {text}");
    }
}
