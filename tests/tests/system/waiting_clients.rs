//! Kills the host again and again while 256 clients start runs over HTTP and wait for their ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;
use windlass_tests::harness::{
    Answer, Dice, Line, PATIENCE, Place, Signal, Web, until, until_some,
};

const CLIENTS: u64 = 256;

/// How often the host is killed.
const KILLS: u64 = 10;

/// How long each request for the end of a run asks to wait.
const WAIT: Duration = Duration::from_secs(2);

/// How much later its answer may come: the host is stopped while the test looks into its store, and
/// other tests run beside this one.
const GRACE: Duration = Duration::from_secs(10);

const JSON: &str = "content-type: application/json";

/// The clients, and the host that they ask.
struct Clients {
    clock: SystemClock,
    /// The address of the host, and how often it was started; no address while no host listens.
    host: Mutex<(Option<SocketAddr>, u64)>,
    started: Condvar,
    stop: AtomicBool,
    /// Runs whose answers have come.
    answered: AtomicU64,
    /// Answers of runs whose start another host, killed since, has acknowledged.
    outlived: AtomicU64,
    /// Requests that a kill has cut off.
    cut_off: AtomicU64,
    /// The longest time to an answer, in milliseconds.
    longest_ms: AtomicU64,
}

/// A client, with its connection.
struct Client<'a> {
    clients: &'a Clients,
    number: u64,
    line: Option<Line>,
    /// The host to which the connection leads.
    host: u64,
}

impl Clients {
    fn listens_at(&self, address: Option<SocketAddr>) {
        let mut host = self.host.lock();
        *host = (address, host.1 + u64::from(address.is_some()));
        self.started.notify_all();
    }

    /// A connection to the host of this moment, and which host that is.
    fn connect(&self) -> (Line, u64) {
        until_some("a host takes a connection", || {
            let mut host = self.host.lock();
            let none = |host: &mut (Option<SocketAddr>, u64)| host.0.is_none();
            self.started.wait_while_for(&mut host, none, PATIENCE);
            let (address, no) = *host;
            drop(host);
            Some((Line::try_to(address?)?, no))
        })
    }
}

impl Client<'_> {
    /// Sends a request to the host of this moment; none if it dies before it has answered.
    fn ask(&mut self, (method, path, headers, body): Request<'_>) -> Option<Answer> {
        if self.line.is_none() {
            let (line, host) = self.clients.connect();
            (self.line, self.host) = (Some(line), host);
        }
        let clock = &self.clients.clock;
        let begun = clock.monotonic();
        let answer = self.line.as_mut()?.try_ask(method, path, headers, body);
        let took = clock.monotonic().saturating_sub(begun);
        assert!(took <= WAIT + GRACE, "{path}: {took:?} until {answer:?}");
        if answer.is_none() {
            self.line = None;
            self.clients.cut_off.fetch_add(1, Ordering::SeqCst);
        }
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.clients.longest_ms.fetch_max(ms, Ordering::SeqCst);
        answer
    }

    /// Starts a run by a key until a host has acknowledged it, and returns the status and its id.
    fn start(&mut self, name: &str) -> (u16, String) {
        let body = json!({ "workflow": "three", "input": { "name": name } }).to_string();
        let key = format!("idempotency-key: {name}");
        let headers = [JSON, &key];
        let start = ("POST", "/api/v1/runs", &headers[..], &*body);
        let answer = until_some("a start is acknowledged", || self.ask(start));
        assert!([200, 201].contains(&answer.status), "{name}: {answer:?}");
        let id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
        (answer.status, id)
    }

    /// Asks for the end of a run until it comes.
    fn outcome(&mut self, id: &str) -> Value {
        let path = format!("/api/v1/runs/{id}/result?wait={}s", WAIT.as_secs());
        until_some("an acknowledged start has its answer", || {
            let answer = self.ask(("GET", &path, &[], ""))?;
            assert!([200, 202].contains(&answer.status), "{id}: {answer:?}");
            (answer.status == 200).then(|| answer.json())
        })
    }

    /// Starts runs and waits for their ends, one after another. Returns their number.
    fn go_on(mut self) -> u64 {
        let mut runs = 0;
        while !self.clients.stop.load(Ordering::SeqCst) {
            let name = format!("{}-{runs}", self.number);
            let (_, id) = self.start(&name);
            let acknowledged_by = self.host;
            let outcome = self.outcome(&id);
            assert_eq!(outcome["status"], "completed", "{outcome}");
            assert_eq!(outcome["output"], name, "{outcome}");
            self.clients.answered.fetch_add(1, Ordering::SeqCst);
            if self.host != acknowledged_by {
                self.clients.outlived.fetch_add(1, Ordering::SeqCst);
                assert_eq!(self.start(&name), (200, id), "it is the same run");
            }
            runs += 1;
        }
        runs
    }
}

