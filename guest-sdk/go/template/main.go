// The plugin `__NAME__`.
package main

import "windlass"

var about = windlass.Plugin{Name: "__NAME__", Version: "0.1.0"}

// A component has no main; `go build` wants one.
func main() {}
