package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/config"
)

// lengthOfTime is a flag's length of time: none is below zero.
type lengthOfTime struct {
	of   *time.Duration
	like string // examples, for who wrote what is none
}

var _ pflag.Value = (*lengthOfTime)(nil)

// lasting is the flag of what may take moments.
func lasting(d *time.Duration) *lengthOfTime { return &lengthOfTime{d, "30s or 10m"} }

// lastingDays is the flag of what lasts for days at times.
func lastingDays(d *time.Duration) *lengthOfTime { return &lengthOfTime{d, "10m, 12h or 30d"} }

// String implements [pflag.Value]; no length is "".
func (l *lengthOfTime) String() string {
	if *l.of == 0 {
		return ""
	}
	return config.Duration(*l.of).String()
}

// Type implements [pflag.Value].
func (l *lengthOfTime) Type() string { return "duration" }

// Set implements [pflag.Value].
func (l *lengthOfTime) Set(text string) error {
	d, err := config.ParseDuration(text)
	if err == nil {
		*l.of = d.Duration()
	}
	return err
}
