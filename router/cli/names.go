package cli

import (
	"fmt"
	"strings"
	"unicode"

	"signalbox/router"
)

// irregular are the commands whose names do not follow from the id of the operation.
var irregular = map[string]string{
	"login": "user login", "logout": "user logout", "me": "user me", "updateMe": "user update-me", "changePassword": "user change-password",
	"listSessions": "user own-sessions", "endSession": "user end-session", "endOtherSessions": "user end-other-sessions",
	"deleteClusters": "cluster delete-all", "drainClusterNode": "cluster drain", "undrainClusterNode": "cluster undrain", "getRaftStatus": "cluster status",
	"getDefaultACLAccess": "default-acl get", "setDefaultACLAccess": "default-acl set",
	"inspectClients": "session list", "inspectClient": "session get",
	"streamEvents": "broker events", "getMetricHistory": "broker history", "getLicense": "broker license",
	"publish": "message publish",
	"getTTL":  "topic ttl", "setTTL": "topic set-ttl",
	"listBackups": "service backups", "createBackup": "service create-backup", "verifyBackup": "service verify-backup",
	"downloadBackup": "service download-backup", "deleteBackup": "service delete-backup",
	"getHealth": "service health", "getReadiness": "service readiness", "getMetrics": "service metrics", "getOpenAPI": "service openapi",
	"getDisk": "service disk", "getSystem": "service get", "getSupportBundle": "service support-bundle", "getLogLevel": "log get-level", "setLogLevel": "log level",
}

// without are the operations that have no command, each with the reason.
var without = map[string]string{
	"getSiteSchema": "\"signalbox export --schema\" prints it",
	"verifyAudit":   "\"signalbox audit verify\" reads the database itself",
	"getDocs":       "a page for browsers",
	"getDocsAsset":  "a part of a page for browsers",
	"getManual":     "a page for browsers; \"signalbox help\" lists the manual",
	"getManualPage": "a page for browsers; \"signalbox help TOPIC\" prints it",
}

// nounOfTag is the noun of all operations with a tag. A client of access control has a
// username, a session a client id: they must not be confused.
var nounOfTag = map[string]string{"Client inspection": "session"}

// verbs are those with another name than in the id.
var verbs = map[string]string{"modify": "update", "put": "set"}

// An operation that enables or disables, by a member of its body, has a command for each.
const (
	enableVerb  = "enable"
	disableVerb = "disable"
)

// nounsOf returns the name of the command of each operation: noun and verb, or one word.
// It fails if two have the same.
func nounsOf(ops []router.Operation) (map[string][]string, error) {
	known := kindsOf(ops)
	all, taken := map[string][]string{}, map[string]string{}
	for _, op := range ops {
		if _, none := without[op.ID]; none {
			continue
		}
		name := nameOf(op, known)
		if other, ok := taken[name]; ok {
			return nil, fmt.Errorf("%s and %s have the same command %q", other, op.ID, name)
		}
		taken[name], all[op.ID] = op.ID, strings.Fields(name)
	}
	return all, nil
}

// kindsOf returns the kinds of objects: what is listed or created.
func kindsOf(ops []router.Operation) map[string]bool {
	known := map[string]bool{}
	for _, op := range ops {
		if words := split(op.ID); len(words) > 1 && (words[0] == "list" || words[0] == "create") {
			known[singular(strings.Join(words[1:], "-"))] = true
		}
	}
	return known
}

// nameOf returns the name of an operation's command.
func nameOf(op router.Operation, known map[string]bool) string {
	if name, ok := irregular[op.ID]; ok {
		return name
	}
	return regularName(op, known)
}

// regularName returns the name that follows from the id. The first word of the id is the
// verb, the rest the noun; of words that follow the name of a kind of object the verb is
// made: setClusterLeader is "cluster set-leader", getStreamTimeline "stream timeline". An
// id of one word is a command of one word.
func regularName(op router.Operation, known map[string]bool) string {
	words := split(op.ID)
	verb, rest := words[0], words[1:]
	if v, ok := verbs[verb]; ok {
		verb = v
	}
	if noun, ok := nounOfTag[op.Tag]; ok {
		return noun + " " + verb
	}
	for n := 1; n < len(rest); n++ {
		noun := strings.Join(rest[:n], "-")
		if !known[noun] {
			continue
		}
		more := strings.Join(rest[n:], "-")
		if verb == "get" || verb == "list" {
			return noun + " " + more
		}
		return noun + " " + verb + "-" + more
	}
	return singular(strings.Join(rest, "-")) + " " + verb
}

// split returns the words of a name as in "listDeadLetters", in lower case.
func split(name string) []string {
	return strings.FieldsFunc(kebab(name), func(r rune) bool { return r == '-' })
}

// kebab returns a name of the API in the spelling of flags: "filterMode" and
// "client_key" are "filter-mode" and "client-key".
func kebab(name string) string {
	var b strings.Builder
	previous := ' '
	for _, r := range name {
		if r == '_' {
			r = '-'
		}
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return b.String()
}

// singular returns a noun without the ending of the plural.
func singular(noun string) string {
	switch {
	case strings.HasSuffix(noun, "ss"), !strings.HasSuffix(noun, "s"):
		return noun
	case strings.HasSuffix(noun, "ies"):
		return strings.TrimSuffix(noun, "ies") + "y"
	}
	return strings.TrimSuffix(noun, "s")
}

// isSecret reports whether a member of a body must not be an argument of a process, which
// all users of the machine can read. A payload is kept out of logs, but is not a credential.
func isSecret(f router.Field) bool {
	return f.Secret && f.Kind == router.Text && f.Name != "payload"
}
