//! Several hosts on one store, under load, while they are killed, stopped beyond their leases, and
//! cut off from their servers; then everything in the store is compared with the expected behaviour
//! of the workflows.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use windlass_model::{RunId, Status};
use windlass_test_servers::{PostgreSql, Redis};
use windlass_tests::harness::{Dice, GO, Place, Plan, Process, Signal, Starter, until};

use crate::kills::verify;

/// The number of hosts.
const NODES: usize = 3;

/// The number of disturbances.
const TROUBLES: u64 = 36;

/// The most unfinished runs.
const BACKLOG: u64 = 24;

/// The lease of the hosts and of the locks, in milliseconds. Long enough that no host loses it because
/// other programs take the processors.
const LEASE_MS: u64 = 5_000;

/// Takes up to a minute, as the other three: hosts are killed and started dozens of times, and a lease
/// has to run out after each death.
#[test]
fn hosts_that_share_a_file_and_lock_in_files_end_every_run_once() {
    let place = place().with("locks.provider", "file");
    storm("cluster on SQLite, locks in files", &place, &mut |_| false);
}

#[test]
fn hosts_that_share_a_file_and_lock_in_it_end_every_run_once() {
    storm("cluster on SQLite", &place(), &mut |_| false);
}

#[test]
fn hosts_that_share_a_database_end_every_run_once() {
    let Some(postgres) = PostgreSql::for_test().expect("PostgreSQL starts") else {
        return;
    };
    let (place, executions) = database(&postgres);
    storm("cluster on PostgreSQL", &place, &mut |dice| {
        shake(&postgres, dice)
    });
    executions.check();
}

#[test]
fn hosts_that_share_a_database_and_lock_in_redis_end_every_run_once() {
    let postgres = PostgreSql::for_test().expect("PostgreSQL starts");
    let redis = Redis::for_test().expect("Redis starts");
    let (Some(postgres), Some(redis)) = (postgres, redis) else {
        return;
    };
    let (place, executions) = database(&postgres);
    let place = place
        .with("locks.provider", "redis")
        .with("locks.url", &redis.url());
    storm(
        "cluster on PostgreSQL, locks in Redis",
        &place,
        &mut |dice| {
            if dice.once_in(2) {
                return shake(&postgres, dice);
            }
            // A killed Redis forgets all locks.
            redis.restart().expect("Redis starts again");
            true
        },
    );
    executions.check();
}

#[test]
fn a_host_runs_workflows_on_the_plugins_of_another_host() {
    let place = place();
    let brings = place.serve();
    until("the plugins are in the store", || {
        let kept = place.look().store().components(0, 10);
        kept.is_ok_and(|kept| kept.len() >= 3)
    });
    brings.kill();
    let nothing = place.path("home").display().to_string();
    let mut lacks = place.windlass();
    lacks.arg("serve");
    for name in ["DIRECTORY", "LIBRARY", "CACHE"] {
        lacks.env(format!("WINDLASS_PLUGINS__{name}"), &nothing);
    }
    let mut lacks = Process::start("a host without plugins", &mut lacks);
    place.until_member(&mut lacks);
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    let started = Starter::of(&place).start(&workflow, &json!({}));
    let id = started.expect("a run is written down").to_string();
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Completed, "{run:#?}");
}

#[test]
fn a_workflow_is_published_when_its_plugin_arrives_through_the_store() {
    let place = place().with("definitions.directory", "waiting");
    std::fs::create_dir(place.path("waiting")).expect("a directory can be made");
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    place.workflow("waiting/one", &workflow);
    let nothing = place.path("home").display().to_string();
    let mut lacks = place.windlass();
    lacks.arg("serve");
    for name in ["DIRECTORY", "CACHE"] {
        lacks.env(format!("WINDLASS_PLUGINS__{name}"), &nothing);
    }
    let lacks = Process::start("a host without plugins", &mut lacks);
    until("it says what is missing", || {
        lacks.stderr().contains("WL-D")
    });
    assert_eq!(
        place
            .look()
            .store()
            .published("one")
            .expect("it can be read"),
        None
    );
    let mut brings = place.windlass();
    brings
        .arg("serve")
        .env("WINDLASS_DEFINITIONS__DIRECTORY", &nothing);
    let _brings = Process::start("a host with plugins", &mut brings);
    until("the workflow is published", || {
        let published = place.look().store().published("one");
        published.is_ok_and(|published| published.is_some())
    });
}

/// A place whose hosts share a database of this server, which records which host executes what.
fn database(postgres: &PostgreSql) -> (Place, Executions<'_>) {
    let url = postgres.database().expect("a database can be made");
    let place = place().with_database(&url);
    // Opening the store creates its tables.
    drop(Starter::of(&place));
    postgres.execute_in(&url, NOTE).expect("it is noted");
    (place, Executions { postgres, url })
}

