package console

import (
	"strings"
	"time"
)

// fillScripts completes what the scripts need of the frame.
func (c *Console) fillScripts(q *request, p *page, f *frame) {
	f.Shortcuts, f.Fragments, f.Now = q.prefs.Shortcuts, strings.Join(p.fragments, ","), time.Now().UnixMilli()
	f.Search = q.root + "/../api/search"
}

// shortcuts are the letters that lead to a page after "g", by the name of the page. A
// navigation never shows two pages with the same letter.
var shortcuts = map[string]string{
	"home": "h", "projects": "p", "users": "u", "administrators": "a",
	"brokers": "b", "clusters": "l", "members": "m", "tokens": "t", "project-settings": "e",
	"overview": "o", "sessions": "s", "subscriptions": "u", "denials": "d", "bans": "b",
	"topics": "t", "retained": "r", "messages": "m", "ttl": "l",
	"clients": "c", "groups": "g", "roles": "a", "default-access": "f", "check": "y", "import": "i",
	"streams": "e", "bridges": "w", "listeners": "n", "connection": "k",
}
