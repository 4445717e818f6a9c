"""Drives a running host by the client that is generated from the document of its HTTP API.

Usage: drive.py URL. Every answer has to have the type that the document gives it, and the value
that the story of a run demands.
"""

import sys
import uuid
from http import HTTPStatus

import httpx
from windlass_client import Client
from windlass_client.api.bookmarks import list_bookmarks, resume_bookmark
from windlass_client.api.definitions import publish_definition
from windlass_client.api.runs import (
    cancel_run,
    get_result,
    list_executions,
    list_runs,
    start_run,
)
from windlass_client.api.stimuli import send_stimulus
from windlass_client.models.given import Given
from windlass_client.models.happened import Happened
from windlass_client.models.node_status import NodeStatus
from windlass_client.models.outcome import Outcome
from windlass_client.models.page_bookmark import PageBookmark
from windlass_client.models.page_execution import PageExecution
from windlass_client.models.problem import Problem
from windlass_client.models.published import Published
from windlass_client.models.run_page import RunPage
from windlass_client.models.run_status import RunStatus
from windlass_client.models.sent import Sent
from windlass_client.models.start import Start
from windlass_client.models.started import Started
from windlass_client.models.workflow_file import WorkflowFile

WORKFLOW = "python-client"

DEFINITION = {
    "workflow": WORKFLOW,
    "nodes": {
        "ask": {
            "use": "human/confirm@1",
            "with": {"message": "Really?", "match": "{{ input.order }}"},
        }
    },
    "output": "{{ nodes.ask.output.decision }}",
}


def start(client: Client, order: int) -> uuid.UUID:
    """A run that asks a person about an order."""
    body = Start(workflow=WORKFLOW, input_={"order": order})
    started = start_run.sync(client=client, body=body)
    assert isinstance(started, Started), started
    assert not started.existed
    return started.id


def question(client: Client, run: uuid.UUID) -> int:
    """The number of the only bookmark of a run, once the run waits there."""
    while True:
        page = list_bookmarks.sync(client=client, run=run)
        assert isinstance(page, PageBookmark), page
        if page.items:
            assert page.items[0].run == run
            assert page.items[0].name == "human.confirm"
            return page.items[0].no
        # An outcome in less than this time would be the end of a run that asks nobody.
        outcome = get_result.sync(run, client=client, wait="50ms")
        assert isinstance(outcome, Outcome) and not outcome.done, outcome


def check_publish(client: Client) -> None:
    published = publish_definition.sync(WORKFLOW, client=client, body=WorkflowFile.from_dict(DEFINITION))
    assert isinstance(published, Published), published
    assert (published.workflow, published.version) == (WORKFLOW, 1), published


def check_answer(client: Client) -> None:
    run = start(client, 1)
    no = str(question(client, run))
    wrong = resume_bookmark.sync(no, client=client, body=Given(input_={"decision": "perhaps"}))
    assert isinstance(wrong, Problem), wrong
    assert wrong.code == "WL-R160" and "/decision" in wrong.detail, wrong
    right = resume_bookmark.sync(no, client=client, body=Given(input_={"decision": "approve"}))
    assert isinstance(right, Sent) and right.resumed == [run], right
    outcome = get_result.sync(run, client=client, wait="30s")
    assert isinstance(outcome, Outcome), outcome
    assert outcome.status is RunStatus.COMPLETED and outcome.output == "approve", outcome
    executions = list_executions.sync(run, client=client)
    assert isinstance(executions, PageExecution), executions
    seen = [(it.node, it.status) for it in executions.items]
    assert seen == [("ask", NodeStatus.COMPLETED), ("ask", NodeStatus.SUSPENDED)], seen
    assert all(isinstance(it.seq, str) for it in executions.items), executions


def check_event(client: Client) -> None:
    run = start(client, 2)
    question(client, run)
    event = Happened(name="human.confirm", match=2, input_={"decision": "reject"})
    sent = send_stimulus.sync(client=client, body=event)
    assert isinstance(sent, Sent) and sent.resumed == [run], sent
    outcome = get_result.sync(run, client=client, wait="30s")
    assert isinstance(outcome, Outcome) and outcome.output == "reject", outcome


def check_cancel(client: Client) -> None:
    run = start(client, 3)
    question(client, run)
    outcome = cancel_run.sync(run, client=client, wait="30s")
    assert isinstance(outcome, Outcome), outcome
    assert outcome.status is RunStatus.CANCELLED and outcome.done, outcome
    late = cancel_run.sync_detailed(run, client=client)
    assert late.status_code is HTTPStatus.CONFLICT, late
    assert isinstance(late.parsed, Problem), late


def check_list(client: Client) -> None:
    page = list_runs.sync(client=client, workflow=WORKFLOW, limit=2)
    assert isinstance(page, RunPage) and isinstance(page.next_, str), page
    assert [run.status for run in page.items] == [RunStatus.CANCELLED, RunStatus.COMPLETED], page
    rest = list_runs.sync(client=client, workflow=WORKFLOW, cursor=page.next_)
    assert isinstance(rest, RunPage) and len(rest.items) == 1, rest
    long = get_result.sync(rest.items[0].id, client=client, wait="1h")
    assert isinstance(long, Problem) and long.code == "WL-H018", long


def main() -> None:
    with Client(base_url=sys.argv[1], timeout=httpx.Timeout(60)) as client:
        for check in (check_publish, check_answer, check_event, check_cancel, check_list):
            check(client)
            print(f"python client: {check.__name__} passed")


main()
