package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newServiceCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Service files: install, enable, disable, import, export, test",
		Example: `  kimbap service list --catalog
  kimbap service install github`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newServiceInstallCommand(c), newServiceListCommand(c), newServiceRemoveCommand(c), newServiceSwitchCommand(c, "enable"), newServiceSwitchCommand(c, "disable"), newServiceDiffCommand(c), newServiceValidateCommand(c),
		newServiceImportCommand(c), newServiceExportCommand(c), newServiceTestCommand(c))
	return cmd
}

func newServiceInstallCommand(c *cli) *cobra.Command {
	var vars []string
	var i app.Install
	cmd := &cobra.Command{
		Use:   "install NAME|FILE|URL",
		Short: "Install a service from the catalogue, a file or an https address",
		Long: `Install a service from the catalogue, a file or an https address.

What a file or an address brings is shown: hosts, key, risks. The content of an
address is pinned by its sha256 (services.lock in the home): if it changes, it is
refused without --update, and so is one that would replace a service from elsewhere
by having its name, or that has a name of the catalogue. An address that ends in #sha256=HEX demands that content.`,
		Example: "  kimbap service install github\n  kimbap service install ./acme.yaml --var site=acme\n  kimbap service install https://example.com/acme.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			i.From = args[0]
			if i.Vars, err = pairs(vars); err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Create: true, Despite: true}, func(ctx context.Context, a *app.App) error {
				r, err := a.Install(ctx, i)
				if err != nil {
					return err
				}
				c.reach(ctx, a)
				return c.showInstalled(ctx, a, r, !slices.Contains(app.CatalogNames(), i.From))
			})
		},
	}
	cmd.Flags().StringArrayVar(&vars, "var", nil, "value for a variable of the file, as name=value")
	cmd.Flags().BoolVar(&i.Update, "update", false, "take what the address holds now, though it has changed, replaces a service from elsewhere or has a name of the catalogue")
	return cmd
}

// showInstalled says what was installed; with what it brings where the file is
// not one of ours.
func (c *cli) showInstalled(ctx context.Context, a *app.App, r *app.Review, foreign bool) error {
	return c.show(r, func() {
		fmt.Fprintf(c.out, "installed %s %s: %s %s\n", r.Name, r.Version, count(r.Actions, "action"), where(r.Service))
		if foreign {
			c.sayLines(r.Text())
			c.say("sha256   %s", r.SHA256)
		}
		c.sayWarnings(r.Service)
		if advice := a.KeyAdvice(ctx, r.Service); advice != "" {
			c.advise(advice)
		}
	})
}

// where says what the actions of a service act on.
func where(s *app.Service) string {
	if program := s.Program(); program != "" {
		return "run by " + program
	}
	return "on " + few(s.Authorities)
}

// pairs reads name=value flags.
func pairs(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range list {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage("--var name=value", "%q is not of the form name=value", pair)
		}
		out[name] = value
	}
	return out, nil
}

type serviceInfo struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	Hosts       []string `json:"hosts"`
	Actions     int      `json:"actions"`
	Installed   bool     `json:"installed"`
	Disabled    bool     `json:"disabled,omitempty"` // it is not in force
	Update      string   `json:"update,omitempty"`   // the command that takes the catalogue's file, which is another

	Problems []app.FileProblem `json:"problems,omitempty"` // for which its file cannot be used
}

func newServiceListCommand(c *cli) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "list [--catalog]",
		Short:   "List the installed services, or the catalogue",
		Example: "  kimbap service list\n  kimbap service list --catalog",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return c.showCatalog()
			}
			return c.listing(cmd.Context(), app.Options{Despite: true, Dir: c.dir()}, func(_ context.Context, a *app.App) error {
				return c.showInForce(a)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "catalog", false, "list what can be installed by name")
	return cmd
}

// showCatalog lists what comes with kimbap. It needs no home; where there is one,
// its files say what is installed.
func (c *cli) showCatalog() error {
	services, err := app.Catalog()
	if err != nil {
		return err
	}
	home := app.Home{Dir: c.homeDir()}
	return c.showServices(services, func(s *serviceInfo) {
		s.Disabled = home.Disabled(s.Name)
		s.Installed = s.Disabled || home.Installed(s.Name)
	}, nil, nil)
}

// showInForce lists the installed services, then those that are out of force, and those
// of which this kimbap's catalogue has another file, with the command that takes it.
func (c *cli) showInForce(a *app.App) error {
	outdated, err := a.Outdated()
	if err != nil {
		return err
	}
	updates := map[string]string{}
	for _, o := range outdated {
		if !o.Unknown { // nobody knows that it would lose nothing
			updates[o.Name] = o.Command
		}
	}
	var out []serviceInfo
	for name, problems := range a.Unusable() {
		out = append(out, serviceInfo{Name: name, Hosts: []string{}, Installed: true, Problems: problems})
	}
	for name, s := range a.Disabled() {
		off := serviceInfo{Name: name, Hosts: []string{}}
		if s != nil {
			off = infoOf(s)
		}
		off.Installed, off.Disabled, off.Update = true, true, updates[name]
		out = append(out, off)
	}
	if err := c.showServices(a.Services().Services(), func(s *serviceInfo) { s.Installed = true }, updates, out); err != nil {
		return err
	}
	if names := a.DisabledServices(); len(names) > 0 {
		c.say("disabled: %s", few(names))
	}
	for _, o := range outdated {
		c.sayOutdated(o)
	}
	return nil
}

