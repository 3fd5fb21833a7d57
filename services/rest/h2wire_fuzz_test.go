package rest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// scripted is a connection whose other end has said all it will say. It counts
// deadlines in its own time, which stands still.
type scripted struct {
	net.Conn
	in      io.Reader
	out     bytes.Buffer
	end     error // after in
	writeBy time.Time
	refuses error // what is written; nil: nothing
}

func (s *scripted) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err == io.EOF {
		err = s.end
	}
	return n, err
}

func (s *scripted) Write(p []byte) (int, error) {
	if !s.writeBy.IsZero() && s.writeBy.Before(time.Now()) {
		return 0, os.ErrDeadlineExceeded
	}
	if s.refuses != nil {
		return 0, s.refuses
	}
	return s.out.Write(p)
}

func (s *scripted) SetReadDeadline(time.Time) error    { return nil }
func (s *scripted) SetWriteDeadline(t time.Time) error { s.writeBy = t; return nil }
func (s *scripted) Close() error                       { return nil }

// turnOver is a connection of HTTP/2 over it, with a request on stream 1.
func turnOver(t testing.TB, s *scripted) (*exchange, *wire) {
	t.Helper()
	w := &wire{conn: s, socket: s}
	w.br = bufio.NewReaderSize((*counted)(w), wireBuffer)
	w.h2 = newH2conn(w, time.Hour)
	w.h2.leave = func() {}
	result := &runtime.Result{}
	m := &message{method: "GET", scheme: "https", authority: "a.test", target: "/", header: http.Header{}, result: result}
	x := &exchange{b: &Backend{}, lines: &lines{o: &Options{Times: Times{IdleTimeout: time.Hour}}}, message: m, out: &runtimetest.Responder{}, result: result}
	if err := w.h2.open(m, true); err != nil {
		t.Fatal(err)
	}
	return x, w
}

// record is frames as an upstream writes them.
func record(do func(f *http2.Framer)) []byte {
	var out bytes.Buffer
	f := http2.NewFramer(&out, nil)
	f.AllowIllegalWrites = true
	do(f)
	return out.Bytes()
}

// fieldBlock is a block of fields, in pairs of name and value.
func fieldBlock(fields ...string) []byte {
	var out bytes.Buffer
	enc := hpack.NewEncoder(&out)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return out.Bytes()
}

// answerHead is the head of an answer on stream 1.
func answerHead(f *http2.Framer, last bool, fields ...string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fieldBlock(fields...), EndStream: last, EndHeaders: true})
}

// oracle reads the same bytes with another reader: the data of stream 1 up to its end,
// and whether that has come.
func oracle(text []byte) (data []byte, ended bool) {
	f := http2.NewFramer(io.Discard, bytes.NewReader(text))
	f.SetMaxReadFrameSize(receiveFrame)
	f.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	f.MaxHeaderListSize = headLimit
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return data, false
		}
		if frame.Header().StreamID != 1 {
			continue
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			if data = append(data, frame.Data()...); frame.StreamEnded() {
				return data, true
			}
		case *http2.MetaHeadersFrame:
			if frame.StreamEnded() {
				return data, true
			}
		case *http2.RSTStreamFrame:
			return data, false
		}
	}
}

// Whatever an upstream sends, a body is whole only when its stream was ended, and holds
// nothing but its data; and the look at what comes while idle returns.
func FuzzFrames(f *testing.F) {
	for _, last := range []bool{true, false} {
		f.Add(record(func(f *http2.Framer) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			answerHead(f, false, ":status", "103")
			answerHead(f, false, ":status", "200", "content-length", "4")
			_ = f.WriteDataPadded(1, false, []byte("pa"), []byte{0, 0, 0})
			_ = f.WritePing(false, [8]byte{1})
			_ = f.WriteData(1, last, []byte("rt"))
			_ = f.WriteGoAway(1, http2.ErrCodeNo, nil)
		}), byte(7))
		f.Add(record(func(f *http2.Framer) {
			_ = f.WriteSettings()
			answerHead(f, false, ":status", "200")
			_ = f.WriteData(1, false, []byte("part"))
			answerHead(f, last, "x-sum", "7")
			_ = f.WriteWindowUpdate(0, 7)
			_ = f.WriteRSTStream(1, http2.ErrCodeNo)
		}), byte(0))
	}
	f.Add(record(func(f *http2.Framer) { _ = f.WriteSettings(); answerHead(f, true, ":status", "204") }), byte(255))
	f.Fuzz(func(t *testing.T, text []byte, step byte) {
		x, w := turnOver(t, &scripted{in: &cutter{text: bytes.Clone(text), sizes: []byte{step}}, end: io.EOF})
		head, _, err := x.receiveTurn(w)
		if err != nil {
			return
		}
		resp, err := x.responseTurn(w, head)
		if err != nil {
			return
		}
		got, err := io.ReadAll(resp.Body)
		data, ended := oracle(text)
		if n := min(len(got), len(data)); !bytes.Equal(got[:n], data[:n]) { // of a frame that is cut the oracle gives nothing
			t.Fatalf("a body of %q, whose data is %q", got, data)
		}
		if err != nil {
			return
		}
		if !ended || len(got) != len(data) {
			t.Fatalf("%q taken for whole, data %q, ended %v", got, data, ended)
		}
		if n := resp.ContentLength; n > 0 && n != int64(len(got)) {
			t.Fatalf("%d bytes of %d taken for whole", len(got), n)
		}
		if w.h2.ended() {
			w.h2.usable()
		}
	})
}

