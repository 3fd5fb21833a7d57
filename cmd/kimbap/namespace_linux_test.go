package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
)

// addresses are the only hosts in the world of these tests. The addresses look
// public, because the guard treats loopback otherwise; they lead to lo.
var addresses = map[string]string{
	"api.acme.example":   "93.184.216.10",
	"api.github.com":     "93.184.216.11",
	"github.com":         "93.184.216.12",
	"registry.npmjs.org": "93.184.216.13",
	"api.openai.com":     "93.184.216.14",
	"api.anthropic.com":  "93.184.216.15",
	"cargo.acme.example": "93.184.216.16",
	"pypi.acme.example":  "93.184.216.17",
	"npm.acme.example":   "93.184.216.18",
	"s3.acme.example":    "93.184.216.19",
	"api.stripe.com":     "93.184.216.20",
	"mcp.shop.example":   "93.184.216.21",
	"example.com":        "93.184.216.34",
}

func base(program string) string { return filepath.Base(program) }

// enterNamespace runs this binary again in a network and mount namespace of its
// own, with nothing but loopback, and ends with its exit code. In there it
// returns.
func enterNamespace() {
	if os.Getenv(namespaceVar) != "" {
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "namespace:", err)
			os.Exit(1)
		}
		return
	}
	if os.Geteuid() != 0 {
		leaveNamespaceOut("this is not root")
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), namespaceVar+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	goruntime.LockOSThread() // Pdeathsig follows the thread that started the process
	if err := cmd.Start(); err != nil {
		leaveNamespaceOut(err.Error())
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "namespace:", err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// furnish gives the namespace its addresses and names. A name that is not in
// the table does not resolve, and nothing leads out.
func furnish() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	hosts := "127.0.0.1 localhost\n::1 localhost\n"
	commands := [][]string{{"link", "set", "lo", "up"}}
	for host, address := range addresses {
		hosts += address + " " + host + "\n"
		commands = append(commands, []string{"address", "add", address + "/32", "dev", "lo"})
	}
	for _, args := range commands {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	// sshd wants its empty folder below /run.
	if err := syscall.Mount("kimbap-test", "/run", "tmpfs", 0, "size=1m,mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := cover("/etc/hosts", hosts); err != nil {
		return err
	}
	if err := cover("/etc/resolv.conf", ""); err != nil {
		return err
	}
	return os.Mkdir("/run/sshd", 0o755)
}

// cover puts text in the place of a system file, in this namespace only. The
// text's own file stays, since nobody could cover one that is gone again.
func cover(path, text string) error {
	file := filepath.Join("/run", filepath.Base(path))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if err := syscall.Mount(file, path, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", path, err)
	}
	return nil
}
