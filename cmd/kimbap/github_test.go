//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// operation finds the name of a GraphQL operation.
var operation = regexp.MustCompile(`(?m)^\s*(?:query|mutation)\s+(\w+)`)

// pull is a pull request as GraphQL answers it.
const pull = `{"number":7,"title":"Teach the door to open","state":"OPEN","url":"https://github.com/octo/door/pull/7",` +
	`"headRefName":"open","headRepositoryOwner":{"id":"U1","login":"octo"},"isCrossRepository":false,"isDraft":false,"createdAt":"2026-01-02T03:04:05Z"}`

const repository = `{"id":"R1","name":"door","nameWithOwner":"octo/door","owner":{"id":"U1","login":"octo"},"description":"A door",` +
	`"url":"https://github.com/octo/door","hasIssuesEnabled":true,"hasWikiEnabled":false,"viewerPermission":"WRITE","isPrivate":true,` +
	`"isFork":false,"parent":null,"defaultBranchRef":{"name":"main"},"mergeCommitAllowed":true,"rebaseMergeAllowed":true,"squashMergeAllowed":true}`

// graphql are the answers that gh 2.23 asks for.
var graphql = map[string]string{
	"PullRequestList":      `{"repository":{"pullRequests":{"totalCount":1,"nodes":[` + pull + `],"pageInfo":{"hasNextPage":false,"endCursor":""}}}}`,
	"RepositoryInfo":       `{"repository":` + repository + `}`,
	"PullRequestForBranch": `{"repository":{"pullRequests":{"nodes":[]},"defaultBranchRef":{"name":"main"}}}`,
	"PullRequestCreate":    `{"createPullRequest":{"pullRequest":{"id":"P7","url":"https://github.com/octo/door/pull/7"}}}`,
}

// githubAPI answers what gh asks for, and names what it does not know.
func githubAPI(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Oauth-Scopes", "repo, read:org")
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/graphql":
			var asked struct{ Query string }
			check(t, json.NewDecoder(r.Body).Decode(&asked))
			name := "?"
			if m := operation.FindStringSubmatch(asked.Query); m != nil {
				name = m[1]
			}
			answer, ok := graphql[name]
			if !ok {
				t.Errorf("the GitHub stub does not know the query %s: %s", name, asked.Query)
			}
			fmt.Fprintf(w, `{"data":%s}`, answer)
		case r.URL.Path == "/user":
			fmt.Fprint(w, `{"login":"octo","id":1}`)
		case r.URL.Path == "/repos/octo/door/readme":
			fmt.Fprint(w, `{"name":"README.md","path":"README.md","encoding":"base64","content":"QSBkb29yIHRoYXQgb3BlbnMu"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"Not Found"}`)
		}
	})
}

// gitServer serves the repository octo/door as github.com does, with git's own
// back end.
func gitServer(t *testing.T) http.Handler {
	root := t.TempDir()
	repo := filepath.Join(root, "octo", "door.git")
	work := filepath.Join(t.TempDir(), "seed")
	git(t, "init", "--quiet", "--bare", "--initial-branch=main", repo)
	git(t, "init", "--quiet", "--initial-branch=main", work)
	check(t, os.WriteFile(filepath.Join(work, "README.md"), []byte("A door that opens.\n"), 0o644))
	git(t, "-C", work, "add", ".")
	git(t, "-C", work, "-c", "user.name=o", "-c", "user.email=o@example.com", "commit", "--quiet", "-m", "A door")
	git(t, "-C", work, "push", "--quiet", repo, "main")
	libexec, err := exec.Command("git", "--exec-path").Output()
	check(t, err)
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=octo", "HOME=" + root,
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}
}

// git runs git for the test itself, without anybody's settings.
func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
