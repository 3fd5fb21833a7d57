//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// echo answers with the body as it comes.
func echo(st *http2.Stream) {
	_ = st.Start(200, http.Header{"Content-Type": {"text/plain"}}, nil, http2.More)
	buf := make([]byte, 7000)
	for {
		n, err := st.Read(buf)
		if n > 0 {
			if _, err := st.Write(buf[:n], http2.More); err != nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	_ = st.End(st.Trailer())
}

// Bodies of many sizes pass both ways at once, byte for byte, on one connection, and no
// window runs dry: each of them is larger than what may be sent unread.
func TestEcho(t *testing.T) {
	r := newRig(t, echo, nil)
	cc, err := (&framing.Transport{DisableCompression: true}).NewClientConn(r.conn)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 12 {
				text := make([]byte, rnd.IntN(700<<10))
				for i := range text {
					text[i] = byte(rnd.Uint32())
				}
				q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.test/", io.MultiReader(bytes.NewReader(text)))
				q.Trailer = http.Header{"X-Sum": {"7"}}
				resp, err := cc.RoundTrip(q)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				if err != nil || sha256.Sum256(got) != sha256.Sum256(text) {
					t.Errorf("%d of %d bytes came back: %v", len(got), len(text), err)
				}
				if resp.Trailer.Get("X-Sum") != "7" {
					t.Errorf("trailers %v", resp.Trailer)
				}
			}
		})
	}
	wait.Wait()
}

// What is answered without reading the body gives the room of the connection back, padding
// too: three times the window comes, of which nobody reads a byte.
func TestUnreadBodiesGiveTheirRoomBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(st *http2.Stream) { _ = st.Start(204, nil, nil, http2.Nothing) }, nil)
	c := r.client()
	for range 48 {
		id := c.open(false, "/")
		_ = c.WriteDataPadded(id, false, make([]byte, 15<<10), make([]byte, 200))
		if code := c.reset(id); code != framing.ErrCodeNo {
			t.Fatalf("stream %d: %v", id, code)
		}
	}
	id := c.open(false, "/") // what is behind the reset is no fault
	if code := c.reset(id); code != framing.ErrCodeNo {
		t.Fatal(code)
	}
	_ = c.WriteData(id, true, make([]byte, 100))
	_ = c.WritePing(false, [8]byte{1})
	if err := c.until(func(f framing.Frame) bool { _, ok := f.(*framing.PingFrame); return ok }); err != nil {
		t.Error(err)
	}
}

// Small answers leave with their end in one write, a head that ends the answer too.
func TestWhatLeavesTogether(t *testing.T) {
	r := newRig(t, func(st *http2.Stream) {
		switch st.Head.Path {
		case "/bare":
			_ = st.Start(200, http.Header{"Grpc-Status": {"0"}}, nil, http2.Nothing)
		default:
			_ = st.Start(200, http.Header{"B": {"1"}, "A": {"2"}, "C": {"3"}}, []string{"c", "b", "a"}, http2.Soon)
			_, _ = st.Write([]byte("ok"), http2.Nothing)
		}
	}, nil)
	c := r.client()
	var names []string
	ends := false
	c.open(true, "/small")
	if err := c.until(func(f framing.Frame) bool {
		if head, ok := f.(*framing.MetaHeadersFrame); ok {
			for _, field := range head.RegularFields() {
				names = append(names, field.Name)
			}
		}
		data, ok := f.(*framing.DataFrame)
		ends = ok && data.StreamEnded() && string(data.Data()) == "ok"
		return ok
	}); err != nil || !ends {
		t.Errorf("the body ended with it: %t, %v", ends, err)
	}
	if !slices.Equal(names, []string{"c", "b", "a"}) {
		t.Errorf("the order is %v", names)
	}
	c.open(true, "/bare")
	if err := c.until(func(f framing.Frame) bool {
		head, ok := f.(*framing.MetaHeadersFrame)
		ends = ok && head.StreamEnded()
		return ok
	}); err != nil || !ends {
		t.Errorf("the head was the end: %t, %v", ends, err)
	}
}

// A client changes its window while an answer waits for it, below nothing too.
func TestWindowsThatChange(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 30_000)
	r := newRig(t, func(st *http2.Stream) {
		_ = st.Start(200, nil, nil, http2.More)
		_, _ = st.Write(text, http2.Nothing)
	}, nil)
	c := r.client(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 1000})
	id := c.open(true, "/")
	got, asked := 0, false
	err := c.until(func(f framing.Frame) bool {
		data, ok := f.(*framing.DataFrame)
		if !ok {
			return false
		}
		got += len(data.Data())
		if !asked {
			asked = true
			_ = c.WriteSettings(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 0})
			_ = c.WriteWindowUpdate(0, 1<<20)
			_ = c.WriteSettings(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 5000}, framing.Setting{ID: framing.SettingMaxFrameSize, Val: 1 << 20})
		}
		if n := uint32(len(data.Data())); n > 0 {
			_ = c.WriteWindowUpdate(id, n)
		}
		return data.StreamEnded()
	})
	if err != nil || got != len(text) {
		t.Errorf("%d of %d bytes, %v", got, len(text), err)
	}
}

