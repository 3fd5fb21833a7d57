package config

import (
	"strings"
	"testing"
	"time"
)

func TestSizesAndDurations(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "65536": 65536, "1B": 1, "512KiB": 512 << 10, "96MiB": 96 << 20, "1GiB": 1 << 30} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "+1", "1.5MiB", "1MB", "1 MiB", "010", "1MiBMiB", "9223372036854775807GiB", "0x10"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for text, want := range map[string]string{"8h": "8h", "90s": "1m30s", "0s": "0s", "1h30m": "1h30m", "10m": "10m", "500ms": "500ms",
		"1d": "24h", "24h": "24h", "90d": "90d", "2160h": "90d", "36h": "36h", "36500d": "36500d"} {
		if d, err := ParseDuration(text); err != nil || d.String() != want {
			t.Errorf("%s is shown as %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "5", "-1s", "soon", "d", "0d", "-1d", "+1d", "1.5d", "01d", "1 d", "1d2h", "2h1d", "1D", "1dd", "36501d", "99999999999d", "9223372036854775808d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
}

// A length of time in days is one wherever the configuration comes from, and what is shown
// of it is read again as the same.
func TestDaysAreTakenEverywhere(t *testing.T) {
	path := write(t, "audit: {retention: 90d, anchor: {every: 1d}}\napproval: {expires: 2d}\n")
	c, err := Load(path, []string{"KIMBAP_UPSTREAM_IDLE_TIMEOUT=1d"}, map[string]string{"exec.timeout": "1d"})
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	if c.Audit.Retention.Duration() != 90*day || c.Audit.Anchor.Every.Duration() != day || c.Approval.Expires.Duration() != 2*day ||
		c.Upstream.IdleTimeout.Duration() != day || c.Exec.Timeout.Duration() != day {
		t.Errorf("%+v %+v", c.Audit, c.Approval)
	}
	shown, err := c.YAML()
	if err != nil || !strings.Contains(string(shown), "retention: 90d") || !strings.Contains(string(shown), "expires: 2d") {
		t.Fatalf("%s%v", shown, err)
	}
	again, err := Load(write(t, string(shown)), nil, nil)
	if err != nil || again.Audit.Retention != c.Audit.Retention || again.Approval.Expires != c.Approval.Expires {
		t.Errorf("%v, %v", again, err)
	}
	for _, text := range []string{"audit: {retention: 0d}", "audit: {retention: 99999999999d}", "approval: {expires: 1d2h}", "approval: {expires: 1.5d}"} {
		if _, err := Load(write(t, text), nil, nil); err == nil || !strings.Contains(err.Error(), "whole days") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Load(write(t, "approval: {expires: 91d}"), nil, nil); err == nil || !strings.Contains(err.Error(), "from 1m to 90d") {
		t.Errorf("the bound: %v", err)
	}
}
