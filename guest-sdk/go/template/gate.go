package main

import (
	"windlass"
	"windlass/consumer"
)

// gate is the trigger consumer: it admits the triggers of the route `__NAME__` that name a user.
var gate = windlass.Consumer{
	Routes: []string{"__NAME__"},
	Accept: func(ctx *windlass.Context, trigger windlass.Trigger) (windlass.Decision, error) {
		// A trigger that the engine makes has no payload: it belongs to a run that was admitted.
		if _, named := trigger.Payload["user"]; named || len(trigger.Payload) == 0 {
			return windlass.Execute(trigger.Payload), nil
		}
		return windlass.Reject("`user` is missing"), nil
	},
}

func init() { consumer.Serve(about, gate) }
