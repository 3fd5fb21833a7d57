// Package catalog holds the service files that kimbap ships: one YAML file for
// each service, embedded. What a file means the loader says, as it does for one that
// a user wrote.
//
// Every file covers the whole of its hosts with three catch-alls (read, write,
// delete), so that a program which speaks the API itself meets nothing that is
// missing, and types every operation that hands out lasting access, so that
// none of those passes as an ordinary write.
//
// It refuses nothing by itself: what a file may say is for the loader, and what the
// files here must say is for this package's tests. To add a service, add a file and
// run them. Start reading at [Names] and [Read].
package catalog

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/services"
)

//go:embed *.yaml
var files embed.FS

// Names returns the services of the catalogue, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil // cannot be: the root of an embedded file system is there
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names) // the folder is sorted with ".yaml", which puts github-git before github
	return names
}

// Read returns the file of a service. The caller may change the bytes.
func Read(name string) ([]byte, error) {
	if strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("no service %q in the catalogue", name)
	}
	data, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no service %q in the catalogue", name)
	}
	return data, nil
}

// Services returns all services of the catalogue, by name, as they are before anybody
// gave values to their variables. All files are parsed each time: who wants one service
// reads one.
func Services() ([]*services.Service, error) { return all(services.ParseAll) }

// Heads returns what the files say of the services themselves, by name, in a fraction of the
// time of [Services]: for those who look for a name, a host or a variable.
func Heads() ([]*services.Head, error) { return all(services.ParseHeads) }

func all[T any](parse func([]services.File) ([]T, error)) ([]T, error) {
	var texts []services.File
	for _, name := range Names() {
		data, err := Read(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, services.File{Name: name + ".yaml", Data: data})
	}
	out, err := parse(texts)
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	return out, nil
}
