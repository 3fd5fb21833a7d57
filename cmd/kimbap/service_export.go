package main

import (
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
			if err == nil {
				_, err = c.out.Write(out)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&skill, "skill", false, "a SKILL.md that teaches the service to an agent")
	cmd.Flags().BoolVar(&declarations, "dts", false, "TypeScript declarations of the actions")
	cmd.Flags().BoolVar(&schema, "schema", false, "the JSON Schema of service files, of no service")
	return cmd
}

func (c *cli) exported(names []string, skill, declarations, schema bool) ([]byte, error) {
	const fix = "kimbap service export --help"
	if skill && declarations || schema && (skill || declarations) {
		return nil, usage(fix, "choose one of --skill, --dts and --schema")
	}
	if schema {
		if len(names) > 0 {
			return nil, usage(fix, "--schema is of the format, and takes no service")
		}
		return app.ServiceSchema(), nil
	}
	if len(names) == 0 || len(names) > 1 && !declarations {
		return nil, usage(fix, "name one service; with --dts several")
	}
	var list []*app.Service
	var own []byte
	for _, name := range names {
		s, data, err := app.FindService(app.Home{Dir: c.homeDir()}, name)
		if err != nil {
			return nil, err
		}
		list, own = append(list, s), data
	}
	switch {
	case skill:
		return app.SkillOf(list[0]), nil
	case declarations:
		return app.DeclarationsOf(list), nil
	}
	return own, nil
}
