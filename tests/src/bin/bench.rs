//! `windlass-bench`: measures every scenario and prints a table; `cargo xtask bench` runs it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program for people"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use windlass_allocator as _;
use windlass_test_servers::PostgreSql;
use windlass_tests::bench::measure::{Plan, measure};
use windlass_tests::bench::rig::Setup;
use windlass_tests::bench::{
    Record, burn_down, http_resume, idle, locking, long_run, open_transaction, resumes, retention,
    scaling, scenario, start_up, steady, table, timers,
};

fn main() -> Result<()> {
    let arguments = Arguments::read()?;
    match (&arguments.only, arguments.minutes) {
        (Some(only), _) => single(&arguments, only),
        (None, Some(minutes)) => {
            let seconds = minutes * 60.0;
            single(
                &Arguments {
                    seconds,
                    ..arguments
                },
                STEADY,
            )
        }
        (None, None) => all(&arguments),
    }
}

/// A load in runs per second that two cores carry beside other work.
const STEADY: &str = "steady/100/full/warm";

struct Arguments {
    components: PathBuf,
    binary: Option<PathBuf>,
    hello: Option<PathBuf>,
    dir: PathBuf,
    json: Option<PathBuf>,
    seconds: f64,
    /// Only run the steady load, for this long.
    minutes: Option<f64>,
    filter: Option<String>,
    only: Option<String>,
    /// Also measure on PostgreSQL.
    postgres: bool,
    /// The database for one scenario.
    url: Option<String>,
    /// The directory of one scenario, which also names its store in a database.
    inside: Option<PathBuf>,
    /// Begin on command.
    wait: bool,
}

impl Arguments {
    fn read() -> Result<Self> {
        let mut read = Self {
            components: PathBuf::from("target/plugins"),
            binary: None,
            hello: None,
            dir: PathBuf::from("target"),
            json: None,
            seconds: 3.0,
            minutes: None,
            filter: None,
            only: None,
            postgres: false,
            url: None,
            inside: None,
            wait: false,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} takes a value"))
            };
            match word.as_str() {
                "--components" => read.components = value()?.into(),
                "--binary" => read.binary = Some(value()?.into()),
                "--hello" => read.hello = Some(value()?.into()),
                "--dir" => read.dir = value()?.into(),
                "--json" => read.json = Some(value()?.into()),
                "--seconds" => read.seconds = value()?.parse()?,
                "--minutes" => read.minutes = Some(value()?.parse()?),
                "--filter" => read.filter = Some(value()?),
                "--only" => read.only = Some(value()?),
                "--postgres" => read.postgres = true,
                "--url" => read.url = Some(value()?),
                "--in" => read.inside = Some(value()?.into()),
                scaling::WAIT => read.wait = true,
                other => bail!(
                    "unknown argument {other}; known: --components --binary --hello --dir --json \
                     --seconds --minutes --filter --postgres"
                ),
            }
        }
        Ok(read)
    }
}

/// One scenario with one plan, named like `three-steps/256/full/warm`.
fn single(arguments: &Arguments, only: &str) -> Result<()> {
    let mut parts = only.split('/');
    let mut part = || {
        parts
            .next()
            .context("--only takes scenario/count/durability/isolation")
    };
    let (name, in_flight, durability, isolation) = (part()?, part()?, part()?, part()?);
    let dir = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&arguments.dir)?;
    let inside = arguments.inside.as_deref();
    let setup = Setup {
        full: durability == "full",
        warm: isolation == "warm",
        components: arguments.components.clone(),
        dir: inside.unwrap_or(dir.path()).to_owned(),
        postgres: arguments.url.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let record = match name {
        burn_down::NAME => runtime.block_on(burn_down::measure(&setup, in_flight.parse()?))?,
        timers::NAME => runtime.block_on(timers::measure(&setup, in_flight.parse()?))?,
        http_resume::NAME => runtime.block_on(http_resume::measure(&setup, in_flight.parse()?))?,
        resumes::NAME => runtime.block_on(resumes::measure(&setup, in_flight.parse()?))?,
        retention::NAME => runtime.block_on(retention::measure(&setup, in_flight.parse()?))?,
        long_run::NAME => runtime.block_on(long_run::measure(&setup, in_flight.parse()?))?,
        steady::NAME => {
            let time = Duration::from_secs_f64(arguments.seconds);
            let say = |line: &str| eprintln!("{line}");
            runtime.block_on(steady::measure(&setup, in_flight.parse()?, time, &say))?
        }
        open_transaction::NAME => {
            let time = Duration::from_secs_f64(arguments.seconds);
            let say = |line: &str| eprintln!("{line}");
            runtime.block_on(open_transaction::measure(&setup, time, &say))?
        }
        name if name.starts_with(locking::NAME) => {
            let time = Duration::from_secs_f64(arguments.seconds);
            runtime.block_on(locking::measure(&setup, name, in_flight.parse()?, time))?
        }
        name => {
            let scenario = scenario::all()
                .into_iter()
                .chain([scenario::for_each(10_000)])
                .find(|scenario| scenario.name == name)
                .with_context(|| format!("there is no scenario {name}"))?;
            let plan = Plan {
                in_flight: in_flight.parse()?,
                setup,
                time: Duration::from_secs_f64(arguments.seconds),
                ready: if arguments.wait {
                    scaling::wait
                } else {
                    || Ok(())
                },
            };
            runtime.block_on(measure(&scenario, &plan))?
        }
    };
    println!("{}", serde_json::to_string(&record)?);
    Ok(())
}

