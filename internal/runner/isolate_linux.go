package runner

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"

	"github.com/kimbap-run/kimbap/internal/runner/netns"
)

func isRoot() bool { return os.Geteuid() == 0 }

// jail is the connection to the covering process of an isolated run, and the
// room that came over it.
type jail struct {
	ours, theirs *os.File
	room         *netns.Room
}

// into makes the covering process one with a network of its own.
func (i *Isolation) into(outer *exec.Cmd) (*jail, error) {
	ours, theirs, err := netns.Pair()
	if err != nil {
		return nil, err
	}
	outer.ExtraFiles = append(outer.ExtraFiles, theirs)
	outer.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	return &jail{ours: ours, theirs: theirs}, nil
}

// unserved is why nobody serves the network. The covering process, which is ended for it, knows
// no more than that.
type unserved struct{ error }

// Unwrap gives what went wrong.
func (e *unserved) Unwrap() error { return e.error }

// open takes the room from the covering process, which has started, has it
// served, and lets the program start. With an error the covering process ends.
func (j *jail) open(i *Isolation) (err error) {
	j.theirs.Close() // so that the end of the process is an end to read
	defer func() {
		if err != nil {
			j.ours.Close()
		}
	}()
	if err := netns.Tell(j.ours, i.furniture); err != nil {
		return err
	}
	if j.room, err = netns.Receive(j.ours, i.names, i.doors); err != nil {
		return err
	}
	if err := i.Serve(j.room); err != nil {
		return &unserved{err}
	}
	return netns.Release(j.ours)
}

func (j *jail) close() {
	if j.room != nil {
		j.room.Close()
	}
	j.ours.Close()
	j.theirs.Close()
}

// isolated furnishes the network of the covering process, as it is told on its connection,
// waits until it is served, and confines what this thread starts.
func isolated(connection int) error {
	out := os.NewFile(uintptr(connection), "room")
	defer out.Close()
	syscall.CloseOnExec(connection)
	told, err := netns.Told(out)
	if err != nil {
		return err
	}
	var f netns.Furniture
	if err := json.Unmarshal(told, &f); err != nil {
		return err
	}
	if err := netns.Furnish(f, out); err != nil {
		return err
	}
	if err := netns.AwaitRelease(out); err != nil {
		return err
	}
	return netns.Confine()
}
