package windlass

import "runtime/debug"

// memoryLimit is the size in bytes from which the garbage collector works harder: a host gives an
// instance 64 MiB unless it is configured otherwise.
const memoryLimit = 40 << 20

func init() { debug.SetMemoryLimit(memoryLimit) }