// sayOutdated says that the catalogue has another file of a service, and what taking it does.
func (c *cli) sayOutdated(o app.Outdated) {
	what := "this kimbap's catalogue has another file of " + o.Name + "; "
	if o.Unknown {
		c.advise(what + "yours was installed before kimbap kept what it had written, or is your own; compare with: kimbap service diff " + o.Name)
		return
	}
	if len(o.Wants) > 0 {
		what += "it wants a value for " + strings.Join(o.Wants, " and ") + ", which yours does not have; "
	}
	if o.Changed {
		what += "yours was changed by hand, and that is lost then; "
	}
	if o.Disabled {
		what += "it is disabled, and in force again then; "
	}
	c.advise(what + "take it with: " + o.Command)
}

// infoOf is what a list says of a service.
func infoOf(s *app.Service) serviceInfo {
	info := serviceInfo{Name: s.Name, Version: s.Version, Description: s.Description, Hosts: s.Authorities, Actions: len(s.Actions)}
	if info.Hosts == nil {
		info.Hosts = []string{}
	}
	return info
}

// showServices lists services. Those out of force, and those whose file cannot be used, are told
// of as data too, where a program would take them for ones that are not there.
func (c *cli) showServices(services []*app.Service, state func(*serviceInfo), updates map[string]string, out []serviceInfo) error {
	list, rows := append([]serviceInfo{}, out...), [][]string{}
	for _, s := range services {
		info := infoOf(s)
		info.Update = updates[s.Name]
		state(&info)
		list = append(list, info)
		rows = append(rows, []string{s.Name, s.Version, fmt.Sprint(len(s.Actions)), cmp.Or(few(s.Authorities), s.Program()), s.Description})
	}
	slices.SortFunc(list, func(a, b serviceInfo) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	none := c.noService()
	if slices.ContainsFunc(out, func(s serviceInfo) bool { return s.Disabled }) {
		none = "no service is in force; see: kimbap service enable"
	}
	return c.show(list, func() {
		c.list([]string{"service", "version", "actions", "hosts", "description"}, rows, none)
	})
}

func newServiceRemoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an installed service; its stored key stays",
		Example: "  kimbap service remove github",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				key := a.KeyOfOnly(ctx, args[0])
				if err := a.RemoveService(ctx, args[0]); err != nil {
					return err
				}
				c.reach(ctx, a)
				return c.show(map[string]any{"removed": args[0]}, func() {
					fmt.Fprintf(c.out, "removed %s\n", args[0])
					if key != "" {
						unless := ""
						if off := a.DisabledServices(); len(off) > 0 { // what they use is not known
							unless = " unless a disabled service uses it (" + few(off) + "),"
						}
						c.say("its key %s stays stored;%s remove it with: kimbap vault remove %s", key, unless, key)
					}
				})
			})
		},
	}
}

// newServiceSwitchCommand is enable, or disable.
func newServiceSwitchCommand(c *cli, word string) *cobra.Command {
	short, do := "Put a disabled service in force again", (*app.App).EnableService
	if word == "disable" {
		short, do = "Take a service out of force; its file and key stay", (*app.App).DisableService
	}
	return &cobra.Command{
		Use: word + " NAME", Short: short, Example: "  kimbap service " + word + " github", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), app.Options{Despite: word == "disable"}, func(ctx context.Context, a *app.App) error {
				if err := do(a, ctx, args[0]); err != nil {
					return err
				}
				c.reach(ctx, a)
				outdated, err := a.Outdated()
				if err != nil {
					return err
				}
				for _, o := range outdated {
					if o.Name == args[0] && word == "enable" {
						c.sayOutdated(o)
					}
				}
				return c.show(map[string]any{word + "d": args[0]}, func() {
					fmt.Fprintf(c.out, "%sd %s\n", word, args[0])
					if word == "disable" {
						c.warnIdle(ctx, a)
					}
				})
			})
		},
	}
}

// checkedFile is a service file without a mistake.
type checkedFile struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Actions int    `json:"actions"`

	Warnings []string `json:"warnings,omitempty"`
}

// sayWarnings says what a service file has that will not work as it looks.
func (c *cli) sayWarnings(s *app.Service) {
	for _, w := range s.Warnings {
		c.say("warning: %s", w)
	}
}

func newServiceValidateCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE...",
		Short:   "Check service files: every problem, with its place",
		Example: "  kimbap service validate ./acme.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			list, err := app.ValidateServices(files)
			if err != nil {
				return c.problems(err, "the service files have problems\n\n"+strings.TrimSpace(err.Error()))
			}
			if len(list) != len(files) {
				return errors.New("not every file was checked")
			}
			checked := []checkedFile{}
			for i, s := range list {
				one := checkedFile{File: files[i], Name: s.Name, Version: s.Version, Actions: len(s.Actions)}
				for _, w := range s.Warnings {
					one.Warnings = append(one.Warnings, w.String())
				}
				checked = append(checked, one)
				c.sayWarnings(s)
			}
			return c.show(checked, func() {
				for _, s := range checked {
					fmt.Fprintf(c.out, "%s: ok, %s %s with %s\n", printable(s.File), s.Name, s.Version, count(s.Actions, "action"))
				}
			})
		},
	}
}
