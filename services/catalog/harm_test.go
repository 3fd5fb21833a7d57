package catalog_test

import (
	"regexp"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// removing finds writes that take something away by another method than DELETE.
var removing = regexp.MustCompile(`(?i)(?:\b|_)(delete|remove|destroy|purge|revoke|kick|archive|disable|wipe|erase|terminate|suspend(ed)?|trash|prune|detach|disconnect|void|redact|obliterate)(?:\b|_)|` +
	`/block$|/deletion/|/dismissals$|(?-i:(remove|delete|revoke)[A-Z])|/mergeto/`)

// little is what is put back with a click, and what only sounds like it.
var little = regexp.MustCompile(`/api/(pins|reactions|stars)\.remove$|/active-session/kick|/feature-flags/.*/disable$|` +
	`/archive-order$|/deletion/requests/.*/cancel$|/archive_searches$|/archives/|/default_inbox_rules/.*/disable$|/lists/.*/memberships/|/issues/archive/export$|` +
	`/mail_settings/bounce_purge$|/validate_archive$|/purge_build_cache$|/purge_cache$|` +
	`/detach-from-lang-group$|/remove(CustomFieldSetting|Followers|SupportingRelationship|Item|Dependencies|Dependents|Project|Tag)$|` +
	`/chat\.deleteScheduledMessage$|/users\.deletePhoto$|/files\.revokePublicURL$|/admin\.usergroups\.removeChannels$|/revokeChatInviteLink$|` +
	`/(delete(AllMessageReactions|ChatPhoto|ChatStickerSet|EphemeralMessage|MessageReaction|MyCommands|StickerFromSet)|` +
	`remove(BusinessAccountProfilePhoto|ChatVerification|MyProfilePhoto|UserVerification))$`)

// What takes something away is above medium, by whatever method it goes.
func TestWhatRemovesIsAboveMedium(t *testing.T) {
	set := load(t)
	found := 0
	for _, name := range indexed() {
		s := service(t, set, name)
		for _, o := range readIndex(t, name) {
			if o.Method == "GET" || o.Method == "HEAD" || o.Method != "DELETE" && (!removing.MatchString(o.Path) || little.MatchString(o.Path)) {
				continue
			}
			found++
			if a := classify(t, set, s, o); a == nil || !above(a.Risk, runtime.RiskMedium) {
				t.Errorf("%s (%s) takes something away and is %s", o, o.Name, describe(a))
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d operations were looked at", found)
	}
}
