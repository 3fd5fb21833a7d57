// Package otlp sends the lines of the audit ledger to an OpenTelemetry collector:
// OTLP 1.x over HTTP with JSON, the logs signal.
//
// The body of a log record is the ledger's line; what people filter by stands in
// attributes beside it. Which answers mean that lines come again is the
// protocol's: 429 and 5xx, and what a partial success rejects is lost.
//
// Start reading at [Sink].
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
)

// Sink exports lines as log records. It is safe for concurrent use.
type Sink struct {
	poster   *sink.Poster
	clock    func() time.Time
	required bool
}

var _ outlet.Sink = (*Sink)(nil)

// New takes the poster over, whose URL ends in /v1/logs. Required means that
// requests wait for the collector's answer.
func New(poster *sink.Poster, clock func() time.Time, required bool) (*Sink, error) {
	if poster == nil || clock == nil {
		return nil, errors.New("audit sink: otlp needs a poster and a clock")
	}
	return &Sink{poster: poster, clock: clock, required: required}, nil
}

// Name implements [outlet.Sink].
func (s *Sink) Name() string { return "otlp:" + s.poster.Host() }

// Required implements [outlet.Sink].
func (s *Sink) Required() bool { return s.required }

// The messages below are those of opentelemetry/proto/collector/logs/v1 in their
// JSON form: 64-bit numbers are strings, enums are numbers.

type exportRequest struct {
	ResourceLogs []resourceLogs `json:"resourceLogs"`
}

type resourceLogs struct {
	Resource  resource    `json:"resource"`
	ScopeLogs []scopeLogs `json:"scopeLogs"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeLogs struct {
	Scope      scope       `json:"scope"`
	LogRecords []logRecord `json:"logRecords"`
}

type scope struct {
	Name string `json:"name"`
}

type logRecord struct {
	TimeUnixNano         string      `json:"timeUnixNano"`
	ObservedTimeUnixNano string      `json:"observedTimeUnixNano"`
	SeverityNumber       int         `json:"severityNumber"`
	SeverityText         string      `json:"severityText"`
	Body                 value       `json:"body"`
	Attributes           []attribute `json:"attributes"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	String *string `json:"stringValue,omitempty"`
	Int    string  `json:"intValue,omitempty"`
}

type exportResponse struct {
	PartialSuccess struct {
		Rejected json.RawMessage `json:"rejectedLogRecords"` // a string, and a number from some
		Message  string          `json:"errorMessage"`
	} `json:"partialSuccess"`
}

// The severities of the data model that records have.
const (
	severityInfo = 9
	severityWarn = 13
)

// Write implements [outlet.Sink].
func (s *Sink) Write(ctx context.Context, slot string, lines [][]byte) error {
	records := make([]logRecord, len(lines))
	for i, line := range lines {
		records[i] = s.record(line)
	}
	body, err := json.Marshal(exportRequest{[]resourceLogs{{
		Resource:  resource{[]attribute{text("service.name", "kimbap"), text("kimbap.audit.slot", slot)}},
		ScopeLogs: []scopeLogs{{scope{"kimbap.audit"}, records}},
	}}})
	if err != nil {
		return &outlet.Refused{Err: fmt.Errorf("encode log records: %w", err)}
	}
	answer, err := s.poster.Post(ctx, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return err
	}
	return rejected(answer, len(lines))
}

// rejected reads what a collector took only in part of so many lines.
func rejected(answer []byte, lines int) error {
	var r exportResponse
	if len(answer) == 0 || json.Unmarshal(answer, &r) != nil {
		return nil // the status said that it has them
	}
	n, err := strconv.Atoi(string(bytes.Trim(r.PartialSuccess.Rejected, `"`)))
	if err != nil && !errors.Is(err, strconv.ErrRange) || n <= 0 {
		return nil
	}
	n = min(n, lines)
	return &outlet.Refused{Lines: n, Err: fmt.Errorf("the collector rejected %d log records: %.200q", n, r.PartialSuccess.Message)}
}

// record makes the log record of one line.
func (s *Sink) record(line []byte) logRecord {
	line = bytes.TrimRight(line, "\n")
	var r struct {
		Seq    uint64    `json:"seq"`
		Kind   string    `json:"kind"`
		Time   time.Time `json:"time"`
		ID     string    `json:"id"`
		Tenant string    `json:"tenant"`
		Agent  string    `json:"agent"`
		Action string    `json:"action"`
		Event  string    `json:"event"`
		Host   string    `json:"host"`
		Effect string    `json:"effect"`
		Code   string    `json:"code"`
		Status int64     `json:"status"`
	}
	_ = json.Unmarshal(line, &r) // the body has the line, whatever it is
	out := logRecord{
		TimeUnixNano: nanos(r.Time), ObservedTimeUnixNano: nanos(s.clock()),
		SeverityNumber: severityInfo, SeverityText: "INFO", Body: text("", string(line)).Value,
		Attributes: []attribute{{Key: "kimbap.audit.seq", Value: value{Int: strconv.FormatUint(r.Seq, 10)}}},
	}
	if r.Code != "" {
		out.SeverityNumber, out.SeverityText = severityWarn, "WARN"
	}
	for _, a := range [...][2]string{
		{"kimbap.audit.kind", r.Kind}, {"kimbap.request_id", r.ID}, {"kimbap.tenant", r.Tenant}, {"kimbap.agent", r.Agent},
		{"kimbap.action", r.Action}, {"kimbap.event", r.Event}, {"kimbap.effect", r.Effect}, {"kimbap.code", r.Code}, {"server.address", r.Host},
	} {
		if a[1] != "" {
			out.Attributes = append(out.Attributes, text(a[0], a[1]))
		}
	}
	if r.Status != 0 {
		out.Attributes = append(out.Attributes, attribute{Key: "http.response.status_code", Value: value{Int: strconv.FormatInt(r.Status, 10)}})
	}
	return out
}

func text(key, v string) attribute { return attribute{Key: key, Value: value{String: &v}} }

// nanos is "0", unknown, for the zero time.
func nanos(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

// Close implements [outlet.Sink].
func (s *Sink) Close() error {
	s.poster.Close()
	return nil
}
