package services

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// program is what the actions of a command or applescript service share.
type program struct {
	spec runtime.CommandSpec
	app  string // target_app
}

const (
	programTimeout = time.Minute
	longestProgram = time.Hour
)

// programs reads the head of a service whose actions are programs on this machine.
func (p *parser) programs(o *object) {
	adapter := p.s.Adapter
	p.program = &program{spec: runtime.CommandSpec{Timeout: programTimeout, SuccessCodes: []int{0}}}
	for _, field := range []string{"base_url", "hosts", "vars", "allow_http", "strict", "placeholders"} {
		if n := o.get(field); n != nil {
			p.bad(n, "leave it out", "%s belongs to the adapter http", field)
		}
	}
	p.programAuth(o)
	if adapter == "command" {
		if n := o.get("target_app"); n != nil {
			p.bad(n, "leave it out", "target_app belongs to the adapter applescript")
		}
		p.commandSpec(o)
	} else {
		if n := o.get("command_spec"); n != nil {
			p.bad(n, "leave it out", "command_spec belongs to the adapter command")
		}
		p.program.app = o.needed("target_app", "add target_app: Notes")
		if strings.ContainsAny(p.program.app, "\"\\\r\n") {
			p.bad(o.at("target_app"), "write the name as the Finder shows it", "target_app is not the name of an application")
		}
	}
}

// programAuth reads auth: of which a program can only use the secret itself.
func (p *parser) programAuth(o *object) {
	before := len(p.problems)
	p.auth(o)
	a := p.s.Auth
	switch a.Type {
	case runtime.AuthNone, runtime.AuthBearer, runtime.AuthBasic, "":
	default:
		p.bad(o.at("auth"), "use type: bearer, and command_spec.env_inject for the place", "auth type %s is a place in an HTTP request, and this service has none", a.Type)
	}
	if len(p.problems) == before && (a.Caller != runtime.CallerReplace && a.Caller != "" || a.KeepIf != "" || a.Form != "") {
		p.bad(o.at("auth"), "leave it out", "auth.caller, auth.keep_if and auth.form_field are for what callers send over HTTP")
	}
}

func (p *parser) commandSpec(o *object) {
	n := o.get("command_spec")
	if n == nil {
		p.bad(o.node, "add command_spec: {executable: git}", "service needs the field command_spec")
		return
	}
	c := p.object(n, "command_spec", "executable", "json_flag", "timeout", "env_inject", "env_passthrough", "working_dir", "merge_stderr", "success_codes")
	spec := &p.program.spec
	spec.Executable = c.needed("executable", "add executable: git")
	if e := spec.Executable; e != "" && !executableName().MatchString(e) && !(filepath.IsAbs(e) && filepath.Clean(e) == e) {
		p.bad(c.at("executable"), "write git, or /usr/bin/git", "command_spec.executable must be the name of a program or an absolute path")
	}
	spec.JSONFlag = strings.Fields(c.text("json_flag"))
	if f := spec.JSONFlag; len(f) > 0 && !strings.HasPrefix(f[0], "-") {
		p.bad(c.at("json_flag"), "write it like --json", "command_spec.json_flag is not a flag")
	}
	p.timeout(c, spec)
	p.environment(c, spec)
	spec.WorkingDir = c.text("working_dir")
	if d := spec.WorkingDir; d != "" && d != "." && !(filepath.IsAbs(d) && filepath.Clean(d) == d) {
		p.bad(c.at("working_dir"), "write an absolute path, or . for the folder of the call", "command_spec.working_dir must be an absolute path or .")
	}
	spec.MergeStderr = c.boolean("merge_stderr", false)
	if codes := c.list("success_codes"); len(codes) > 0 {
		spec.SuccessCodes = nil
		for _, n := range codes {
			code, ok := wholeNumber(n)
			if !ok || code < 0 || code > 255 {
				p.wrong(n, "command_spec.success_codes", "a list of exit codes from 0 to 255")
			}
			spec.SuccessCodes = append(spec.SuccessCodes, code)
		}
	}
}

