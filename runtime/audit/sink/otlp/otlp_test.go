package otlp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/otlp"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// export is the request as a collector reads it: by the names of the protocol's
// JSON form, and nothing else may stand in it.
type export struct {
	ResourceLogs []struct {
		Resource struct {
			Attributes []attribute `json:"attributes"`
		} `json:"resource"`
		ScopeLogs []struct {
			Scope struct {
				Name string `json:"name"`
			} `json:"scope"`
			LogRecords []struct {
				TimeUnixNano         string      `json:"timeUnixNano"`
				ObservedTimeUnixNano string      `json:"observedTimeUnixNano"`
				SeverityNumber       int         `json:"severityNumber"`
				SeverityText         string      `json:"severityText"`
				Body                 value       `json:"body"`
				Attributes           []attribute `json:"attributes"`
			} `json:"logRecords"`
		} `json:"scopeLogs"`
	} `json:"resourceLogs"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	StringValue *string `json:"stringValue"`
	IntValue    *string `json:"intValue"`
}

func (v value) text() string {
	switch {
	case v.StringValue != nil:
		return *v.StringValue
	case v.IntValue != nil:
		return "#" + *v.IntValue
	}
	return "neither"
}

// collector takes logs at the path of the protocol.
type collector struct {
	*httptest.Server
	got    chan export
	answer string
}

func start(t *testing.T) *collector {
	c := &collector{got: make(chan export, 10), answer: "{}"}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e export
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&e)
		if err != nil || r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "what is that", http.StatusBadRequest)
			return
		}
		c.got <- e
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, c.answer)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) sink(t *testing.T) *otlp.Sink {
	t.Helper()
	poster, err := sink.NewPoster(sink.PosterOptions{URL: c.URL + "/v1/logs"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := otlp.New(poster, func() time.Time { return time.Unix(2, 3) }, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

const line = `{"seq":18446744073709551615,"kind":"outcome","time":"1970-01-01T00:00:01.000002Z","id":"req_1","tenant":"default","action":"github.merge","host":"api.github.com:443","effect":"allow","code":"upstream","status":502}`

func TestLinesBecomeLogRecords(t *testing.T) {
	c := start(t)
	if err := c.sink(t).Write(t.Context(), "proxy", [][]byte{[]byte(line + "\n"), []byte("no record\n")}); err != nil {
		t.Fatal(err)
	}
	e := <-c.got
	if len(e.ResourceLogs) != 1 || len(e.ResourceLogs[0].ScopeLogs) != 1 || len(e.ResourceLogs[0].ScopeLogs[0].LogRecords) != 2 {
		t.Fatalf("%+v", e)
	}
	from := map[string]string{}
	for _, a := range e.ResourceLogs[0].Resource.Attributes {
		from[a.Key] = a.Value.text()
	}
	if from["service.name"] != "kimbap" || from["kimbap.audit.slot"] != "proxy" {
		t.Errorf("resource %v", from)
	}
	records := e.ResourceLogs[0].ScopeLogs[0].LogRecords
	first := records[0]
	if first.TimeUnixNano != "1000002000" || first.ObservedTimeUnixNano != "2000000003" || first.SeverityNumber != 13 || first.Body.text() != line {
		t.Errorf("%+v", first)
	}
	said := map[string]string{}
	for _, a := range first.Attributes {
		said[a.Key] = a.Value.text()
	}
	for key, want := range map[string]string{
		"kimbap.audit.seq": "#18446744073709551615", "kimbap.audit.kind": "outcome", "kimbap.request_id": "req_1", "kimbap.action": "github.merge",
		"kimbap.code": "upstream", "http.response.status_code": "#502", "server.address": "api.github.com:443",
	} {
		if said[key] != want {
			t.Errorf("%s is %q, want %q", key, said[key], want)
		}
	}
	if records[1].Body.text() != "no record" || records[1].TimeUnixNano != "0" || records[1].SeverityNumber != 9 {
		t.Errorf("%+v", records[1])
	}
}

func TestWhatACollectorRejectsIsLost(t *testing.T) {
	c := start(t)
	s := c.sink(t)
	for answer, want := range map[string]int{
		`{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"too old"}}`: 2,
		`{"partialSuccess":{"rejectedLogRecords":1}}`:                            1,
		`{"partialSuccess":{}}`:                                                  0,
		``:                                                                       0,
	} {
		c.answer = answer
		err := s.Write(t.Context(), "proxy", [][]byte{[]byte(line), []byte(line)})
		<-c.got
		refused, n := (*outlet.Refused)(nil), 0
		if errors.As(err, &refused) {
			n = refused.Lines
		}
		if n != want || (err != nil) != (want > 0) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	if _, err := otlp.New(nil, time.Now, false); err == nil {
		t.Error("no poster")
	}
}

// A collector that says it has rejected more than it was sent has rejected all of it.
func TestNoMoreIsLostThanWasSent(t *testing.T) {
	for said, want := range map[string]uint64{`"99999999999999999999"`: 1, `7`: 1, `"x"`: 0, `"-1"`: 0} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"partialSuccess":{"rejectedLogRecords":%s}}`, said)
		}))
		t.Cleanup(srv.Close)
		p, err := sink.NewPoster(sink.PosterOptions{URL: srv.URL + "/v1/logs"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := otlp.New(p, time.Now, false)
		if err != nil {
			t.Fatal(err)
		}
		o := outlet.Open(s, 10, time.After, func() {})
		_ = o.Give("proxy", [][]byte{[]byte("{}\n")})
		o.Close(time.Minute)
		if lost, _, _ := o.Losses(); lost != want {
			t.Errorf("%s: %d lost, want %d", said, lost, want)
		}
	}
}