// A body that is not as long as it says is malformed, and so is told to who reads it.
func TestBodiesThatAreNotAsLong(t *testing.T) {
	failed := make(chan error, 1)
	r := newRig(t, func(st *http2.Stream) {
		_, err := io.ReadAll(st)
		failed <- err
	}, nil)
	c := r.client()
	for _, length := range []string{"3", "5"} {
		id := c.open(false, "/", "content-length "+length)
		_ = c.WriteData(id, true, []byte("four"))
		if code := c.reset(id); code != framing.ErrCodeProtocol {
			t.Errorf("length %s: %v", length, code)
		}
		if err := <-failed; err == nil {
			t.Errorf("length %s was read as a whole", length)
		}
	}
}

// Whoever reads or writes after the client has reset the stream is told, and so is a handler
// that waits for its window.
func TestResetStreamsEnd(t *testing.T) {
	began, ended := make(chan struct{}, 2), make(chan error, 2)
	r := newRig(t, func(st *http2.Stream) {
		began <- struct{}{}
		var err error
		if st.Head.Path == "/read" {
			_, err = st.Read(make([]byte, 1))
		} else {
			_ = st.Start(200, nil, nil, http2.More)
			_, err = st.Write(make([]byte, 1<<20), http2.Nothing)
		}
		<-st.Context().Done()
		ended <- err
	}, nil)
	c := r.client()
	for _, path := range []string{"/read", "/write"} {
		id := c.open(false, path)
		<-began
		_ = c.WriteRSTStream(id, framing.ErrCodeCancel)
		if err := <-ended; err == nil {
			t.Errorf("%s went on", path)
		}
	}
}

// A body whose time is over is told from one that ended.
func TestReadUntil(t *testing.T) {
	failed := make(chan error, 1)
	r := newRig(t, func(st *http2.Stream) {
		stop := st.ReadUntil(time.Now().Add(50 * time.Millisecond))
		defer stop()
		_, err := io.ReadAll(st)
		failed <- err
	}, nil)
	c := r.client()
	c.open(false, "/")
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
}

// Drain lets what runs finish, takes nothing new, and the connection ends then.
func TestDrain(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(st *http2.Stream) {
		close(began)
		<-finish
		_ = st.Start(204, nil, nil, http2.Nothing)
	}, nil)
	c := r.client()
	id := c.open(true, "/")
	<-began
	r.server.Drain()
	var last uint32
	if err := c.until(func(f framing.Frame) bool {
		away, ok := f.(*framing.GoAwayFrame)
		if ok {
			last = away.LastStreamID
		}
		return ok
	}); err != nil || last != id {
		t.Errorf("told that %d was the last: %v", last, err)
	}
	c.open(true, "/late") // the handler would close began twice
	close(finish)
	answered := false
	if err := c.until(func(f framing.Frame) bool {
		head, ok := f.(*framing.MetaHeadersFrame)
		answered = ok && head.StreamID == id
		return ok
	}); err != nil || !answered {
		t.Errorf("the running one: %v", err)
	}
	r.left()
}

// Heads that are no request are streams with what is wrong, and the table stays whole.
func TestMalformedHeads(t *testing.T) {
	heads := make(chan http2.Head, 1)
	r := newRig(t, func(st *http2.Stream) {
		heads <- *st.Head
		_ = st.Start(400, nil, nil, http2.Nothing)
	}, nil)
	c := r.client()
	for _, field := range []string{"Upper 1", "connection close", "te gzip", "a b\n", "a  b", ":path /", ":what x", "content-length x"} {
		id := c.open(true, "/x", "x-first 1", field)
		head := <-heads
		if head.Malformed == "" {
			t.Errorf("%q is taken", field)
		}
		if code := c.reset(id); code != framing.ErrCodeProtocol {
			t.Errorf("%q: %v", field, code)
		}
	}
	for _, n := range []int{16_300, 20_000, 32_000} { // of 16 KiB; the last needs two frames
		c.open(true, "/large", "x-large "+strings.Repeat("~", n))
		select {
		case head := <-heads:
			if !head.TooLarge || head.Malformed != "" {
				t.Errorf("%d bytes: %+v", n, head)
			}
		case <-time.After(patience):
			t.Fatalf("%d bytes: the connection ended with %v", n, c.ends())
		}
	}
	c.open(true, "/good", "x-first 1", "cookie a=1", "cookie b=2", "te trailers", "host b.test")
	head := <-heads
	want := fmt.Sprint(http.Header{"X-First": {"1"}, "Cookie": {"a=1; b=2"}, "Te": {"trailers"}}, []string{"b.test"})
	if got := fmt.Sprint(head.Header, head.Host); head.Malformed != "" || head.TooLarge || got != want || head.Path != "/good" {
		t.Errorf("%q %s %q, want %s", head.Malformed, got, head.Path, want)
	}
}
