package checkpoint_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
)

// What a full disk or a power cut left of a line stays in a file that is only added to: it is
// no fault, wherever it ends, and takes no other line with it. A line that was edited is one.
func TestATornLineOfASentCheckpointIsNoFault(t *testing.T) {
	one, err := checkpoint.Sign(sample(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	whole := string(one.Line)
	for end := range len(whole) {
		texts := []string{
			whole + "\n" + whole[:end], whole[:end] + "\n" + whole + "\n",
			whole[:end] + string(make([]byte, len(whole)-end)) + "\n" + whole,
		}
		if end > 20 { // else it looks like the line of something else
			texts = append(texts, whole[:end]+whole+"\n")
		}
		for _, text := range texts {
			if all, problems := checkpoint.Sent([]byte(text)); len(all) != 1 || len(problems) > 0 {
				t.Fatalf("%q: %d checkpoints, %v", text, len(all), problems)
			}
		}
	}
	edited := bytes.Replace(one.Line, []byte(`"seq":7`), []byte(`"seq":8`), 1)
	for _, text := range [][]byte{edited, append(bytes.Clone(edited), '\n'), append([]byte(whole[:90]), edited...)} {
		if all, problems := checkpoint.Sent(text); len(all) > 0 || len(problems) != 1 || !errors.Is(problems[0].Err, checkpoint.ErrSignature) {
			t.Errorf("%q: %d checkpoints, %v", text, len(all), problems)
		}
	}
	if all, problems := checkpoint.Sent([]byte(`{"checkpoint":1,"sig":"AA"}`)); len(all) > 0 || len(problems) != 1 {
		t.Errorf("%d checkpoints, %v", len(all), problems)
	}
}
