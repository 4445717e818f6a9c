from windlass.testing import accept

from gate import gate


def test_a_user_is_admitted():
    report = accept(gate, {"user": "ada"})
    assert (report.outcome, report.vars) == ("execute", {"user": "ada"})


def test_a_trigger_without_a_user_is_rejected():
    report = accept(gate, {"amount": 7})
    assert (report.outcome, report.reason) == ("reject", "`user` is missing")
