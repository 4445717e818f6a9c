//! The answers of the service, without the network.

use serde_json::{Map, Value, json};
use url::Url;

/// Prices of one piece, in cents of a euro.
const PRICES: [(&str, u32); 14] = [
    ("ROPE-12", 349),
    ("ROPE-16", 525),
    ("SHACKLE-8", 1_290),
    ("ANCHOR-10", 12_900),
    ("CHAIN-8", 890),
    ("WINCH-16", 48_900),
    ("FENDER-3", 2_450),
    ("CLEAT-2", 1_675),
    ("BUOY-5", 3_990),
    ("BLOCK-40", 5_480),
    ("HOOK-6", 1_120),
    ("LAMP-1", 7_350),
    ("VEST-L", 8_995),
    ("PUMP-12", 15_600),
];

/// The value of one euro in other currencies.
const RATES: [(&str, f64); 8] = [
    ("EUR", 1.0),
    ("USD", 1.08),
    ("GBP", 0.85),
    ("CHF", 0.95),
    ("SEK", 11.2),
    ("DKK", 7.46),
    ("NOK", 11.6),
    ("PLN", 4.3),
];

/// The state of the service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    was_asked: bool,
}

/// The answer to a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// Like `200 OK`.
    pub(crate) status: &'static str,
    /// The body.
    pub(crate) body: Value,
}

impl Service {
    /// Answers a request, given its first line.
    pub(crate) fn answer(&mut self, line: &str) -> Answer {
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return refusal("400 Bad Request", "this is not HTTP");
        };
        if method != "GET" {
            return refusal("405 Method Not Allowed", "only GET is served");
        }
        let Ok(url) = Url::parse(&format!("http://localhost{target}")) else {
            return refusal("400 Bad Request", "the target is not a path");
        };
        match url.path() {
            "/prices" if !std::mem::replace(&mut self.was_asked, true) => {
                refusal("503 Service Unavailable", "warming up: ask again")
            }
            "/prices" => look_up(&url, "sku", "prices", &PRICES),
            "/rates" => look_up(&url, "currency", "rates", &RATES),
            _ => refusal(
                "404 Not Found",
                "there are /prices?sku=… and /rates?currency=…",
            ),
        }
    }
}

/// The entries for the names in the query, and the unknown names.
fn look_up<T: Copy + Into<Value>>(
    url: &Url,
    parameter: &str,
    title: &str,
    table: &[(&str, T)],
) -> Answer {
    let mut found = Map::new();
    let mut unknown = Vec::new();
    for (_, name) in url.query_pairs().filter(|(key, _)| key == parameter) {
        match table.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => {
                found.insert(name.into_owned(), (*value).into());
            }
            None => unknown.push(name.into_owned()),
        }
    }
    Answer {
        status: "200 OK",
        body: json!({ title: found, "unknown": unknown }),
    }
}

fn refusal(status: &'static str, why: &str) -> Answer {
    Answer {
        status,
        body: json!({ "error": why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(service: &mut Service, line: &str, status: &str, body: Value) {
        let answer = service.answer(line);
        assert_eq!((answer.status, answer.body), (status, body), "{line}");
    }

    fn awake() -> Service {
        Service { was_asked: true }
    }

    #[test]
    fn only_the_first_request_for_prices_is_put_off() {
        let mut service = Service::default();
        let line = "GET /prices?sku=ROPE-12 HTTP/1.1";
        assert_eq!(service.answer("GET /rates HTTP/1.1").status, "200 OK");
        assert_eq!(service.answer(line).status, "503 Service Unavailable");
        assert_eq!(service.answer(line).status, "200 OK");
    }

    #[test]
    fn known_articles_have_prices_and_unknown_ones_are_named() {
        check(
            &mut awake(),
            "GET /prices?sku=ROPE-12&sku=GOLD-1&color=red HTTP/1.1",
            "200 OK",
            json!({ "prices": { "ROPE-12": 349 }, "unknown": ["GOLD-1"] }),
        );
        check(
            &mut awake(),
            "GET /rates?currency=SEK&currency=DKK HTTP/1.1",
            "200 OK",
            json!({ "rates": { "SEK": 11.2, "DKK": 7.46 }, "unknown": [] }),
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for (line, status) in [
            ("", "400 Bad Request"),
            ("GET", "400 Bad Request"),
            ("POST /prices HTTP/1.1", "405 Method Not Allowed"),
            ("GET /admin HTTP/1.1", "404 Not Found"),
        ] {
            assert_eq!(awake().answer(line).status, status, "{line:?}");
        }
    }
}
