package main

import (
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker at a release; otherwise the build information
// says which commit this is.
var version = ""

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(c *cli) *cobra.Command {
	var sbom string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  kimbap version -o json
  kimbap version --sbom              # what this program was built from, as CycloneDX
  kimbap version --sbom=FILE         # the same of another one`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("sbom") {
				return c.showBill(sbom)
			}
			return c.showVersion()
		},
	}
	cmd.Flags().StringVar(&sbom, "sbom", "", "print the bill of materials (CycloneDX JSON) of this program, or of a FILE")
	cmd.Flags().Lookup("sbom").NoOptDefVal = thisProgram
	return cmd
}

func (c *cli) showVersion() error {
	v := currentVersion()
	return c.show(v, func() {
		fmt.Fprintf(c.out, "kimbap %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	})
}

// thisProgram stands for the running program where a file may be named.
const thisProgram = "self"

func (c *cli) showBill(path string) error {
	if path == thisProgram {
		var err error
		if path, err = os.Executable(); err != nil {
			return err
		}
	}
	b, err := billOf(path)
	if err != nil {
		return usage("name a program that was built with Go", "no bill of materials: %v", err)
	}
	return c.show(b, func() { fmt.Fprint(c.out, b) })
}

// String tells a build from another one, as far as it is known; else it is "".
func (v versionInfo) String() string {
	switch {
	case v.Version != "devel":
		return v.Version
	case v.Commit == "":
		return ""
	case v.Modified:
		return fmt.Sprintf("devel %.12s, changed", v.Commit)
	}
	return fmt.Sprintf("devel %.12s", v.Commit)
}

func currentVersion() versionInfo {
	v := versionInfo{Version: version, Go: goruntime.Version(), Platform: goruntime.GOOS + "/" + goruntime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Version == "" {
		v.Version = "devel"
	}
	return v
}
