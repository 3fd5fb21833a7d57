package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// envName is the variable of a key: KIMBAP_PROXY_LISTEN for proxy.listen.
func envName(key string) string {
	return "KIMBAP_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// variable is the environment variable of a setting.
func (s setting) variable() string {
	if s.env != "" {
		return s.env
	}
	return envName(s.key)
}

func variable(name string) place { return place{file: "environment variable " + name} }

func (l *loader) readEnvironment() {
	known := map[string]bool{keyName: true, keyName + "_FILE": true, nextKeyName: true, nextKeyName + "_FILE": true}
	for _, s := range l.order {
		name := s.variable()
		known[name] = true
		if text := lookup(l.env, name); text != "" {
			l.fromText(s, text, variable(name))
			if base := strings.TrimSuffix(name, "_FILE"); s.value == twinned && lookup(l.env, base) != "" {
				l.both(variable(name), base, name)
			}
		}
	}
	for _, pair := range l.env {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && !known[name] && l.looksLikeOurs(name) && !ofKubernetes(pair) {
			l.problem(variable(name), wrong{"no key has this variable", didYouMean(name, slices.Collect(maps.Keys(known)))})
		}
	}
}

// ofKubernetes reports whether a variable is as those that Kubernetes sets for each service of the
// namespace, such as one named kimbap-proxy-metrics.
func ofKubernetes(pair string) bool {
	return regexp.MustCompile(`^\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_[A-Z]+(_[A-Z]+)?)=|^\w+_PORT=[a-z]+://`).MatchString(pair)
}

// looksLikeOurs reports whether a variable begins like one of our sections, so
// that a typing error is seen. The variables that Kubernetes sets for a service
// named kimbap-proxy or the like are not ours.
func (l *loader) looksLikeOurs(name string) bool {
	if !strings.HasPrefix(name, envName("")) {
		return false // most of them
	}
	for _, s := range l.order {
		section, _, _ := strings.Cut(s.key, ".")
		rest, ok := strings.CutPrefix(name, envName(section)+"_")
		if !ok {
			continue
		}
		return rest != "PORT" && !strings.HasPrefix(rest, "PORT_") && !strings.HasPrefix(rest, "SERVICE_")
	}
	return false
}

func (l *loader) readFlags(flags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		at := place{file: "flag " + key}
		s, known := l.settings[key]
		switch {
		case key == "insecure-listen":
			if flags[key] != "true" && flags[key] != "false" {
				l.problem(at, wrong{fmt.Sprintf("it cannot be %q", flags[key]), "write true or false"})
			}
			l.cfg.Proxy.InsecureListen = flags[key] == "true"
		case known:
			l.fromText(s, flags[key], at)
		default:
			l.problem(at, l.unknown(key))
		}
	}
}

// fromText reads a setting from one line of text: lists are separated by
// commas, pairs are FROM=TO.
func (l *loader) fromText(s setting, text string, at place) {
	switch s.kind {
	case aSinks, aNotifiers:
		l.problem(at, wrong{s.key + " can be set in config.yaml only", "move it there"})
	case aList, aMap:
		var values []string
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				values = append(values, part)
			}
		}
		l.apply(s, values, at, nil)
	default:
		l.apply(s, []string{text}, at, nil)
	}
}

// The variables of the master key and of the one that shall follow it.
const (
	keyName     = "KIMBAP_MASTER_KEY"
	nextKeyName = "KIMBAP_MASTER_KEY_NEXT"
)

// readMasterKey takes the keys from their variables or the files that their
// twins name. Setting one means source: env when the source is left to auto.
func (l *loader) readMasterKey() {
	value, at, ok := l.secretVariable(keyName)
	next, _, nextOK := l.secretVariable(nextKeyName)
	if !ok || !nextOK {
		return
	}
	mk := &l.cfg.MasterKey
	switch {
	case mk.Source == "auto" && value != "":
		mk.Source, mk.Value, l.places["master_key.source"] = "env", runtime.NewSecret(value), at
	case mk.Source == "env" && value != "":
		mk.Value = runtime.NewSecret(value)
	case mk.Source == "env":
		l.problem(l.places["master_key.source"], wrong{"master_key.source is env, but there is no key", "set " + keyName + " or " + keyName + "_FILE"})
	case value != "":
		l.problem(at, wrong{"it is set, but master_key.source is " + mk.Source, "unset it, or write master_key: {source: env}"})
	}
	if mk.Source == "env" {
		mk.Next = runtime.NewSecret(next)
	}
}

