package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// CR-002: a disk that does not keep what it took, from the first failing fsync
// on or for a while. Nobody is told that a request went well that left no
// record, nothing goes to the upstream for those that were refused, and when the
// disk is well again so is kimbap. strace makes the kernel's answer.
func TestADiskThatFailsRefuses(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	firsts := []int{2} // strace counts for each thread by itself
	if rounds(t, 1) > 1 {
		firsts = []int{1, 2, 3, 5, 8}
	}
	for _, fault := range []string{"fsync,fdatasync:error=EIO", "write,pwrite64:error=ENOSPC"} {
		for _, first := range firsts {
			for _, when := range []string{fmt.Sprintf("%d+", first), fmt.Sprintf("%d..%d", first, first+1)} {
				t.Run(fmt.Sprint(fault, " ", when), func(t *testing.T) { failingDisk(t, fault, when) })
			}
		}
	}
}

func failingDisk(t *testing.T, fault, when string) {
	k := apptest.New(t, apptest.Options{})
	var ledger []string // only the ledger's files: a log that cannot be written is another matter
	for n := range 3 {
		ledger = append(ledger, fmt.Sprintf("audit/proxy-2/%08d.jsonl", n+1))
	}
	address, said := failing(t, k, fault, when, ledger...)
	if address == "" {
		if !strings.Contains(said.String(), "audit") {
			t.Errorf("it did not start: %s", said)
		}
		return // it could not record its own start, and said so
	}
	client := k.ClientOf(t, address, "")
	well, refused := 0, 0
	request := func() int {
		a := apptest.Send(t, client, fmt.Sprintf("GET https://%s/notes/%d", apptest.Host, well+refused+1), "")
		switch {
		case a.Status == 200:
			well++
		case a.Status == 503 && a.Problem.Code == "audit_unavailable":
			refused++
		default:
			t.Errorf("%d %+v", a.Status, a.Problem)
		}
		return a.Status
	}
	for n := 0; n < 30 || n < 300 && refused == 0; n++ {
		request()
	}
	if !strings.HasSuffix(when, "+") {
		apptest.Within(t, time.Minute, "recovery by itself", func() bool { return request() == 200 })
	} else if refused == 0 {
		t.Errorf("%d requests went well on a disk that fails", well)
	}
	if n := len(k.Up.Requests()); n != well {
		t.Errorf("the upstream saw %d requests, %d went well", n, well)
	}
	intents := 0
	for _, r := range k.Records(t) {
		if r.Slot == "proxy-2" && r.Kind == "intent" {
			intents++
		}
	}
	if intents < well {
		t.Errorf("%d requests went well, %d are recorded", well, intents)
	}
}
