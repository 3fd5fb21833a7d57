//go:build specs

package openapi_test

import (
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kimbap-run/kimbap/services/openapi"
)

var folder = flag.String("specs", "", "folder of official descriptions: github.json openai.json slack.json figma.yaml resend.yaml, also as .gz")

// The official descriptions of five APIs, which are too large to be kept here
// (make specs). Every operation that is imported can be called, and its request
// is recognised as the same action with the same arguments.
func TestOfficialDescriptions(t *testing.T) {
	for _, c := range []struct {
		file, auth   string
		least, total int
	}{
		{"github.json", "bearer", 1200, 1223},
		{"openai.json", "", 280, 288},
		{"slack.json", "", 170, 174},
		{"figma.yaml", "", 47, 47},
		{"resend.yaml", "", 104, 104},
	} {
		data := official(t, c.file)
		before := time.Now()
		r, err := openapi.Import(openapi.Options{Files: fstest.MapFS{c.file: {Data: data}}, Document: c.file, Auth: c.auth})
		if err != nil {
			t.Error(err)
			continue
		}
		took := time.Since(before)
		t.Logf("%s: %d KiB in %v, %d KiB of YAML\n%s", c.file, len(data)>>10, took.Round(time.Millisecond), len(r.YAML)>>10, r.Report())
		if r.Imported < c.least || r.Total != c.total {
			t.Errorf("%s: %d of %d imported, want %d of %d", c.file, r.Imported, r.Total, c.least, c.total)
		}
		roundTrip(t, r)
	}
}

func official(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(*folder, name))
	if err == nil {
		return data
	}
	f, err := os.Open(filepath.Join(*folder, name+".gz"))
	if err != nil {
		t.Fatal("where are the descriptions? make specs SPECS=DIR: ", err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return data
}

// The oracle reads all of them but Slack's, which is Swagger 2.0.
func TestOfficialDescriptionsReadTheSame(t *testing.T) {
	for _, file := range []string{"github.json", "openai.json", "figma.yaml", "resend.yaml"} {
		n := openapi.SameAsOracle(t, file, official(t, file))
		t.Logf("%s: the same %d operations", strings.TrimSuffix(file, filepath.Ext(file)), n)
	}
}
