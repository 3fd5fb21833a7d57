package checkpoint_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func sample() checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Number: 3, Prev: "ab", Time: time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.FixedZone("x", 3600)),
		Heads: []checkpoint.Head{{Slot: "cli", Sequence: 7, Hash: "00", Cut: &checkpoint.Cut{Segment: 2, Sequence: 5, Hash: "11"}}, {Slot: "proxy", Sequence: 1, Hash: "22"}},
	}
}

func TestEveryByteOfALineIsSigned(t *testing.T) {
	signed, err := checkpoint.Sign(sample(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	again, err := checkpoint.Parse(append(bytes.Clone(signed.Line), '\n'))
	if err != nil || again.Hash() != signed.Hash() || again.Number != 3 || again.Heads[0].Cut.Sequence != 5 || !again.Time.Equal(signed.Time) {
		t.Fatalf("%+v, %v", again, err)
	}
	for i := range signed.Line {
		for _, bit := range []byte{1, 0x20} {
			changed := bytes.Clone(signed.Line)
			changed[i] ^= bit
			if _, err := checkpoint.Parse(changed); err == nil {
				t.Errorf("byte %d: %s is taken", i, changed)
			}
		}
	}
	if _, err := checkpoint.Sign(sample(), nil); err == nil {
		t.Error("signed without a key")
	}
	for _, line := range []string{"", "{}", `{"checkpoint":1,"sig":"AA"}`, `{"checkpoint":1,"key":"00","sig":""}`, `{"other":1,"sig":"AA"}`} {
		if _, err := checkpoint.Parse([]byte(line)); !errors.Is(err, checkpoint.ErrForm) {
			t.Errorf("%s: %v", line, err)
		}
	}
	// A whole line under another key is whole: who trusts which key is another question.
	other, err := checkpoint.Sign(sample(), key(2))
	if err != nil || other.Key == signed.Key {
		t.Fatal(err)
	}
	mixed := strings.Replace(string(signed.Line), signed.Key, other.Key, 1)
	if _, err := checkpoint.Parse([]byte(mixed)); !errors.Is(err, checkpoint.ErrSignature) {
		t.Errorf("a foreign key: %v", err)
	}
}

func TestTheBookChainsAndStaysSmall(t *testing.T) {
	b := checkpoint.Book{Path: filepath.Join(t.TempDir(), "book"), Size: 4 << 10}
	if _, found, err := b.Last(); found || err != nil {
		t.Errorf("an empty book: %v", err)
	}
	for range 40 {
		if _, err := b.Add(sample(), key(1)); err != nil {
			t.Fatal(err)
		}
	}
	all, problems, err := b.Read()
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if last := all[len(all)-1]; last.Number != 40 || len(all) >= 40 || len(all) < 3 {
		t.Errorf("%d are kept, the last is %d", len(all), last.Number)
	}
	data, err := os.ReadFile(b.Path)
	if err != nil || len(data) > 4<<10 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for name, text := range map[string][]byte{
		"one missing": bytes.Join(append([][]byte{lines[0]}, lines[2:]...), nil),
		"swapped":     bytes.Join(append([][]byte{lines[1], lines[0]}, lines[2:]...), nil),
		"not whole":   bytes.Replace(data, []byte(`"slot":"cli"`), []byte(`"slot":"clj"`), 1),
	} {
		if err := os.WriteFile(b.Path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, problems, err := b.Read(); err != nil || len(problems) == 0 {
			t.Errorf("%s: nothing found, %v", name, err)
		}
	}
	for name, change := range map[string]func(c *checkpoint.Checkpoint){ // signed with the very key, as by a copy of the home
		"the next":       nil,
		"another before": func(c *checkpoint.Checkpoint) { c.Prev = all[len(all)-2].Hash() },
		"one left out":   func(c *checkpoint.Checkpoint) { c.Number++ },
		"a number again": func(c *checkpoint.Checkpoint) { c.Number-- },
	} {
		next := sample()
		next.Number, next.Prev = 41, all[len(all)-1].Hash()
		if change != nil {
			change(&next)
		}
		signed, err := checkpoint.Sign(next, key(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.Path, append(append(bytes.Clone(data), signed.Line...), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, problems, err := b.Read(); err != nil || (len(problems) > 0) != (change != nil) {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
	if err := os.WriteFile(b.Path, append(data, data[:50]...), 0o600); err != nil { // a crash
		t.Fatal(err)
	}
	if _, problems, err := b.Read(); err != nil || len(problems) > 0 {
		t.Errorf("a torn line is a problem: %v, %v", problems, err)
	}
	if next, err := b.Add(sample(), key(1)); err != nil || next.Number != 41 {
		t.Errorf("after a crash: %d, %v", next.Number, err)
	}
	if err := os.WriteFile(b.Path, []byte("{\"checkpoint\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(sample(), key(1)); err == nil {
		t.Error("a book that was changed is gone on with")
	}
}

func FuzzParse(f *testing.F) {
	signed, err := checkpoint.Sign(sample(), key(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed.Line)
	f.Add([]byte(`{"checkpoint":1,"sig":"`))
	f.Add([]byte(`{"checkpoint":1,"sig":"}`)) // one quote for the begin and the end of the signature
	f.Fuzz(func(t *testing.T, line []byte) {
		if one, err := checkpoint.Parse(line); err == nil && (one.Number == 0 || len(one.Key) != 2*ed25519.PublicKeySize) {
			t.Errorf("%q was taken", line)
		}
	})
}
