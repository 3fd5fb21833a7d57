// Package chaos_test holds conversations that nobody thought of against what a whole kimbap
// promises: clients and upstreams that cut, wait, break off, reset, pipeline and refuse, in
// orders that a seed draws, over real sockets, with both engines and all pairs of protocols.
//
//	KIMBAP_CHAOS_SEED=17     only this seed, as a failure prints it
//	KIMBAP_CHAOS_SEEDS=2000  so many, as make soak does
//
// It is a package of its own, so that nothing else runs in its process: at the end
// goroutines and descriptors are counted. Start reading at TestConversations.
package chaos_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // as the command does: net/http writes there what upstreams say unasked
	goleak.VerifyTestMain(runtimetest.Settled{M: apptest.Tidy{M: m}})
}

// everyday is how many seeds the suite runs: each pair of engine and upstream twice.
const everyday = 12

func seeds(t *testing.T) (out []uint64) {
	number := func(name string) (uint64, bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n, true
	}
	if one, ok := number("KIMBAP_CHAOS_SEED"); ok {
		return []uint64{one}
	}
	from, n := uint64(1), uint64(everyday)
	if many, ok := number("KIMBAP_CHAOS_SEEDS"); ok {
		from, n = rand.Uint64N(1<<40)*12+1, many
	}
	if first, ok := number("KIMBAP_CHAOS_FROM"); ok {
		from = first
	}
	for i := range n {
		out = append(out, from+i)
	}
	return out
}

// Whatever both ends do: what is whole is whole, what was cut off is seen to be, what belongs
// to one request stays with it, nothing is sent twice that may not be, the credential stays
// here, the trail tells the truth, and nothing is left.
func TestConversations(t *testing.T) {
	t.Run("what a process keeps", func(t *testing.T) { // the socket that asks the kernel whose a connection is
		apptest.New(t, apptest.Options{}).Do(t, "GET https://"+apptest.Host+"/echo", "")
	})
	begin := goleak.IgnoreCurrent()
	for _, seed := range seeds(t) {
		files := descriptors(t)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { converse(t, seed) })
		if !t.Failed() {
			err := goleak.Find(begin)
			for until := time.Now().Add(patience / 4); err != nil && time.Now().Before(until); {
				err = goleak.Find(begin)
			}
			if err != nil {
				t.Errorf("what is left: %v", err)
			}
			left := files
			for until := time.Now().Add(patience / 4); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				if left = descriptors(t); len(left) <= len(files) {
					break
				}
			}
			if len(left) > len(files) {
				t.Errorf("descriptors before %q, after %q", files, left)
			}
		}
		if t.Failed() {
			t.Fatalf("again with KIMBAP_CHAOS_SEED=%d", seed)
		}
	}
}

// descriptors are those of the process, where the system tells.
func descriptors(t *testing.T) (out []string) {
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // what Go itself needs for sockets
		_ = ln.Close()
	}
	list, err := os.ReadDir("/proc/self/fd")
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		if to, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil { // not that of the listing
			out = append(out, to)
		}
	}
	return out
}
