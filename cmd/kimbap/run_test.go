package main

import "testing"

// A rule for the agent "agent" is for the program, wherever it lies and however its system writes it.
func TestAnAgentIsNamedAsItsProgram(t *testing.T) {
	for _, c := range []struct{ system, program, want string }{
		{"linux", "agent", "agent"},
		{"linux", "./bin/Agent", "agent"},
		{"linux", "/opt/agent.exe", "agent"},
		{"linux", "AGENT.EXE", "agent"},
		{"linux", `my\agent`, "my-agent"}, // one name there
		{"windows", "agent", "agent"},
		{"windows", `C:\tools\agent.exe`, "agent"},
		{"windows", `.\a.exe`, "a"},
		{"windows", `C:\Tools/AGENT.EXE`, "agent"},
		{"windows", "c:agent.exe", "agent"},
	} {
		if got := agentName(c.program, c.system); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.program, c.system, got, c.want)
		}
	}
}
