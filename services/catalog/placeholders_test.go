package catalog_test

import (
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// No placeholder may belong to two services, and each must be told from a key
// at a glance, or by its hexadecimal digits where a form has no other letters.
func TestPlaceholders(t *testing.T) {
	owner := map[string]string{}
	for _, s := range overHTTP(load(t)) {
		for _, value := range slices.Sorted(maps.Values(s.Placeholders)) {
			if !strings.Contains(value, "kimbap") && !strings.Contains(value, hex.EncodeToString([]byte("kimbap"))) {
				t.Errorf("%s: the placeholder %s could be somebody's key", s.Name, value)
			}
			if other := owner[value]; other != "" && other != s.Name {
				t.Errorf("%s and %s share the placeholder %s", other, s.Name, value)
			}
			owner[value] = s.Name
		}
	}
}

// accepted are the forms that programs want a key in before they send anything.
func accepted() map[string]string {
	return map[string]string{
		"CLOUDFLARE_API_TOKEN": `^[A-Za-z0-9_-]{40}$`,                // terraform, cf-terraforming
		"VERCEL_TOKEN":         `^\w+$`,                              // vercel
		"SENDGRID_API_KEY":     `^SG\.`,                              // @sendgrid/client warns otherwise
		"SLACK_BOT_TOKEN":      `^xoxb-`,                             // slack_bolt
		"STRIPE_API_KEY":       `^(sk|rk)_(test|live)_\w+$`,          // stripe
		"GEMINI_API_KEY":       `^AIza[0-9A-Za-z_-]{35}$`,            // older checks for Google's keys
		"AIRTABLE_API_KEY":     `^pat\w{14}\.\w+$`,                   // airtable's own form
		"DISCORD_TOKEN":        `^[\w-]{24,}\.[\w-]{6}\.[\w-]{27,}$`, // hikari, JDA
		"RESEND_API_KEY":       `^re_\w{8}_\w+$`,
		"NOTION_TOKEN":         `^(ntn|secret)_\w+$`,
		"LINEAR_API_KEY":       `^lin_api_\w+$`,
		"GITHUB_TOKEN":         `^gh[pos]_\w+$`,
		"GITLAB_TOKEN":         `^glpat-[\w-]{20,}$`,
		"OPENAI_API_KEY":       `^sk-`,
		"ANTHROPIC_API_KEY":    `^sk-ant-`,
		"FIGMA_TOKEN":          `^figd_\w+$`,
		"DD_APP_KEY":           `^ddpat_\w+$`,
		"HUBSPOT_ACCESS_TOKEN": `^pat-\w+-\w+$`,
		"TODOIST_API_TOKEN":    `^\w{40}$`,
		"TWILIO_AUTH_TOKEN":    `^\w{32}$`,
		"TWILIO_API_SECRET":    `^\w{32}$`,              // twilio-cli, terraform
		"SENTRY_AUTH_TOKEN":    `^sntryu_[0-9a-f]{64}$`, // sentry-cli warns otherwise
		"TWINE_PASSWORD":       `^pypi-[\w-]+$`,
		"ASANA_ACCESS_TOKEN":   `^2/\d+/\d+:\w+$`,

		// What MCP servers read, and end without: server-github and github-mcp-server,
		// server-gitlab, @hubspot/mcp-server, @sentry/mcp-server, slack-mcp-server.
		"GITHUB_PERSONAL_ACCESS_TOKEN": `^gh[pos]_\w+$`,
		"GITLAB_PERSONAL_ACCESS_TOKEN": `^glpat-[\w-]{20,}$`,
		"PRIVATE_APP_ACCESS_TOKEN":     `^pat-\w+-\w+$`,
		"SENTRY_ACCESS_TOKEN":          `^sntryu_[0-9a-f]{64}$`,
		"SLACK_MCP_XOXB_TOKEN":         `^xoxb-`,

		// Further MCP servers, PagerDuty's and Doist's, and GitLab's command line.
		"PAGERDUTY_USER_API_KEY": `^u\+[\w-]+$`,
		"TODOIST_API_KEY":        `^\w{40}$`,
		"GITLAB_ACCESS_TOKEN":    `^glpat-[\w-]{20,}$`,

		// What Notion's command line reads.
		"NOTION_API_TOKEN": `^(ntn|secret)_\w+$`,
	}
}

func TestProgramsAcceptTheirPlaceholders(t *testing.T) {
	want := accepted()
	for _, s := range overHTTP(load(t)) {
		for name, value := range s.Placeholders {
			pattern, known := want[name]
			delete(want, name)
			if known && !regexp.MustCompile(pattern).MatchString(value) {
				t.Errorf("%s: programs refuse %s=%s, which is not like %s", s.Name, name, value, pattern)
			}
		}
	}
	for name := range want {
		t.Errorf("no service has a placeholder for %s", name)
	}
}
