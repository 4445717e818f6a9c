//! Redirects, as browsers read them.

use super::*;

fn redirect(location: &[u8]) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nconnection: close\r\n".to_vec();
    answer.extend(b"location: ");
    answer.extend(location);
    answer.extend(b"\r\n\r\n");
    answer
}

fn follow(request: &mut Request, _: &mut HttpPolicy) {
    request.max_redirects = Some(10);
}

/// Checks the target of the request after a redirect.
#[track_caller]
fn check(location: &[u8], expected: &str) {
    let (address, requests) = serve(vec![redirect(location), answer(&[], b"")]);
    let response = fetch_as(format!("http://{address}/a/b?c"), follow, 64 << 20).unwrap();
    assert_eq!(response.status, 200);
    requests.recv().unwrap();
    let request = requests.recv().unwrap();
    assert_eq!(request.split(' ').nth(1), Some(expected), "{location:?}");
}

#[test]
fn any_bytes_of_a_location_are_followed() {
    check("/café?x=a b".as_bytes(), "/caf%C3%A9?x=a%20b");
    check(b"/caf\xe9", "/caf%E9");
    check(b"next one", "/a/next%20one");
    check(b"?d", "/a/b?d");
    check(b"/already%20coded%C3%A9", "/already%20coded%C3%A9");
    check(b" /trimmed ", "/trimmed");
    check(b"/x#fragment", "/x");
    check(b"", "/a/b?c");
}

/// Checks the failure after a redirect.
#[track_caller]
fn fails(location: &[u8], expected: &str) {
    let (address, _requests) = serve(vec![redirect(location)]);
    let failed = fetch_as(format!("http://{address}/"), follow, 64 << 20).unwrap_err();
    let shown = format!("{failed:?}");
    assert!(shown.contains(expected), "{location:?}: {shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_redirect_is_checked_like_the_first_address() {
    fails(b"http://10.0.0.1/", "Denied");
    fails("http://10.0.0.1/é".as_bytes(), "Denied");
    fails(b"//169.254.169.254/latest", "Denied");
    fails("http://⑩.0.0.1/".as_bytes(), "Denied");
    fails(
        "http://b\u{fc}cher.example/".as_bytes(),
        "xn--bcher-kva.example",
    );
    fails(
        b"http://bob:hunter2@127.0.0.1/",
        "a redirect leads nowhere: credentials",
    );
    fails(
        b"file:///etc/passwd",
        "a redirect leads nowhere: the scheme",
    );
    fails(
        b"http://[",
        "a redirect leads nowhere: the address is malformed",
    );
    let long = format!("/{}", "x".repeat(9_000));
    fails(
        long.as_bytes(),
        "a redirect leads nowhere: the address is over",
    );
}

#[test]
fn more_redirects_than_asked_for_are_named() {
    let (address, requests) = serve(vec![redirect(b"/loop"); 12]);
    match fetch_as(format!("http://{address}/loop"), follow, 64 << 20) {
        Err(HttpError::Other(why)) => {
            assert_eq!(why, "the server answers with more than 10 redirects");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(requests.try_iter().count(), 11);
    // Who follows none gets the redirect itself.
    let (address, _requests) = serve(vec![redirect(b"/loop")]);
    let response = fetch_as(format!("http://{address}/"), |_, _| {}, 64 << 20).unwrap();
    assert_eq!(response.status, 302);
}