/// Every scenario with every plan, each in a separate process.
fn all(arguments: &Arguments) -> Result<()> {
    let mut records = Vec::new();
    let server = arguments.postgres.then(PostgreSql::start).transpose()?;
    for name in plans() {
        if arguments
            .filter
            .as_ref()
            .is_some_and(|filter| !name.contains(filter.as_str()))
        {
            continue;
        }
        eprintln!("measuring {name}");
        records.push(child(arguments, &name, None)?);
        if let Some(server) = server.as_ref().filter(|_| on_postgres(&name)) {
            eprintln!("measuring {name} on PostgreSQL");
            let url = server.database()?;
            records.push(child(arguments, &name, Some(&url))?);
            // Work that one scenario leaves behind must not delay the next.
            server.execute("checkpoint")?;
        }
    }
    if arguments.postgres {
        records.extend(clusters(arguments)?);
    }
    println!("{}", table::table(&records));
    let mut json = serde_json::to_value(&records)?;
    if let (Some(binary), Some(hello)) = (&arguments.binary, &arguments.hello) {
        eprintln!("measuring the start of the program");
        let start = start_up::measure(binary, hello, &arguments.dir)?;
        println!("{}", start.describe());
        if let Some(list) = json.as_array_mut() {
            list.push(serde_json::to_value(&start)?);
        }
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&json)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Whether a scenario uses the store, and is meaningful on PostgreSQL.
fn on_postgres(name: &str) -> bool {
    !name.contains("normal") && !name.starts_with(locking::NAME)
}

/// The scenarios for PostgreSQL only, and for several processes on one database.
fn clusters(arguments: &Arguments) -> Result<Vec<Record>> {
    let is_wanted = |name: &str| match &arguments.filter {
        Some(filter) => format!("{name}/full/warm").contains(filter.as_str()),
        None => true,
    };
    let mut records = Vec::new();
    for processes in scaling::PROCESSES {
        let name = format!("{}{processes}", scaling::NAME);
        if is_wanted(&name) {
            eprintln!("measuring {name} on PostgreSQL");
            let server = PostgreSql::start()?;
            let url = server.database()?;
            let start = || command(arguments, Some(&url));
            records.push(scaling::measure(processes, &arguments.dir, start)?);
        }
    }
    if is_wanted(open_transaction::NAME) {
        let (name, in_flight) = (open_transaction::NAME, open_transaction::IN_FLIGHT);
        eprintln!("measuring {name} on PostgreSQL");
        let name = format!("{name}/{in_flight}/full/warm");
        records.push(child(arguments, &name, None)?);
    }
    for processes in idle::PROCESSES {
        let name = format!("{}{processes}", idle::NAME);
        if let Some(binary) = arguments.binary.as_ref().filter(|_| is_wanted(&name)) {
            eprintln!("measuring {name} on PostgreSQL");
            let (components, dir) = (&arguments.components, &arguments.dir);
            let (record, statements) = idle::measure(processes, binary, components, dir)?;
            for (count, statement) in statements.iter().take(20) {
                eprintln!("{count:6} {statement}");
            }
            records.push(record);
        }
    }
    Ok(records)
}

fn plans() -> Vec<String> {
    let mut plans = Vec::new();
    for scenario in scenario::all() {
        for in_flight in [1, 16, 256] {
            for durability in ["full", "normal"] {
                for isolation in ["warm", "call"] {
                    plans.push(format!(
                        "{}/{in_flight}/{durability}/{isolation}",
                        scenario.name
                    ));
                }
            }
        }
    }
    plans.push("for-each-10000/1/full/warm".to_owned());
    // Here the number is the size of the load, and the host decides how much is in flight.
    for (name, count) in [
        (burn_down::NAME, 200_000),
        (timers::NAME, 1_000_000),
        (long_run::NAME, 50_000),
        (resumes::NAME, 20_000),
        (http_resume::NAME, 1_000),
        (retention::NAME, 20_000),
    ] {
        plans.push(format!("{name}/{count}/full/warm"));
    }
    for provider in locking::providers() {
        for in_flight in [1, 16] {
            plans.push(format!("{}{provider}/{in_flight}/full/warm", locking::NAME));
        }
    }
    plans
}

fn child(arguments: &Arguments, name: &str, url: Option<&str>) -> Result<Record> {
    let mut command = command(arguments, url)?;
    let output = command
        .args(["--only", name])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{name} failed");
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name} printed no record"))
}

/// This program, for one scenario.
fn command(arguments: &Arguments, url: Option<&str>) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(url.map(|url| ["--url", url]).into_iter().flatten())
        .args(["--seconds", &arguments.seconds.to_string()])
        .args([Path::new("--components"), &arguments.components])
        .args([Path::new("--dir"), &arguments.dir]);
    Ok(command)
}
