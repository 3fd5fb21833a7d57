package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
)

// A fault of ours is an error in the log, with the page that it is of.
func TestAFaultIsAnErrorInTheLog(t *testing.T) {
	for _, c := range []struct {
		err   error
		level string
	}{
		{errors.New("the disk is on fire"), "error"},
		{&runtime.Error{Code: runtime.CodeStorageBusy, Msg: "busy"}, "error"},
		{&runtime.Error{Code: runtime.CodeUpstream, Msg: "down"}, "info"},
		{&runtime.Error{Code: runtime.CodeForbidden, Msg: "no"}, "info"},
	} {
		var log bytes.Buffer
		client, base := open(t, false, Options{Log: zerolog.New(&log), Execute: func(context.Context, Script) (Answer, error) { return Answer{}, c.err }})
		ask(t, client, "POST", base+"/v1/exec", `{"code":"x"}`)
		var line map[string]any
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
		if line["level"] != c.level || line["page"] != "/v1/exec" || line["tenant"] != "default" || line["request_id"] == "" || line["code"] != string(runtime.CodeOf(c.err)) {
			t.Errorf("%v: %s", c.err, log.String())
		}
	}
}
