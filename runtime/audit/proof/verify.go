package proof

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Trust is what a ledger is held against beside its own chain.
type Trust struct {
	Key     ed25519.PublicKey // that the home signs with; nil: the one its checkpoints name
	Anchors []Outside
}

// Outside is a text with checkpoints that were sent out of the home. Lines of
// other things are passed over.
type Outside struct {
	Name    string
	Data    []byte
	Missing bool // it should be there and is not: a problem where the home has a checkpoint
}

// Verify reads all slots under dir and checks every record against the chain,
// and the ends against the checkpoints in the folder and those in t. It changes
// nothing and takes no lock: it may run beside the writers, and a torn last line
// is not a fault. The error is of reading; what is wrong with the ledger is in
// the report.
func Verify(ctx context.Context, dir string, t Trust) (Report, error) {
	for {
		report := Report{Anchor: NotAnchored, OK: true}
		claims, err := gather(dir, t, &report) // before the records: what they name is there by now
		if err != nil {
			return Report{}, fmt.Errorf("verify the audit trail: %w", err)
		}
		err = report.walk(ctx, dir, claims)
		if err == nil && report.OK || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return report, err
		}
		// What retention takes away beside us is no fault: it says so before.
		if now, failed := gather(dir, t, &Report{}); failed != nil || !now.further(claims) {
			return report, err
		}
	}
}

// walk verifies all slots.
func (r *Report) walk(ctx context.Context, dir string, claims claims) error {
	names, err := segment.Slots(dir)
	if err != nil {
		return fmt.Errorf("verify the audit trail: %w", err)
	}
	for _, name := range names {
		v := verifier{SlotReport: SlotReport{Slot: name}, hash: segment.Genesis(name), claims: claims.of(name)}
		if err := v.slot(ctx, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("verify audit slot %s: %w", name, err)
		}
		r.Slots = append(r.Slots, v.SlotReport)
		r.OK = r.OK && len(v.Problems) == 0
	}
	missing := claims.missing(names)
	r.Problems, r.Found = append(r.Problems, missing...), r.Found+len(missing)
	r.OK = r.OK && len(r.Problems) == 0
	return nil
}

// place is where a record stands.
type place struct {
	file string
	line int
	seq  uint64
}

// verifier walks the chain of one slot.
type verifier struct {
	SlotReport
	hash segment.Digest // of the line before
	at   place          // of the line before
	gaps []gap
	skip bool // the line before was no record, or a file is missing: said already

	claims slotClaims
	failed bool // a claim did not hold: those after it cannot either
}

// gap is a run of missing numbers, reported as problem number index.
type gap struct {
	from, to uint64
	index    int
}

func (v *verifier) problem(kind ProblemKind, at place, format string, args ...any) {
	if v.Found++; len(v.Problems) >= maxProblems && kind != ProblemCut {
		return
	}
	v.Problems = append(v.Problems, Problem{
		Kind: kind, Slot: v.Slot, File: at.file, Line: at.line, Sequence: at.seq, Msg: fmt.Sprintf(format, args...),
	})
}

func (v *verifier) slot(ctx context.Context, dir string) error {
	numbers, err := segment.List(dir)
	if err != nil {
		return err
	}
	v.Segments = len(numbers)
	for i, number := range numbers {
		want := 1
		if i > 0 {
			want = numbers[i-1] + 1
		} else {
			want = v.begin(number)
		}
		if number != want {
			v.skip = true
			v.problem(ProblemSegment, place{file: segment.Name(want), seq: v.Last + 1},
				"%s missing before %s, after record %d", runtime.Count(number-want, "file"), segment.Name(number), v.Last)
		}
		if err := v.segment(ctx, filepath.Join(dir, segment.Name(number)), i == len(numbers)-1); err != nil {
			return err
		}
	}
	v.tail(place{file: segment.Name(max(1, slices.Max(append(numbers, 0)))), line: v.at.line, seq: v.Last})
	if v.Records > 0 {
		v.Head = hex.EncodeToString(v.hash[:])
	}
	return nil
}

