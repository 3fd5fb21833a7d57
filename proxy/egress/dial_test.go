package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneAddressAfterTheOther(t *testing.T) {
	six, four, last := "[2606:4700::1]:443", "93.184.216.34:443", "[2606:4700::2]:443"
	answer := []string{"2606:4700::1", "2606:4700::2", "127.0.0.1", "93.184.216.34"}
	for _, c := range []struct {
		name   string
		fail   []string
		slow   map[string]time.Duration
		dialed []string
		want   string
		takes  time.Duration
	}{
		{"first answers", nil, nil, []string{six}, "→ " + six, 0},
		{"first fails", []string{six}, nil, []string{six, four}, "→ " + four, 0},
		{"first hangs", nil, map[string]time.Duration{six: time.Hour}, []string{six, four}, "→ " + four, stagger},
		{"first is late", nil, map[string]time.Duration{six: 300 * time.Millisecond, four: time.Second}, []string{six, four}, "→ " + six, 300 * time.Millisecond},
		{"all fail", []string{six, four, last}, nil, []string{six, four, last}, "error", 0},
		{"all hang", nil, map[string]time.Duration{six: time.Hour, four: time.Hour, last: time.Hour}, []string{six, four, last}, "error", 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, n, w := guard(t, Options{Timeout: 5 * time.Second})
				n.answers["many.test"] = answer
				for _, a := range c.fail {
					w.fail[a] = true
				}
				w.slow = c.slow
				began := time.Now()
				conn, info, err := g.Dial(t.Context(), Request{Authority: "many.test:443"})
				if got := outcome(conn, info, err); got != c.want || time.Since(began) != c.takes {
					t.Errorf("got %s after %s, want %s after %s (%v)", got, time.Since(began), c.want, c.takes, err)
				}
				synctest.Wait()
				if got := w.list(); !slices.Equal(got, c.dialed) {
					t.Errorf("dialled %v, want %v", got, c.dialed)
				}
				if c.name == "all hang" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("not a timeout: %v", err)
				}
			})
		})
	}
}

// The families take turns where the first address has fewer of its kind, and of two that are
// slow none ends for an address that is not there.
func TestFewAddressesHaveTheirTime(t *testing.T) {
	four, six, last := "93.184.216.34:443", "[2606:4700::1]:443", "[2606:4700::2]:443"
	for _, c := range []struct {
		answer []string
		fail   string
		want   string
		takes  time.Duration
	}{
		{[]string{"93.184.216.34", "2606:4700::1", "2606:4700::2"}, six, "→ " + last, stagger},
		{[]string{"93.184.216.34", "2606:4700::1"}, "", "→ " + four, patience + time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, n, w := guard(t, Options{})
			n.answers["few.test"] = c.answer
			w.slow = map[string]time.Duration{four: patience + time.Second, six: 0, last: 0}
			if w.fail[c.fail] = true; c.fail == "" {
				w.slow[six] = time.Hour
			}
			began := time.Now()
			if got := outcome(g.Dial(t.Context(), Request{Authority: "few.test:443"})); got != c.want || time.Since(began) != c.takes {
				t.Errorf("%v: got %s after %s, want %s after %s", c.answer, got, time.Since(began), c.want, c.takes)
			}
		})
	}
}

// panics is a dialer of which nobody thought that it could.
type panics struct{ first string }

func (p panics) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	if address == p.first {
		panic("over what a proxy on the way said")
	}
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

// What panics in a dial beside others fails that one: it runs on a goroutine of its own.
func TestAPanicInADialFailsIt(t *testing.T) {
	one, two := candidate{addr: netip.MustParseAddrPort("93.184.216.34:443")}, candidate{addr: netip.MustParseAddrPort("93.184.216.35:443")}
	conn, to, err := dialFirst(t.Context(), panics{one.addr.String()}, []candidate{one, two})
	if err != nil || to != two {
		t.Fatalf("%v %v", to, err)
	}
	_ = conn.Close()
}

