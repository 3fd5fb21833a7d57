package app

import (
	"fmt"
	"os"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
)

// doctorSecrets warns of files of secrets that others can read, false where there are none. They
// are read all the same: what an orchestrator mounts has the mode that it gives.
func (a *App) doctorSecrets() (Finding, bool) {
	var open []string
	fix := ""
	for _, path := range a.config.Current().SecretFiles() {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() { // read at the start, and gone since, or a pipe
			continue
		}
		if how := system.Exposed(path, info); how != "" {
			open = append(open, fmt.Sprintf("%s (%s)", path, how))
			fix = system.Repair(path, false)
		}
	}
	return Finding{"secret files", "warn", "others can read what the configuration takes secrets from: " + strings.Join(open, ", "), fix}, len(open) > 0
}

// doctorKeyGiven says of a master key from the environment where it is.
func (a *App) doctorKeyGiven() Finding {
	if file := a.env["KIMBAP_MASTER_KEY_FILE"]; file != "" {
		return Finding{"master key", "ok", "in the file that KIMBAP_MASTER_KEY_FILE names: " + file, ""}
	}
	return Finding{"master key", "warn", "from the environment: every program of this shell could read it", "write it into " + a.home.MasterKey() + " (mode 0600), set master_key.source: file, then unset it"}
}
