from windlass._data import encode, encode_optional
from windlass._fake import case, record
from windlass._fake.world import Progress, here

Resumed = record("Resumed", "bookmark", "input", "metadata")
Reason_Again = record("Reason_Again")
Reason_Resumed = case("Reason_Resumed")
Reason_Expired = case("Reason_Expired")
Reason_Cancelled = record("Reason_Cancelled")
Reason_Other = case("Reason_Other")
ResumedCall = record("ResumedCall", "reason", "phase", "state")


def run_id():
    return here().run_id


def workflow():
    return here().workflow


def node_id():
    return here().node_id


def trigger_id():
    return f"{here().run_id}/1"


def attempt():
    return here().attempt


def idempotency_key():
    return here().idempotency_key


def deadline():
    return here().deadline_ms


def correlation_id():
    return here().correlation_id


def trace_parent():
    return here().trace_parent


def cancelled():
    return here().cancelled


def resume_token(bookmark):
    return f"token-of-{bookmark}"


def progress(fraction, note):
    here().progress.append(Progress(fraction, note))


def resumption():
    it = here().resumption
    if it is None:
        return None
    reasons = {
        "again": Reason_Again(),
        "resumed": Reason_Resumed(Resumed(it.bookmark, encode(it.input), encode_optional(it.metadata))),
        "expired": Reason_Expired(it.bookmark),
        "cancelled": Reason_Cancelled(),
    }
    return ResumedCall(reasons.get(it.reason) or Reason_Other(it.reason), it.phase, encode_optional(it.state))
