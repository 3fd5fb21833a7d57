package policy

import "strings"

// DefaultFile is the file that `kimbap init` writes: the defaults spelled out
// and examples to uncomment. The strict one asks a person for medium risk too
// and denies hosts that no service owns.
func DefaultFile(strict bool) []byte {
	text := defaultFile
	if strict {
		text = strings.ReplaceAll(text, "medium: allow             #", "medium: require_approval  #")
		text = strings.ReplaceAll(text, "unmatched: allow          #", "unmatched: deny           #")
	}
	return []byte(text)
}

const defaultFile = `# What agents may do. kimbap reads this file again whenever it changes; a file
# with a mistake in it is refused as a whole and the one before it stays.
#
#   kimbap policy validate      check this file
#   kimbap policy explain       see which rule decides a request, and why
version: 1

# What holds where no rule below decides, by the risk of the action:
# allow, deny or require_approval (a person decides).
defaults:
  low: allow                # reads
  medium: allow             # ordinary writes
  high: require_approval    # what is hard to undo
  critical: deny            # what hands out power, and raw tunnels
  unmatched: allow          # hosts that no installed service owns

# enforce, or report: what rules deny or ask is recorded but let through, for
# trying them out. The defaults above hold in both.
mode: enforce

# Rules are tried from the top and the first that matches decides. All fields of
# a match must hold; a field holds when one of its patterns does. In patterns *
# stands for any text, and must be quoted. Take the "# " off to use these:
#
# rules:
#   - name: reads-for-everyone
#     match: {action: ["github.list-*", "github.get-*"]}
#     then: allow
#
#   - name: ask-before-deleting
#     match: {action: "*.delete-*", agent: [claude, "ci-*"]}
#     then: require_approval
#     approval: {expires: 15m}
#
#   - name: no-deletes-in-production
#     match: {action: "github.delete-*"}
#     when: args.?repo.orValue("").startsWith("prod-")
#     then: deny
#     reason: deletes in production go through the release process
#
#   - name: polite
#     match: {service: github}
#     limit: {rate: 60/m, burst: 20, per: agent}
#
#   - name: no-pastebins
#     match: {host: ["pastebin.com", "*.internal.example"]}
#     then: deny
#     reason: data does not leave this way
#
# Fields of a match: action, agent, role, group, host, risk, service, surface,
# method, tenant. Conditions (when) are CEL; see docs/policy.md.
`
