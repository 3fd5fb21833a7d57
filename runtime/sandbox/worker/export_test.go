package worker

import "os"

// In is the parent's end of the pipe to a worker.
func (p *Process) In() *os.File { return p.in }

// EndWarm kills the workers that wait, behind the pool's back.
func (p *Pool) EndWarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.warm {
		_ = w.cmd.Process.Kill()
		<-w.gone
	}
}

// Empty reports whether no worker waits or is being started.
func (p *Pool) Empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starting == 0 && len(p.warm) == 0
}

// Ready is how many workers wait for a script.
func (p *Pool) Ready() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.warm)
}
