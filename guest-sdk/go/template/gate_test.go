package main

import (
	"testing"

	"windlass"
	"windlass/windlasstest"
)

func TestAUserIsAdmitted(t *testing.T) {
	report := windlasstest.Accept(t, gate, windlass.Trigger{Payload: map[string]any{"user": "ada"}})
	if report.Outcome != "execute" {
		t.Errorf("the decision is %+v, and has to be execute", report)
	}
}

func TestATriggerWithoutAUserIsRejected(t *testing.T) {
	report := windlasstest.Accept(t, gate, windlass.Trigger{Payload: map[string]any{"amount": 7}})
	if want := "`user` is missing"; report.Reason != want {
		t.Errorf("the reason is %q, and has to be %q", report.Reason, want)
	}
}
