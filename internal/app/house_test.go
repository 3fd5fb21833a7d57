package app_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// The plan of the house. docs/architecture.md draws it; this file keeps it.

const module = "github.com/kimbap-run/kimbap"

// room is one package of the plan: its floor, and which packages of ours it
// may import beside what its floor allows by itself.
type room struct {
	floor int
	may   []string
}

var plan = map[string]room{
	"cmd/kimbap":               {6, []string{"internal/app", "internal/remote", "internal/config", "runtime"}},
	"internal/app":             {5, []string{"*"}},
	"internal/connected":       {5, []string{"runtime", "services/catalog", "certs", "proxy/detour", "proxy/peer", "internal/remote", "internal/runner", "internal/runner/netns", "internal/home", "internal/outfit", "internal/socket", "internal/lease"}},
	"proxy":                    {4, []string{"runtime", "runtime/recognised", "classifier", "classifier/gitpush", "proxy/detour", "proxy/gate", "proxy/http1", "proxy/http2", "proxy/peer"}},
	"internal/server":          {4, []string{"runtime", "internal/object", "internal/socket"}},
	"internal/server/console":  {4, []string{"runtime"}},
	"internal/remote":          {4, []string{"runtime"}},
	"internal/mcp":             {4, []string{"runtime", "internal/object", "internal/socket"}},
	"internal/runner":          {4, []string{"runtime", "internal/runner/netns"}},
	"internal/runner/agents":   {4, []string{"runtime", "internal/runner"}},
	"internal/runner/netns":    {4, nil},
	"internal/home":            {4, []string{"runtime", "services"}},
	"internal/installer":       {4, []string{"runtime", "classifier", "services", "services/catalog", "services/openapi", "services/review", "internal/home"}},
	"internal/evaluator":       {4, []string{"runtime", "services/jq"}},
	"internal/call":            {4, []string{"runtime", "runtime/recognised", "classifier", "services", "services/jq", "services/rest", "services/request"}},
	"internal/draft":           {4, []string{"runtime", "runtime/recognised", "runtime/audit/record", "runtime/policy", "runtime/policy/condition", "classifier", "services"}},
	"internal/database":        {4, []string{"runtime", "runtime/store/postgres", "runtime/store/sqlite", "runtime/store/tables", "internal/home", "internal/roster"}},
	"internal/signin":          {4, []string{"runtime", "runtime/connector", "runtime/vault", "services", "services/catalog"}},
	"internal/neighbours":      {4, []string{"runtime", "internal/home"}},
	"internal/workers":         {4, []string{"certs", "runtime/sandbox", "runtime/sandbox/frame", "runtime/sandbox/worker"}},
	"internal/mask":            {4, []string{"runtime", "runtime/audit/record", "runtime/connector", "services/rest/scrub"}},
	"internal/waiting":         {4, []string{"runtime", "runtime/approval", "internal/crowd"}},
	"internal/tenants":         {4, []string{"runtime", "runtime/policy", "internal/home"}},
	"internal/pass":            {4, []string{"runtime", "internal/home"}},
	"internal/project":         {4, []string{"runtime", "services", "services/catalog", "internal/errata", "internal/home"}},
	"internal/truststore":      {4, []string{"runtime", "services", "services/catalog", "certs", "certs/stores", "internal/home"}},
	"internal/toolbox":         {4, []string{"runtime", "runtime/sandbox", "services", "services/catalog", "internal/home"}},
	"internal/resource":        {4, nil},
	"internal/roster":          {4, []string{"runtime", "internal/home", "runtime/approval/notify", "runtime/audit/outlet"}},
	"internal/setup":           {4, []string{"runtime", "internal/home", "internal/runner", "internal/runner/agents"}},
	"internal/logline":         {4, []string{"runtime"}},
	"internal/stopwatch":       {4, []string{"runtime"}},
	"internal/outfit":          {4, []string{"runtime", "services", "certs", "internal/home", "internal/runner"}},
	"internal/object":          {4, []string{"runtime"}},
	"internal/socket":          {4, []string{"runtime"}},
	"internal/explain":         {4, []string{"runtime", "runtime/recognised", "runtime/policy", "runtime/vault", "classifier", "services", "internal/draft"}},
	"internal/keytrial":        {4, []string{"runtime", "runtime/vault", "services", "internal/call"}},
	"internal/dial":            {4, []string{"runtime", "certs", "proxy/egress"}},
	"internal/notices":         {4, []string{"runtime", "runtime/approval", "runtime/approval/notify", "runtime/approval/notify/email", "runtime/approval/notify/slack", "runtime/approval/notify/telegram", "runtime/approval/notify/webhook", "internal/config"}},
	"internal/lease":           {4, nil},
	"internal/tally":           {4, []string{"runtime", "internal/outfit"}},
	"internal/crowd":           {4, []string{"runtime", "runtime/audit", "runtime/audit/record"}},
	"internal/errata":          {4, []string{"runtime", "runtime/policy", "classifier", "services", "services/jq"}},
	"internal/trial":           {4, []string{"runtime", "certs", "classifier", "services", "services/jq", "internal/config"}},
	"internal/probe":           {4, []string{"runtime", "internal/runner"}},
	"runtime/sandbox":          {4, []string{"runtime", "runtime/sandbox/frame", "runtime/sandbox/journal"}},
	"runtime/sandbox/journal":  {2, []string{"runtime"}},
	"runtime/sandbox/worker":   {4, []string{"runtime/sandbox/frame", "runtime/sandbox/gate", "runtime/sandbox/vm"}},
	"runtime/sandbox/vm":       {4, []string{"runtime/sandbox/frame", "runtime/sandbox/gate"}},
	"runtime/sandbox/gate":     {4, []string{"runtime/sandbox/frame"}},
	"runtime/sandbox/frame":    {1, nil},
	"services":                 {3, []string{"runtime", "runtime/recognised", "classifier", "classifier/gitpush", "classifier/strictjson", "services/request"}},
	"services/request":         {3, []string{"runtime"}},
	"services/rest":            {3, []string{"runtime", "certs", "classifier", "proxy/gate", "proxy/http1", "services/request", "services/rest/gulp", "services/rest/outbox", "services/rest/scrub", "services/rest/witness"}},
	"services/rest/gulp":       {3, nil},
	"services/rest/outbox":     {3, []string{"proxy/http1"}},
	"services/rest/scrub":      {3, nil},
	"services/rest/witness":    {3, []string{"runtime"}},
	"services/jq":              {3, []string{"runtime"}},
	"services/command":         {3, []string{"runtime", "services/request"}},
	"services/openapi":         {3, []string{"runtime", "services"}},
	"services/export":          {3, []string{"runtime", "services"}},
	"services/review":          {3, []string{"runtime", "services"}},
	"services/catalog":         {3, []string{"services"}},
	"runtime/store/tables":     {3, []string{"runtime", "runtime/identity", "runtime/approval", "runtime/vault", "runtime/audit/record", "runtime/audit/history", "runtime/limit", "runtime/sandbox/journal"}},
	"runtime/store/sqlite":     {3, []string{"runtime", "runtime/store/tables"}},
	"runtime/store/postgres":   {3, []string{"runtime", "runtime/store/tables"}},
	"runtime/limit":            {2, []string{"runtime"}},
	"runtime/identity":         {2, []string{"runtime"}},
	"runtime/policy":           {2, []string{"runtime", "runtime/policy/condition"}},
	"runtime/policy/graft":     {2, nil},
	"runtime/policy/condition": {2, []string{"runtime", "classifier"}},
	"runtime/recognised":       {2, []string{"runtime", "classifier"}},
	"runtime/approval":         {2, []string{"runtime", "runtime/approval/canon", "classifier"}},
	"runtime/approval/canon":   {2, []string{"runtime"}},

	"runtime/approval/notify":          {2, []string{"runtime", "runtime/approval"}},
	"runtime/approval/notify/webhook":  {2, []string{"runtime/approval", "runtime/approval/notify"}},
	"runtime/approval/notify/slack":    {2, []string{"runtime/approval/notify"}},
	"runtime/approval/notify/telegram": {2, []string{"runtime/approval/notify"}},
	"runtime/approval/notify/email":    {2, []string{"runtime/approval/notify"}},

	"runtime/vault":               {2, []string{"runtime"}},
	"runtime/vault/wrap":          {2, []string{"runtime", "runtime/vault"}},
	"runtime/connector":           {2, []string{"runtime", "runtime/vault"}},
	"runtime/audit":               {2, []string{"runtime", "runtime/audit/holder", "runtime/audit/ledger", "runtime/audit/outlet", "runtime/audit/receipt", "runtime/audit/record", "runtime/audit/segment"}},
	"runtime/audit/holder":        {2, nil},
	"runtime/audit/ledger":        {2, []string{"runtime/audit/checkpoint", "runtime/audit/holder", "runtime/audit/record", "runtime/audit/segment"}},
	"runtime/audit/outlet":        {2, []string{"runtime"}},
	"runtime/audit/receipt":       {2, []string{"runtime/audit/segment"}},
	"runtime/audit/record":        {2, []string{"runtime"}},
	"runtime/audit/segment":       {2, []string{"runtime/audit/record"}},
	"runtime/audit/history":       {2, []string{"runtime", "runtime/audit/record", "runtime/audit/segment"}},
	"runtime/audit/proof":         {2, []string{"runtime", "runtime/audit/segment", "runtime/audit/checkpoint"}},
	"runtime/audit/checkpoint":    {2, nil},
	"runtime/audit/witness":       {2, []string{"runtime/audit/checkpoint", "runtime/audit/holder", "runtime/audit/ledger", "runtime/audit/receipt", "runtime/audit/record", "runtime/audit/segment"}},
	"runtime/audit/anchor":        {2, []string{"runtime/audit/sink", "runtime/audit/witness"}},
	"runtime/audit/sink/file":     {2, []string{"runtime/audit/holder", "runtime/audit/outlet"}},
	"runtime/audit/sink/database": {2, []string{"runtime/audit/outlet"}},
	"runtime/audit/sink/stream":   {2, []string{"runtime/audit/outlet"}},
	"runtime/audit/sink/syslogd":  {2, []string{"runtime/audit/outlet"}},
	"runtime/audit/sink/webhook":  {2, []string{"runtime/audit/outlet", "runtime/audit/sink"}},
	"runtime/audit/sink/otlp":     {2, []string{"runtime/audit/outlet", "runtime/audit/sink"}},
	"runtime/audit/sink":          {2, []string{"runtime", "runtime/audit/outlet"}},
	"runtime":                     {1, nil},
	"classifier":                  {1, []string{"classifier/graphql", "classifier/strictjson"}},
	"classifier/gitpush":          {1, nil},
	"classifier/graphql":          {1, []string{"classifier/strictjson"}},
	"classifier/strictjson":       {1, nil},
	ground:                        {0, nil},
	"certs":                       {1, nil},
	"certs/stores":                {1, nil},
	"internal/config":             {1, []string{"runtime"}},
	"proxy/detour":                {1, nil},
	"proxy/egress":                {1, nil},
	"proxy/gate":                  {1, nil},
	"proxy/http1":                 {1, nil},
	"proxy/http2":                 {1, []string{"proxy/http1"}},
	"proxy/peer":                  {2, []string{"runtime"}},
}

