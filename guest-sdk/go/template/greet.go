package main

import (
	"windlass"
	"windlass/node"
)

type Person struct {
	Name string `json:"name" doc:"The name of the person."`
}

type Greeting struct {
	Greeting string `json:"greeting"`
}

// greet is the node `__NAME__/greet`.
var greet = windlass.Node[Person, Greeting]{
	Title: "Greet",
	Run: func(ctx *windlass.Context, person Person) (Greeting, error) {
		if person.Name == "" {
			return Greeting{}, windlass.Invalid("`name` is empty")
		}
		return Greeting{"Hello, " + person.Name + "!"}, nil
	},
}

func init() { node.Serve(about, windlass.Nodes{"greet": greet}) }
