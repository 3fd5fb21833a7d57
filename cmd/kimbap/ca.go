package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newCACommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "The local certificate authority: show, export",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCAShowCommand(c), newCAExportCommand(c))
	return cmd
}

func newCAShowCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the files and the fingerprint of the CA",
		Example: "  kimbap ca show -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				ca, err := a.CA(ctx)
				if err != nil {
					return err
				}
				root := ca.Root()
				data := map[string]any{
					"ca": ca.CAFile(), "bundle": ca.BundleFile(), "fingerprint": ca.Fingerprint(),
					"subject": root.Subject.String(), "not_before": root.NotBefore, "not_after": root.NotAfter,
				}
				return c.show(data, func() {
					fmt.Fprintf(c.out, "ca           %s\nbundle       %s\nfingerprint  SHA-256 %s\nsubject      %s\nvalid until  %s\n",
						ca.CAFile(), ca.BundleFile(), ca.Fingerprint(), root.Subject, root.NotAfter.Local().Format(time.DateOnly))
				})
			})
		},
	}
}

func newCAExportCommand(c *cli) *cobra.Command {
	var bundle bool
	cmd := &cobra.Command{
		Use:     "export [--bundle]",
		Short:   "Print the CA certificate as PEM; with --bundle the system's roots too",
		Example: "  kimbap ca export > ca.pem\n  kimbap ca export --bundle > bundle.pem",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), app.Options{}, func(ctx context.Context, a *app.App) error {
				ca, err := a.CA(ctx)
				if err != nil {
					return err
				}
				pem := ca.RootPEM()
				if bundle {
					if pem, err = os.ReadFile(ca.BundleFile()); err != nil {
						return err
					}
				}
				_, err = c.out.Write(pem)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&bundle, "bundle", false, "the system's roots and ours, for clients that take one file")
	return cmd
}