// ground is what all rooms stand on: the differences between operating systems.
const ground = "internal/system"

// doubles are test packages beside the room they stand in for, imported by tests only.
var doubles = []string{"proxy/egress/egresstest", "proxy/http2/http2test", "runtime/runtimetest", "runtime/store/storetest", "runtime/store/postgres/postgrestest", "services/servicestest", "internal/app/apptest", "runtime/audit/audittest", "runtime/approval/notify/notifytest", "runtime/vault/wrap/wraptest"}

// owners: who may import an outside module. "^" marks floors 4 to 6. With no
// owner it is for tests.
var owners = map[string][]string{
	"github.com/elazarl/goproxy":            {"proxy"},
	"github.com/dop251/goja":                {"runtime/sandbox/gate", "runtime/sandbox/vm"},
	"github.com/evanw/esbuild":              {"runtime/sandbox/gate"},
	"modernc.org/sqlite":                    {"runtime/store/sqlite"},
	"github.com/jackc/pgx/v5":               {"runtime/store/postgres"},
	"gopkg.in/yaml.v3":                      {"services", "runtime/policy", "runtime/policy/graft", "internal/config"},
	"cel.dev/cel-go":                        {"runtime/policy/condition"},
	"golang.org/x/crypto":                   {"runtime/approval", "certs"},
	"github.com/go-chi/chi/v5":              {"internal/server"},
	"github.com/spf13/cobra":                {"cmd/kimbap"},
	"github.com/spf13/pflag":                {"cmd/kimbap"},
	"github.com/itchyny/gojq":               {"services/jq"},
	"github.com/santhosh-tekuri/jsonschema": nil,
	"github.com/getkin/kin-openapi":         nil, // its initialisation takes 10 ms, and cmd/kimbap has 6 for all
	"filippo.io/age":                        {"runtime/vault"},
	"github.com/zalando/go-keyring":         {"runtime/vault/wrap"},
	"github.com/prometheus/client_golang":   {"internal/server"},
	"github.com/modelcontextprotocol":       {"internal/mcp"},
	"github.com/andybalholm/brotli":         {"services/rest/scrub"},
	"github.com/klauspost/compress":         {"services/rest/scrub"},
	"github.com/hashicorp/golang-lru/v2":    {"certs", "classifier", "runtime/policy"},
	"golang.org/x/net/http2":                {"proxy/http2", "services/rest"},
	"golang.org/x/oauth2":                   {"runtime/connector"},
	"google.golang.org/grpc":                nil,
	"google.golang.org/protobuf":            nil,
}

