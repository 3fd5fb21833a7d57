package worker

import "github.com/kimbap-run/kimbap/runtime/sandbox/frame"

// Level starts a worker, asks what holds it, and ends it. The error says why script
// mode does not work here.
func Level(o Options) (frame.Level, error) {
	p, err := Start(o)
	if err != nil {
		return "", err
	}
	defer p.Kill()
	if err := p.Ready(); err != nil {
		return "", err
	}
	return p.Level(), nil
}
