from windlass._data import decode_optional
from windlass._fake import case, record
from windlass._fake.world import Scheduled as Planned
from windlass._fake.world import Sent, here

Stimulus = record("Stimulus", "name", "match", "correlation", "run", "input")
Scheduled = record("Scheduled", "node", "at", "payload")
EventError_Unavailable = case("EventError_Unavailable")
EventError_Invalid = case("EventError_Invalid")
EventError_Limit = case("EventError_Limit")
EventError_Other = case("EventError_Other")


def send(it):
    here().sent.append(Sent(it.name, decode_optional(it.match), it.correlation, it.run, decode_optional(it.input)))


def schedule(it):
    here().scheduled.append(Planned(it.node, it.at / 1000, decode_optional(it.payload)))
