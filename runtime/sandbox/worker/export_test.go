package worker

// EndWarm kills the workers that wait, behind the pool's back.
func (p *Pool) EndWarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.warm {
		_ = w.cmd.Process.Kill()
		<-w.gone
	}
}
