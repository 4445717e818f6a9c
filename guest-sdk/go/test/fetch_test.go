package test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"windlass"
	"windlass/fetch"
	"windlass/windlasstest"
)

// ask sends a request within a call, and returns the body of the answer.
func ask(t *testing.T, handler http.HandlerFunc, request func(ctx context.Context) *http.Request) windlasstest.Report[string] {
	t.Helper()
	world := windlasstest.World{}
	if handler != nil {
		world.HTTP = handler
	}
	return call(t, func(ctx *windlass.Context) (string, error) {
		response, err := fetch.Do(request(ctx))
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		if err := fetch.Check(response); err != nil {
			return "", err
		}
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}, world)
}

func get(address string) func(context.Context) *http.Request {
	return func(ctx context.Context) *http.Request {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			panic(err)
		}
		return request
	}
}

func TestARequestHasItsBodyAndASecretThatThePluginNeverSees(t *testing.T) {
	handler := func(to http.ResponseWriter, request *http.Request) { io.Copy(to, request.Body) }
	report := ask(t, handler, func(ctx context.Context) *http.Request {
		request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://a.example/x?y=1", strings.NewReader("hello"))
		request.Header.Set("Accept", "text/plain")
		return fetch.WithSecret(request, "authorization", windlass.Secret{Secret: "KEY"})
	})
	equal(t, report.Output, "hello")
	sent := report.Requests[0]
	equal(t, []any{sent.Method, sent.URL, sent.Body}, []any{"POST", "https://a.example/x?y=1", "hello"})
	equal(t, sent.Header, http.Header{"Accept": {"text/plain"}, "Authorization": {"secret:KEY"}})
}

func TestARedirectToAnotherOriginHasNoSecret(t *testing.T) {
	handler := func(to http.ResponseWriter, request *http.Request) {
		if request.URL.Host == "a.example" {
			http.Redirect(to, request, "https://b.example/", http.StatusFound)
		}
	}
	report := ask(t, handler, func(ctx context.Context) *http.Request {
		return fetch.WithSecret(get("https://a.example/")(ctx), "X-Key", windlass.Secret{Secret: "KEY"})
	})
	equal(t, report.Outcome, "done")
	equal(t, report.Requests[0].Header.Get("X-Key"), "secret:KEY")
	equal(t, report.Requests[1].URL, "https://b.example/")
	equal(t, report.Requests[1].Header.Get("X-Key"), "")
}

func TestFailuresOfRequestsHaveAClass(t *testing.T) {
	status := func(status int, class windlass.Class, after time.Duration) {
		t.Helper()
		report := ask(t, func(to http.ResponseWriter, _ *http.Request) {
			to.Header().Set("Retry-After", "7")
			to.WriteHeader(status)
		}, get("https://user:hidden@a.example/x?token=hidden"))
		failure := report.Failure
		details := map[string]any{"status": float64(status), "url": "https://a.example/x"}
		equal(t, []any{failure.Class, failure.After, failure.Details}, []any{class, after, details})
	}
	status(503, windlass.ClassRetryable, 7*time.Second)
	status(404, windlass.ClassPermanent, 0)
	denied := ask(t, nil, get("https://a.example/x?token=hidden")).Failure
	equal(t, denied.Message, "GET https://a.example/x: denied: the World of the test has no HTTP")
	equal(t, []any{denied.Class, denied.Details}, []any{windlass.ClassPermanent, map[string]any{"code": "http.denied"}})
	broken := ask(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, get("https://a.example/")).Failure
	equal(t, []any{broken.Class, broken.Details}, []any{windlass.ClassRetryable, map[string]any{"code": "http.unreachable"}})
}

func TestTheSizeOfAResponseIsBounded(t *testing.T) {
	handler := http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) { io.WriteString(to, "12345") })
	report := call(t, func(ctx *windlass.Context) (int, error) {
		_, err := fetch.Transport{MaxBytes: 4}.RoundTrip(get("https://a.example/")(ctx))
		return 0, err
	}, windlasstest.World{HTTP: handler})
	equal(t, report.Failure.Details, any(map[string]any{"code": "http.too-large"}))
}
