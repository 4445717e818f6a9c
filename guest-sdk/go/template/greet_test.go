package main

import (
	"testing"

	"windlass"
	"windlass/windlasstest"
)

func TestAPersonIsGreeted(t *testing.T) {
	report := windlasstest.Call(t, greet, Person{Name: "Zoë"})
	if want := "Hello, Zoë!"; report.Output.Greeting != want {
		t.Errorf("the greeting is %q, and has to be %q", report.Output.Greeting, want)
	}
}

func TestAnEmptyNameIsInvalid(t *testing.T) {
	report := windlasstest.Call(t, greet, Person{})
	if report.Failure == nil || report.Failure.Class != windlass.ClassInvalid {
		t.Errorf("the report is %+v, and has to be an invalid input", report)
	}
}
