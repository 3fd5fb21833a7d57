package proof

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// named is what a checkpoint says of one record.
type named struct {
	seq     uint64
	hash    string
	source  string // "checkpoint 7 in checkpoints.jsonl"
	outside bool   // one that was kept outside the home names it too
}

// slotClaims is what all checkpoints say of one slot.
type slotClaims struct {
	records map[uint64][]named
	ends    []named         // in the order of seq
	cut     *checkpoint.Cut // the furthest
}

// claims is what all checkpoints say, by slot.
type claims map[string]*slotClaims

func (c claims) of(slot string) slotClaims {
	if s := c[slot]; s != nil {
		return *s
	}
	return slotClaims{}
}

// further reports whether more was given up of any slot than before.
func (c claims) further(before claims) bool {
	for slot, s := range c {
		old := before.of(slot).cut
		if s.cut != nil && (old == nil || s.cut.Segment > old.Segment) {
			return true
		}
	}
	return false
}

// gather reads the checkpoints of the folder and those kept elsewhere. What is
// wrong with them goes into the report; they then say nothing.
func gather(dir string, t Trust, report *Report) (claims, error) {
	book := checkpoint.In(dir)
	inside, problems, err := book.Read()
	if err != nil {
		return nil, err
	}
	out, name := claims{}, filepath.Base(book.Path)
	report.bad(name, problems)
	key := t.Key
	if key == nil && len(inside) > 0 {
		key, _ = hex.DecodeString(inside[0].Key)
	}
	if report.take(out, name, inside, key, false) > 0 {
		report.Anchor, report.Proven = AnchoredHere, t.Key != nil
	}
	for _, o := range t.Anchors {
		if o.Missing {
			if len(inside) > 0 {
				report.anchorProblem(ProblemAnchor, o.Name, "is missing")
			}
			continue
		}
		outside, problems := checkpoint.Sent(o.Data)
		report.bad(o.Name, problems)
		if key == nil && len(outside) > 0 {
			key, _ = hex.DecodeString(outside[0].Key)
		}
		switch {
		case len(outside) == 0:
			report.anchorProblem(ProblemAnchor, o.Name, "holds no checkpoint of this home")
		case !slices.ContainsFunc(outside, func(c checkpoint.Signed) bool { return c.Key == hex.EncodeToString(key) }):
			report.anchorProblem(ProblemForeign, o.Name, "holds no checkpoint that this home's key signed: it is another home's, or this home was replaced")
		default:
			report.take(out, o.Name, outside, key, true)
			report.Anchor, report.Proven = AnchoredOutside, t.Key != nil
		}
	}
	for _, s := range out {
		slices.SortStableFunc(s.ends, func(a, b named) int { return int(int64(a.seq) - int64(b.seq)) })
	}
	return out, nil
}

func (r *Report) claimProblem(file string, line int, format string, args ...any) {
	if r.Found++; len(r.Problems) >= maxProblems {
		return
	}
	r.Problems = append(r.Problems, Problem{Kind: ProblemClaim, File: file, Line: line, Msg: fmt.Sprintf(format, args...)})
}

func (r *Report) anchorProblem(kind ProblemKind, file, msg string) {
	r.Found++
	r.Problems = append(r.Problems, Problem{Kind: kind, File: file, Msg: file + " " + msg})
}

func (r *Report) bad(file string, problems []checkpoint.Problem) {
	for _, p := range problems {
		r.claimProblem(file, p.Line, "%v", p.Err)
	}
}

// take adds what checkpoints under the key say, and returns how many there are.
func (r *Report) take(to claims, file string, all []checkpoint.Signed, key ed25519.PublicKey, outside bool) int {
	want, taken := hex.EncodeToString(key), 0
	for i := range all {
		c := &all[i]
		if c.Key != want {
			r.claimProblem(file, 0, "checkpoint %d was signed with the key %.16s, not with %.16s of this home", c.Number, c.Key, want)
			continue
		}
		taken++
		if c.Number > r.Checkpoint {
			r.Checkpoint, r.At, r.Key = c.Number, c.Time, c.Key
		}
		if outside && c.Number > r.OutsideCheckpoint {
			r.OutsideCheckpoint, r.OutsideAt = c.Number, c.Time
		}
		for _, h := range c.Heads {
			to.add(h, fmt.Sprintf("checkpoint %d in %s", c.Number, file), outside)
		}
	}
	return taken
}

