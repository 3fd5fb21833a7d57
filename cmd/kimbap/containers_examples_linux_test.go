package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// composeFile is what of the compose file is looked at.
type composeFile struct {
	Services map[string]struct {
		Networks    any
		Command     []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		Volumes     []string
		Environment map[string]string
	}
	Networks map[string]struct {
		Internal bool
		Options  map[string]string `yaml:"driver_opts"`
	}
}

func readCompose(t *testing.T) (c composeFile) {
	t.Helper()
	data, err := os.ReadFile(containersDir + "compose.yaml")
	check(t, err)
	check(t, yaml.Unmarshal(data, &c))
	return c
}

// dockerVariables are those of kimbap env --shell docker for a proxy.
func dockerVariables(t *testing.T, proxy string) map[string]string {
	t.Helper()
	env := append(os.Environ(), "KIMBAP_HOME="+filepath.Join(t.TempDir(), "home"))
	run := func(args ...string) string {
		cmd := exec.Command("kimbap", args...)
		cmd.Env = env
		out, err := cmd.Output()
		check(t, err)
		return string(out)
	}
	run("init", "-q")
	out := map[string]string{}
	for _, word := range strings.Fields(run("env", "-q", "--shell", "docker", "--proxy", proxy)) {
		if pair, ok := strings.CutPrefix(word, "--env="); ok {
			name, value, _ := strings.Cut(pair, "=")
			out[name] = value
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d variables", len(out))
	}
	return out
}

func sameVariables(t *testing.T, what string, have, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if have[name] != value {
			t.Errorf("%s: %s is %q, and kimbap env says %q", what, name, have[name], value)
		}
	}
}

// What stands in the examples is what kimbap env says today.
func TestExamplesOfContainersAgreeWithEnv(t *testing.T) {
	compose := readCompose(t)
	sameVariables(t, "compose.yaml", compose.Services["agent"].Environment, dockerVariables(t, "http://kimbap:${KIMBAP_AGENT_TOKEN:-}@kimbap:7788"))
	agent, proxy := compose.Services["agent"], compose.Services["kimbap"]
	if fmt.Sprint(agent.Networks) != "[inside]" || !compose.Networks["inside"].Internal || fmt.Sprint(agent.Volumes) != "[ca:/etc/kimbap:ro]" {
		t.Errorf("the agent has networks %v and volumes %v", agent.Networks, agent.Volumes)
	}
	for _, family := range []string{"ipv4", "ipv6"} { // without these the machine has an address in it, as all may reach it
		if mode := compose.Networks["inside"].Options["com.docker.network.bridge.gateway_mode_"+family]; mode != "isolated" {
			t.Errorf("the network inside has an address of the machine: %s is %q", family, mode)
		}
	}
	if !proxy.ReadOnly || fmt.Sprint(proxy.CapDrop) != "[ALL]" || fmt.Sprint(proxy.Networks) != "[inside outside]" {
		t.Errorf("kimbap is %+v", proxy)
	}
	pod := readPod(t)
	have := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		have[v.Name] = v.Value
	}
	sameVariables(t, "kubernetes.yaml", have, dockerVariables(t, "http://kimbap:$(TOKEN)@127.0.0.1:7788"))
	for _, c := range pod.Spec.InitContainers {
		if s := c.SecurityContext; !s.ReadOnlyRootFilesystem || !s.RunAsNonRoot || s.RunAsUser != 65532 {
			t.Errorf("%s: %+v", c.Name, s)
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.Name != "ca" || !m.ReadOnly {
			t.Errorf("the agent mounts %+v", m)
		}
	}
	var feature, devcontainer struct{ ContainerEnv map[string]string }
	for file, into := range map[string]any{"feature/devcontainer-feature.json": &feature, "devcontainer.json": &devcontainer} {
		data, err := os.ReadFile(containersDir + file)
		check(t, err)
		check(t, json.Unmarshal(data, into))
	}
	for name, value := range devcontainer.ContainerEnv {
		feature.ContainerEnv[name] = value
	}
	sameVariables(t, "devcontainer", feature.ContainerEnv, dockerVariables(t, "http://kimbap:${localEnv:KIMBAP_AGENT_TOKEN}@host.docker.internal:7788"))
}

// pod is what of the Kubernetes example is looked at.
type pod struct {
	Spec struct {
		InitContainers, Containers []struct {
			Name            string
			Args            []string
			Env             []struct{ Name, Value string }
			SecurityContext struct {
				RunAsUser              int  `yaml:"runAsUser"`
				RunAsNonRoot           bool `yaml:"runAsNonRoot"`
				ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
			} `yaml:"securityContext"`
			VolumeMounts []struct {
				Name     string
				ReadOnly bool `yaml:"readOnly"`
			} `yaml:"volumeMounts"`
		}
	}
}

func readPod(t *testing.T) pod {
	t.Helper()
	data, err := os.ReadFile(containersDir + "kubernetes.yaml")
	check(t, err)
	var raw struct {
		Spec struct {
			Init yaml.Node `yaml:"initContainers"`
			Main yaml.Node `yaml:"containers"`
		}
	}
	check(t, yaml.NewDecoder(bytes.NewReader(data)).Decode(&raw))
	var p pod
	check(t, raw.Spec.Init.Decode(&p.Spec.InitContainers))
	check(t, raw.Spec.Main.Decode(&p.Spec.Containers))
	return p
}
