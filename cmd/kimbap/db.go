package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newDBCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "The home's database: status, schema, a copy for backup, the move to PostgreSQL",
		Example: `  kimbap db status
  kimbap db copy ./kimbap-copy.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDBStatusCommand(c), newDBMigrateCommand(c), newDBCopyCommand(c), newDBMoveCommand(c))
	return cmd
}

// closed does work on a home that is not opened.
func (c *cli) closed(ctx context.Context, work func(context.Context, *app.App) error) error {
	ctx, stop := c.bounded(ctx)
	defer stop()
	a, err := c.unopened()
	if err != nil {
		return err
	}
	return work(ctx, a)
}

func newDBStatusCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show version, size and integrity; change nothing",
		Example: "  kimbap db status\n  kimbap db status -o json --jq .schema_version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.closed(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if a.Shares() {
					return c.sharedStatus(ctx, a)
				}
				db, err := a.Databases().Inspect(ctx)
				if err != nil {
					return err
				}
				if err := c.show(db, func() { c.sayDatabase(&db) }); err != nil {
					return err
				}
				return db.Damage()
			})
		},
	}
}

func (c *cli) sayDatabase(db *app.Database) {
	sound := "ok"
	if len(db.Problems) > 0 {
		sound = count(len(db.Problems), "problem")
	}
	fmt.Fprintf(c.out, "file       %s\nsize       %d bytes, %d of them free\nschema     %s\nintegrity  %s\n", db.Path, db.Size, db.Free, schemaText(db.Version, db.Newest), sound)
}

func schemaText(version, newest int) string {
	switch {
	case version == 0:
		return "none yet: kimbap db move makes the tables, and moves what the home has there"
	case version < newest:
		return fmt.Sprintf("%d of %d: brought up to date by kimbap db migrate, or the next command that opens it", version, newest)
	case version > newest:
		return fmt.Sprintf("%d, and this kimbap knows versions up to %d: use the newer one", version, newest)
	}
	return fmt.Sprintf("%d, the newest", version)
}

// sharedStatus shows the database that homes share, and of the home's own where it is.
func (c *cli) sharedStatus(ctx context.Context, a *app.App) error {
	db, err := a.Databases().InspectShared(ctx)
	if err != nil {
		return err
	}
	shown := struct {
		app.SharedDatabase
		Index string `json:"index"`
	}{db, a.Home().Database()}
	return c.show(shown, func() {
		fmt.Fprintf(c.out, "database   %s\n", db.Name)
		if len(db.Servers) > 0 {
			fmt.Fprintf(c.out, "servers    %s; %s answers\n", strings.Join(db.Servers, ", "), db.Answered)
		}
		fmt.Fprintf(c.out, "server     PostgreSQL %s\ntls        %s\nsize       %d bytes\nschema     %s\nindex      %s, of this home's trail\n",
			printable(db.Server), tlsText(db), db.Size, schemaText(db.Version, db.Newest), shown.Index)
	})
}

// tlsText says how the connection to the shared database is guarded.
func tlsText(db app.SharedDatabase) string {
	switch {
	case db.TLS == "":
		return "none: the connection is in clear"
	case !db.Verified:
		return db.TLS + ", not verified: sslmode=verify-full in store.dsn has the server prove who it is"
	}
	return db.TLS
}

func newDBMoveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "move",
		Short: "Move what is stored to the PostgreSQL database of store.dsn",
		Long: `Move what the home stores (credentials, tokens, approvals, limits, scripts) to the
PostgreSQL database that store.dsn names, so that other homes can share it.

The database must be there and hold nothing of kimbap yet. All of it is moved, or
nothing; what was in the home is removed and overwritten. The master key, the audit
trail and its index stay in the home. End all servers over it first.`,
		Example: `  kimbap db copy before.db
  export KIMBAP_STORE_DSN=postgres://kimbap@db.example.com/kimbap
  kimbap db move`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.closed(cmd.Context(), func(ctx context.Context, a *app.App) error {
				done, err := a.Databases().Move(ctx)
				if err != nil {
					return err
				}
				return c.show(done, func() {
					if done.Rows == 0 {
						fmt.Fprintf(c.out, "what is stored is in %s already: nothing to do\n", done.To)
						return
					}
					fmt.Fprintf(c.out, "%s moved from %s to %s\n", count(done.Rows, "row"), done.From, done.To)
				})
			})
		},
	}
}

func newDBMigrateCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the database to this kimbap's schema",
		Long: `Bring the database to the schema of this kimbap, in one transaction. The next
command that opens the home would do the same; this one does nothing else, and
says what it did. An older kimbap cannot open the database afterwards: make a copy
first (kimbap db copy).`,
		Example: "  kimbap db copy before.db && kimbap db migrate",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.closed(cmd.Context(), func(ctx context.Context, a *app.App) error {
				done, err := a.Databases().Migrate(ctx)
				if err != nil {
					return err
				}
				return c.show(done, func() {
					if done.From == done.To {
						fmt.Fprintf(c.out, "schema %d is the newest: nothing to do\n", done.To)
						return
					}
					fmt.Fprintf(c.out, "schema %d is now %d\n", done.From, done.To)
				})
			})
		},
	}
}

func newDBCopyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "copy FILE",
		Short: "Write a consistent copy for backup, while kimbap keeps running",
		Long: `Write a consistent copy of the database to a new file, 0600, while kimbap keeps running.

What is secret in it stays sealed by the master key, which is not in it: keep that
elsewhere. To put a copy back stop kimbap, move kimbap.db, kimbap.db-wal and
kimbap.db-shm away, and copy the file to kimbap.db. What was revoked since is then
valid again: revoke it once more.`,
		Example: "  kimbap db copy /backup/kimbap.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.closed(cmd.Context(), func(ctx context.Context, a *app.App) error {
				made, err := a.Databases().Copy(ctx, args[0])
				if err != nil {
					return err
				}
				return c.show(made, func() {
					fmt.Fprintf(c.out, "%s: schema %d, %d bytes, sound\n", made.Path, made.Version, made.Size)
					c.tellOpen(made.Path, "credentials in it are sealed, the rest is not")
					if file := a.SealedIn(); file != "" {
						c.say("the vault is locked: the copy opens with %s and the PIN only; keep that file too, or copy after kimbap unlock", printable(file))
					}
				})
			})
		},
	}
}
