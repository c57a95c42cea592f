package console

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// accessPages are those of access control.
func accessPages() []*page {
	return slices.Concat(clientPages(), groupPages(), rolePages(), decisionPages(), transferPages())
}

// accessView is what the pages of access control have in common.
type accessView struct {
	frame
	Missing *missingNotice // nil if the broker has what the page is about
}

// accessClient is a client of access control.
type accessClient struct {
	Username        string     `json:"username"`
	ClientID        string     `json:"clientid"`
	TextName        string     `json:"textname"`
	TextDescription string     `json:"textdescription"`
	Disabled        bool       `json:"disabled"`
	Roles           []roleRef  `json:"roles"`
	Groups          []groupRef `json:"groups"`
	Connections     []struct {
		Address string `json:"address"`
	} `json:"connections"`
}

// roleRef is a role of a client or group.
type roleRef struct {
	Name     string `json:"rolename"`
	Priority *int   `json:"priority,omitempty"`
}

// groupRef is a group of a client.
type groupRef struct {
	Name     string `json:"groupname"`
	Priority *int   `json:"priority,omitempty"`
}

// defaultPriority is the priority of a membership that names none.
const defaultPriority = -1

// Rank returns the priority.
func (r roleRef) Rank() int { return rank(r.Priority) }

// Rank returns the priority.
func (g groupRef) Rank() int { return rank(g.Priority) }

func rank(priority *int) int {
	if priority == nil {
		return defaultPriority
	}
	return *priority
}

// accessGroup is a group of clients.
type accessGroup struct {
	Name            string        `json:"groupname"`
	TextName        string        `json:"textname"`
	TextDescription string        `json:"textdescription"`
	Clients         []groupMember `json:"clients"`
	Roles           []roleRef     `json:"roles"`
}

// groupMember is a client in the record of a group.
type groupMember struct {
	Username string `json:"username"`
}

// accessRole is a role with its rules in order of their types and priorities.
type accessRole struct {
	Name              string       `json:"rolename"`
	TextName          string       `json:"textname"`
	TextDescription   string       `json:"textdescription"`
	AllowWildcardSubs bool         `json:"allowwildcardsubs"`
	Rules             []accessRule `json:"acls"`
}

// Manages reports whether the role allows topics with which the broker is managed.
func (r accessRole) Manages() bool {
	return slices.ContainsFunc(r.Rules, accessRule.manages)
}

// manages reports whether the rule allows topics with which the broker is managed.
func (r accessRule) manages() bool { return r.Allow && strings.HasPrefix(r.Topic, "$CONTROL") }

// accessRule is an ACL of a role.
type accessRule struct {
	Type     string `json:"acltype"`
	Topic    string `json:"topic"`
	Priority int    `json:"priority"`
	Allow    bool   `json:"allow"`
}

// missingNotice is why a broker does not have a feature, and what an operator can do
// about it: a text, lines of the broker's configuration, and a text that follows them.
type missingNotice struct {
	Reason string
	Remedy string
	Lines  []string
	After  string
}

// missing returns why the broker lacks a feature, nil unless an error is that it does.
func (q *request) missing(feature string, failures ...*apiError) *missingNotice {
	i := slices.IndexFunc(failures, func(e *apiError) bool { return e != nil && e.Code == "NOT_SUPPORTED" })
	if i < 0 {
		return nil
	}
	var b brokerRecord
	if q.get("getBroker", nil, &b) == nil {
		for _, m := range b.Status.Missing {
			if m.Feature == feature {
				return newMissingNotice(m.Reason, m.Remedy)
			}
		}
	}
	return &missingNotice{Reason: failures[i].Original}
}

// isConfiguration matches a line of mosquitto.conf in a remedy.
var isConfiguration = regexp.MustCompile(`^(per_listener_settings|plugin|plugin_opt_\w+) `)

func newMissingNotice(reason, remedy string) *missingNotice {
	m := &missingNotice{Reason: reason}
	for line := range strings.SplitSeq(remedy, "\n") {
		switch {
		case isConfiguration.MatchString(line):
			m.Lines = append(m.Lines, line)
		case m.Lines == nil:
			m.Remedy = strings.TrimSpace(m.Remedy + " " + line)
		default:
			m.After = strings.TrimSpace(m.After + " " + line)
		}
	}
	return m
}

