//go:build !linux

package worker

import "github.com/kimbap-run/kimbap/runtime/sandbox/frame"

// fit refuses nothing: any kimbap can be a worker.
func fit() error { return nil }

// confineSystem has nothing to give up here: this system has no filter that we know.
func confineSystem(Settings) (frame.Level, error) { return frame.LevelProcess, nil }
