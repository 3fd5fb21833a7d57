package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
)

// shells are the forms that [Format] can write.
const shells = "sh, fish, pwsh, cmd, dotenv, docker, json"

// UsualShell is the one whose form is meant when none is named: that of sh, and on
// Windows that of PowerShell where SHELL tells of no shell of Unix.
func UsualShell(system string, getenv func(name string) string) string {
	if system == "windows" && getenv("SHELL") == "" {
		return "pwsh"
	}
	return "sh"
}

// Take is what to write in a shell so that it takes the variables of kimbap env, or with
// unset gives them back.
func Take(shell string, unset bool) string {
	command := "kimbap env"
	if unset {
		command += " --unset"
	}
	if shell == "pwsh" {
		return command + " | Out-String | Invoke-Expression"
	}
	return `eval "$(` + command + `)"`
}

// Where containers find the two certificate files and the folder of settings
// that docker mounts.
const (
	containerCA       = "/etc/kimbap/ca.pem"
	containerBundle   = "/etc/kimbap/bundle.pem"
	containerSettings = "/etc/kimbap/clients"
)

// Format writes variables for a shell, or takes them back with unset, and gives back what
// p.Before has. docker is a list of `docker run` arguments that also mounts the certificates.
func Format(shell string, p Place, unset bool) (string, error) {
	if shell == "docker" {
		if unset {
			return "", fmt.Errorf("a container's environment ends with it: there is nothing to unset")
		}
		return docker(p)
	}
	vars := Variables(p)
	if unset {
		vars = slices.DeleteFunc(vars, func(v Variable) bool { return slices.Contains(p.Theirs, v.Name) })
	}
	if shell == "json" {
		return asJSON(vars, unset)
	}
	set, take, ok := syntax(shell)
	if !ok {
		return "", fmt.Errorf("unknown shell %q: one of %s", shell, shells)
	}
	taking, setting := []Variable(nil), vars
	switch keeps := p.Before != nil && shell != "dotenv"; {
	case keeps && unset:
		taking, setting = append(vars, Variable{Name: beforeVar}), givenBack(vars, p.Before)
	case keeps:
		setting = append(vars, keeping(p))
	case unset:
		taking, setting = vars, nil
	}
	var lines []string
	for _, v := range taking { // all of them before any is set: on Windows http_proxy is HTTP_PROXY
		lines = append(lines, take(v.Name))
	}
	for _, v := range setting {
		if tellable(shell, v.Value) {
			lines = append(lines, set(v.Name, v.Value))
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// quotePowerShell makes v one word. PowerShell takes the curly quotes for the straight one.
func quotePowerShell(v string) string {
	var b strings.Builder
	for _, r := range v {
		if strings.ContainsRune("'\u2018\u2019\u201a\u201b", r) {
			b.WriteRune(r)
		}
		b.WriteRune(r)
	}
	return "'" + b.String() + "'"
}

// syntax returns how a shell sets and unsets one variable.
func syntax(shell string) (set func(name, value string) string, unset func(name string) string, ok bool) {
	switch shell {
	case "sh", "bash", "zsh":
		return func(n, v string) string { return "export " + n + "=" + system.QuotePOSIX(v) },
			func(n string) string { return "unset " + n }, true
	case "fish":
		return func(n, v string) string { return "set -gx " + n + " " + quoteFish(v) },
			func(n string) string { return "set -e " + n }, true
	case "pwsh", "powershell":
		return func(n, v string) string { return "$env:" + n + " = " + quotePowerShell(v) },
			func(n string) string { return "Remove-Item -ErrorAction SilentlyContinue Env:" + n }, true
	case "cmd":
		return func(n, v string) string { return `set "` + n + "=" + v + `"` },
			func(n string) string { return `set "` + n + `="` }, true
	case "dotenv":
		return func(n, v string) string { return n + "=" + system.QuotePOSIX(v) },
			func(n string) string { return n + "=" }, true
	}
	return nil, nil, false
}

func asJSON(vars []Variable, unset bool) (string, error) {
	out := make(map[string]any, len(vars))
	for _, v := range vars {
		if out[v.Name] = v.Value; unset {
			out[v.Name] = nil
		}
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return string(data) + "\n", err
}

// docker writes words for $(kimbap env --shell docker), which the shell splits
// and does not unquote: a value that it would take apart is refused.
func docker(p Place) (string, error) {
	args := []string{
		"--add-host=host.docker.internal:host-gateway",
		"--volume=" + p.CA + ":" + containerCA + ":ro",
		"--volume=" + p.Bundle + ":" + containerBundle + ":ro",
		"--volume=" + p.Settings + ":" + containerSettings + ":ro",
	}
	if p.ProxyFile != "" {
		args = append(args, "--env-file="+p.ProxyFile)
	}
	for _, v := range Variables(InContainer(p)) {
		if p.ProxyFile != "" && v.Value == p.Proxy {
			continue
		}
		args = append(args, "--env="+v.Name+"="+v.Value)
	}
	for _, arg := range args {
		if strings.ContainsAny(arg, " \t\r\n") {
			return "", fmt.Errorf("the shell would take %q apart; use a home without spaces in its path, or --shell json", arg)
		}
	}
	return strings.Join(args, " ") + "\n", nil
}

// ProxyVariables are the variables that name a proxy, one a line, as docker reads a
// file of them.
func ProxyVariables(proxy string) string {
	var b strings.Builder
	for _, name := range proxyNames {
		b.WriteString(name + "=" + proxy + "\n")
	}
	return b.String()
}

func quoteFish(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(v) + "'"
}