/// Records the epoch of the run for each execution. The upper half of an execution's number
/// identifies its host.
const NOTE: &str = "
    create table public.executed (run bigint, epoch bigint, by bigint);
    create function public.note() returns trigger language plpgsql as $$ begin
        insert into public.executed select new.run, epoch, new.no >> 32
            from windlass.run where no = new.run;
        return null;
    end $$;
    create trigger note after insert on windlass.execution for each row
        execute function public.note()";

/// The records of a database.
struct Executions<'a> {
    postgres: &'a PostgreSql,
    url: String,
}

impl Executions<'_> {
    /// Checks that no two hosts have executed a run in the same epoch.
    fn check(&self) {
        let ask = |sql: &str| {
            let answer = self.postgres.execute_in(&self.url, sql);
            let answer = answer.expect("the database answers");
            answer.trim().parse::<u64>().expect("a number")
        };
        let epochs = "select count(*) from (select from public.executed group by run, epoch";
        let all = ask(&format!("{epochs}) as epochs"));
        let shared = ask(&format!(
            "{epochs} having count(distinct by) > 1) as epochs"
        ));
        assert!(all > 0, "something was executed");
        assert_eq!(shared, 0, "two have executed in one epoch");
        eprintln!("{all} epochs in which something was executed, each by one host");
    }
}

/// Restarts PostgreSQL, or ends all connections to it.
fn shake(postgres: &PostgreSql, dice: &mut Dice) -> bool {
    if dice.once_in(2) {
        postgres.restart().expect("PostgreSQL starts again");
    } else {
        let ended = postgres.terminate_connections();
        ended.expect("PostgreSQL ends connections");
    }
    true
}

/// A place whose hosts are a cluster with short leases.
fn place() -> Place {
    let lease = format!("{LEASE_MS}ms");
    Place::new(&["echo", "steps"])
        .with("cluster.enabled", "true")
        .with("cluster.allow-local-locks", "true")
        .with("scheduler.lease", &lease)
        .with("scheduler.near-horizon", "4s")
        .with("locks.lease", &lease)
}

/// Another disturbance: returns whether it did something.
type Trouble<'a> = &'a mut dyn FnMut(&mut Dice) -> bool;

fn storm(name: &str, place: &Place, trouble: Trouble<'_>) {
    let mut dice = Dice::of_test(name);
    let plans: Vec<Plan> = (0..10)
        .map(|number| Plan::random(&format!("plan_{number}"), &mut dice))
        .collect();
    let mut cluster = Cluster::of(place);
    let load = Load {
        place,
        plans: &plans,
        starter: Starter::of(place),
        stop: AtomicBool::new(false),
        acknowledged: Mutex::default(),
    };
    load.starter.publish(&Plan::child().workflow());
    std::thread::scope(|scope| {
        let (load, its) = (&load, dice.clone());
        let starting = scope.spawn(move || load.keep_starting(its));
        let stop = StopOnDrop(&load.stop);
        for _ in 0..TROUBLES {
            cluster.go_wrong(&mut dice, trouble);
        }
        drop(stop);
        starting
            .join()
            .expect("the thread that starts runs does not panic");
    });
    cluster.until_whole();
    until("everything has ended", || {
        place.look().try_unfinished() == Some(0)
    });
    let acknowledged = load
        .acknowledged
        .into_inner()
        .expect("the mutex is not poisoned");
    let report = verify(place, &plans, &acknowledged);
    let look = place.look();
    let counts = look.store().counts().expect("it can be counted");
    let left = (counts.triggers, counts.bookmarks, counts.queued);
    assert_eq!(left, (0, 0, 0), "nothing is left: {counts:?}");
    let owned = look.runs().into_iter().filter(|run| run.owner.is_some());
    assert_eq!(owned.count(), 0, "an ended run has no owner");
    let bursts: i64 = look.runs().iter().map(|run| run.epoch.0).sum();
    let Counts {
        kills,
        stops,
        others,
    } = cluster.counts;
    eprintln!(
        "{name}: {NODES} hosts, {kills} killed, {stops} stopped beyond their lease, {others} \
         other troubles; {} runs acknowledged, {bursts} bursts, {report}",
        acknowledged.len(),
    );
}

/// The hosts of the test.
struct Cluster<'a> {
    place: &'a Place,
    nodes: Vec<Process>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    kills: u64,
    stops: u64,
    others: u64,
}

impl<'a> Cluster<'a> {
    fn of(place: &'a Place) -> Self {
        let nodes = (0..NODES).map(|_| place.start(&["serve"])).collect();
        let mut cluster = Self {
            place,
            nodes,
            counts: Counts::default(),
        };
        cluster.until_whole();
        cluster
    }

