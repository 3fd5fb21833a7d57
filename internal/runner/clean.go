package runner

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// ours are variables that configure kimbap itself; a program behind it has no
// use for them, and one of them is the master key.
const ours = "KIMBAP_"

// homeVar stays: a kimbap that the program starts shall look at the same home,
// and be told that it is covered, rather than make another.
const homeVar = "KIMBAP_HOME"

// clean takes out of an environment what a program must not have: kimbap's own
// settings, variables with a name that usually holds a key, and variables with
// a value that the vault holds. It returns the names taken out for the last two
// reasons, without those that held a placeholder only, as a shell with kimbap env has.
func clean(env, secretNames []string, isSecret, isPlaceholder func(string) bool) (kept, removed []string) {
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case strings.HasPrefix(name, ours) && name != homeVar:
		case value != "" && (slices.Contains(secretNames, name) || isSecret(value)):
			if isPlaceholder == nil || !isPlaceholder(value) {
				removed = append(removed, name)
			}
		default:
			kept = append(kept, pair)
		}
	}
	sort.Strings(removed)
	return kept, slices.Compact(removed)
}

// extend adds what leads the program through the proxy. What it adds replaces
// what was there.
func extend(env []string, p Place, gitHosts []string) []string {
	p.Own = Own(func(name string) string { return lookup(env, name) })
	for _, v := range Variables(p) {
		env = set(env, v.Name, v.Value)
	}
	return gitConfig(env, gitHosts)
}

// gitConfig tells git, by its own environment (git-config(1), GIT_CONFIG_COUNT),
// to bring no credential of its own for these hosts, to reach them over https where
// a remote says ssh, and by HTTP/1.1: over HTTP/2 the libcurl of Debian 12 (7.88.1)
// may ask for more of a push that has ended, and git then waits for itself for ever.
// Settings that are already there stay.
func gitConfig(env []string, hosts []string) []string {
	count, _ := strconv.Atoi(lookup(env, "GIT_CONFIG_COUNT"))
	add := func(key, value string) {
		env = set(env, fmt.Sprintf("GIT_CONFIG_KEY_%d", count), key)
		env = set(env, fmt.Sprintf("GIT_CONFIG_VALUE_%d", count), value)
		count++
	}
	for _, host := range hosts {
		add("credential.https://"+host+".helper", "") // an empty helper clears the list
		add("url.https://"+host+"/.insteadOf", "git@"+host+":")
		add("url.https://"+host+"/.insteadOf", "ssh://git@"+host+"/")
		add("http.https://"+host+"/.version", "HTTP/1.1")
	}
	if count > 0 {
		env = set(env, "GIT_CONFIG_COUNT", strconv.Itoa(count))
	}
	return env
}

// lookup returns the last value of a variable, "" when it is not set.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// set replaces every entry of a variable by one.
func set(env []string, name, value string) []string {
	return append(unset(env, name), name+"="+value)
}

// unset takes every entry of a variable out.
func unset(env []string, name string) []string {
	return slices.DeleteFunc(env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
}
