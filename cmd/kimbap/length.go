package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/config"
)

// timeLimit is a flag's length of time that something may take: none is below zero.
type timeLimit time.Duration

var _ pflag.Value = (*timeLimit)(nil)

// String implements [pflag.Value]; no limit is "".
func (l *timeLimit) String() string {
	if *l == 0 {
		return ""
	}
	return config.Duration(*l).String()
}

// Type implements [pflag.Value].
func (l *timeLimit) Type() string { return "duration" }

// Set implements [pflag.Value].
func (l *timeLimit) Set(text string) error {
	d, err := config.ParseDuration(text)
	if err == nil {
		*l = timeLimit(d)
	}
	return err
}

// lengthOfTime is a timeLimit for what lasts for days at times.
type lengthOfTime time.Duration

var _ pflag.Value = (*lengthOfTime)(nil)

// String implements [pflag.Value].
func (l *lengthOfTime) String() string { return (*timeLimit)(l).String() }

// Type implements [pflag.Value].
func (l *lengthOfTime) Type() string { return "duration" }

// Set implements [pflag.Value].
func (l *lengthOfTime) Set(text string) error { return (*timeLimit)(l).Set(text) }
