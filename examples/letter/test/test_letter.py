import pytest
from plugin import send, write

from windlass import Secret, http
from windlass.testing import call, check

ORDER = {"customer": "Zoë", "items": [{"name": "Tea", "cents": 450}, {"name": "Pot|s", "cents": 1200}]}


def test_a_letter_has_the_items_and_the_total():
    report = call(write, ORDER, config={"text": "Dear **$customer**,\n\n$items\n\nTotal: $total"})
    html = report.output["html"]
    for part in ("<h1>Your order</h1>", "<strong>Zoë</strong>", "<td>Pot s</td>", "Total: 16.50 €"):
        assert part in html
    assert report.log[0].message == "a letter about 2 items"


def test_html_in_an_order_is_text():
    order = {"customer": "<script>", "items": ORDER["items"]}
    assert "<script>" not in call(write, order, config={"text": "$customer"}).output["html"]


def test_an_unknown_placeholder_is_found_before_a_run_and_in_it():
    config = {"text": "$name $customer"}
    assert [it.pointer for it in check(write, config)] == ["/text"]
    assert call(write, ORDER, config=config).failure.kind == "invalid"


def test_a_letter_is_sent_with_the_key_and_the_secret():
    letter = {"title": "Hello", "html": "<p>"}
    config = {"url": "https://mail.example/letters", "key": {"secret": "MAIL"}, "tags": ["a b"]}
    report = call(send, letter, config=config, http=lambda _: http.Response(content=b'{"id":"7"}'))
    assert report.output == {"id": "7"}
    (request,) = report.requests
    assert request.url == "https://mail.example/letters?tag=a+b"
    assert request.headers["authorization"] == Secret("MAIL")
    assert (request.headers["idempotency-key"], request.body) == ("test-key", '{"title":"Hello","html":"<p>"}')


@pytest.mark.parametrize(("status", "kind"), [(503, "retryable"), (422, "permanent")])
def test_a_status_says_whether_to_try_again(status, kind):
    letter, config = {"title": "", "html": ""}, {"url": "https://mail.example"}
    assert call(send, letter, config=config, http=lambda _: http.Response(status)).failure.kind == kind
