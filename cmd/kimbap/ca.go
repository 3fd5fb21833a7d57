package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newCACommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "The local certificate authority: show, export, install, uninstall, rotate",
		Example: `  kimbap ca show
  kimbap ca export --bundle > bundle.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCAShowCommand(c), newCAExportCommand(c), newCARotateCommand(c), newCAInstallCommand(c), newCAUninstallCommand(c))
	return cmd
}

func newCAShowCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the files and the fingerprint of the CA",
		Example: "  kimbap ca show -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), shows(), func(ctx context.Context, a *app.App) error {
				ca, err := a.ShownCA(ctx)
				if err != nil {
					return err
				}
				installed, err := a.Anchored()
				if err != nil {
					return err
				}
				root := ca.Root()
				data := map[string]any{
					"installed": listed(installed),
					"ca":        ca.CAFile(), "bundle": ca.BundleFile(), "fingerprint": ca.Fingerprint(),
					"subject": root.Subject.String(), "not_before": root.NotBefore, "not_after": root.NotAfter,
				}
				return c.show(data, func() {
					fmt.Fprintf(c.out, "ca           %s\nbundle       %s\nfingerprint  SHA-256 %s\nsubject      %s\nvalid until  %s\n",
						ca.CAFile(), ca.BundleFile(), ca.Fingerprint(), root.Subject, root.NotAfter.Local().Format(time.DateOnly))
					for _, e := range installed {
						state := ""
						if e.Subject != root.Subject.CommonName {
							state = ", the root before: kimbap ca install puts the new one"
						}
						fmt.Fprintf(c.out, "installed    %s%s\n", e, state)
					}
				})
			})
		},
	}
}

func newCAExportCommand(c *cli) *cobra.Command {
	var bundle bool
	var to, proxy string
	cmd := &cobra.Command{
		Use:     "export [--bundle] [--to DIR --proxy URL]",
		Short:   "Print the CA certificate as PEM; with --bundle the system's roots too",
		Long:    "Print the CA certificate as PEM; with --bundle the system's roots too.\n\nWith --to it writes a folder that containers mount at /etc/kimbap: ca.pem, bundle.pem and\nsettings for wget, PHP and Java, which lead to the proxy as the container sees it.",
		Example: "  kimbap ca export > ca.pem\n  kimbap ca export --bundle > bundle.pem\n  kimbap ca export --to /ca --proxy http://kimbap:7788",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("proxy") && to == "":
				return usage("kimbap ca export --to DIR --proxy "+runtime.Quote(proxy), "--proxy is for the settings that --to writes")
			case !isProxyURL(proxy):
				return usage("kimbap ca export --to "+runtime.Quote(to)+" --proxy http://kimbap:7788", "--proxy is not the URL of a proxy")
			}
			return c.with(cmd.Context(), shows(), func(ctx context.Context, a *app.App) error {
				ca, err := a.ShownCA(ctx)
				if err == nil && c.getenv("SSL_CERT_FILE") != "" {
					err = a.TakeRoots(ctx) // containers have no shell that asks kimbap env
				}
				if err != nil {
					return err
				}
				if to != "" {
					if err := a.ExportClients(ctx, to, proxy); err != nil {
						return unwritten(to, err)
					}
					return c.show(map[string]any{"folder": to, "proxy": proxy}, func() {})
				}
				pem := ca.RootPEM()
				if bundle {
					if pem, err = os.ReadFile(ca.BundleFile()); err != nil {
						return err
					}
				}
				if c.output != "text" {
					return c.show(map[string]any{"pem": string(pem)}, nil)
				}
				_, err = c.out.Write(pem)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "write a folder for containers instead")
	cmd.Flags().StringVar(&proxy, "proxy", "http://kimbap:7788", "with --to: the proxy as the container sees it")
	cmd.Flags().BoolVar(&bundle, "bundle", false, "the system's roots and ours, for clients that take one file")
	return cmd
}

func newCARotateCommand(c *cli) *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:   "rotate [--now]",
		Short: "Make a new root certificate; running proxies use it within a second",
		Long: "Make a new root certificate. Its files keep their names; running proxies take it up within a second, and\n" +
			"open connections go on. The old root's key is removed. Its certificate stays in ca.pem and bundle.pem for\n" +
			"a day, so that nothing fails while processes change over; with --now it goes at once, as it should when\n" +
			"its key may be known to others. A program of kimbap run has a root of its own, which this does not touch.",
		Example: "  kimbap ca rotate\n  kimbap ca rotate --now -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				done, err := a.RotateCA(ctx, now)
				if err != nil {
					return err
				}
				return c.show(done, func() { c.sayRotated(done) })
			})
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "stop trusting the old root at once")
	return cmd
}

// sayRotated says what there is now, and what is left to do.
func (c *cli) sayRotated(done app.Rotated) {
	fmt.Fprintf(c.out, "new root     SHA-256 %s\nvalid until  %s\n", done.Fingerprint, done.NotAfter.Local().Format(time.DateOnly))
	switch {
	case done.Old == "":
	case done.OldUntil == nil:
		fmt.Fprintf(c.out, "old root     SHA-256 %s, trusted no more; its key is removed\n", done.Old)
	default:
		fmt.Fprintf(c.out, "old root     SHA-256 %s, in both files until %s; its key is removed\n", done.Old, done.OldUntil.Local().Format("2006-01-02 15:04"))
	}
	if done.Dropped != "" {
		fmt.Fprintf(c.out, "dropped      SHA-256 %s, of the rotation before, is in the files no longer\n", done.Dropped)
	}
	fmt.Fprintf(c.out, "files        %s\n             %s\n", done.CA, done.Bundle)
	for _, p := range done.Proxies {
		fmt.Fprintf(c.out, "proxy        http://%s (pid %d) signs with the new root within a second\n", p.Listen, p.PID)
	}
	if len(done.Installed) > 0 {
		c.say("the old root is still trusted by %s; to put the new one in its place: kimbap ca install --store %s", strings.Join(done.Installed, ", "), strings.Join(done.Installed, ","))
	}
	c.say("programs that run already know the old root only: start them again; where a copy of it was put (a container image, a trust store), put the new one: kimbap ca export")
}