// A write has its time from when it is made, however long the answer has taken by then.
func TestALongAnswerLeavesTimeToWrite(t *testing.T) {
	s := &scripted{end: os.ErrDeadlineExceeded, in: bytes.NewReader(record(func(f *http2.Framer) {
		_ = f.WriteSettings()
		_ = f.WritePing(false, [8]byte{1, 2, 3})
	}))}
	_, w := turnOver(t, s)
	if _, err := w.h2.push(); err != nil {
		t.Fatal(err)
	}
	s.writeBy, w.writes = time.Unix(1, 0), http1.Deadline{} // it was long ago
	s.out.Reset()
	if _, err := w.h2.advance(true); !late(err) {
		t.Fatal(err)
	}
	if !bytes.Contains(s.out.Bytes(), []byte{1, 2, 3}) || w.h2.gone {
		t.Errorf("a ping was answered with %q", s.out.Bytes())
	}
}

// What has come can be read when nothing more can be written.
func TestAnAnswerIsReadAfterTheLastWrite(t *testing.T) {
	s := &scripted{end: io.EOF, in: io.MultiReader(
		bytes.NewReader(record(func(f *http2.Framer) {
			_ = f.WriteSettings()
			answerHead(f, false, ":status", "200")
			_ = f.WritePing(false, [8]byte{})
		})),
		bytes.NewReader(record(func(f *http2.Framer) { _ = f.WriteData(1, true, []byte("whole")) })),
	)}
	x, w := turnOver(t, s)
	s.refuses = errors.New("gone")
	head, _, err := x.receiveTurn(w)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := x.responseTurn(w, head)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); string(got) != "whole" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if w.h2.ended() {
		t.Error("a connection that cannot be written to is used again")
	}
}

// A connection of which a part of a frame was read is not used again: the rest of it
// would be taken for frames.
func TestAPartOfAFrameEndsAConnection(t *testing.T) {
	whole := record(func(f *http2.Framer) {
		_ = f.WriteSettings()
		_ = f.WritePing(false, [8]byte{1})
	})
	for n := range len(whole) + 1 {
		s := &scripted{end: os.ErrDeadlineExceeded, in: bytes.NewReader(whole[:n])}
		_, w := turnOver(t, s)
		w.h2.ends = true // the stream that was opened has ended
		if want := n == 0 || n == frameHead || n == len(whole); w.h2.usable() != want {
			t.Errorf("after %d bytes of %d: usable %v", n, len(whole), !want)
		}
	}
}

// An upstream that asks and asks, and takes no answers, does not fill our memory.
func TestAFloodOfPingsEnds(t *testing.T) {
	ping := record(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1}) })
	hello := record(func(f *http2.Framer) { _ = f.WriteSettings() })
	s := &scripted{end: io.EOF, in: io.MultiReader(bytes.NewReader(hello), bytes.NewReader(bytes.Repeat(ping, 100_000)))}
	_, w := turnOver(t, s)
	w.h2.writing.Lock() // somebody writes, and does not get on
	defer w.h2.writing.Unlock()
	if _, err := w.h2.advance(true); !errors.Is(err, errFrames) {
		t.Errorf("%v", err)
	}
	if n := w.h2.out.Len(); n > outMost+1000 {
		t.Errorf("%d bytes wait", n)
	}
}

// Nothing is taken before the upstream's settings, and no more than the window allows.
func TestTheFirstFrameAndTheWindow(t *testing.T) {
	_, w := turnOver(t, &scripted{end: io.EOF, in: bytes.NewReader(record(func(f *http2.Framer) { answerHead(f, true, ":status", "200") }))})
	if _, err := w.h2.advance(true); !errors.Is(err, errFrames) {
		t.Errorf("a head before settings: %v", err)
	}
	x, w := turnOver(t, &scripted{end: io.EOF, in: bytes.NewReader(record(func(f *http2.Framer) {
		_ = f.WriteSettings()
		answerHead(f, false, ":status", "200")
		_ = f.WriteData(1, true, []byte("xx"))
	}))})
	head, _, err := x.receiveTurn(w)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := x.responseTurn(w, head)
	if err != nil {
		t.Fatal(err)
	}
	w.h2.window = 1 // nobody has given it back
	if got, err := io.ReadAll(resp.Body); !errors.Is(err, errFrames) {
		t.Errorf("%q beyond the window: %v", got, err)
	}
}

// The last stream there can be is the last on its connection.
func TestStreamsEnd(t *testing.T) {
	_, w := turnOver(t, &scripted{end: io.EOF, in: bytes.NewReader(nil)})
	w.h2.ends = true
	for stream, more := range map[uint32]bool{1: true, lastStream - 2: true, lastStream: false} {
		if w.h2.stream = stream; w.h2.ended() != more {
			t.Errorf("after stream %d: more %v", stream, !more)
		}
	}
}
