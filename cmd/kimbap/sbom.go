package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"strings"
)

// bill is a software bill of materials: CycloneDX 1.6, the parts that a Go
// program can say of itself for certain. It holds no time and no random number,
// so that one program always has one bill.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   billSubject `json:"metadata"`
	Components []component `json:"components"`
}

type billSubject struct {
	Component component `json:"component"`
}

type component struct {
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	Version    string         `json:"version"`
	PURL       string         `json:"purl"`
	Hashes     []digest       `json:"hashes,omitempty"`
	Properties []billProperty `json:"properties,omitempty"`
}

type digest struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type billProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// billOf reads the modules that the linker has noted in a program of Go, for
// whatever system it was built.
func billOf(path string) (*bill, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	subject := moduleComponent("application", &info.Main)
	if version != "" {
		subject.Version, subject.PURL = version, "pkg:golang/"+info.Main.Path+"@"+version
	}
	subject.Properties = append(subject.Properties, billProperty{"go:version", info.GoVersion})
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.modified":
			subject.Properties = append(subject.Properties, billProperty{"go:" + s.Key, s.Value})
		}
	}
	b := &bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: billSubject{subject}, Components: []component{}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		b.Components = append(b.Components, moduleComponent("library", dep))
	}
	b.Components = append(b.Components, component{
		Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	})
	return b, nil
}

func moduleComponent(kind string, m *debug.Module) component {
	c := component{Type: kind, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil { // SHA-256 over the module's files, as in go.sum
			c.Properties = []billProperty{{"go:sum", m.Sum}}
			c.Hashes = []digest{{"SHA-256", hex.EncodeToString(raw)}}
		}
	}
	return c
}

func (b *bill) String() string {
	text, _ := json.MarshalIndent(b, "", "  ") // cannot fail: strings only
	return string(text) + "\n"
}