func (c claims) add(h checkpoint.Head, source string, outside bool) {
	s := c[h.Slot]
	if s == nil {
		s = &slotClaims{records: map[uint64][]named{}}
		c[h.Slot] = s
	}
	if h.Cut != nil && (s.cut == nil || h.Cut.Segment > s.cut.Segment) {
		s.cut = h.Cut
	}
	same := func(o named) bool { return o.hash == h.Hash }
	if at := slices.IndexFunc(s.records[h.Sequence], same); at >= 0 {
		s.records[h.Sequence][at].outside = s.records[h.Sequence][at].outside || outside
		return
	}
	one := named{seq: h.Sequence, hash: h.Hash, source: source, outside: outside}
	s.records[h.Sequence] = append(s.records[h.Sequence], one)
	s.ends = append(s.ends, one)
}

// missing reports the slots that a checkpoint names and of which nothing is left.
func (c claims) missing(there []string) (out []Problem) {
	for slot, s := range c {
		if !slices.Contains(there, slot) {
			last := s.ends[len(s.ends)-1]
			out = append(out, Problem{Kind: ProblemWriter, Slot: slot, File: slot, Sequence: 1,
				Msg: fmt.Sprintf("the whole ledger of %s is missing; %s names its record %d", slot, last.source, last.seq)})
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.Slot, b.Slot) })
	return out
}

// begin makes the verifier ready for the first segment that there is, and
// returns the number it should have. Segments that were given up may be gone;
// those of them that are still there were to be removed when a crash came, and
// chain to what comes after.
func (v *verifier) begin(number int) int {
	cut := v.claims.cut
	if cut == nil || number == 1 || number > cut.Segment {
		if cut != nil && number > cut.Segment {
			v.start(cut)
			return cut.Segment
		}
		return 1
	}
	if number == cut.Segment {
		v.start(cut)
		return number
	}
	v.skip = true // a file before the cut: what it chains to is gone
	return number
}

// passCut makes the verifier ready for the first record of all if it is from behind the cut,
// though a file before the cut is there: one with no record of what was given up, which
// could stand there in the place of records that were not.
func (v *verifier) passCut(seq uint64) {
	if cut := v.claims.cut; cut != nil && v.skip && v.Records == 0 && v.Last < cut.Sequence && seq > cut.Sequence {
		v.start(cut)
		v.skip = false
	}
}

// start takes the record before a cut for read.
func (v *verifier) start(cut *checkpoint.Cut) {
	if sum, err := hex.DecodeString(cut.Hash); err == nil && len(sum) == len(v.hash) {
		v.hash = segment.Digest(sum)
	}
	v.Last, v.GivenUp = cut.Sequence, cut.Sequence
	v.at = place{file: segment.Name(cut.Segment), seq: cut.Sequence}
}

// held compares a record with what checkpoints say of it.
func (v *verifier) held(at place) {
	if cut := v.claims.cut; cut != nil && at.seq == cut.Sequence && hex.EncodeToString(v.hash[:]) != cut.Hash && !v.failed {
		v.failed = true
		v.problem(ProblemEdited, at, "record %d is not the one that was the last to be given up", at.seq)
	}
	for _, c := range v.claims.records[at.seq] {
		switch {
		case v.failed:
		case c.hash == hex.EncodeToString(v.hash[:]):
			v.Anchored = max(v.Anchored, at.seq)
			if c.outside {
				v.Outside = at.seq
			}
		default:
			v.failed = true
			v.problem(ProblemEdited, at, "record %d is not the one that %s names; nothing after record %d can be trusted", at.seq, c.source, v.Anchored)
		}
	}
}

// tail looks for records that a checkpoint names behind the last one there is.
func (v *verifier) tail(at place) {
	for _, c := range v.claims.ends {
		if c.seq > v.Last && c.seq > 0 {
			at.seq = v.Last + 1
			furthest := v.claims.ends[len(v.claims.ends)-1]
			v.problem(ProblemCut, at, "record(s) %d to %d are missing from the end; %s names record %d", v.Last+1, furthest.seq, furthest.source, furthest.seq)
			return
		}
	}
}
