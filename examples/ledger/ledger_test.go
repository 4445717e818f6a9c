package main

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"windlass"
	"windlass/windlasstest"
)

var columns = Columns{Account: "account", Amount: "amount"}

const statement = "account,text,amount\nb,Tea,-4.50\na,Salary,1200\nb,Pot,-12.05\n"

func TestAStatementIsSummedInEachForm(t *testing.T) {
	want := []Balance{{"a", 120000}, {"b", -1655}}
	world := windlasstest.World{Blobs: map[string][]byte{"large": []byte(statement)}}
	for _, raw := range []windlass.Raw{
		{Bytes: fmt.Appendf(nil, "%q", statement)},
		{ContentType: "text/csv", Bytes: []byte(statement)},
		{ContentType: "text/csv", Blob: "large"},
	} {
		report := windlasstest.CallWith(t, sum, columns, raw, world)
		if !reflect.DeepEqual(report.Output, want) {
			t.Errorf("the balances are %+v", report)
		}
	}
}

func TestAWrongStatementIsInvalidWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "the statement has no head: EOF",
		"a,b\n":                    "the columns are a, b, and not account and amount",
		"account,amount\na,1\nb,x": "line 3, column 3 of the statement has no amount",
	} {
		raw := windlass.Raw{ContentType: "text/csv", Bytes: []byte(text)}
		failure := windlasstest.CallWith(t, sum, columns, raw).Failure
		if failure == nil || failure.Message != want || failure.Class != windlass.ClassInvalid {
			t.Errorf("the failure of %q is %+v", text, failure)
		}
	}
}

func TestOneColumnForBothIsFoundBeforeARun(t *testing.T) {
	found := windlasstest.Check(t, sum, map[string]any{"account": "x", "amount": "x"})
	if len(found) != 1 || found[0].Pointer != "/amount" {
		t.Errorf("the findings are %+v", found)
	}
}

func TestAnAmountIsConvertedWithTheSecret(t *testing.T) {
	rates := http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) { fmt.Fprint(to, `{"rate":1.5}`) })
	service := Service{URL: "https://rates.example/", To: "USD", Key: &windlass.Secret{Secret: "RATES"}}
	report := windlasstest.CallWith(t, convert, service, Amount{333}, windlasstest.World{HTTP: rates})
	if report.Output.Cents != 500 {
		t.Errorf("the report is %+v", report)
	}
	sent := report.Requests[0]
	if sent.URL != "https://rates.example/?to=USD" || sent.Header.Get("Authorization") != "secret:RATES" {
		t.Errorf("the request is %+v", sent)
	}
}
