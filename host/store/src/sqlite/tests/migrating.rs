//! Programs of two versions on one file.

use std::sync::Arc;

use rusqlite::Connection;

use super::{OnDisk, on_disk};
use crate::conformance::upgrading::{Versions, upgrading};
use crate::sql::layout::{Step, Steps};
use crate::sqlite::session::statements::{DUE, PRIORITY};
use crate::sqlite::upkeep::{check_as, layout_as};
use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::upkeep::{Finding, Layout};
use crate::{Result, Store};

impl Versions for OnDisk {
    fn open_as(&self, further: &'static [Step]) -> Result<Arc<dyn Store>> {
        let options = SqliteOptions {
            further,
            ..self.options()
        };
        Ok(SqliteStore::open(self.path(), options)?)
    }

    fn open_unmigrated(&self, further: &'static [Step]) -> Result<Arc<dyn Store>> {
        let options = SqliteOptions {
            further,
            migrates: false,
            ..self.options()
        };
        Ok(SqliteStore::open(self.path(), options)?)
    }

    fn layout_as(&self, further: &'static [Step]) -> Layout {
        layout_as(&self.path(), &Steps::sqlite(further)).unwrap()
    }

    fn check_as(&self, further: &'static [Step]) -> Result<Vec<Finding>> {
        check_as(&self.path(), &Steps::sqlite(further))
    }

    fn migrate_as(&self, further: &'static [Step]) -> Result<Layout> {
        let options = SqliteOptions {
            further,
            ..self.options()
        };
        SqliteStore::migrate(self.path(), &options)
    }

    fn layouts(&self) -> (i64, i64) {
        let connection = Connection::open(self.path()).unwrap();
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let demanded = connection.query_row("SELECT layout FROM requirement", [], |row| row.get(0));
        (found.unwrap(), demanded.unwrap())
    }
}

upgrading!(on_disk);

#[test]
fn the_due_are_found_in_their_index_alone() {
    let disk = on_disk();
    disk.store();
    let connection = Connection::open(disk.path()).unwrap();
    let plan = |sql: &str| {
        let mut statement = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let numbers = statement.parameter_count();
        let key = rusqlite::params_from_iter(vec![0; numbers]);
        let rows = statement.query_map(key, |row| row.get::<_, String>(3));
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    for (sql, condition) in [
        (DUE, "(priority=? AND (due_ms,run)>(?,?) AND due_ms<?)"),
        (PRIORITY.sqlite, "(priority<?)"),
    ] {
        let plan = plan(sql);
        assert_eq!(plan.len(), 1, "nothing is sorted: {plan:?}");
        let found = format!("SEARCH trigger USING COVERING INDEX trigger_due {condition}");
        assert_eq!(plan[0], found);
    }
}
