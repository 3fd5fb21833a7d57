package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

func newServiceTestCommand(c *cli) *cobra.Command {
	var t app.Trial
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Try the actions of a service file, without a key",
		Long: `Try the actions of a service file, without a key.

Each action is called with the cases in FILE.cases.yaml, or with made-up arguments: the request is built, must be recognised as the same action with the
same arguments, and is compared with the case. With --upstream it is sent there
(a local double of the API; only low risks without --writes), and the action's
filter must take the answer; --record keeps request and answer as cases, so that
the next test needs no upstream.

  cases:
    - action: list-notes
      args: {state: open}
      request: GET /notes?state=open
      answer: [{id: 1, title: rice}]
      result: [rice]`,
		Example: "  kimbap service test ./acme.yaml\n  kimbap service test ./acme.yaml --upstream http://127.0.0.1:8080 --record",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.File = args[0]; t.Record && t.Upstream == "" {
				return usage("kimbap service test --help", "--record needs an --upstream to record")
			}
			ctx, stop := c.bounded(cmd.Context())
			defer stop()
			list, err := app.TryService(ctx, t, c.options(app.Options{}))
			if err != nil {
				return err
			}
			return c.showTried(list)
		},
	}
	cmd.Flags().StringVar(&t.Upstream, "upstream", "", "address of an upstream that answers, like http://127.0.0.1:8080")
	cmd.Flags().BoolVar(&t.Record, "record", false, "keep requests and answers in FILE.cases.yaml")
	cmd.Flags().BoolVar(&t.Writes, "writes", false, "send also what is above low risk")
	return cmd
}

// showTried prints one line for each case. A case that failed is exit code 1.
func (c *cli) showTried(list []app.Tried) error {
	failed, untried := 0, 0
	rows := [][]string{}
	for _, t := range list {
		switch t.Outcome {
		case "failed":
			failed++
		case "untried":
			untried++
		}
		rows = append(rows, []string{t.Outcome, t.Action, t.Request, t.Why})
	}
	if err := c.show(list, func() { c.table(nil, rows) }); err != nil {
		return err
	}
	c.say("%d tried, %d failed, %d not tried", len(list)-untried, failed, untried)
	if failed > 0 {
		return found(fmt.Sprintf("%s of %d failed", count(failed, "case"), len(list)), "", "correct the service file or its cases, as the lines say")
	}
	return nil
}