    /// Waits until all hosts are members. A host that could not reach the database at its start has
    /// ended, and another one replaces it.
    fn until_whole(&mut self) {
        let (place, nodes) = (self.place, &mut self.nodes);
        until("all hosts have joined the store", || {
            nodes.iter_mut().all(|node| {
                if node.ended().is_some() {
                    *node = place.start(&["serve"]);
                }
                place.look().has_member(node.pid())
            })
        });
    }

    /// Causes a disturbance, some time after the last one.
    fn go_wrong(&mut self, dice: &mut Dice, trouble: Trouble<'_>) {
        let at = usize::try_from(dice.between(0, NODES as u64 - 1)).unwrap_or(0);
        self.nodes[at].run_for(Duration::from_millis(dice.between(100, 500)));
        if dice.once_in(8) {
            self.stop_beyond_its_lease(at);
        } else if dice.once_in(4) && self.disturb(dice, trouble) {
            self.counts.others += 1;
        } else {
            self.kill(at);
        }
    }

    /// Disturbs a server, when no trigger has been through a death: a database may be away for
    /// longer than a lease, and then all hosts count as dead, some of them twice.
    fn disturb(&self, dice: &mut Dice, trouble: Trouble<'_>) -> bool {
        until("no trigger has been through a death", || {
            self.place.look().most_deaths() == Some(0)
        });
        trouble(dice)
    }

    /// Kills a host at a good moment, and starts another one in its place.
    fn kill(&mut self, at: usize) {
        let node = &self.nodes[at];
        loop {
            node.signal(Signal::STOP);
            if self.is_good_moment() {
                break;
            }
            node.signal(Signal::CONT);
            node.run_for(Duration::from_millis(5));
        }
        let fresh = self.place.start(&["serve"]);
        std::mem::replace(&mut self.nodes[at], fresh).kill();
        self.counts.kills += 1;
    }

    /// Stops a host until the others must have taken over its work, and continues it.
    fn stop_beyond_its_lease(&mut self, at: usize) {
        let node = &self.nodes[at];
        node.signal(Signal::STOP);
        if self.is_good_moment() {
            node.run_for(Duration::from_millis(LEASE_MS + 1_500));
            self.counts.stops += 1;
        }
        node.signal(Signal::CONT);
    }

    /// Whether no trigger can fail as `lost` if a host dies.
    fn is_good_moment(&self) -> bool {
        self.place.look().most_deaths().is_some_and(|most| most < 2)
    }
}

/// Creates runs while hosts start and end, and sends the stimuli for which runs wait.
struct Load<'a> {
    place: &'a Place,
    plans: &'a [Plan],
    starter: Starter,
    stop: AtomicBool,
    acknowledged: Mutex<Vec<RunId>>,
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Load<'_> {
    fn keep_starting(&self, mut dice: Dice) {
        let mut untold = Vec::new();
        for n in 0_u64.. {
            until("there is room for another run", || {
                // Some stimuli are sent before the wait begins, and some long after.
                if dice.once_in(4) {
                    self.tell_one(&mut untold, &mut dice);
                }
                let open = self.place.look().try_unfinished();
                self.stop.load(Ordering::SeqCst) || open.is_some_and(|open| open < BACKLOG)
            });
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let index = usize::try_from(dice.roll()).unwrap_or(0) % self.plans.len();
            let id = self.start(&self.plans[index], n, &mut dice);
            untold.extend(self.plans[index].asks().into_iter().map(|node| (id, node)));
        }
        while !untold.is_empty() {
            self.tell_one(&mut untold, &mut dice);
        }
    }

    /// Creates a run. If the store does not acknowledge it, it is requested again with the same id,
    /// and exists once.
    fn start(&self, plan: &Plan, n: u64, dice: &mut Dice) -> RunId {
        let id = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
        let id = RunId(Uuid::from_u128(id));
        let workflow = plan.workflow();
        until("a run is written down", || {
            let input = json!({ "n": n });
            self.starter.start_as(id, &workflow, &input).is_ok()
        });
        let mut acknowledged = self.acknowledged.lock().expect("the mutex is not poisoned");
        acknowledged.push(id);
        id
    }

    /// Sends one of the runs the stimulus for one of its nodes.
    fn tell_one(&self, untold: &mut Vec<(RunId, String)>, dice: &mut Dice) {
        if !untold.is_empty() {
            let at = usize::try_from(dice.roll()).unwrap_or(0) % untold.len();
            let (id, node) = untold.swap_remove(at);
            until("a host is told to go on", || {
                self.starter.try_tell(id, GO, &node).is_ok()
            });
        }
    }
}