// firstLoggingFloor is the lowest that may import zerolog; those below return errors.
const firstLoggingFloor = 4

// source is one parsed Go file of the tree.
type source struct {
	dir, name string
	test      bool
	lines     int
	file      *ast.File
	fset      *token.FileSet
}

func TestHouseHasOnlyPlannedRooms(t *testing.T) {
	for dir := range byPackage(load(t), false) {
		if _, planned := plan[dir]; !planned && !slices.Contains(doubles, dir) {
			t.Errorf("package %s is not on the plan of the house. Put the code where it belongs, or change the plan here and in docs/architecture.md and say why.", dir)
		}
	}
	tops := []string{"cmd", "proxy", "classifier", "runtime", "services", "certs", "internal"}
	for dir := range byPackage(load(t), true) {
		if top, _, _ := strings.Cut(dir, "/"); !slices.Contains(tops, top) {
			t.Errorf("folder %s: Go code lives under %s only", dir, strings.Join(tops, " "))
		}
	}
}

func TestFloors(t *testing.T) {
	for _, s := range load(t) {
		from, planned := plan[s.dir]
		if s.test || !planned {
			continue
		}
		for _, imported := range imports(s) {
			ours, isOurs := strings.CutPrefix(imported, module+"/")
			if !isOurs {
				continue
			}
			if slices.Contains(doubles, ours) {
				t.Errorf("%s/%s imports the test double %s: doubles are for tests", s.dir, s.name, ours)
				continue
			}
			if ours != ground && !slices.Contains(from.may, "*") && !slices.Contains(from.may, ours) {
				t.Errorf("%s (floor %d) imports %s (floor %d): it may import %s. Hand the thing in through Options, or declare a small interface where it is used.",
					s.dir, from.floor, ours, plan[ours].floor, orNothing(from.may))
			}
		}
	}
}