func (v *verifier) segment(ctx context.Context, path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name := filepath.Base(path)
	for lines := segment.NewLines(f, 0); ; {
		line, err := lines.Next()
		at := place{file: name, line: lines.Number}
		switch {
		case errors.Is(err, io.EOF):
			grown, err := v.room(f, lines.End, at)
			if err != nil || !grown {
				return err
			}
			lines.Resume(f)
			continue
		case errors.Is(err, segment.ErrTorn):
			at.line++
			if v.Torn = last; !last {
				v.problem(ProblemForm, at, "%v", err)
			}
			return nil
		case errors.Is(err, segment.ErrLong):
			v.problem(ProblemForm, at, "%v", err)
			v.skip = true
			continue
		case err != nil:
			return err
		}
		if lines.Number%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		v.record(line, at)
	}
}

// room looks at what stands behind the records of a segment: nothing, or room
// to its end. Grown says that a writer has put records there meanwhile, which
// are read next.
func (v *verifier) room(f *os.File, from int64, at place) (grown bool, err error) {
	rest, chunk := io.NewSectionReader(f, from, 1<<62), make([]byte, 64<<10)
	for only := true; only; {
		n, err := rest.Read(chunk)
		only = len(bytes.TrimLeft(chunk[:n], string(rune(segment.Room)))) == 0
		if only && errors.Is(err, io.EOF) {
			return false, nil
		}
		if only && err != nil {
			return false, err
		}
	}
	var first [1]byte
	if _, err := f.ReadAt(first[:], from); err != nil {
		return false, err
	}
	if first[0] != segment.Room {
		_, err := f.Seek(from, io.SeekStart)
		return true, err
	}
	at.line++
	v.problem(ProblemForm, at, "after record %d there is room, and then something that is no room", v.at.seq)
	return false, nil
}

// record checks one line against the one before.
func (v *verifier) record(line []byte, at place) {
	link, err := segment.ParseLink(line)
	if err == nil && !json.Valid(line) {
		err = segment.ErrForm
	}
	if err != nil {
		v.problem(ProblemForm, at, "line %d after record %d is %v", at.line, v.at.seq, err)
		v.skip, v.hash = true, sha256.Sum256(line)
		return
	}
	at.seq = link.Sequence
	v.passCut(at.seq)
	switch linked := link.Previous == v.hash; {
	case link.Sequence > v.Last+1 && !v.skip:
		if len(v.Problems) < maxProblems { // else it is not listed
			v.gaps = append(v.gaps, gap{v.Last + 1, link.Sequence - 1, len(v.Problems)})
		}
		v.problem(ProblemRemoved, at, "record(s) %d to %d are missing before record %d", v.Last+1, link.Sequence-1, link.Sequence)
	case link.Sequence <= v.Last:
		v.misplaced(at)
	case !linked && !v.skip && v.at.seq == 0:
		v.problem(ProblemEdited, at, "record %d is not the beginning of slot %s", link.Sequence, v.Slot)
	case !linked && !v.skip && v.at.seq == v.Last:
		v.problem(ProblemEdited, v.at, "record %d is not the one that record %d was chained to", v.at.seq, link.Sequence)
	}
	if v.Records == 0 {
		v.First = link.Sequence
	}
	v.Records++
	v.Last = max(v.Last, link.Sequence)
	v.hash, v.at, v.skip = sha256.Sum256(line), at, false
	v.held(at)
}

// misplaced reports a number that should have come earlier. If it was taken for
// removed, that was wrong.
func (v *verifier) misplaced(at place) {
	for _, g := range v.gaps {
		if at.seq >= g.from && at.seq <= g.to {
			p := &v.Problems[g.index]
			p.Kind = ProblemOrder
			p.Msg = fmt.Sprintf("record %d stands before record %d", p.Sequence, at.seq)
		}
	}
	v.problem(ProblemOrder, at, "record %d comes after record %d", at.seq, v.Last)
}
