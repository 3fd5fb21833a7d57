package proof_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
)

// Of thousands of damaged lines a report names the first and counts the rest, and what a
// checkpoint says of the end is among those that are named.
func TestAReportOfThousandsOfProblemsIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	audittest.Intents(t, l, 0, 2)
	audittest.Shut(t, l)
	lines := audittest.Lines(t, dir)
	for n := range 3000 {
		lines = append(lines, fmt.Sprint("damage ", n))
	}
	book := strings.Repeat(`{"checkpoint":1,"sig":"AA"}`+"\n", 4000)
	for path, text := range map[string]string{filepath.Join("proxy", "00000001.jsonl"): strings.Join(lines, "\n") + "\n", "checkpoints.jsonl": book} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report, err := proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "anchor"}}})
	if err != nil || report.OK {
		t.Fatal(err, report.OK)
	}
	slot := report.Slots[0]
	if len(slot.Problems) != 1000 || slot.Found != 3000 || slot.Problems[0].Line != 3 {
		t.Errorf("%d of %d problems of the slot, the first of line %d", len(slot.Problems), slot.Found, slot.Problems[0].Line)
	}
	if len(report.Problems) != 1001 || report.Found != 4001 || !report.Problems[1000].Anchor() { // the last is not of a checkpoint
		t.Errorf("%d of %d others", len(report.Problems), report.Found)
	}
	text := report.String()
	if !strings.Contains(text, "and 2980 more") || !strings.Contains(text, "and 3980 more") || !strings.Contains(text, "anchor holds no checkpoint") || strings.Count(text, "\n") > 50 {
		t.Errorf("%.3000s", text)
	}
	few, err := proof.Verify(t.Context(), dir, proof.Trust{})
	if err != nil || few.Found != 4000 {
		t.Errorf("%d %v", few.Found, err)
	}
}