// What the table allows is needed: an import that went away takes its permission with it.
func TestFloorsAreNoWiderThanTheyNeedBe(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, s := range load(t) {
		if s.test {
			continue
		}
		if used[s.dir] == nil {
			used[s.dir] = map[string]bool{"*": true}
		}
		for _, imported := range imports(s) {
			used[s.dir][strings.TrimPrefix(imported, module+"/")] = true
		}
	}
	for dir, room := range plan {
		if used[dir] == nil {
			t.Errorf("%s is on the plan of the house, and there is no such package", dir)
			continue
		}
		for _, one := range room.may {
			if !used[dir][one] {
				t.Errorf("%s may import %s and does not: take that out of the plan", dir, one)
			}
		}
	}
}

func TestOneOwnerPerDependency(t *testing.T) {
	for _, s := range load(t) {
		room, planned := plan[s.dir]
		if s.test || !planned {
			continue
		}
		for _, imported := range imports(s) {
			for dependency, owner := range owners {
				if under(imported, dependency) && !slices.Contains(owner, s.dir) {
					t.Errorf("%s/%s imports %s, which belongs to %s", s.dir, s.name, imported, cmp.Or(strings.Join(owner, " and "), "tests"))
				}
			}
			if under(imported, "github.com/rs/zerolog") && room.floor < firstLoggingFloor {
				t.Errorf("%s/%s logs: floors below %d return errors", s.dir, s.name, firstLoggingFloor)
			}
		}
	}
}

// load parses every Go file of the module once per test.
func load(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != root && (strings.HasPrefix(n, ".") || n == "testdata" || n == "examples" || n == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse %s: %w", p, err)
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		out = append(out, source{
			dir: path.Dir(rel), name: path.Base(rel), test: strings.HasSuffix(rel, "_test.go"),
			lines: bytes.Count(text, []byte("\n")), file: file, fset: fset,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("found no Go files: the test looks in the wrong place")
	}
	return out
}

func byPackage(all []source, tests bool) map[string][]source {
	out := map[string][]source{}
	for _, s := range all {
		if tests || !s.test {
			out[s.dir] = append(out[s.dir], s)
		}
	}
	for _, files := range out {
		sort.Slice(files, func(i, j int) bool { return files[i].name < files[j].name })
	}
	return out
}

func imports(s source) []string {
	var out []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func importName(f *ast.File, want string) string {
	for _, i := range f.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); p == want {
			if i.Name != nil {
				return i.Name.Name
			}
			return path.Base(want)
		}
	}
	return ""
}

func under(imported, dependency string) bool {
	return imported == dependency || strings.HasPrefix(imported, dependency+"/")
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing of ours"
	}
	return strings.Join(list, ", ")
}
