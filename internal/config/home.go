package config

import (
	"path/filepath"
	"strings"
)

// Home returns the folder of kimbap's files: the flag, else KIMBAP_HOME, else
// .kimbap in the user's own home. It is "" when none is known. It is pure.
func Home(flag string, env []string, userHome string) string {
	if flag != "" {
		return flag
	}
	if home := lookup(env, "KIMBAP_HOME"); home != "" {
		return home
	}
	if userHome == "" {
		return ""
	}
	return filepath.Join(userHome, ".kimbap")
}

// lookup returns the value of a variable; of several the last counts.
func lookup(env []string, name string) string {
	value := ""
	for _, pair := range env {
		if k, v, _ := strings.Cut(pair, "="); k == name {
			value = v
		}
	}
	return value
}
