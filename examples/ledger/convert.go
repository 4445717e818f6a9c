package main

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"

	"windlass"
	"windlass/fetch"
)

// Service is the service with the rates.
type Service struct {
	URL string           `json:"url"`
	To  string           `json:"to" schema:"pattern=^[A-Z]{3}$"`
	Key *windlass.Secret `json:"key,omitempty" doc:"The secret that the service knows this ledger by."`
}

type Amount struct {
	Cents int64 `json:"cents"`
}

// convert is the node `ledger/convert`.
var convert = windlass.NodeWith[Service, Amount, Amount]{
	Title:        "Convert an amount",
	Capabilities: []windlass.Capability{windlass.HTTP, windlass.Secrets},
	Run: func(ctx *windlass.Context, service Service, amount Amount) (Amount, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, service.URL+"?to="+url.QueryEscape(service.To), nil)
		if err != nil {
			return amount, windlass.Invalid("the address of the service: %w", err)
		}
		if service.Key != nil {
			request = fetch.WithSecret(request, "Authorization", *service.Key)
		}
		response, err := fetch.Do(request)
		if err != nil {
			return amount, err
		}
		defer response.Body.Close()
		if err := fetch.Check(response); err != nil {
			return amount, err
		}
		var answer struct{ Rate float64 }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return amount, windlass.Retryable("the service answers no JSON: %w", err)
		}
		return Amount{int64(math.Round(float64(amount.Cents) * answer.Rate))}, nil
	},
}
