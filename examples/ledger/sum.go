package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"

	"windlass"
	"windlass/blobs"
	"windlass/check"
)

// Columns says which columns of a statement have the account and the amount.
type Columns struct {
	Account string `json:"account,omitempty" schema:"default=account"`
	Amount  string `json:"amount,omitempty" doc:"The column with amounts like 12.50." schema:"default=amount"`
}

type Balance struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// sum is the node `ledger/sum`. Its input is a statement as CSV, of any size.
var sum = windlass.NodeWith[Columns, windlass.Raw, []Balance]{
	Title:       "Sum a statement",
	Description: "Sums the amounts of each account in a statement as CSV.",
	ByReference: true,
	Check: check.Func(func(columns windlass.Configuration) (found []windlass.Finding) {
		if account := columns.Text("account"); account != "" && account == columns.Text("amount") {
			found = append(found, windlass.Finding{Message: "one column cannot be both: name the column with the amounts", Pointer: "/amount"})
		}
		return found
	}),
	Run: func(ctx *windlass.Context, columns Columns, statement windlass.Raw) ([]Balance, error) {
		reader, err := open(statement)
		if err != nil {
			return nil, err
		}
		lines := csv.NewReader(reader)
		head, err := lines.Read()
		if err != nil {
			return nil, windlass.Invalid("the statement has no head: %w", err)
		}
		account, amount := slices.Index(head, columns.Account), slices.Index(head, columns.Amount)
		if account < 0 || amount < 0 {
			return nil, windlass.Invalid("the columns are %s, and not %s and %s", strings.Join(head, ", "), columns.Account, columns.Amount)
		}
		sums := map[string]int64{}
		for number := 0; ; number++ {
			line, err := lines.Read()
			if errors.Is(err, io.EOF) {
				slog.Info("summed", "lines", number, "accounts", len(sums))
				return balances(sums), nil
			}
			if err != nil {
				return nil, windlass.Invalid("the statement is no CSV: %w", err)
			}
			value, err := strconv.ParseFloat(line[amount], 64)
			if err != nil || math.Abs(value) > 1e12 {
				line, column := lines.FieldPos(amount)
				return nil, windlass.Invalid("line %d, column %d of the statement has no amount", line, column)
			}
			sums[line[account]] += int64(math.Round(value * 100))
		}
	},
}

// open reads a statement that is a text of JSON, CSV, or a reference to a large one.
func open(statement windlass.Raw) (io.Reader, error) {
	if statement.Blob != "" {
		return blobs.Open(statement.Blob)
	}
	if statement.ContentType != "" {
		return bytes.NewReader(statement.Bytes), nil
	}
	text, err := windlass.JSON[string](statement)
	return strings.NewReader(text), err
}

func balances(sums map[string]int64) (sorted []Balance) {
	for account, cents := range sums {
		sorted = append(sorted, Balance{account, cents})
	}
	slices.SortFunc(sorted, func(a, b Balance) int { return strings.Compare(a.Account, b.Account) })
	return sorted
}
