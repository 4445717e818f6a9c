//! Kills the host repeatedly while 256 clients wait for the ends of their runs over HTTP.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;
use windlass_tests::harness::{Answer, Dice, Line, Place, Signal, Web, until_some};

const CLIENTS: usize = 256;

/// How often the host is killed.
const KILLS: u64 = 12;

/// How long each request asks to wait.
const WAIT: Duration = Duration::from_secs(2);

/// How much later its answer may come. The host is stopped while the test looks into its store, and
/// two processors have 256 clients to answer.
const GRACE: Duration = Duration::from_secs(8);

const JSON: &str = "content-type: application/json";

/// The clients, and the host that they ask.
struct Clients {
    clock: SystemClock,
    /// None while no host listens.
    address: Mutex<Option<SocketAddr>>,
    stop: AtomicBool,
    /// Runs whose answer has come.
    answered: AtomicU64,
    /// Requests for the end of a run that a kill has cut off.
    cut_off: AtomicU64,
    /// The longest time that a client has waited for an answer, in milliseconds.
    longest_ms: AtomicU64,
}

impl Clients {
    fn listens_at(&self, address: Option<SocketAddr>) {
        *self.address.lock() = address;
    }

    /// Sends a request to the host of this moment; none if it dies before it has answered. With the
    /// time from the request to its answer or its end.
    fn ask(
        &self,
        line: &mut Option<Line>,
        request: (&str, &str, &[&str], &str),
    ) -> (Option<Answer>, Duration) {
        let (method, path, headers, body) = request;
        let mut open = line.take().unwrap_or_else(|| {
            until_some("a host takes a connection", || {
                let address = *self.address.lock();
                Line::try_to(address?)
            })
        });
        let begun = self.clock.monotonic();
        let answer = open.try_ask(method, path, headers, body);
        let took = self.clock.monotonic().saturating_sub(begun);
        *line = answer.is_some().then_some(open);
        (answer, took)
    }

    /// Starts runs and waits for their ends, one after another. Each start that a host has
    /// acknowledged is asked for until its answer comes.
    fn go_on(&self, number: usize) {
        let mut line = None;
        for run in 0_u64.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let name = format!("{number}-{run}");
            let body = json!({ "workflow": "three", "input": { "name": name } }).to_string();
            let key = format!("idempotency-key: {name}");
            let id = until_some("a start is acknowledged", || {
                let start = ("POST", "/api/v1/runs", &[JSON, &key][..], &*body);
                let answer = self.ask(&mut line, start).0?;
                let id = answer.json()["id"].as_str().map(str::to_owned);
                id.filter(|_| [200, 201].contains(&answer.status))
            });
            let path = format!("/api/v1/runs/{id}/result?wait={}s", WAIT.as_secs());
            let outcome = until_some("an acknowledged start has its answer", || {
                let (answer, took) = self.ask(&mut line, ("GET", &path, &[], ""));
                assert!(took <= WAIT + GRACE, "{id}: {took:?} for {answer:?}");
                let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                self.longest_ms.fetch_max(ms, Ordering::SeqCst);
                let Some(answer) = answer else {
                    self.cut_off.fetch_add(1, Ordering::SeqCst);
                    return None;
                };
                assert!([200, 202].contains(&answer.status), "{id}: {answer:?}");
                (answer.status == 200).then(|| answer.json())
            });
            assert_eq!(outcome["status"], "completed", "{outcome}");
            assert_eq!(outcome["output"], name, "{outcome}");
            self.answered.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn each_acknowledged_start_has_its_answer_though_hosts_die_and_no_client_waits_longer_than_it_asks()
{
    let mut dice = Dice::of_test("waiting_clients");
    let place = Place::new(&["echo"]).with("server.waiting", "512");
    let web = Web::serve(&place);
    let echo = json!({ "use": "echo/echo" });
    web.publish(&json!({
        "workflow": "three",
        "nodes": { "a": echo, "b": echo, "c": echo },
        "edges": ["a -> b", "b -> c"],
        "output": "{{ input.name }}",
    }));
    let clients = Clients {
        clock: SystemClock::new(),
        address: Mutex::default(),
        stop: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        cut_off: AtomicU64::new(0),
        longest_ms: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        // A failure of this thread must not leave the clients behind.
        let stop = StopOnDrop(&clients);
        for number in 0..CLIENTS {
            let clients = &clients;
            scope.spawn(move || clients.go_on(number));
        }
        let mut web = web;
        for _ in 0..KILLS {
            clients.listens_at(Some(web.address));
            let answered = clients.answered.load(Ordering::SeqCst);
            until_some("clients are answered", || {
                (clients.answered.load(Ordering::SeqCst) > answered).then_some(())
            });
            web.process
                .run_for(Duration::from_millis(dice.between(0, 300)));
            // A trigger with which three hosts die would fail its run.
            while !kill(&place, &web) {
                web.process.run_for(Duration::from_millis(5));
            }
            clients.listens_at(None);
            web.process.kill();
            web = Web::serve(&place);
        }
        clients.listens_at(Some(web.address));
        drop(stop);
    });
    let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
    eprintln!(
        "waiting clients: {KILLS} kills, {} runs answered, {} requests cut off, the longest wait {} ms",
        count(&clients.answered),
        count(&clients.cut_off),
        count(&clients.longest_ms),
    );
    assert!(
        count(&clients.cut_off) >= KILLS,
        "clients waited at the kills"
    );
}

/// Kills the host, unless two hosts in a row have died with a trigger. The host is stopped while the
/// test looks.
fn kill(place: &Place, web: &Web) -> bool {
    web.process.signal(Signal::STOP);
    let good = place.look().most_deaths().is_some_and(|most| most < 2);
    web.process
        .signal(if good { Signal::KILL } else { Signal::CONT });
    good
}

/// Ends the clients after their current runs.
struct StopOnDrop<'a>(&'a Clients);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}