func TestManyAddressesAreNotAllDialled(t *testing.T) {
	g, n, w := guard(t, Options{})
	for i := range 100 {
		a := fmt.Sprintf("93.184.216.%d", i)
		n.answers["many.test"] = append(n.answers["many.test"], a)
		w.fail[a+":443"] = true
	}
	if _, _, err := g.Dial(t.Context(), Request{Authority: "many.test:443"}); err == nil || len(w.list()) != maxAttempts {
		t.Errorf("%d dials, %v", len(w.list()), err)
	}
}

// A connection being made is a descriptor: no name takes more than two at a time, and each
// address has its time all the same.
func TestAddressesThatDoNotAnswerAreNotAllDialledAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		slow    map[int]time.Duration // of the eight; the others hang
		want    string
		takes   time.Duration
	}{
		{"all hang", 10 * time.Second, nil, "error", 10 * time.Second},
		{"the first is slow", 10 * time.Second, map[int]time.Duration{0: patience - 1}, "→ 93.184.216.0:443", patience - 1},
		{"the last answers", 10 * time.Second, map[int]time.Duration{7: time.Second}, "→ 93.184.216.7:443", 3*patience + stagger + time.Second},
		{"in little time", 2 * time.Second, map[int]time.Duration{7: 0}, "→ 93.184.216.7:443", 3*500*time.Millisecond + stagger},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, n, w := guard(t, Options{Timeout: c.timeout})
				crowd := &crowd{wires: w}
				g.dialer = crowd
				for i := range 8 {
					a := fmt.Sprintf("93.184.216.%d", i)
					n.answers["many.test"] = append(n.answers["many.test"], a)
					w.slow[a+":443"] = time.Hour
					if slow, given := c.slow[i]; given {
						w.slow[a+":443"] = slow
					}
				}
				began := time.Now()
				conn, info, err := g.Dial(t.Context(), Request{Authority: "many.test:443"})
				if got := outcome(conn, info, err); got != c.want || time.Since(began) != c.takes {
					t.Errorf("%s after %s (%v)", got, time.Since(began), err)
				}
				if synctest.Wait(); crowd.most != maxBeside {
					t.Errorf("%d at a time", crowd.most)
				}
			})
		})
	}
}

// One that had to give way did not break off: what is said of the dial is that it took too long.
func TestAnAddressThatGaveWayTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, n, w := guard(t, Options{})
		n.answers["many.test"] = []string{"93.184.216.0", "93.184.216.1", "93.184.216.2"}
		for i, takes := range []time.Duration{time.Hour, 3 * time.Second, 3 * time.Second} {
			a := fmt.Sprintf("93.184.216.%d:443", i)
			w.slow[a], w.fail[a] = takes, true
		}
		_, _, err := g.Dial(t.Context(), Request{Authority: "many.test:443"})
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// crowd counts the dials that go on at a time.
type crowd struct {
	*wires
	now, most int
}

func (c *crowd) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	return c.wires.DialContext(ctx, network, address)
}

// The real resolver and dialer, over loopback.
func TestDialReachesALoopbackServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	g, err := New(Options{Private: ModeAuto, Own: func() []netip.AddrPort { return nil }, Resolve: map[string]string{"api.demo.test:443": ln.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	conn, info, err := g.Dial(t.Context(), Request{Authority: "api.demo.test:443"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" || info.Address != ln.Addr().String() || !info.Private {
		t.Errorf("%q %+v %v", text, info, err)
	}
}

// stubborn dials on after its context has ended, as a kernel may.
type stubborn struct{ *wires }

func (s stubborn) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	return s.wires.DialContext(context.Background(), network, address)
}

func TestAConnectionThatComesTooLateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, n, w := guard(t, Options{})
		g.dialer = stubborn{w}
		n.answers["two.test"] = []string{"93.184.216.1", "93.184.216.2"}
		w.slow["93.184.216.1:443"] = time.Second
		if got := outcome(g.Dial(t.Context(), Request{Authority: "two.test:443"})); got != "→ 93.184.216.2:443" {
			t.Errorf("got %s", got)
		}
		time.Sleep(2 * time.Second) // of the bubble's clock
		synctest.Wait()
		if w.closed != 1 {
			t.Errorf("%d connections closed, want the late one", w.closed)
		}
	})
}
