package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newVaultRotateCommand(c *cli) *cobra.Command {
	var file, expires, from string
	var tenantKey, masterKey bool
	cmd := &cobra.Command{
		Use:   "rotate [NAME]",
		Short: "Replace a credential's value, or the keys that seal all of them",
		Long: `Replace a credential's value, or the keys that seal all of them.

With a name: the new value comes from stdin, from --file, or from a prompt, goes
where the old one went, and the old one is gone.

With --tenant-key all credentials are sealed anew under a new key. With
--master-key the key over that key is replaced; running proxies take it up. Both
happen at once or not at all, also when the machine stops on the way. With --from
the master key moves from there to the place that master_key.source names, and the
keyring keeps nothing of it; a file you remove yourself. Running proxies look for it
where config.yaml says; one that was told otherwise by a variable must be restarted.`,
		Example: `  kimbap vault rotate github.token < token.txt
  kimbap vault rotate --tenant-key
  kimbap vault rotate --master-key
  kimbap vault rotate --master-key --from file`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := len(args)
			for _, one := range []bool{tenantKey, masterKey} {
				if one {
					asked++
				}
			}
			switch {
			case asked != 1:
				return usage("kimbap vault rotate --help", "give a name, --tenant-key or --master-key, one of the three")
			case from != "" && !masterKey:
				return usage("kimbap vault rotate --master-key --from "+from, "--from is for the master key")
			case len(args) == 0 && (file != "" || expires != ""):
				return usage("kimbap vault rotate NAME", "--file and --expires are for one credential")
			}
			return c.with(cmd.Context(), app.Options{KeyFrom: from, Despite: true}, func(ctx context.Context, a *app.App) error {
				switch {
				case masterKey:
					return c.rotateMasterKey(ctx, a)
				case tenantKey:
					return c.rotateTenantKey(ctx, a)
				}
				return c.rotateSecret(ctx, a, args[0], file, expires)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "file", "", "read the new value from this file")
	f.StringVar(&expires, "expires", "", "do not use the new value after this time: 90d, 12h, 2027-01-31")
	f.BoolVar(&tenantKey, "tenant-key", false, "seal all credentials under a new key")
	f.BoolVar(&masterKey, "master-key", false, "replace the master key")
	f.StringVar(&from, "from", "", "where the master key is now, if not where master_key.source says: file, keyring, command or transit")
	return cmd
}

func (c *cli) rotateSecret(ctx context.Context, a *app.App, name, file, expires string) error {
	until, err := parseExpiry(expires, time.Now())
	if err != nil {
		return err
	}
	stored, err := a.Secrets(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(stored, func(s app.Stored) bool { return s.Name == name }) { // nobody types a value for nothing
		return missing("kimbap vault list", "no credential named %q is stored", name)
	}
	secret, err := c.readKey(ctx, file, "new value of "+name)
	if err != nil {
		return err
	}
	version, err := a.RotateSecret(ctx, name, secret, until)
	if err != nil {
		return err
	}
	c.reach(ctx, a)
	return c.show(map[string]any{"name": name, "version": version}, func() { fmt.Fprintf(c.out, "rotated %s (version %d)\n", name, version) })
}

func (c *cli) rotateTenantKey(ctx context.Context, a *app.App) error {
	done, err := a.RotateTenantKey(ctx)
	if err != nil {
		return err
	}
	return c.show(done, func() {
		fmt.Fprintf(c.out, "rotated the key of tenant %s (version %d): %s sealed anew\n", done.Tenant, done.Version, count(done.Secrets, "credential"))
	})
}

func (c *cli) rotateMasterKey(ctx context.Context, a *app.App) error {
	done, err := a.RotateMasterKey(ctx)
	if err != nil {
		return err
	}
	c.reach(ctx, a)
	for _, r := range a.LockedOut() {
		c.say("warning: the kimbap with process id %d cannot have the new key now, and may have to be started again: %s", r.PID, r.Locked)
	}
	return c.show(done, func() {
		if done.Already {
			fmt.Fprintf(c.out, "the master key has moved already (%s): nothing was changed\n", done.Source)
			c.say("to replace it: kimbap vault rotate --master-key")
		} else {
			fmt.Fprintf(c.out, "rotated the master key (%s): %s wrapped anew\n", done.Source, count(done.Keys, "key"))
		}
		switch {
		case done.Removed != "":
			c.say("the old key is gone from where it was (%s)", done.Removed)
		case done.From == "keyring":
			c.say("the old key is still in the keyring and opens nothing here any more; remove it with: kimbap vault remove --keyring")
		case done.From != "":
			c.say("the old key is still where it was (%s) and opens nothing here any more: remove it", done.From)
		}
		if done.Source == "env" && !done.Already {
			c.say("now give every kimbap KIMBAP_MASTER_KEY_NEXT's value as KIMBAP_MASTER_KEY")
		}
	})
}
