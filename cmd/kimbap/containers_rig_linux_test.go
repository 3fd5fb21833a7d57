package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// image is what a Dockerfile says of its last stage.
type image struct {
	user               string
	env                []string
	entry, cmd, health []string
}

func readImage(t *testing.T) image {
	t.Helper()
	data, err := os.ReadFile(containersDir + "Dockerfile")
	check(t, err)
	_, last, found := strings.Cut(string(data), "\nFROM scratch\n")
	if !found {
		t.Fatal("the image is not made from nothing")
	}
	var i image
	words := func(text string) (out []string) {
		check(t, json.Unmarshal([]byte(text[strings.IndexByte(text, '['):]), &out))
		return out
	}
	for line := range strings.Lines(last) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "USER":
			i.user = rest
		case "ENV":
			i.env = append(i.env, strings.Fields(rest)...)
		case "ENTRYPOINT":
			i.entry = words(rest)
		case "CMD":
			i.cmd = words(rest)
		case "HEALTHCHECK":
			i.health = words(rest)
		case "RUN":
			t.Error("there is no shell to RUN anything with")
		}
	}
	if i.user != "65532:65532" || len(i.entry) != 1 || len(i.cmd) == 0 || len(i.health) == 0 {
		t.Fatalf("the image is %+v", i)
	}
	return i
}

// furnishContainer is a shell's words that make a folder the read-only root of what
// it starts, with /data and /tmp to write, as an engine would.
const furnishContainer = `set -e
root=$1; data=$2; ca=$3; user=$4; shift 4
mount --make-rprivate /
mount --bind "$root" "$root"
mount --bind "$data" "$root/data"
mount --bind "$ca" "$root/ca"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mount -t proc none "$root/proc"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" "$@"`

// container is one whose root holds kimbap alone.
type container struct {
	image image
	*home
	root, data, ca string
}

func newContainer(t *testing.T, w *world) *container {
	t.Helper()
	program, err := workerBuilt()
	check(t, err)
	dir := t.TempDir()
	c := &container{image: readImage(t), home: w.newHome(t), root: dir + "/root", data: dir + "/data", ca: dir + "/ca"}
	for _, d := range []string{"/root/data", "/root/ca", "/root/tmp", "/root/proc", "/root/etc/ssl/certs", "/data", "/ca"} {
		check(t, os.MkdirAll(dir+d, 0o755))
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		check(t, os.Chmod(d, 0o755))
	}
	c.dir, c.home.user = c.data, c.data
	check(t, os.Chown(c.data, 65532, 65532))
	check(t, os.Chmod(c.data, 0o700))
	check(t, os.Chown(c.ca, 65532, 65532))
	copyFile(t, program, c.root+"/kimbap")
	copyFile(t, w.roots, c.root+"/etc/ssl/certs/ca-certificates.crt")
	copyFile(t, "/etc/hosts", c.root+"/etc/hosts")
	check(t, os.WriteFile(c.data+"/config.yaml", []byte("egress: {private: allow}\n"), 0o644))
	return c
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	check(t, err)
	check(t, os.MkdirAll(filepath.Dir(to), 0o755))
	check(t, os.WriteFile(to, data, 0o755))
}

func (c *container) argv(args ...string) []string {
	return append([]string{"unshare", "-m", "sh", "-c", furnishContainer, "sh", c.root, c.data, c.ca, c.image.user}, args...)
}

// do runs one command of the image.
func (c *container) do(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return c.exec(t, append([]string{"PATH=" + os.Getenv("PATH")}, c.image.env...), stdin, c.argv(args...)...)
}

func (c *container) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	r := c.do(t, stdin, append(append([]string{}, c.image.entry...), args...)...)
	if r.code != 0 {
		t.Fatalf("%q: exit code %d\n%s\n%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// start starts what the image starts, and waits until its health check is content.
func (c *container) start(t *testing.T) {
	t.Helper()
	argv := c.argv(append(append([]string{}, c.image.entry...), c.image.cmd...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.image.env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("at its end: %v\n%s", err, said.String())
		}
	})
	for end := time.Now().Add(deadline); c.do(t, "", c.image.health...).code != 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never got healthy\n%s", said.String())
		}
	}
}

// innerNetwork makes a network with one other machine in it, kimbap, and returns what
// starts a program there.
func innerNetwork(t *testing.T) func(argv ...string) []string {
	t.Helper()
	holder := exec.Command("unshare", "-n", "sh", "-c", "echo up; exec sleep 600")
	out, err := holder.StdoutPipe()
	check(t, err)
	check(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	pid := fmt.Sprint(holder.Process.Pid)
	for _, line := range []string{
		"ip link add kimbap0 type veth peer name agent0 netns " + pid, "ip address add 10.77.0.1/24 dev kimbap0", "ip link set kimbap0 up",
		"nsenter -t " + pid + " -n ip link set lo up", "nsenter -t " + pid + " -n ip address add 10.77.0.2/24 dev agent0",
		"nsenter -t " + pid + " -n ip link set agent0 up",
	} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "kimbap0").Run() })
	return func(argv ...string) []string { return append([]string{"nsenter", "-t", pid, "-n"}, argv...) }
}

// minimalRoot holds curl and the libraries that it names, and no more.
func minimalRoot(t *testing.T, mounted string) string {
	t.Helper()
	root := t.TempDir()
	path, err := exec.LookPath("curl")
	check(t, err)
	copyFile(t, path, root+"/bin/curl")
	out, err := exec.Command("ldd", path).Output()
	check(t, err)
	for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(out), -1) {
		copyFile(t, library, root+library)
	}
	for _, file := range []string{"ca.pem", "bundle.pem", "clients/kimbap-wgetrc", "clients/trust.jks"} {
		copyFile(t, filepath.Join(mounted, file), root+"/etc/kimbap/"+file)
	}
	check(t, os.WriteFile(root+"/etc/hosts", []byte("10.77.0.1 kimbap\n93.184.216.11 api.github.com\n"), 0o644))
	return root
}
