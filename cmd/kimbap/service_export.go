package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newServiceExportCommand(c *cli) *cobra.Command {
	var skill, declarations, schema bool
	cmd := &cobra.Command{
		Use:   "export [NAME|FILE]...",
		Short: "Write a service out as SKILL.md, TypeScript declarations or its own file",
		Long: `Write a service (installed, of the catalogue, or in a file) to stdout: its own
file, a SKILL.md for agents (--skill), or TypeScript declarations of one or more
services for scripts (--dts). --schema writes the JSON Schema of service files.`,
		Example: "  kimbap service export github --skill > SKILL.md\n  kimbap service export github slack --dts > kimbap.d.ts\n  kimbap service export --schema",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			out, err := c.exported(names, skill, declarations, schema)
			switch {
			case err != nil:
				return err
			case c.output == "text", c.output == "yaml" && c.jq == "" && out.Form == "file": // which is YAML
				_, err = io.WriteString(c.out, out.Text)
				return err
			case out.Form == "schema":
				return c.show(json.RawMessage(out.Text), nil)
			}
			return c.show(out, nil)
		},
	}
	cmd.Flags().BoolVar(&skill, "skill", false, "a SKILL.md that teaches the service to an agent")
	cmd.Flags().BoolVar(&declarations, "dts", false, "TypeScript declarations of the actions")
	cmd.Flags().BoolVar(&schema, "schema", false, "the JSON Schema of service files, of no service")
	return cmd
}

// exported is what a service, or several, are written out as.
type exported struct {
	Services []string `json:"services"`
	Form     string   `json:"form"` // file | skill | dts | schema, which is of none
	Text     string   `json:"text"`
}

func (c *cli) exported(names []string, skill, declarations, schema bool) (out exported, err error) {
	const fix = "kimbap service export --help"
	if skill && declarations || schema && (skill || declarations) {
		return out, usage(fix, "choose one of --skill, --dts and --schema")
	}
	if schema {
		if len(names) > 0 {
			return out, usage(fix, "--schema is of the format, and takes no service")
		}
		return exported{Form: "schema", Text: string(app.ServiceSchema())}, nil
	}
	if len(names) == 0 || len(names) > 1 && !declarations {
		return out, usage(fix, "name one service; with --dts several")
	}
	var list []*app.Service
	var own []byte
	for _, name := range names {
		s, data, err := app.FindService(app.Home{Dir: c.homeDir()}, name)
		if err != nil {
			return out, err
		}
		list, own = append(list, s), data
		out.Services = append(out.Services, s.Name)
	}
	switch {
	case skill:
		out.Form, own = "skill", app.SkillOf(list[0])
	case declarations:
		out.Form, own = "dts", app.DeclarationsOf(list)
	default:
		out.Form = "file"
	}
	out.Text = string(own)
	return out, nil
}
