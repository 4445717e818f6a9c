//! Writes a batch: every statement is sent before the answer to the first one arrives.

use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::batch::{Batch, Head, Row};
use super::bookmarks::{BUFFERED, BURN, BURN_ALL};
use super::letters::UNHEARD;
use super::{
    Done, KEEP_LANE, LOCK, SWEEP_TRACES, Session, TRACE, Trace, extras, lock_keys, pipeline,
};
use crate::columns::{event, inputs, json, json_list, json_tags, payload};
use crate::rows::bounded;

type Column<'p> = Box<dyn ToSql + Sync + Send + 'p>;

/// Removes all triggers of runs.
const TRIGGERS_GONE: &str = "DELETE FROM trigger WHERE run = ANY($1)";

/// One statement that was sent.
struct Sent<'p> {
    statement: Statement,
    columns: Vec<Column<'p>>,
    /// The number of rows that it changes if the fences hold.
    expected: Option<u64>,
    /// Whether the changed rows become pending.
    pends: bool,
}

/// The columns of a statement, as lists of equal length.
macro_rules! columns {
    ($rows:expr, $($row:pat => $value:expr),+ $(,)?) => {
        vec![$(Box::new($rows.iter().map(|$row| $value).collect::<Vec<_>>()) as Column<'_>),+]
    };
}

/// The statements of a batch.
struct Flight<'p, 's, 'a> {
    session: &'s mut Session<'a>,
    sent: Vec<Sent<'p>>,
}

impl<'p> Flight<'p, '_, '_> {
    async fn add(
        &mut self,
        sql: &'static str,
        expected: Option<u64>,
        columns: Vec<Column<'p>>,
    ) -> Done<()> {
        let statement = self.session.connection.prepare(sql).await?;
        self.sent.push(Sent {
            statement,
            columns,
            expected,
            pends: false,
        });
        Ok(())
    }
}

fn references<'c>(columns: &'c [Column<'_>]) -> Vec<&'c (dyn ToSql + Sync)> {
    let columns = columns.iter();
    columns
        .map(|column| &**column as &(dyn ToSql + Sync))
        .collect()
}

fn number(length: usize) -> Option<u64> {
    u64::try_from(length).ok()
}

impl Session<'_> {
    /// Writes a batch. False if a fence failed: the transaction must be rolled back.
    pub(super) async fn write_batch(&mut self, batch: &Batch<'_>, trace: Trace) -> Done<bool> {
        let mut flight = Flight {
            session: self,
            sent: Vec::with_capacity(16),
        };
        flight.fences(batch).await?;
        flight.heads(batch).await?;
        flight.creations(batch).await?;
        flight.triggers(batch).await?;
        flight.bookmarks(batch).await?;
        flight.ends(batch).await?;
        flight.records(batch).await?;
        flight.scoped(batch).await?;
        flight.blobs(batch).await?;
        let columns: Vec<Column<'_>> = vec![Box::new(trace.process), Box::new(trace.no)];
        flight.add(TRACE, Some(1), columns).await?;
        if trace.sweeps() {
            let (process, swept, no) = (trace.process, trace.swept, trace.no);
            let columns: Vec<Column<'_>> = vec![Box::new(process), Box::new(swept), Box::new(no)];
            flight.add(SWEEP_TRACES, None, columns).await?;
            flight.add(KEEP_LANE, None, vec![Box::new(process)]).await?;
        }
        let sent = flight.sent;
        self.trace = Some(trace.no);
        let pending = batch.rows.values().filter_map(|row| row.now);
        let pending = pending.filter(|now| !now.claimed).count();
        self.aftermath.made_pending += pending as u64;
        let carrying = batch.bookmarks.iter();
        let carrying = carrying.map(|(run, _)| (*run, extras::BOOKMARKS));
        self.aftermath.carrying.extend(carrying);
        let held = self.send_all(&sent).await?;
        if held {
            self.put_numbered(batch).await?;
        }
        Ok(held)
    }

    /// Writes the rows that the database numbers. Sent with COMMIT, when the fences are known to
    /// hold, so that no number is wasted.
    async fn put_numbered(&mut self, batch: &Batch<'_>) -> Done<()> {
        let (silenced, at_ms): (Vec<i64>, Vec<i64>) = batch.silenced.iter().copied().unzip();
        if !silenced.is_empty() {
            self.later(UNHEARD, &[&silenced, &at_ms]).await?;
            self.later(BURN_ALL, &[&silenced]).await?;
            self.later(TRIGGERS_GONE, &[&silenced]).await?;
        }
        let news = &batch.bookmarks;
        let sql = "INSERT INTO bookmark (run, first, trigger, phase, name, hash, matches, \
                correlation, private, auto_burn, metadata, token, expires_ms, created_ms) \
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
                $5::text[], $6::bytea[], $7::bytea[], $8::text[], $9::boolean[], \
                $10::boolean[], $11::bytea[], $12::bytea[], $13::bigint[], $14::bigint[])";
        if !news.is_empty() {
            let columns = columns!(news,
                row => row.0, row => row.1.first.0.cast_signed(), row => row.1.trigger.0,
                row => i64::from(row.1.phase), row => &*row.1.name, row => &row.1.hash.0[..],
                row => &*row.1.matches, row => row.1.correlation.as_deref(),
                row => row.1.private, row => row.1.auto_burn, row => row.1.metadata.as_deref(),
                row => &row.1.token.0[..], row => row.1.expires_ms, row => row.1.created_ms);
            self.later(sql, &references(&columns)).await?;
        }
        Ok(())
    }

    async fn send_all(&mut self, sent: &[Sent<'_>]) -> Done<bool> {
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        let all = sent.iter().map(|sent| async move {
            let columns = references(&sent.columns);
            client.execute(&sent.statement, &columns).await
        });
        let all = pipeline::in_order(all.collect());
        let changed = pipeline::send(client, later, all).await?;
        let mut held = true;
        for (sent, changed) in sent.iter().zip(changed) {
            held &= sent.expected.is_none_or(|expected| expected == changed);
            if sent.pends {
                self.aftermath.made_pending += changed;
            }
        }
        Ok(held)
    }
}

impl<'p> Flight<'p, '_, '_> {
    async fn fences(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let hashes = batch.bookmarks.iter().map(|(_, new)| &new.hash);
        if let Some(keys) = lock_keys(hashes) {
            self.add(LOCK, None, vec![Box::new(keys)]).await?;
        }
        let fences = [
            (
                &batch.members,
                "SELECT 1 FROM member WHERE incarnation = ANY($1) \
                    ORDER BY incarnation FOR KEY SHARE",
            ),
            (
                &batch.documents.0,
                "SELECT 1 FROM definition WHERE no = ANY($1) ORDER BY no FOR KEY SHARE",
            ),
            (
                &batch.documents.1,
                "SELECT 1 FROM pins WHERE no = ANY($1) ORDER BY no FOR KEY SHARE",
            ),
        ];
        for (numbers, sql) in fences {
            let numbers: Vec<i64> = numbers.iter().copied().collect();
            if !numbers.is_empty() {
                let expected = number(numbers.len());
                self.add(sql, expected, vec![Box::new(numbers)]).await?;
            }
        }
        Ok(())
    }

    /// Updates the heads of existing runs. Most steps keep the owner.
    async fn heads(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let there = batch
            .heads
            .iter()
            .filter(|(_, head)| head.created.is_none());
        let (steps, ends): (Vec<_>, Vec<_>) =
            there.clone().partition(|(_, head)| head.owner.is_some());
        if !steps.is_empty() && !ends.is_empty() {
            // Each of the two updates locks heads in order; the two together do not.
            let all: Vec<i64> = there.map(|(no, _)| *no).collect();
            let sql = "SELECT 1 FROM run WHERE no = ANY($1) ORDER BY no FOR NO KEY UPDATE";
            self.add(sql, None, vec![Box::new(all)]).await?;
        }
        let sql = "UPDATE run AS i SET status = u.status, version = u.version, \
            last_execution = coalesce(u.last_execution, i.last_execution), state = u.state \
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
                $5::smallint[], $6::bigint[], $7::bigint[], $8::bytea[]) \
                AS u (no, owner, epoch, was, status, version, last_execution, state) \
            WHERE i.no = ANY (ARRAY[u.no]) AND i.owner IS NOT DISTINCT FROM u.owner \
            AND i.epoch = u.epoch AND i.version = u.was AND i.status <> 3";
        if !steps.is_empty() {
            let columns = columns!(steps,
                (no, _) => **no, (_, head) => head.was_owner, (_, head) => head.epoch,
                (_, head) => head.was_version, (_, head) => i16::from(head.status as u8),
                (_, head) => head.version, (_, head) => head.last_execution,
                (_, head) => head.state);
            self.add(sql, number(steps.len()), columns).await?;
        }
        let sql = "UPDATE run AS i SET status = u.status, version = u.version, \
            last_execution = coalesce(u.last_execution, i.last_execution), state = u.state, owner = NULL, \
            finished_ms = u.finished_ms, failure = u.failure, output = u.output, \
            output_meta = u.output_meta \
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
                $5::smallint[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bigint[], \
                $10::text[], $11::bytea[], $12::text[], $13::smallint[]) \
                AS u (no, owner, epoch, was, status, version, last_execution, state, finished_ms, \
                    failure, output, output_meta, carries) \
            WHERE i.no = ANY (ARRAY[u.no]) AND i.owner IS NOT DISTINCT FROM u.owner \
            AND i.epoch = u.epoch AND i.version = u.was AND i.status <> 3 AND (i.extras & ~u.carries = 0 OR u.finished_ms IS NULL)";
        if !ends.is_empty() {
            let columns = columns!(ends,
                (no, _) => **no, (_, head) => head.was_owner, (_, head) => head.epoch,
                (_, head) => head.was_version, (_, head) => i16::from(head.status as u8),
                (_, head) => head.version, (_, head) => head.last_execution,
                (_, head) => head.state,
                (_, head) => head.finish.map(|(_, at_ms)| at_ms), (_, head) => failure(head),
                (_, head) => output(head).0, (_, head) => output(head).1,
                (_, head) => head.carries);
            self.add(sql, number(ends.len()), columns).await?;
        }
        Ok(())
    }

    async fn creations(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let news = batch.heads.iter().filter_map(|(no, head)| {
            let (new, definition, pins) = head.created?;
            Some((*no, head, new, definition, pins))
        });
        let news: Vec<_> = news.collect();
        if news.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO run (no, id, definition, pins, status, owner, epoch, \
                version, last_execution, state, finished_ms, failure, output, output_meta) \
            SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], \
                $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], \
                $10::bytea[], $11::bigint[], $12::text[], $13::bytea[], $14::text[]) \
            ON CONFLICT (id) DO NOTHING";
        let columns = columns!(news,
            new => new.0, new => &new.2.id.0.as_bytes()[..], new => new.3, new => new.4,
            new => i16::from(new.1.status as u8), new => new.1.owner, new => new.1.epoch,
            new => new.1.version, new => new.1.last_execution, new => new.1.state,
            new => new.1.finish.map(|(_, at_ms)| at_ms), new => failure(new.1),
            new => output(new.1).0, new => output(new.1).1);
        self.add(sql, number(news.len()), columns).await?;
        let sql = "INSERT INTO origin (run, request, correlation, created_ms, input, \
                input_meta, tags, trace) \
            SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::bigint[], \
                $5::bytea[], $6::text[], $7::text[], $8::bytea[])";
        let columns = columns!(news,
            new => new.0, new => &new.2.request.0[..], new => new.2.correlation.as_deref(),
            new => new.2.created_ms, new => payload(Some(&new.2.input)).0,
            new => payload(Some(&new.2.input)).1, new => json_tags(&new.2.tags),
            new => new.2.trace.as_ref().map(|trace| trace.to_stored()));
        self.add(sql, number(news.len()), columns).await?;
        let tags = news.iter().flat_map(|(no, _, new, ..)| {
            let tags = new.tags.iter();
            tags.map(move |(name, value)| (&**name, &**value, new.created_ms, *no))
        });
        let tags: Vec<_> = tags.collect();
        if tags.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO run_tag (name, value, created_ms, run) \
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])";
        let columns = columns!(tags, tag => tag.0, tag => tag.1, tag => tag.2, tag => tag.3);
        self.add(sql, number(tags.len()), columns).await
    }

    async fn triggers(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let all = batch.rows.iter();
        let gone: Vec<_> = all
            .clone()
            .filter_map(|(no, row)| {
                row.was_token
                    .filter(|_| row.now.is_none())
                    .map(|was| (*no, row.run, was))
            })
            .collect();
        if !gone.is_empty() {
            // Found by number: by `run` alone, the planner might read all triggers of a
            // run.
            let sql = "DELETE FROM trigger AS t USING \
                unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (no, run, was) \
                WHERE t.no = ANY (ARRAY[u.no]) AND t.token = u.was AND t.run + 0 = u.run \
                AND t.state = 1";
            let columns = columns!(gone, row => row.0, row => row.1, row => row.2);
            self.add(sql, number(gone.len()), columns).await?;
        }
        // An unchanged `state` is assigned its old value, so that no index is written.
        let sql = "UPDATE trigger AS t SET token = u.token, state = u.state, seq = u.seq, \
            kind = u.kind, node = u.node, due_ms = u.due_ms, attempt = u.attempt, \
            deliveries = 0, suspicion = 0, detail = u.detail, payload = u.payload, \
            priority = u.priority \
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
                $5::smallint[], $6::bigint[], $7::smallint[], $8::bigint[], $9::bigint[], \
                $10::bigint[], $11::bytea[], $12::bytea[], $13::integer[]) \
                AS u (no, run, token, was, state, seq, kind, node, due_ms, attempt, \
                    detail, payload, priority) \
            WHERE t.no = ANY (ARRAY[u.no]) AND t.token = u.was AND t.run + 0 = u.run \
            AND t.state = 1";
        let there = all.clone().filter(|(_, row)| row.was_token.is_some());
        let there: Vec<_> = there.filter_map(plan).collect();
        if !there.is_empty() {
            let columns = columns!(there,
                row => row.0, row => row.1, row => row.3.token, row => row.2,
                row => i16::from(row.3.claimed), row => row.3.new.seq.0.cast_signed(),
                row => i16::from(row.3.new.kind.stored()), row => row.3.new.node.map(i64::from),
                row => row.3.new.due_ms, row => i64::from(row.3.new.attempt),
                row => &*row.3.new.detail, row => row.3.new.payload.as_deref(),
                row => bounded(row.3.new.priority));
            self.add(sql, number(there.len()), columns).await?;
        }
        let sql = "INSERT INTO trigger (no, run, token, state, seq, kind, node, due_ms, \
                attempt, deliveries, suspicion, detail, payload, priority) \
            SELECT u.no, u.run, u.token, u.state, u.seq, u.kind, u.node, u.due_ms, \
                u.attempt, 0, 0, u.detail, u.payload, u.priority \
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], \
                $5::bigint[], $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[], \
                $10::bytea[], $11::bytea[], $12::integer[]) \
                AS u (no, run, token, state, seq, kind, node, due_ms, attempt, detail, \
                    payload, priority)";
        let fresh = all.filter(|(_, row)| row.was_token.is_none());
        let fresh: Vec<_> = fresh.filter_map(plan).collect();
        if !fresh.is_empty() {
            let columns = columns!(fresh,
                row => row.0, row => row.1, row => row.3.token,
                row => i16::from(row.3.claimed), row => row.3.new.seq.0.cast_signed(),
                row => i16::from(row.3.new.kind.stored()), row => row.3.new.node.map(i64::from),
                row => row.3.new.due_ms, row => i64::from(row.3.new.attempt),
                row => &*row.3.new.detail, row => row.3.new.payload.as_deref(),
                row => bounded(row.3.new.priority));
            self.add(sql, number(fresh.len()), columns).await?;
        }
        Ok(())
    }

    /// Burned bookmarks are deleted first: the new bookmarks are those of later steps.
    async fn bookmarks(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let burned = &batch.burned;
        if !burned.is_empty() {
            let columns = columns!(burned, row => row.0, row => row.1);
            self.add(BURN, None, columns).await?;
        }
        let news = &batch.bookmarks;
        if news.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE run SET extras = extras | $2 WHERE no = ANY($1) AND extras & $2 = 0";
        let runs: Vec<i64> = news.iter().map(|(run, _)| *run).collect();
        let columns: Vec<Column<'_>> = vec![Box::new(runs), Box::new(extras::BOOKMARKS)];
        self.add(sql, None, columns).await?;
        // A bookmark that may meet a buffered stimulus needs a transaction of its own.
        let seen: Vec<_> = news.iter().filter(|(_, new)| !new.private).collect();
        if !seen.is_empty() {
            self.add(BUFFERED, Some(0), columns!(seen, row => &row.1.hash.0[..]))
                .await?;
        }
        Ok(())
    }

    async fn ends(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        // Runs that the batch creates have no triggers outside of it.
        let there = |no: &&i64| {
            batch
                .heads
                .get(*no)
                .is_some_and(|head| head.created.is_none())
        };
        let finished: Vec<i64> = batch.finished.iter().filter(there).copied().collect();
        if !finished.is_empty() {
            // For the other runs, unused resumptions are dead-lettered first.
            let heard = |no: &&i64| batch.heads.get(*no).is_none_or(|head| head.carries == 0);
            let heard: Vec<i64> = finished.iter().filter(heard).copied().collect();
            self.add(TRIGGERS_GONE, None, vec![Box::new(heard)]).await?;
            let sql = "DELETE FROM reservation WHERE run = ANY($1)";
            self.add(sql, None, vec![Box::new(finished)]).await?;
        }
        let released: Vec<i64> = batch.released.iter().filter(there).copied().collect();
        if !released.is_empty() {
            let sql = "UPDATE trigger SET state = 0, suspicion = abs(suspicion) \
                WHERE run = ANY($1) AND state = 1";
            self.add(sql, None, vec![Box::new(released)]).await?;
            if let Some(sent) = self.sent.last_mut() {
                sent.pends = true;
            }
        }
        Ok(())
    }

    async fn records(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let executions = &batch.executions;
        let sql = "INSERT INTO execution (no, run, previous, seq, first, node, kind, attempt, \
                status, started_ms, took_us, failure, logs, skipped, output, output_meta, \
                inputs, event) \
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
                $5::bigint[], $6::bigint[], $7::smallint[], $8::bigint[], $9::smallint[], \
                $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], \
                $15::bytea[], $16::text[], $17::bytea[], $18::bytea[])";
        if !executions.is_empty() {
            let columns = columns!(executions,
                row => row.no.0, row => row.run.0, row => row.previous.map(|no| no.0),
                row => row.seq.0.cast_signed(), row => row.first.0.cast_signed(),
                row => i64::from(row.node), row => i16::from(row.kind.stored()),
                row => i64::from(row.attempt), row => i16::from(row.status as u8),
                row => row.started_ms, row => row.took_us.cast_signed(),
                row => row.failure.as_ref().and_then(json), row => json_list(&row.logs),
                row => json_list(&row.skipped), row => payload(row.output.as_ref()).0,
                row => payload(row.output.as_ref()).1, row => inputs(row), row => event(row));
            self.add(sql, number(executions.len()), columns).await?;
        }
        let journal = &batch.journal;
        let sql = "INSERT INTO journal (run, version, place, at_ms, kind, detail) \
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], \
                $5::text[], $6::bytea[])";
        if !journal.is_empty() {
            let columns = columns!(journal,
                row => row.0, row => row.1, row => row.2, row => row.3.at_ms,
                row => &*row.3.kind, row => &*row.3.detail);
            self.add(sql, number(journal.len()), columns).await?;
        }
        Ok(())
    }

    /// Closed scopes are deleted first: the new rows are those of later steps.
    async fn scoped(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let of = |open: bool| {
            let scopes = batch.scopes.iter();
            scopes
                .filter(move |(_, state)| state.is_some() == open)
                .collect::<Vec<_>>()
        };
        let closed = of(false);
        if !closed.is_empty() {
            for sql in [
                "DELETE FROM scope AS s USING unnest($1::bigint[], $2::bigint[]) \
                    AS u (run, scope) \
                    WHERE s.run = ANY (ARRAY[u.run]) AND s.scope = u.scope",
                "DELETE FROM var AS s USING unnest($1::bigint[], $2::bigint[]) \
                    AS u (run, scope) \
                    WHERE s.run = ANY (ARRAY[u.run]) AND s.scope = u.scope",
            ] {
                let columns = columns!(closed, row => row.0.0, row => row.0.1);
                self.add(sql, None, columns).await?;
            }
        }
        let open = of(true);
        if !open.is_empty() {
            let sql = "INSERT INTO scope (run, scope, state) \
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) \
                ON CONFLICT (run, scope) DO UPDATE SET state = excluded.state";
            let columns = columns!(open,
                row => row.0.0, row => row.0.1, row => row.1.unwrap_or_default());
            self.add(sql, None, columns).await?;
        }
        let vars: Vec<_> = batch.vars.iter().collect();
        if !vars.is_empty() {
            let sql = "INSERT INTO var (run, scope, name, body, meta) \
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], \
                    $5::text[]) ON CONFLICT (run, scope, name) \
                DO UPDATE SET body = excluded.body, meta = excluded.meta";
            let columns = columns!(vars,
                row => row.0.0, row => row.0.1, row => row.0.2,
                row => payload(Some(row.1)).0, row => payload(Some(row.1)).1);
            self.add(sql, None, columns).await?;
        }
        self.items(batch).await
    }

    async fn items(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let lists: Vec<_> = batch.lists.iter().collect();
        if !lists.is_empty() {
            let sql = "DELETE FROM item AS s USING unnest($1::bigint[], $2::bigint[]) \
                AS u (run, list) \
                WHERE s.run = ANY (ARRAY[u.run]) AND s.list = u.list";
            let columns = columns!(lists, row => row.0, row => row.1);
            self.add(sql, None, columns).await?;
        }
        let items: Vec<_> = batch.items.iter().collect();
        if !items.is_empty() {
            let sql = "INSERT INTO item (run, list, place, body, meta) \
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], \
                    $5::text[]) ON CONFLICT (run, list, place) \
                DO UPDATE SET body = excluded.body, meta = excluded.meta";
            let columns = columns!(items,
                row => row.0.0, row => row.0.1, row => row.0.2,
                row => payload(Some(row.1)).0, row => payload(Some(row.1)).1);
            self.add(sql, None, columns).await?;
        }
        Ok(())
    }

    async fn blobs(&mut self, batch: &'p Batch<'_>) -> Done<()> {
        let blobs: Vec<_> = batch.blobs.iter().collect();
        if !blobs.is_empty() {
            let sql = "INSERT INTO blob (digest, touched_ms, content) \
                SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) \
                ON CONFLICT (digest) DO UPDATE \
                SET touched_ms = greatest(blob.touched_ms, excluded.touched_ms)";
            let columns = columns!(blobs,
                row => &row.0[..], row => row.1.1, row => row.1.0);
            self.add(sql, None, columns).await?;
        }
        let refs: Vec<_> = batch.refs.iter().collect();
        if !refs.is_empty() {
            let sql = "WITH u AS (SELECT * FROM unnest($1::bigint[], $2::bytea[]) \
                    AS u (run, digest)), \
                held AS (SELECT no, digest FROM blob WHERE digest = ANY ($2) \
                    ORDER BY digest FOR KEY SHARE) \
                INSERT INTO blob_ref (run, blob) SELECT u.run, held.no \
                FROM u JOIN held ON held.digest = u.digest ON CONFLICT DO NOTHING";
            let columns = columns!(refs, row => row.0, row => &row.1[..]);
            self.add(sql, None, columns).await?;
        }
        Ok(())
    }
}

/// Number, run, former token, and the new row, if there is one.
fn plan<'r, 'w>(
    (no, row): (&i64, &'r Row<'w>),
) -> Option<(i64, i64, i64, &'r super::batch::Now<'w>)> {
    let now = row.now.as_ref()?;
    Some((*no, row.run, row.was_token.unwrap_or_default(), now))
}

fn failure(head: &Head<'_>) -> Option<String> {
    let (finish, _) = head.finish?;
    finish.failure.as_ref().and_then(json)
}

fn output<'w>(head: &Head<'w>) -> (Option<&'w [u8]>, Option<String>) {
    payload(head.finish.and_then(|(finish, _)| finish.output.as_ref()))
}
