from windlass._data import encode
from windlass._fake import case, refuse
from windlass._fake.world import here

MemoryError_InvalidPath = case("MemoryError_InvalidPath")
MemoryError_TooLarge = case("MemoryError_TooLarge")
MemoryError_Other = case("MemoryError_Other")


def get(path):
    if path.partition(".")[0] not in ("input", "vars", "nodes"):
        refuse(MemoryError_InvalidPath, path)
    known = here().memory
    return encode(known[path]) if path in known else None
