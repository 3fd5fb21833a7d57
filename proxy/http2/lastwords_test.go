package http2

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// Of two who have last words, as a client's fault does when its connection is being retired,
// the second finds out that the first has said them.
func TestLastWordsWaitForNobodyWhoIsDone(t *testing.T) {
	server, err := New(Options{
		Handler: func(*Stream) {}, Go: func(f func()) { go f() }, Streams: 1, StreamWindow: firstWindow, ConnWindow: firstWindow,
		HeadBytes: 1, IdleTimeout: time.Minute, HeadTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	c := server.newConn(context.Background(), ours)
	defer c.timer.Stop()
	said := make(chan bool, 2)
	go func() { said <- c.lastWords() }()
	if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil { // it is being said
		t.Fatal(err)
	}
	go func() { said <- c.lastWords() }()
	time.Sleep(10 * time.Millisecond) // so that it waits, most of the time
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	for range 2 {
		select {
		case <-said:
		case <-time.After(20 * time.Second):
			t.Fatal("somebody waits for ever")
		}
	}
	_ = ours.Close()
	_ = theirs.Close()
}