type Request<'a> = (&'a str, &'a str, &'a [&'a str], &'a str);

#[test]
fn each_acknowledged_start_has_its_answer_though_hosts_die_and_no_client_waits_longer_than_it_asks()
{
    let mut dice = Dice::of_test("waiting_clients");
    let place = Place::new(&["echo"]);
    let mut web = Web::serve(&place);
    let echo = json!({ "use": "echo/echo" });
    web.publish(&json!({
        "workflow": "three",
        "nodes": { "a": echo, "b": echo, "c": echo },
        "edges": ["a -> b", "b -> c"],
        "output": "{{ input.name }}",
    }));
    let clients = Clients {
        clock: SystemClock::new(),
        host: Mutex::new((Some(web.address), 1)),
        started: Condvar::new(),
        stop: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        outlived: AtomicU64::new(0),
        cut_off: AtomicU64::new(0),
        longest_ms: AtomicU64::new(0),
    };
    let runs: u64 = std::thread::scope(|scope| {
        // A failure of this thread must not leave the clients behind.
        let stop = StopOnDrop(&clients.stop);
        let running: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client {
                    clients: &clients,
                    number,
                    line: None,
                    host: 0,
                };
                scope.spawn(move || client.go_on())
            })
            .collect();
        for _ in 0..KILLS {
            let count = || clients.answered.load(Ordering::SeqCst);
            let most = count() + dice.between(1, 2 * CLIENTS);
            until("clients are answered", || count() >= most);
            until("no trigger would be lost", || {
                let killed = kill(&place, &web);
                if !killed {
                    web.process.run_for(Duration::from_millis(20));
                }
                killed
            });
            clients.listens_at(None);
            web.process.wait();
            web = Web::serve(&place);
            clients.listens_at(Some(web.address));
        }
        drop(stop);
        // The last host lives until all clients have their answers.
        let ended = running.into_iter().map(|client| client.join());
        ended.map(|runs| runs.expect("a client ends")).sum()
    });
    let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
    eprintln!(
        "waiting clients: {KILLS} kills, {runs} runs, {} of them over a kill, {} requests cut off, the \
         longest wait {} ms",
        count(&clients.outlived),
        count(&clients.cut_off),
        count(&clients.longest_ms),
    );
    assert_eq!(count(&clients.answered), runs);
    let stored = place.look().runs().len() as u64;
    assert_eq!(stored, runs, "each key has one run");
    assert!(count(&clients.outlived) > 0, "clients waited at the kills");
}

/// Kills the host, unless two hosts in a row have died with a trigger: a third death would fail its
/// run. The host is stopped while the test looks.
fn kill(place: &Place, web: &Web) -> bool {
    web.process.signal(Signal::STOP);
    let good = place.look().most_deaths().is_some_and(|most| most < 2);
    web.process
        .signal(if good { Signal::KILL } else { Signal::CONT });
    good
}

/// Ends the clients after their current runs.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
