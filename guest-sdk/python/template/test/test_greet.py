from windlass.testing import call

from greet import greet


def test_a_person_is_greeted():
    report = call(greet, {"name": "Zoë"})
    assert report.output == {"greeting": "Hello, Zoë!"}


def test_an_empty_name_is_invalid():
    report = call(greet, {"name": ""})
    assert report.failure.kind == "invalid"
