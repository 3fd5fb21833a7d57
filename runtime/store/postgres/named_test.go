package postgres

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// An address whose file or parameter is wrong is told as that, without its password: not as a
// password that is written wrongly.
func TestAWrongFileOrParameterOfAnAddressIsNamed(t *testing.T) {
	t.Parallel()
	missing := filepath.ToSlash(filepath.Join(t.TempDir(), "no-such-ca.pem"))
	for query, want := range map[string]string{
		"sslrootcert=" + missing: "the file " + missing + " that it names cannot be read",
		"sslmode=verify_full":    "sslmode",
		"pool_max_conns=ten":     "parameter",
	} {
		_, err := configure("postgres://u:hunter2@db.example.com/k?" + query)
		if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg+" / "+e.Hint, want) || strings.Contains(e.Msg+e.Hint+e.Error(), "hunter2") {
			t.Errorf("%s: %v / %s", query, err, e.Hint)
		}
	}
}
