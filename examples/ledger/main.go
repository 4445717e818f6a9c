// The plugin `ledger`: sums the lines of a bank statement, and converts the sum to another currency.
package main

import (
	"windlass"
	"windlass/node"
)

func init() {
	about := windlass.Plugin{
		Name: "ledger", Version: "1.0.0",
		Description: "Sums bank statements, and converts amounts.",
	}
	node.Serve(about, windlass.Nodes{"sum": sum, "convert": convert})
}

// A component has no main; `go build` wants one.
func main() {}
