//! What the environment says about tracing: the variables of the specification of OpenTelemetry.
//!
//! Tracing is on if a variable names a collector. A value that cannot be used is a mistake, which the
//! host logs; it never keeps the host from starting. A header may be a secret, so no mistake repeats a
//! value of the headers, nor an address, which may hold a password.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::sampling::Sampler;

/// The most headers, and the most attributes of the resource.
const ENTRIES: usize = 64;

/// The longest text of a variable, in bytes.
const TEXT_BYTES: usize = 16 * 1024;

/// The spans in the queue: by default, and at most.
const QUEUE: (u64, u64) = (2_048, 65_536);

/// The spans of one request: by default, and at most.
const BATCH: (u64, u64) = (512, 4_096);

/// How long spans wait for others of their request, in milliseconds: by default, and at most.
const DELAY_MS: (u64, u64) = (5_000, 60_000);

/// How long a request may take, in milliseconds: by default, and at most.
const TIMEOUT_MS: (u64, u64) = (10_000, 60_000);

/// Where spans are sent, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address.
    pub endpoint: Url,
    pub(crate) headers: HeaderMap,
    /// The attributes of the resource; the first one is its name.
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) sampler: Sampler,
    pub(crate) queue: usize,
    pub(crate) batch: usize,
    pub(crate) delay: Duration,
    pub(crate) timeout: Duration,
}

/// The settings in an environment.
#[derive(Debug, Default)]
pub struct Read {
    /// None: tracing is off.
    pub settings: Option<Settings>,
    /// The values that cannot be used, one sentence each.
    pub mistakes: Vec<String>,
}

impl Read {
    /// Reads the variables that `get` returns.
    pub fn of(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader {
            get,
            mistakes: Vec::new(),
        };
        let settings = reader.settings();
        Self {
            settings,
            mistakes: reader.mistakes,
        }
    }
}

struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    mistakes: Vec<String>,
}

