package syslogd

// Gone is closed when the daemon has hung up.
func (s *Sink) Gone() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}
