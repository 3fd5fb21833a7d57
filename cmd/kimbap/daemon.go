package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

func newDaemonCommand(c *cli) *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:   "daemon [--stop]",
		Short: "Keep kimbap warm for call, exec and list",
		Long: `Keep kimbap warm for call, exec and list.

It listens on a socket in the home that only this user can use, and does what those
commands would do by themselves, with the same verdicts and output, faster. When it
does not run they do it by themselves. A service manager may open the socket for it
(LISTEN_FDS).`,
		Example: "  kimbap daemon &\n  kimbap daemon --stop",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if end {
				return c.stopDaemon(cmd.Context())
			}
			c.outliveReaders()
			conceal()
			ln, err := c.inherited()
			if err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Create: true, Slot: "daemon", StartLocked: true, Stdout: os.Stdout, Entrance: (*app.App).EnterDaemon}, func(ctx context.Context, a *app.App) error {
				hup, stop := c.untilEnded(ctx, a)
				defer stop()
				return a.ServeDaemon(ctx, app.DaemonOptions{
					Listener: ln, Reload: hup, Ready: func(socket string) { fmt.Fprintf(c.err, "listening on unix:%s\n", socket) },
				})
			})
		},
	}
	cmd.Flags().BoolVar(&end, "stop", false, "end the daemon that runs")
	return cmd
}

// firstInherited is the descriptor of the first socket that a service manager
// hands over (sd_listen_fds).
const firstInherited = 3

// listensByInit is LISTEN_PID where the sockets are for process 1 of a container, and so for the
// command that it has started, see underInit.
const listensByInit = "child of 1"

// inherited is the socket that a service manager has opened, nil without one.
func (c *cli) inherited() (net.Listener, error) {
	switch c.getenv("LISTEN_PID") {
	case strconv.Itoa(os.Getpid()):
	case listensByInit:
		if os.Getppid() != 1 { // a program has inherited the variable
			return nil, nil
		}
	default:
		return nil, nil
	}
	if n := c.getenv("LISTEN_FDS"); n != "1" {
		return nil, usage("give the unit one ListenStream", "LISTEN_FDS is %q: one socket is served", n)
	}
	file := os.NewFile(firstInherited, "LISTEN_FD_3")
	ln, err := net.FileListener(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if socket, ok := ln.(*net.UnixListener); ok && err == nil {
		socket.SetUnlinkOnClose(false) // it is the manager's
		return socket, nil
	}
	return nil, usage("ListenStream=%h/.kimbap/daemon.sock", "what LISTEN_FDS hands over is no unix socket (%v)", err)
}

func (c *cli) stopDaemon(ctx context.Context) error {
	if err := c.ownDaemon(); err != nil {
		return err
	}
	d, err := remote.New(remote.Options{Socket: app.Home{Dir: c.homeDir()}.DaemonSocket(), Token: runtime.NewSecret(c.getenv("KIMBAP_TOKEN"))})
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.Do(ctx, http.MethodPost, "/shutdown", nil)
	if pid := app.DaemonPID(app.Home{Dir: c.homeDir()}); errors.Is(err, remote.ErrUnreachable) && pid != 0 {
		return &failure{
			what: fmt.Sprintf("the daemon of this home, pid %d, cannot be reached", pid), why: "its socket was removed",
			fix: fmt.Sprintf("kill %d", pid), exit: exitUnreachable,
		}
	}
	if errors.Is(err, remote.ErrUnreachable) {
		return missing("nothing to do: without a daemon commands work by themselves", "no daemon of this home runs")
	} else if err != nil {
		return err
	}
	c.say("the daemon ends")
	return nil
}
