from windlass._fake import case, refuse
from windlass._fake.world import here

BlobError_NotFound = case("BlobError_NotFound")
BlobError_Limit = case("BlobError_Limit")
BlobError_Other = case("BlobError_Other")


def _find(blob):
    blobs = here().blobs
    if blob not in blobs:
        refuse(BlobError_NotFound, blob)
    return blobs[blob]


def size(blob):
    return len(_find(blob))


def read(blob, offset, length):
    return _find(blob)[offset : offset + length]


def begin():
    writers = here().writers
    writers.append(bytearray())
    return len(writers) - 1


def append(writer, bytes):
    here().writers[writer] += bytes


def finish(writer):
    world = here()
    name = f"blob-{len(world.blobs) + 1}"
    world.blobs[name] = bytes(world.writers[writer])
    return name