// The operations that list clients, groups and roles, with the filter by name.
var (
	clientsByName = objectList{"listClients", "username", "username"}
	groupsByName  = objectList{"listGroups", "groupname", ""}
	rolesByName   = objectList{"listRoles", "rolename", ""}
)

// objectList is an operation that lists objects, and the target of a filter. one is the
// parameter with which it returns one object without looking through all, "" for none.
type objectList struct{ operation, target, one string }

// equalTo returns the query for the entries whose target is exactly value.
func (l objectList) equalTo(value string, count int) url.Values {
	return url.Values{"filterTarget": {l.target}, "filterMode": {"equals"}, "filterValue": {value},
		"offset": {"0"}, "count": {strconv.Itoa(count)}}
}

// findOne returns the object with a name.
func findOne[T any](q *request, l objectList, name string) (found T, err error) {
	if name == "" {
		return found, q.notFound(name)
	}
	query := l.equalTo(name, 1)
	if l.one != "" {
		query = url.Values{l.one: {name}}
	}
	var list []T
	if err := q.get(l.operation, query, &list); err != nil {
		return found, err
	}
	if len(list) == 0 {
		return found, q.notFound(name)
	}
	return list[0], nil
}

// findAll returns the objects with some names, in the order of the API; names without an
// object are left out.
func findAll[T any](q *request, l objectList, names []string) ([]T, error) {
	var all []T
	for _, query := range l.queriesFor(names) {
		var list []T
		if err := q.get(l.operation, query, &list); err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// maxExpression bounds the filter by several names: the API takes a regular expression of
// 1000 bytes and 1000 instructions.
const maxExpression = 700

// queriesFor returns few queries that list the objects with the names: a remote broker
// sends all of its objects for each.
func (l objectList) queriesFor(names []string) (queries []url.Values) {
	var chunk []string
	size := 0
	flush := func() {
		switch {
		case len(chunk) == 1:
			queries = append(queries, l.equalTo(chunk[0], 1))
		case chunk != nil:
			queries = append(queries, l.oneOf(chunk))
		}
		chunk, size = nil, 0
	}
	for _, name := range names {
		if n := len(regexp.QuoteMeta(name)) + 1; size+n > maxExpression && chunk != nil {
			flush()
		}
		chunk, size = append(chunk, name), size+len(regexp.QuoteMeta(name))+1
	}
	flush()
	return queries
}

func (l objectList) oneOf(names []string) url.Values {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	query := l.equalTo(`\A(?:`+strings.Join(quoted, "|")+`)\z`, len(names))
	query.Set("filterMode", "regex")
	return query
}

// listFilter is the filter of a list, as the template "list-filter" writes it.
type listFilter struct {
	Value, Target, Mode string
	Targets, Modes      []option
	Choice              columnChoice // that the list keeps
}

// filterModes are the comparisons of the API.
var filterModes = []string{"contains", "equals", "startsWith", "endsWith", "regex"}

// listFilter returns the filter of the page's query, over the given targets.
func (q *request) listFilter(targets ...string) listFilter {
	f := listFilter{Value: q.query.Get("filterValue"), Target: q.query.Get("filterTarget"), Mode: q.query.Get("filterMode")}
	for _, target := range targets {
		f.Targets = append(f.Targets, option{target, q.t("access.filter." + target)})
	}
	for _, mode := range filterModes {
		f.Modes = append(f.Modes, option{mode, q.t("access.mode." + strings.ToLower(mode))})
	}
	return f
}

// filtered returns the query for a list with the page's filter and window.
func (q *request) filtered() url.Values {
	if q.query.Get("filterValue") == "" {
		return q.listQuery()
	}
	return q.listQuery("filterValue", "filterTarget", "filterMode")
}

// maxSuggestions bounds the names that a field suggests.
const maxSuggestions = 200

// suggestions returns the query for names that a field suggests.
func suggestions() url.Values {
	return url.Values{"verbose": {"false"}, "offset": {"0"}, "count": {strconv.Itoa(maxSuggestions)}}
}