var (
	executableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`) })
	variableName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

func (p *parser) timeout(c *object, spec *runtime.CommandSpec) {
	n := c.get("timeout")
	if n == nil {
		return
	}
	d, err := runtime.ParseSpan(n.Value)
	if err != nil || d < time.Second || d > longestProgram {
		p.bad(n, "write it like 30s or 5m", "command_spec.timeout must be a time from 1s to 1h")
		return
	}
	spec.Timeout = d
}

// environment reads the variables of the program. None of them may make another
// program of it, or open kimbap itself to it.
func (p *parser) environment(c *object, spec *runtime.CommandSpec) {
	uses := ""
	for _, v := range c.pairs("env_inject") {
		p.checkVariable(v.key, "command_spec.env_inject", v.name)
		text := p.textOf(v.value, "command_spec.env_inject."+v.name)
		for _, hole := range holes(text) {
			if hole != "credential" && hole != "username" {
				p.bad(v.value, "write {credential}, or {username}", "command_spec.env_inject.%s: {%s} is neither {credential} nor {username}", v.name, hole)
			}
		}
		if strings.ContainsAny(text, "\x00\r\n") {
			p.bad(v.value, "write it on one line", "command_spec.env_inject.%s may hold no line break", v.name)
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[v.name] = text
		uses += text
	}
	for _, n := range c.list("env_passthrough") {
		name := p.textOf(n, "command_spec.env_passthrough")
		p.checkVariable(n, "command_spec.env_passthrough", name)
		if _, both := spec.Env[name]; both {
			p.bad(n, "keep one of the two", "%s is both in env_inject and in env_passthrough", name)
		}
		spec.Pass = append(spec.Pass, name)
	}
	wants, has := strings.Contains(uses, "{credential}"), p.s.Auth.Ref != ""
	if wants && !has {
		p.bad(c.at("env_inject"), "add auth: {type: bearer, credential_ref: gh.token}", "env_inject wants a credential, and auth names none")
	}
	if has && !wants {
		p.bad(c.at("env_inject"), "add env_inject: {GH_TOKEN: \"{credential}\"}", "auth names a credential, and no variable of env_inject takes it")
	}
}

func (p *parser) checkVariable(n *yaml.Node, what, name string) {
	upper := strings.ToUpper(name)
	switch {
	case !variableName().MatchString(name):
		p.bad(n, "use letters, digits and underscores", "%s: %s is not the name of a variable", what, shown(name))
	case upper == "PATH", upper == "BASH_ENV", upper == "ENV", upper == "IFS",
		strings.HasPrefix(upper, "LD_"), strings.HasPrefix(upper, "DYLD_"), strings.HasPrefix(upper, "KIMBAP_"):
		p.bad(n, "leave it out", "%s may not set %s, which decides what is run", what, name)
	}
}

// programAction reads one action of a service of programs.
func (p *parser) programAction(a pair, op *operation) {
	before := len(p.problems)
	spec := p.program.spec // a copy
	spec.Styles = map[string]runtime.Style{}
	for _, field := range []string{"method", "path", "host", "allow_slash", "websocket", "request", "match", "pagination", "retry"} {
		if n := op.get(field); n != nil {
			p.bad(n, "leave it out", "%s.%s belongs to the adapter http", a.name, field)
		}
	}
	op.action = &runtime.Action{
		Ref: runtime.Ref(p.s.Name + "." + a.name), Service: p.s.Name, Name: a.name, Backend: "command", Auth: p.s.Auth, Source: p.sourceOf(a.key),
		Description: op.description(a.name),
		Idempotent:  op.boolean("idempotent", false),
		AuditPlain:  op.oneOf("audit", "keyed", "keyed", "plain") == "plain",
		Command:     &spec,
	}
	p.programRisk(op)
	p.arguments(op)
	if p.s.Adapter == "command" {
		p.commandWords(op, &spec)
	} else {
		p.script(op, &spec)
	}
	p.programAnswer(op, &spec)
	for _, name := range op.order {
		arg := op.args[name]
		if arg.rest {
			p.bad(arg.node, "declare each argument", "%s.%s: what is not declared can be no argument of a program", op.name, name)
		}
		op.action.Params = append(op.action.Params, arg.Param)
		p.style(op, arg, &spec)
	}
	if len(p.problems) > before {
		return
	}
	op.action.Digest = p.definition.digest(op.action, nil)
	p.s.Actions = append(p.s.Actions, op.action)
}

// programRisk is high unless the file says otherwise: nothing about a program
// tells how much harm it can do.
func (p *parser) programRisk(op *operation) {
	level := "high"
	if n := op.get("risk"); n != nil {
		r := p.object(n, op.name+".risk", "level", "grants_access")
		if op.action.GrantsAccess = r.boolean("grants_access", false); op.action.GrantsAccess {
			level = "critical"
		}
		level = r.oneOf("level", level, levels()...)
		if op.action.GrantsAccess && level != "critical" {
			p.bad(r.at("level"), "write level: critical", "%s hands out lasting access (grants_access), so its risk is critical", op.name)
		}
	}
	op.action.Risk = runtime.Risk(level)
}

// commandWords reads the subcommand. A "--" at its end goes behind the flags.
func (p *parser) commandWords(op *operation, spec *runtime.CommandSpec) {
	if n := op.get("inline_script"); n != nil {
		p.bad(n, "leave it out", "%s.inline_script belongs to the adapter applescript", op.name)
	}
	n := op.get("command")
	switch {
	case n == nil:
		p.bad(op.node, "add command: status, or a list of words", "%s needs the field command", op.name)
	case n.Kind == yaml.SequenceNode:
		for _, word := range n.Content {
			spec.Fixed = append(spec.Fixed, p.textOf(word, op.label("command")))
		}
	default:
		spec.Fixed = strings.Fields(p.textOf(n, op.label("command")))
	}
	for _, word := range spec.Fixed {
		if len(holes(word)) > 0 {
			p.bad(n, "give the argument style: positional or style: flag", "%s.command: %s: arguments are put in by their style", op.name, shown(word))
		}
		if word == "" || strings.ContainsAny(word, "\x00\r\n") {
			p.bad(n, "leave it out, or write a list of words: [pr, list]", "%s.command has an empty word, or one with a line break", op.name)
		}
	}
	if last := len(spec.Fixed) - 1; last >= 0 && spec.Fixed[last] == "--" {
		spec.Fixed, spec.Dashes = spec.Fixed[:last], true
	}
	if slices.Contains(spec.Fixed, "--") {
		p.bad(n, "put it at the end", "%s.command: behind -- nothing can be a flag any more", op.name)
	}
}

// style says how an argument stands on the command line.
func (p *parser) style(op *operation, a *argument, spec *runtime.CommandSpec) {
	if p.s.Adapter != "command" || a.Split != "" && !slices.Contains(holes(a.Split), a.Name) {
		return
	}
	otherwise := runtime.StyleFlag
	if a.Type == runtime.TypeBoolean {
		otherwise = runtime.StyleBoolean
	}
	o := &object{source: p.source, node: a.node, name: op.name + "." + a.Name}
	style := runtime.Style(o.oneOf("style", string(otherwise), string(runtime.StyleFlag), string(runtime.StylePositional), string(runtime.StyleBoolean)))
	if style == runtime.StyleBoolean && a.Type != runtime.TypeBoolean {
		p.bad(o.at("style"), "write type: boolean, or style: flag", "%s.%s: a flag without a value is for an argument of type boolean", op.name, a.Name)
	}
	if style == runtime.StyleBoolean && a.Default == true {
		p.bad(a.node, "leave the default out", "%s.%s: a flag without a value cannot be taken back, so it is not the default", op.name, a.Name)
	}
	spec.Styles[a.Name] = style
}

// script reads what osascript is to run.
func (p *parser) script(op *operation, spec *runtime.CommandSpec) {
	if n := op.get("command"); n != nil {
		p.bad(n, "leave it out", "%s.command belongs to the adapter command", op.name)
	}
	n := op.get("inline_script")
	if n == nil {
		p.bad(op.node, "add inline_script: {language: jxa, source: …}", "%s needs the field inline_script", op.name)
		return
	}
	s := p.object(n, op.name+".inline_script", "language", "source")
	spec.Script = &runtime.Script{
		Language: s.oneOf("language", "jxa", "jxa", "applescript"),
		Source:   s.needed("source", "add the script"), App: p.program.app,
	}
	for _, name := range op.order {
		if strings.Contains(spec.Script.Source, "{"+name+"}") {
			p.bad(s.at("source"), "read args."+name, "%s.inline_script.source: {%s} is not filled in; arguments are in args", op.name, name)
		}
	}
}

func (p *parser) programAnswer(op *operation, spec *runtime.CommandSpec) {
	if n := op.get("response"); n != nil {
		r := p.object(n, op.name+".response", "type", "filter", "text_filter")
		r.oneOf("type", "", paramTypes()...)
		spec.Filter, spec.TextFilter = p.filter(r, "filter"), p.filter(r, "text_filter")
	}
	spec.Errors = p.mappings(op, "exit codes from 1 to 255", 1, 255)
	for code := range maps.Keys(spec.Errors) {
		if slices.Contains(spec.SuccessCodes, code) {
			p.bad(op.at("errors"), "remove it from one of the two", "%s.errors: %d is among success_codes", op.name, code)
		}
	}
}
