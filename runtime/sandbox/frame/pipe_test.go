package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

func TestMessagesComeAsTheyWereSent(t *testing.T) {
	sent := []*frame.ToHost{
		{Ready: &frame.Ready{Level: frame.LevelSeccomp}},
		{Checked: &frame.Checked{Refusals: []frame.Refusal{{Line: 1, Column: 2, Message: "<no> & \u2028"}}, Tools: []string{"a.b"}, Dynamic: true}},
		{Call: &frame.Call{Seq: 1, Kind: frame.CallTool, Path: "demo.echo", Args: `{"a":"é\u0000"}`, Line: 3}},
		{Log: &frame.Log{Level: "info", Message: "two\nlines"}},
		{Idle: &frame.Idle{Waiting: []int{1, 2}}},
		{Call: &frame.Call{Seq: 2, Kind: frame.CallTool}, Idle: &frame.Idle{Waiting: []int{2}}},
		{Done: &frame.Done{Failure: &frame.Failure{Kind: frame.KindException, Name: "TypeError", Message: "x"}}},
	}
	var pipe bytes.Buffer
	for _, m := range sent {
		if err := frame.Write(&pipe, m); err != nil {
			t.Fatal(err)
		}
	}
	slow := iotest.OneByteReader(&pipe)
	for _, want := range sent {
		got, err := frame.Read[frame.ToHost](slow)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := frame.Read[frame.ToHost](slow); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

// framed is a frame around any text.
func framed(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

func TestWhatIsNoMessageEndsTheConversation(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"nothing set":          {framed(`{}`), frame.ErrMalformed},
		"null set":             {framed(`{"check":null}`), frame.ErrMalformed},
		"null":                 {framed(`null`), frame.ErrMalformed},
		"two set":              {framed(`{"check":{"source":""},"reply":{"seq":1,"now":0}}`), frame.ErrMalformed},
		"a field nobody knows": {framed(`{"check":{"source":"","file":"/etc/passwd"}}`), frame.ErrMalformed},
		"a message of ours":    {framed(`{"done":{}}`), frame.ErrMalformed},
		"a wrong type":         {framed(`{"check":{"source":1}}`), frame.ErrMalformed},
		"two values":           {framed(`{"check":{"source":""}} {}`), frame.ErrMalformed},
		"text after it":        {framed(`{"check":{"source":""}}x`), frame.ErrMalformed},
		"no JSON":              {framed(`check`), frame.ErrMalformed},
		"no text":              {framed(``), frame.ErrMalformed},
		"cut in the length":    {"\x00\x00", io.ErrUnexpectedEOF},
		"cut after the length": {"\x00\x00\x00\x02", io.ErrUnexpectedEOF},
		"cut in the text":      {framed(`{}`)[:5], io.ErrUnexpectedEOF},
		"one byte too long":    {"\x00\x40\x00\x01", frame.ErrTooLong},
		"four gigabytes":       {"\xff\xff\xff\xff", frame.ErrTooLong},
	} {
		if m, err := frame.Read[frame.ToWorker](strings.NewReader(c.bytes)); !errors.Is(err, c.want) || m != nil {
			t.Errorf("%s: got %+v, %v, want %v", name, m, err, c.want)
		}
	}
}

func TestAFieldOfTheLargestSizeFitsWhateverIsInIt(t *testing.T) {
	quotes := strings.Repeat(`"`, frame.Most)
	for _, m := range []*frame.ToHost{
		{Call: &frame.Call{Seq: 1 << 30, Kind: frame.CallTool, Path: strings.Repeat("é", 1000), Args: quotes, Line: 1 << 30}},
		{Done: &frame.Done{Value: quotes}},
	} {
		if err := frame.Write(io.Discard, m); err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyWholeMessagesAreSent(t *testing.T) {
	var pipe bytes.Buffer
	for name, c := range map[string]struct {
		message *frame.ToWorker
		want    error
	}{
		"too long": {&frame.ToWorker{Check: &frame.Check{Source: strings.Repeat("x", frame.Max)}}, frame.ErrTooLong},
		"empty":    {&frame.ToWorker{}, frame.ErrMalformed},
		"two":      {&frame.ToWorker{Check: &frame.Check{}, Reply: &frame.Reply{}}, frame.ErrMalformed},
	} {
		if err := frame.Write(&pipe, c.message); !errors.Is(err, c.want) || pipe.Len() != 0 {
			t.Errorf("%s: got %v, want %v; %d bytes were sent", name, err, c.want, pipe.Len())
		}
	}
	longest := frame.ToWorker{Check: &frame.Check{Source: strings.Repeat("x", frame.Max-len(`{"check":{"source":""}}`))}}
	if err := frame.Write(&pipe, &longest); err != nil {
		t.Fatal(err)
	}
	if got, err := frame.Read[frame.ToWorker](&pipe); err != nil || *got.Check != *longest.Check {
		t.Errorf("the longest frame came back as %v", err)
	}
}

func TestALengthAloneTakesNoMemory(t *testing.T) {
	promise := string(binary.BigEndian.AppendUint32(nil, frame.Max))
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := frame.Read[frame.ToHost](strings.NewReader(promise)); err == nil {
				b.Fatal("an empty frame was read")
			}
		}
	})
	if got.AllocedBytesPerOp() > frame.Max/10 {
		t.Errorf("%d bytes were taken for a frame of which nothing came", got.AllocedBytesPerOp())
	}
}

// What is read can be sent, and comes back as it was.
func FuzzRead(f *testing.F) {
	f.Add([]byte(framed(`{"ready":{"level":"seccomp"}}`)))
	f.Add([]byte(framed(`{"call":{"seq":1,"kind":"tool","path":"a.b","args":"{}"}}`)))
	f.Add([]byte(framed(`{"done":{"value":"1","unawaited":[1]}}`) + framed(`{"idle":{"waiting":null}}`)))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bytes.NewReader(text)
		for {
			m, err := frame.Read[frame.ToHost](r)
			if err != nil {
				if m != nil {
					t.Fatal("an error with a message")
				}
				return
			}
			var pipe bytes.Buffer
			if err := frame.Write(&pipe, m); errors.Is(err, frame.ErrTooLong) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			again, err := frame.Read[frame.ToHost](&pipe)
			if err != nil || pipe.Len() != 0 {
				t.Fatalf("what was read cannot be sent: %v", err)
			}
			var once, twice bytes.Buffer
			if frame.Write(&once, m) != nil || frame.Write(&twice, again) != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
				t.Fatalf("%+v came back as %+v", m, again)
			}
		}
	})
}
