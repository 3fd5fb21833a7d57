package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newServiceImportCommand(c *cli) *cobra.Command {
	var i app.Import
	var vars []string
	var install, update bool
	cmd := &cobra.Command{
		Use:   "import DOC",
		Short: "Make a service file from an OpenAPI description",
		Long: `Make a service file from an OpenAPI description (3.0, 3.1 or Swagger 2.0, JSON or
YAML; a path or an https address). The file goes to stdout, the report to stderr:
what was left out, and why. Read the risks before you install it: they are guessed.`,
		Example: "  kimbap service import ./openapi.yaml > acme.yaml\n  kimbap service import ./openapi.yaml --tag orders --name acme --auth bearer --install",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.From = args[0]
			values, err := pairs(vars)
			if err != nil {
				return err
			}
			if !install && !app.IsURL(i.From) {
				r, err := app.ImportFile(i)
				return c.imported(r, err)
			}
			return c.with(cmd.Context(), app.Options{Create: true, Despite: true}, func(ctx context.Context, a *app.App) error {
				read := func() (*app.Imported, error) { return app.ImportFile(i) }
				if app.IsURL(i.From) {
					read = func() (*app.Imported, error) { return a.ImportURL(ctx, i) }
				}
				r, err := read()
				if err != nil || !install {
					return c.imported(r, err)
				}
				c.sayLines(r.Report())
				review, err := a.InstallImported(ctx, r, values, update)
				if err != nil {
					return err
				}
				c.reach(ctx, a)
				return c.showInstalled(ctx, a, review, true)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&i.Name, "name", "", "name of the service (default: from the host)")
	f.StringArrayVar(&i.Tags, "tag", nil, "only operations with this tag; may be repeated")
	f.StringVar(&i.PathPrefix, "path-prefix", "", "only operations below this path")
	f.StringVar(&i.Auth, "auth", "", "where the key goes: none, bearer, basic, header:NAME, query:NAME, body:FIELD (default: what the document says)")
	f.StringVar(&i.BaseURL, "base-url", "", "where the API lives (default: the document's first https server, or where it is fetched from)")
	f.BoolVar(&install, "install", false, "install the service instead of printing it")
	f.BoolVar(&update, "update", false, "with --install: replace an installed service of that name, or take a name of the catalogue")
	f.StringArrayVar(&vars, "var", nil, "with --install: value for a variable of the address, as name=value")
	return cmd
}

// imported prints the service file, and on stderr the report.
func (c *cli) imported(r *app.Imported, err error) error {
	if err != nil {
		return err
	}
	if c.output != "text" {
		return c.show(map[string]any{
			"name": r.Name, "imported": r.Imported, "total": r.Total, "skipped": listed(r.Skipped), "grants_access": listed(r.Grants), "notes": listed(r.Notes), "file": string(r.YAML),
		}, nil)
	}
	c.sayLines(r.Report())
	_, err = fmt.Fprint(c.out, c.seen(string(r.YAML)))
	return err
}

// sayLines prints a message of several lines that holds words of a document.
func (c *cli) sayLines(text string) {
	for line := range strings.Lines(text) {
		c.say("%s", printable(strings.TrimSuffix(line, "\n")))
	}
}
