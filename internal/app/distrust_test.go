package app_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// Whoever looks at status or asks doctor learns that a program does not take the
// certificate, for which host, and what to do.
func TestStatusAndDoctorTellOfProgramsThatDistrustUs(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	look := func() (*app.Status, app.Finding) {
		s, err := a.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Doctor(t.Context()) {
			if f.Check == "programs" {
				return s, f
			}
		}
		t.Fatal("doctor does not look")
		return nil, app.Finding{}
	}
	if s, f := look(); len(s.Distrusted) != 0 || f.State != "ok" {
		t.Errorf("before: %q, %+v", s.Distrusted, f)
	}
	tunnel, _ := k.Connect(t, "api.notes.test:443")
	if _, err := tunnel.TryTLS(x509.NewCertPool(), "api.notes.test:443"); err == nil {
		t.Fatal("the certificate was taken")
	}
	apptest.Eventually(t, "the host in status", func() bool {
		s, _ := look()
		return len(s.Distrusted) == 1 && s.Distrusted[0] == "api.notes.test" && strings.Contains(s.DistrustFix, "kimbap run")
	})
	if _, f := look(); f.State != "warn" || !strings.Contains(f.Said, "api.notes.test") || f.Fix == "" {
		t.Errorf("doctor: %+v", f)
	}
}
