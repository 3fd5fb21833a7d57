package services

import "testing"

// BenchmarkMarks looks for forty placeholders in the names of a usual head.
func BenchmarkMarks(b *testing.B) {
	m := marks{of: map[string]string{}}
	for _, head := range []string{"ghp", "sk", "sk-ant", "glpat", "ya29.", "pat-na1", "lin_api", "ntn", "npm", "xoxb", "sk_test", "SG.", "AIzaSy", "re", "u+", "figd", "ddpat", "sntryu"} {
		m.add(head+"_kimbap", head)
		m.add(head+"-kimbapkimbap", head)
	}
	names := []string{"Accept", "Accept-Encoding", "Authorization", "Content-Type", "User-Agent", "X-Github-Api-Version", "X-Stainless-Runtime-Version", "Traceparent"}
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range names {
			if _, found := m.within(name); found {
				b.Fatal(name)
			}
		}
	}
}
