//go:build !linux

package resource

func forgetText() {}
