// Package logs writes the lines of slog into the log of the run.
package logs

import (
	"context"
	"log/slog"
	"slices"

	"windlass/internal/host"
)

// Handler is a slog.Handler whose lines go to the host. It writes every level.
type Handler struct {
	fields [][2]string
	group  string
}

// Enabled is true: the host decides which lines it keeps.
func (Handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes a line; its attributes become fields, and groups a prefix of their names.
func (h Handler) Handle(_ context.Context, record slog.Record) error {
	fields := slices.Clone(h.fields)
	record.Attrs(func(attr slog.Attr) bool {
		fields = appendFields(fields, h.group, attr)
		return true
	})
	host.Log(level(record.Level), record.Message, fields)
	return nil
}

// WithAttrs adds fields to every line.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.fields = slices.Clone(h.fields)
	for _, attr := range attrs {
		h.fields = appendFields(h.fields, h.group, attr)
	}
	return h
}

// WithGroup adds a prefix to the names of later fields.
func (h Handler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.group += name + "."
	}
	return h
}

func appendFields(fields [][2]string, group string, attr slog.Attr) [][2]string {
	value := attr.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if attr.Key == "" {
			return fields
		}
		return append(fields, [2]string{group + attr.Key, value.String()})
	}
	if attr.Key != "" {
		group += attr.Key + "."
	}
	for _, inner := range value.Group() {
		fields = appendFields(fields, group, inner)
	}
	return fields
}

// level is a level of slog as the contract counts them: from 0 (trace) to 4 (error).
func level(of slog.Level) uint32 {
	switch {
	case of < slog.LevelDebug:
		return 0
	case of < slog.LevelInfo:
		return 1
	case of < slog.LevelWarn:
		return 2
	case of < slog.LevelError:
		return 3
	}
	return 4
}