// secretVariable reads a variable or the file that its twin names; false when
// something is wrong, which is noted.
func (l *loader) secretVariable(name string) (value string, at place, ok bool) {
	if l.was != nil {
		return l.keyAtStart(name)
	}
	value, at = lookup(l.env, name), variable(name)
	file := lookup(l.env, name+"_FILE")
	if file == "" {
		return value, at, true
	}
	if value != "" {
		l.both(at, name, name+"_FILE")
		return "", at, false
	}
	at = variable(name + "_FILE")
	value, err := l.secretFile(file, at)
	if err != nil {
		l.problem(at, err)
		return "", at, false
	}
	return value, at, true
}

// checkTogether looks at values that are right alone and wrong together, and at
// those that this version cannot honour.
func (l *loader) checkTogether() {
	c := l.cfg
	refuse := func(key string, err error) { l.problem(l.placeOf(key), err) }
	if c.Proxy.Listen == "" {
		refuse("proxy.listen", wrong{"the proxy needs an address to listen on", "write for example 127.0.0.1:7788"})
	} else if !loopback(c.Proxy.Listen) {
		if c.Proxy.Auth != "token" {
			refuse("proxy.listen", wrong{
				fmt.Sprintf("%s can be reached by others, so a token is needed", c.Proxy.Listen), "set proxy.auth to token, or listen on 127.0.0.1",
			})
		} else if !c.Proxy.InsecureListen {
			refuse("proxy.listen", wrong{
				fmt.Sprintf("%s would take tokens in clear from other machines", c.Proxy.Listen), "listen on 127.0.0.1, or accept it with: kimbap proxy --insecure-listen",
			})
		}
	}
	switch required := slices.ContainsFunc(c.Audit.Sinks, func(s Sink) bool { return s.Required }); {
	case c.Audit.Durability == "sink" && !required:
		refuse("audit.durability", wrong{"audit.durability is sink, and no sink is waited for", "give one of audit.sinks mode: required, or write full"})
	case c.Audit.Durability == "store" && c.Store.DSN.Empty():
		refuse("audit.durability", wrong{"audit.durability is store, and store.dsn names no database", "set store.dsn, or write full"})
	}
	if i := slices.IndexFunc(c.Audit.Sinks, func(s Sink) bool { return s.Type == "store" }); i >= 0 && c.Store.DSN.Empty() {
		refuse("audit.sinks", wrong{"a sink is of type store, and store.dsn names no database", "set store.dsn, or take the sink out"})
	}
	switch k := c.MasterKey; {
	case k.Source == "command" && (len(k.Command) == 0 || k.Command[0] == ""):
		refuse("master_key.source", wrong{"master_key.source is command, but there is no command", `write master_key: {source: command, command: [/usr/local/bin/key-service]}`})
	case k.Source == "transit" && (k.Transit.Address == "" || k.Transit.Key == "" || k.Transit.Token.Empty()):
		refuse("master_key.source", wrong{"master_key.source is transit, but the address, the key or the token is missing", "set master_key.transit.address, .key and .token_file"})
	}
}

// placeOf is where a key was set; a default is wrong only together with
// something else, and then the file is the place to change it.
func (l *loader) placeOf(key string) place {
	if p, ok := l.places[key]; ok {
		return p
	}
	return place{file: l.path}
}

// unknown says what the writer may have meant.
func (l *loader) unknown(key string) error {
	parent := key[:strings.LastIndexByte(key, '.')+1]
	var siblings []string
	for _, s := range l.order {
		if rest, ok := strings.CutPrefix(s.key, parent); ok {
			name, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(siblings, parent+name) {
				siblings = append(siblings, parent+name)
			}
		}
	}
	last := key[len(parent):]
	for _, s := range l.order { // right name, wrong section
		if strings.HasSuffix(s.key, "."+last) {
			return wrong{fmt.Sprintf("there is no key %q", key), "did you mean " + s.key + "?"}
		}
	}
	fix := didYouMean(key, siblings)
	if fix == "" {
		fix = "known here: " + strings.Join(siblings, ", ")
	}
	return wrong{fmt.Sprintf("there is no key %q", key), fix}
}

// didYouMean names the nearest of several words, or nothing.
func didYouMean(word string, words []string) string {
	best, at := 3, ""
	slices.Sort(words)
	for _, w := range words {
		if d := distance(word, w); d < best {
			best, at = d, w
		}
	}
	if at == "" {
		return ""
	}
	return "did you mean " + at + "?"
}

// distance is the number of single-letter edits between two words (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
