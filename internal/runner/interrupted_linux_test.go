package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Ctrl-C ends the covering process too, before that can do anything about it: the run was
// interrupted then, and no cover has failed.
func TestACoverThatIsInterruptedHasNotFailed(t *testing.T) {
	for _, by := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		self := []string{"sh", "-c", fmt.Sprintf("kill -%d $$", by)}
		r := run(t, secretFolder(t), func(o *Options) { o.Self = self }, "true")
		var interrupted *Interrupted
		if !errors.As(r.err, &interrupted) || interrupted.By != by {
			t.Errorf("%v: %d, %v", by, r.code, r.err)
		}
	}
	s := &Signals{came: make(chan os.Signal, 1)}
	s.came <- syscall.SIGINT
	outer := exec.Command("false")
	_ = outer.Run()
	if err := interruptedWith(outer, s); err == nil || err.Error() != "nothing was started: interrupt" {
		t.Errorf("it came to this process alone: %v", err)
	}
	if err := interruptedWith(outer, s); err != nil {
		t.Errorf("none came: %v", err)
	}
}
