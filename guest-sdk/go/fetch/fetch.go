// Package fetch sends HTTP requests to addresses that the operator has granted, by net/http. The
// capability is windlass.HTTP, and windlass.Secrets for headers with secrets.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"windlass"
	"windlass/internal/host"
	"windlass/internal/refused"
)

// Client sends requests through the host. It follows redirects as http.Client does, and the host
// checks each address.
var Client = &http.Client{Transport: Transport{}}

// Do sends a request by Client. An error has no confidential part of the address, as that of
// Client.Do has.
func Do(request *http.Request) (*http.Response, error) {
	response, err := Client.Do(request)
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	return response, err
}

// Transport is an http.RoundTripper by the host. An error of the host is a *windlass.Error with a
// code, like `http.denied`.
type Transport struct {
	// MaxBytes bounds the body of a response; zero means that the limit of the host does.
	MaxBytes uint64
}

// secrets are the headers of a request that the host fills in, for one origin.
type secrets struct {
	origin string
	values map[string]string
}

type secretsKey struct{}

func origin(of *url.URL) string { return of.Scheme + "://" + of.Host }

// WithSecret returns a request with a header whose value the host inserts. A redirect to another
// scheme, host or port does not take it along.
func WithSecret(request *http.Request, header string, secret windlass.Secret) *http.Request {
	added := secrets{origin(request.URL), map[string]string{}}
	if known, found := request.Context().Value(secretsKey{}).(secrets); found && known.origin == added.origin {
		for name, value := range known.values {
			added.values[name] = value
		}
	}
	added.values[http.CanonicalHeaderKey(header)] = secret.Secret
	return request.WithContext(context.WithValue(request.Context(), secretsKey{}, added))
}

// RoundTrip sends one request, and reads its whole response. The deadline of its context bounds it.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := host.Request{Method: request.Method, URL: request.URL.String()}
	if asked.Method == "" {
		asked.Method = http.MethodGet
	}
	if request.Body != nil {
		defer request.Body.Close()
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, fmt.Errorf("the body of the request cannot be read: %w", err)
		}
		if len(body) > 0 {
			asked.Body = body
		}
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	if deadline, found := request.Context().Deadline(); found {
		timeout := uint64(max(time.Until(deadline).Milliseconds(), 1))
		asked.TimeoutMs = &timeout
	}
	if t.MaxBytes > 0 {
		asked.MaxBytes = &t.MaxBytes
	}
	asked.Headers = headers(request)
	answer, refusal := host.Fetch(asked)
	if refusal != nil {
		return nil, refused.By("http", asked.Method+" "+shown(request.URL), refusal)
	}
	return response(request, answer), nil
}

func headers(request *http.Request) (made []host.Header) {
	hidden, _ := request.Context().Value(secretsKey{}).(secrets)
	if hidden.origin != origin(request.URL) {
		hidden.values = nil
	}
	for name, values := range request.Header {
		for _, value := range values {
			if _, found := hidden.values[name]; !found {
				made = append(made, host.Header{Name: name, Value: value})
			}
		}
	}
	for name, handle := range hidden.values {
		made = append(made, host.Header{Name: name, Value: handle, IsSecret: true})
	}
	return made
}

func response(request *http.Request, answer host.Response) *http.Response {
	received := http.Header{}
	for _, pair := range answer.Headers {
		received.Add(pair[0], pair[1])
	}
	status := int(answer.Status)
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        received,
		Body:          io.NopCloser(bytes.NewReader(answer.Body)),
		ContentLength: int64(len(answer.Body)),
		Request:       request,
	}
}

// Check returns an error for a status of 400 and more: Retryable for 408, 425, 429 and from 500 on,
// after the seconds of Retry-After, otherwise Permanent. Its details are `status` and `url`.
func Check(response *http.Response) error {
	status := response.StatusCode
	if status < 400 {
		return nil
	}
	address := shown(response.Request.URL)
	err := windlass.Permanent("%s answered %d", address, status)
	err.Details = map[string]any{"status": status, "url": address}
	switch {
	case status == 408, status == 425, status == 429, status >= 500:
		err.Class = windlass.ClassRetryable
		if seconds, failed := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); failed == nil {
			err.After = time.Duration(seconds) * time.Second
		}
	}
	return err
}

// shown is an address for messages: the query and the user may be confidential.
func shown(of *url.URL) string { return origin(of) + of.EscapedPath() }
