package runner

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/netip"
	"net/url"
	goruntime "runtime"
	"slices"
	"strings"
	"unicode"
)

// beforeVar holds, in a shell that has taken the variables, what the user had set in their
// place: JSON in base64, which is one word of every shell. As a setting of kimbap's no
// program of kimbap run gets it.
const beforeVar = ours + "ENV_BEFORE"

// Kept is what was kept of the user's own values in a shell with the environment env, nil
// where no variables were taken.
func Kept(env map[string]string) map[string]string {
	kept, _ := remembered(env)
	return kept
}

// Given are the placeholders that a shell with the environment env has got, by their
// variables: when it gives them back, their services may be gone.
func Given(env map[string]string) map[string]string {
	_, given := remembered(env)
	return given
}

// givenMark stands before the name of a variable whose value is a placeholder of ours. No
// variable's own name can begin with it.
const givenMark = "="

// remembered is what the shell keeps for us: of the user's own values, and of ours.
func remembered(env map[string]string) (kept, given map[string]string) {
	text, taken := env[beforeVar]
	if !taken {
		return nil, nil
	}
	var all map[string]string
	if data, err := base64.RawURLEncoding.DecodeString(text); err != nil || json.Unmarshal(data, &all) != nil {
		all = nil
	}
	kept, given = map[string]string{}, map[string]string{}
	for name, value := range all {
		if variable, ours := strings.CutPrefix(name, givenMark); ours {
			given[variable] = value
		} else {
			kept[name] = value
		}
	}
	return kept, given
}

// Before is what is to be kept of env when it takes the variables of a place. Where they were
// taken already it is what was kept then, since what stands there now is ours. Every program
// of the shell can read it: a key that a placeholder stands for is not in it, and neither is
// a proxy with a password, which is withheld.
func Before(p Place, env map[string]string) (kept map[string]string, withheld []string) {
	if kept = Kept(env); kept != nil {
		return kept, nil
	}
	kept = map[string]string{}
	for _, v := range Variables(p) {
		value, had := env[v.Name]
		_, key := p.Placeholders[v.Name]
		switch {
		case !had || key || value == v.Value:
		case slices.Contains(proxyNames, v.Name) && hasUser(value):
			withheld = append(withheld, v.Name)
		default:
			kept[v.Name] = value
		}
	}
	return kept, withheld
}

// Theirs are the variables of a place that in env have a value of the user's own, so that
// they stay when the others are taken back. Where the variables were taken, what was kept
// then says what the user's own is; where nothing was kept, as by who takes them as JSON, they
// may have led to a proxy of ours that has another port by now.
func Theirs(p Place, env map[string]string) (names []string) {
	if Kept(env) != nil {
		return nil
	}
	led := slices.ContainsFunc(proxyNames, func(name string) bool { return ourProxy(p, env, valueOf(name, env)) })
	for _, v := range Variables(p) {
		value, ours := valueOf(v.Name, env), false
		switch {
		case slices.Contains(proxyNames, v.Name):
			ours = ourProxy(p, env, value)
		case strings.EqualFold(v.Name, "NO_PROXY"):
			ours = led && !slices.ContainsFunc(strings.Split(value, ","), func(host string) bool { return !slices.Contains(keptOff, host) })
		case v.Name == javaVar:
			ours = ourJavaArgs().MatchString(value)
		}
		if !ours && !slices.Contains([]string{"", v.Value, p.CA, p.Bundle}, value) {
			names = append(names, v.Name)
		}
	}
	return names
}

// ourProxy reports whether a proxy in env is surely one that kimbap has put there: it has our
// user, or is that of the place or of our options for Java beside it, or is on this machine
// beside a certificate of ours.
func ourProxy(p Place, env map[string]string, proxy string) bool {
	u, err := url.Parse(proxy)
	switch {
	case proxy == "":
		return false
	case proxy == p.Proxy, strings.Contains(valueOf(javaVar, env), "/"+javaArgs(proxy)+`"`):
		return true
	case err != nil:
		return false
	}
	addr, _ := netip.ParseAddr(u.Hostname())
	here := u.Hostname() == "localhost" || addr.IsLoopback()
	return u.User.Username() == proxyUser || here && slices.ContainsFunc(slices.Concat(replacing, adding), func(name string) bool {
		value := valueOf(name, env)
		return value != "" && (value == p.CA || value == p.Bundle)
	})
}

// valueOf is the value of a variable, which on Windows has one name in small and large letters.
func valueOf(name string, env map[string]string) string {
	value, had := env[name]
	if had || goruntime.GOOS != "windows" {
		return value
	}
	for other, value := range env {
		if strings.EqualFold(name, other) {
			return value
		}
	}
	return ""
}

// hasUser reports whether a proxy comes with a user or a password, or may do so: programs
// take one without a scheme too.
func hasUser(proxy string) bool {
	u, err := url.Parse(proxy)
	return err != nil || u.User != nil || strings.Contains(proxy, "@")
}

// givenBack are the values from before of variables that were taken.
func givenBack(vars []Variable, before map[string]string) (out []Variable) {
	for _, v := range vars {
		if value, had := before[v.Name]; had {
			out = append(out, Variable{v.Name, value})
		}
	}
	return out
}

// tellable reports whether a shell can be told a value: in cmd nothing stands for a quote or
// the end of a line, and what follows one may be a command.
func tellable(shell, value string) bool {
	return shell != "cmd" || !strings.ContainsFunc(value, func(r rune) bool { return r == '"' || unicode.IsControl(r) })
}

// keeping is the variable that keeps them, and which placeholders were given.
func keeping(p Place) Variable {
	all := maps.Clone(p.Before)
	for _, given := range []map[string]string{p.Given, p.Placeholders} {
		for name, value := range given {
			all[givenMark+name] = value
		}
	}
	data, _ := json.Marshal(all) // texts
	return Variable{beforeVar, base64.RawURLEncoding.EncodeToString(data)}
}
