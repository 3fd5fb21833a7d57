package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/itchyny/gojq"

	"github.com/kimbap-run/kimbap/runtime"
)

// filterTime bounds a jq expression, which can loop for ever.
const filterTime = 10 * time.Second

// Filter runs a jq expression over JSON data and returns its results, one JSON
// value a line. Numbers keep their digits. The expression sees no environment
// and no files. Errors are *runtime.Error with CodeInvalidInput.
func Filter(expression string, data []byte) ([]byte, error) {
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, errFilter("the jq expression cannot be read: %v", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, errFilter("the jq expression cannot be compiled: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), filterTime)
	defer cancel()
	var out bytes.Buffer
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		var input any
		if err := dec.Decode(&input); errors.Is(err, io.EOF) {
			return bytes.TrimRight(out.Bytes(), "\n"), nil
		} else if err != nil {
			return nil, errFilter("the answer is not JSON, so jq cannot read it")
		}
		if err := run(ctx, code, input, &out); err != nil {
			return nil, err
		}
	}
}

func run(ctx context.Context, code *gojq.Code, input any, out *bytes.Buffer) error {
	for results := code.RunWithContext(ctx, input); ; {
		v, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := v.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil
			}
			return errFilter("the jq expression failed: %v", err)
		}
		line, err := gojq.Marshal(v)
		if err != nil {
			return errFilter("the result of jq cannot be written as JSON: %v", err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
}

func errFilter(format string, args ...any) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf(format, args...),
		Hint: "check the expression with a small one first: --jq .",
	}
}