impl Reader<'_> {
    fn settings(&mut self) -> Option<Settings> {
        if let Some(text) = self.text("OTEL_SDK_DISABLED")
            && text.eq_ignore_ascii_case("true")
        {
            return None;
        }
        let endpoint = self.endpoint()?;
        if let Some(exporter) = self.text("OTEL_TRACES_EXPORTER") {
            match exporter.as_str() {
                "otlp" => {}
                "none" => return None,
                _ => {
                    self.mistake("OTEL_TRACES_EXPORTER", "is neither `otlp` nor `none`");
                    return None;
                }
            }
        }
        if let Some((name, protocol)) = self.of_traces("PROTOCOL")
            && protocol != "http/protobuf"
        {
            self.mistake(&name, "is not `http/protobuf`, the protocol of this host");
            return None;
        }
        self.ignored();
        let delay_ms = self.number("OTEL_BSP_SCHEDULE_DELAY", DELAY_MS);
        let timeout_ms = match self.of_traces("TIMEOUT") {
            Some((name, _)) => self.number(&name, TIMEOUT_MS),
            None => TIMEOUT_MS.0,
        };
        let queue = self.number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE);
        let batch = self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH);
        Some(Settings {
            endpoint,
            headers: self.headers(),
            resource: self.resource(),
            sampler: self.sampler(),
            queue: usize::try_from(queue).unwrap_or(usize::MAX),
            batch: usize::try_from(batch.min(queue)).unwrap_or(usize::MAX),
            delay: Duration::from_millis(delay_ms),
            timeout: Duration::from_millis(timeout_ms),
        })
    }

    /// A variable; an empty one counts as none.
    fn text(&mut self, name: &str) -> Option<String> {
        let text = (self.get)(name)?.trim().to_owned();
        if text.len() > TEXT_BYTES {
            self.mistake(name, &format!("is longer than {TEXT_BYTES} bytes"));
            return None;
        }
        (!text.is_empty()).then_some(text)
    }

    /// A variable of the exporter, for traces or for all signals, with its name.
    fn of_traces(&mut self, what: &str) -> Option<(String, String)> {
        [
            format!("OTEL_EXPORTER_OTLP_TRACES_{what}"),
            format!("OTEL_EXPORTER_OTLP_{what}"),
        ]
        .into_iter()
        .find_map(|name| Some((name.clone(), self.text(&name)?)))
    }

    fn mistake(&mut self, name: &str, why: &str) {
        self.mistakes.push(format!("${name} {why}"));
    }

    fn endpoint(&mut self) -> Option<Url> {
        let (name, text) = self.of_traces("ENDPOINT")?;
        let url = match text.parse::<Url>() {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url,
            _ => {
                self.mistake(&name, "is no address like `http://127.0.0.1:4318`");
                return None;
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            let why = "has a user or a password: write a header into $OTEL_EXPORTER_OTLP_HEADERS";
            self.mistake(&name, why);
            return None;
        }
        Some(match name.contains("TRACES") {
            true => url,
            false => below(url),
        })
    }

    fn headers(&mut self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some((name, text)) = self.of_traces("HEADERS") else {
            return headers;
        };
        let Some(pairs) = pairs(&text) else {
            self.mistake(&name, "is no list like `name=value,name=value`");
            return headers;
        };
        for (key, value) in pairs {
            let made = HeaderName::from_bytes(key.as_bytes())
                .ok()
                .zip(HeaderValue::from_str(&value).ok());
            match made {
                Some((key, mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(key, value);
                }
                None => self.mistake(&name, "has a header with an invalid name or value"),
            }
        }
        headers
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let mut resource = vec![
            ("service.name".to_owned(), "windlass".to_owned()),
            (
                "service.version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
        ];
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        if let Some(text) = self.text(name) {
            match pairs(&text) {
                Some(pairs) => pairs.into_iter().for_each(|pair| put(&mut resource, pair)),
                None => self.mistake(name, "is no list like `name=value,name=value`"),
            }
        }
        if let Some(service) = self.text("OTEL_SERVICE_NAME") {
            put(&mut resource, ("service.name".to_owned(), service));
        }
        resource
    }

    fn sampler(&mut self) -> Sampler {
        let name = "OTEL_TRACES_SAMPLER";
        let Some(text) = self.text(name) else {
            return Sampler::default();
        };
        let argument = self.text("OTEL_TRACES_SAMPLER_ARG");
        Sampler::named(&text, argument.as_deref()).unwrap_or_else(|| {
            let why = "is no sampler, or $OTEL_TRACES_SAMPLER_ARG is no part between 0 and 1";
            self.mistake(name, why);
            Sampler::default()
        })
    }

    /// A number from 1 to a bound.
    fn number(&mut self, name: &str, (default, most): (u64, u64)) -> u64 {
        let Some(text) = self.text(name) else {
            return default;
        };
        match text.parse() {
            Ok(number) if (1..=most).contains(&number) => number,
            _ => {
                self.mistake(name, &format!("is no number from 1 to {most}"));
                default
            }
        }
    }

    /// Settings that this host does not have, and that are not harmless to ignore silently.
    fn ignored(&mut self) {
        if let Some((name, how)) = self.of_traces("COMPRESSION")
            && how != "none"
        {
            self.mistake(&name, "is ignored: spans are sent without compression");
        }
        for what in ["CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"] {
            if let Some((name, _)) = self.of_traces(what) {
                let why = "is ignored: $SSL_CERT_FILE names the authorities that count";
                self.mistake(&name, why);
            }
        }
    }
}

/// The path of traces below the address of a collector.
fn below(mut url: Url) -> Url {
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

fn put(resource: &mut Vec<(String, String)>, (key, value): (String, String)) {
    match resource.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => resource.push((key, value)),
    }
}

/// The pairs of a list like `name=value,name=value`, whose values are percent-encoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (key, value) = pair.split_once('=')?;
        let decoded = |text: &str| {
            let text = percent_decode_str(text.trim()).decode_utf8().ok()?;
            Some(text.into_owned())
        };
        let key = decoded(key).filter(|key| !key.is_empty())?;
        pairs.push((key, decoded(value)?));
    }
    (pairs.len() <= ENTRIES).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Read {
        Read::of(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    fn endpoint(variables: &[(&str, &str)]) -> Option<String> {
        let read = read(variables);
        assert_eq!(read.mistakes, Vec::<String>::new());
        read.settings.map(|settings| settings.endpoint.to_string())
    }

    #[test]
    fn tracing_is_off_unless_an_address_is_named() {
        assert_eq!(endpoint(&[]), None);
        assert_eq!(endpoint(&[("OTEL_SERVICE_NAME", "shop")]), None);
        assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
        let on = Some("http://127.0.0.1:4318/v1/traces".to_owned());
        assert_eq!(endpoint(&[AT]), on);
        assert_eq!(endpoint(&[AT, ("OTEL_SDK_DISABLED", "TRUE")]), None);
        assert_eq!(endpoint(&[AT, ("OTEL_SDK_DISABLED", "1")]), on);
        assert_eq!(endpoint(&[AT, ("OTEL_TRACES_EXPORTER", "none")]), None);
        let below = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example/otlp/")];
        let below = endpoint(&below);
        assert_eq!(below.as_deref(), Some("https://c.example/otlp/v1/traces"));
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c.example/t");
        assert_eq!(
            endpoint(&[AT, traces]).as_deref(),
            Some("http://c.example/t")
        );
    }

    #[test]
    fn headers_resource_and_bounds_are_read() {
        let settings = read(&[
            AT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key = a%20b, y=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,env=a%2Cb"),
            ("OTEL_SERVICE_NAME", "orders"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ]);
        assert_eq!(settings.mistakes, Vec::<String>::new());
        let settings = settings.settings.unwrap();
        assert_eq!(settings.headers["x-key"], "a b");
        assert!(settings.headers["y"].is_sensitive());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let resource = [
            pair("service.name", "orders"),
            pair("service.version", env!("CARGO_PKG_VERSION")),
            pair("env", "a,b"),
        ];
        assert_eq!(settings.resource, resource);
        assert_eq!((settings.queue, settings.batch), (10, 10));
        assert_eq!(settings.timeout, Duration::from_millis(250));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_a_mistake_and_is_not_repeated() {
        for (name, value, is_on) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "secret", false),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://secret", false),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:secret@c", false),
            ("OTEL_TRACES_EXPORTER", "secret", false),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", false),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret", true),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0a", true),
            ("OTEL_RESOURCE_ATTRIBUTES", "=secret", true),
            ("OTEL_TRACES_SAMPLER", "secret", true),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0", true),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1", true),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "99999999999", true),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", true),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "secret", true),
        ] {
            let found = match name {
                "OTEL_EXPORTER_OTLP_ENDPOINT" => read(&[(name, value)]),
                _ => read(&[AT, (name, value)]),
            };
            let text = format!("{name}={value}: {:?}", found.mistakes);
            assert_eq!(found.settings.is_some(), is_on, "{text}");
            assert_eq!(found.mistakes.len(), 1, "{text}");
            assert!(
                found.mistakes[0].starts_with(&format!("${name} ")),
                "{text}"
            );
            assert!(!found.mistakes[0].contains("secret"), "{text}");
        }
        let long = "a".repeat(TEXT_BYTES + 1);
        assert_eq!(read(&[AT, ("OTEL_SERVICE_NAME", &long)]).mistakes.len(), 1);
    }
}
