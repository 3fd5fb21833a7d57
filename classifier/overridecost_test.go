package classifier

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFormCheckCostsLittleForBytes has a file sent by a POST that does not say what it is:
// every hundredth byte of it parts a pair, and a look that made a text of each of them took
// longer than all else that is done with the file.
func TestFormCheckCostsLittleForBytes(t *testing.T) {
	file := make([]byte, 256<<10)
	for i := range file {
		file[i] = byte(rand.Uint32())
	}
	var f formCheck
	allocs := testing.AllocsPerRun(5, func() {
		for piece := file; len(piece) > 0; {
			n := min(len(piece), 32<<10)
			if err := f.look(piece[:n]); err != nil {
				t.Fatal(err)
			}
			piece = piece[n:]
		}
	})
	if allocs > 20 {
		t.Errorf("%v allocations for 256 KiB of a file", allocs)
	}
}

// TestFormCheckLeavesOutNoName has keys of all letters that matter looked at by the rule for
// keys, and by what says beforehand that it need not be asked.
func TestFormCheckLeavesOutNoName(t *testing.T) {
	for _, name := range methodParameters() {
		if !saysMethod([]byte(name)) {
			t.Fatalf("%s would not be found", name)
		}
	}
	around := []string{"", " ", "[", "]", ".", "?", "\ufeff", "\x00", "_", "%5f", "%20", "+", "[0]", "]x", "\x00x", "K", "\u017f", "\u212a", "%", "%4"}
	found := 0
	for range 200_000 {
		key := methodParameters()[rand.IntN(6)]
		for range rand.IntN(4) {
			at := rand.IntN(len(key) + 1)
			switch piece := around[rand.IntN(len(around))]; rand.IntN(4) {
			case 0:
				key = key[:at] + piece + key[at:]
			case 1:
				key = piece + strings.ToUpper(key)
			case 2:
				key += piece
			default:
				key = key[:at] + piece + key[min(len(key), at+1):]
			}
		}
		if rand.IntN(4) == 0 {
			key = strings.NewReplacer("m", "%6d", "E", "%45", "o", "%6F", "-", "%2d").Replace(key)
		}
		read := unescape(strings.ReplaceAll(key, "+", " "))
		for _, name := range methodParameters() {
			if SameParameter(read, name) {
				found++
				var scratch []byte
				if !saysMethod(appendUnescaped(scratch, []byte(key))) {
					t.Fatalf("%q is %s to some reader", key, name)
				}
				f := formCheck{}
				if f.look([]byte("a=b&"+key+"=DELETE&")) == nil && !strings.ContainsAny(key, "=&;") {
					t.Fatalf("%q passes, and is %s to some reader", key, name)
				}
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d keys were names", found)
	}
}
