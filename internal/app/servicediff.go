package app

import (
	"context"
	"os"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// ServiceDiff is how the catalogue's file of a service differs from the installed one.
type ServiceDiff struct {
	Name    string   `json:"name"`
	File    string   `json:"file"`             // the installed one
	Lines   []string `json:"lines"`            // as diff -u has them, without the heads; none: they are the same
	Command string   `json:"update,omitempty"` // takes the catalogue's, where that is another
}

// DiffService compares an installed file with what the catalogue would write today, with the
// same values of its variables where those can be told.
func (a *App) DiffService(name string) (*ServiceDiff, error) {
	data, err := catalog.Read(name)
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "the catalogue of this kimbap has no service " + name, Hint: "kimbap service list --catalog",
		}
	}
	path, _ := services.InstalledFile(a.home.Services(), name)
	here, err := os.ReadFile(path)
	if err != nil {
		return nil, a.unknownService(name)
	}
	today, values, err := services.Refilled(name+".yaml", data, here)
	if err != nil {
		return nil, err
	}
	if today == nil {
		today = data
	}
	d := &ServiceDiff{Name: name, File: path, Lines: diffLines(textLines(here), textLines(today))}
	if len(d.Lines) > 0 {
		d.Command = installAgain(name, data, values)
	}
	return d, nil
}

// KeepService notes that the owner keeps their own file of a service beside the one that the
// catalogue has now.
func (a *App) KeepService(ctx context.Context, name string) error {
	return a.installer().KeepOwn(ctx, name)
}

func textLines(data []byte) []string {
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// diffLines are the lines that differ, with those around them.
func diffLines(was, now []string) (out []string) {
	const around = 3
	edits := diffEdits(was, now)
	near := func(i int) bool {
		for j := max(0, i-around); j < min(len(edits), i+around+1); j++ {
			if edits[j][0] != ' ' {
				return true
			}
		}
		return false
	}
	skipped := false
	for i, line := range edits {
		if !near(i) {
			skipped = true
			continue
		}
		if skipped {
			out = append(out, "@@")
		}
		skipped = false
		out = append(out, line)
	}
	return out
}

// diffMost bounds the table of diffEdits, in cells: beyond it all that lies between the
// common beginning and the common end is shown as replaced.
const diffMost = 16 << 20

// diffEdits are all lines, each behind "-" for one of before, "+" for one of now, or " ".
func diffEdits(was, now []string) (out []string) {
	from := 0
	for from < min(len(was), len(now)) && was[from] == now[from] {
		out = append(out, " "+was[from])
		from++
	}
	tail := 0
	for tail < min(len(was), len(now))-from && was[len(was)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	out = append(out, diffMiddle(was[from:len(was)-tail], now[from:len(now)-tail])...)
	for _, line := range was[len(was)-tail:] {
		out = append(out, " "+line)
	}
	return out
}

// diffMiddle finds the longest common subsequence.
func diffMiddle(was, now []string) (out []string) {
	width := len(now) + 1
	var common []int32 // lines in common from was[i] and now[j] on
	if len(was)*len(now) <= diffMost {
		common = make([]int32, (len(was)+1)*width)
		for i := len(was) - 1; i >= 0; i-- {
			for j := len(now) - 1; j >= 0; j-- {
				if was[i] == now[j] {
					common[i*width+j] = common[(i+1)*width+j+1] + 1
				} else {
					common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case common != nil && i < len(was) && j < len(now) && was[i] == now[j]:
			out = append(out, " "+was[i])
			i, j = i+1, j+1
		case i < len(was) && (j == len(now) || common == nil || common[(i+1)*width+j] >= common[i*width+j+1]):
			out = append(out, "-"+was[i])
			i++
		default:
			out = append(out, "+"+now[j])
			j++
		}
	}
	return out
}
