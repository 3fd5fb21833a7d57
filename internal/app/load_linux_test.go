package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Load tests: the proxy is a process of its own, so that its memory and its
// descriptors are nobody else's.

// needDescriptors raises the limit of this process, which its children get.
func needDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur >= n {
		return
	}
	l.Cur, l.Max = n, max(n, l.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatalf("this test needs %d descriptors (ulimit -n): %v", n, err)
	}
}

// resident is the memory of a process in bytes.
func resident(t *testing.T, cmd *exec.Cmd) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// files is how many descriptors a process has open.
func files(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

const mib = 1 << 20

// many runs do n times, some at a time, and returns when all have ended.
func many(n, atOnce int, do func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() { defer func() { <-slots }(); do(i) })
	}
	group.Wait()
}

const askNote = "GET /notes/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n"

// Thousands of tunnels in which nothing happens take little memory, keep nobody
// out, and give everything back when they end.
func TestIdleTunnelsStaySmall_CR009(t *testing.T) {
	needDescriptors(t, idleTunnels+1000)
	k := apptest.New(t, apptest.Options{Config: "proxy: {limits: {per_principal: 12000}}\n"})
	cmd, address := startProxy(t, k)
	k.Proxy = address
	other := k.Client(t, "")
	apptest.Send(t, other, "GET https://"+apptest.Host+"/notes/1", "")
	before, opened := resident(t, cmd), files(t, cmd)
	tunnels := make([]*apptest.Wire, idleTunnels)
	ask := func(i int) {
		if a := tunnels[i].Ask(askNote); a.Status != http.StatusOK {
			t.Errorf("tunnel %d: %d %v", i, a.Status, a.Err)
		}
	}
	asked := time.Now()
	for begin := 0; begin < idleTunnels; begin += 500 {
		many(500, 16, func(i int) {
			tunnels[begin+i] = k.Tunnel(t, apptest.Authority)
			_ = tunnels[begin+i].SetDeadline(time.Now().Add(time.Hour))
			ask(begin + i)
		})
		if time.Since(asked) > 30*time.Second { // on a slow machine the first ones would time out before the last ones come
			asked = time.Now()
			many(begin, 16, ask)
		}
	}
	after := resident(t, cmd)
	if n := files(t, cmd); n < idleTunnels {
		t.Errorf("only %d descriptors are open", n)
	}
	t.Logf("resident %d MiB, with %d idle tunnels %d MiB: %.1f KiB each", before/mib, idleTunnels, after/mib, float64(after-before)/1024/idleTunnels)
	if after > 512*mib || after > before+128*mib && idleTunnels <= 1000 {
		t.Errorf("resident %d MiB with %d idle tunnels", after/mib, idleTunnels)
	}
	for i := range 100 { // others go on, and so do these
		ask(i * idleTunnels / 100)
		if a := apptest.Send(t, other, "GET https://"+apptest.Host+"/notes/2", ""); a.Status != http.StatusOK {
			t.Errorf("beside idle tunnels: %d", a.Status)
		}
	}
	for _, w := range tunnels {
		_ = w.Close()
	}
	apptest.Within(t, time.Minute, "descriptors come back", func() bool { return files(t, cmd) <= opened+50 })
}

// Hundreds of tunnels that all have requests at the same time see no error. They are opened
// some at a time: for hundreds of handshakes at once, with the client's half beside them, a
// slow machine needs longer than one may take.
func TestActiveTunnelsSeeNoError(t *testing.T) {
	needDescriptors(t, 4*activeTunnels)
	k := apptest.New(t, apptest.Options{Config: "  dial_timeout: 10m\n"}) // 500 handshakes at once take a busy machine more than ten seconds
	_, k.Proxy = startProxy(t, k)
	tunnels := make([]*apptest.Wire, activeTunnels)
	many(activeTunnels, 50, func(i int) {
		tunnels[i] = k.Tunnel(t, apptest.Authority)
		_ = tunnels[i].SetDeadline(time.Now().Add(10 * time.Minute))
	})
	many(activeTunnels, activeTunnels, func(i int) {
		if tunnels[i] == nil {
			return // it was not opened, and that was told
		}
		defer tunnels[i].Close()
		for range activeRounds {
			if a := tunnels[i].Ask(askNote); a.Status != http.StatusOK || a.Err != nil {
				t.Errorf("tunnel %d: %d %v", i, a.Status, a.Err)
				return
			}
		}
	})
}

// A long stream either way grows the process by little.
func TestStreamsDoNotGrowMemory(t *testing.T) {
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	download := func(c *servicestest.Conn, _ *servicestest.Request) bool {
		if !c.Send("HTTP/1.1 200 OK\r\nContent-Length: ", strconv.Itoa(streamed), "\r\n\r\n") {
			return false
		}
		for n := 0; n < streamed; n += len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return false
			}
		}
		return true
	}
	upload := func(c *servicestest.Conn, _ *servicestest.Request) bool {
		n, err := io.CopyN(io.Discard, c, streamed)
		return err == nil && c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Got: ", strconv.FormatInt(n, 10), "\r\n\r\n")
	}
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{"/download": download, "/notes": upload}}})
	cmd, address := startProxy(t, k)
	client := k.ClientOf(t, address, "")
	client.Timeout = 10 * time.Minute
	apptest.Send(t, client, "GET https://"+apptest.Host+"/notes/1", "")
	url := "https://" + apptest.Host
	for name, stream := range map[string]func() (int64, error){
		"down": func() (int64, error) {
			resp, err := client.Get(url + "/download")
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			return io.Copy(io.Discard, resp.Body)
		},
		"up": func() (int64, error) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/notes", io.LimitReader(&endless{chunk}, streamed))
			if err != nil {
				return 0, err
			}
			r.ContentLength = streamed // the upstream counts bytes, and chunks have more of them
			r.Header.Set("Content-Type", "application/octet-stream")
			resp, err := client.Do(r)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			return strconv.ParseInt(resp.Header.Get("X-Got"), 10, 64)
		},
	} {
		if _, err := stream(); err != nil { // the heap takes the size that it keeps
			t.Fatal(err)
		}
		before, most := resident(t, cmd), int64(0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if n, err := stream(); n != streamed || err != nil {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(20 * time.Millisecond):
				most = max(most, resident(t, cmd))
			}
		}
		most = max(most, resident(t, cmd))
		t.Logf("%s: %d MiB streamed, resident %.1f MiB before, at most %.1f MiB", name, streamed/mib, float64(before)/mib, float64(most)/mib)
		if most-before > 48*mib { // of 128 and more
			t.Errorf("%s: grew by %d MiB", name, (most-before)/mib)
		}
	}
}

// endless repeats its bytes.
type endless struct{ chunk []byte }

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.chunk), nil }
