package handlers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// Bounds of a search.
const (
	maxSearchText    = 200 // characters
	maxSearchBrokers = 100 // that are asked
	searchWorkers    = 8   // brokers that are asked at a time
)

// DefaultSearchTime is how long a search may take.
const DefaultSearchTime = 1500 * time.Millisecond

// SearchRequest has the text to search for.
type SearchRequest struct {
	Q         string `query:"q" required:"true" minlen:"1" doc:"Text that is part of a name, in any case; at most 200 characters."`
	ProjectID string `query:"projectId" doc:"Only objects of this project; absent for all that the caller may see."`
	Count     int    `query:"count" default:"8" min:"1" max:"8" doc:"Greatest number of results of each kind."`
}

// Validate bounds the text.
func (r *SearchRequest) Validate() []FieldError {
	if utf8.RuneCountInString(r.Q) > maxSearchText {
		return []FieldError{{"query.q", fmt.Sprintf("must not have more than %d characters", maxSearchText)}}
	}
	return nil
}

// SearchRecord is the outcome of a search.
type SearchRecord struct {
	Results    []SearchResult `json:"results" doc:"Results by kind, in the order of the kinds; within a kind those that begin with the text first, then by name, project and broker."`
	Incomplete []SearchGap    `json:"incomplete" doc:"Brokers whose objects are missing, or missing in part, in the order in which their connections were created."`
	NotAsked   int            `json:"not_asked" doc:"Number of brokers that were not asked because there are more than 100: those that were added last. Search one project then." example:"0"`
}

// SearchResult is an object that was found.
type SearchResult struct {
	Kind    string     `json:"kind" enum:"project|broker|cluster|user|client|role|group|session|stream|topic" doc:"Kind of the object. Users are found by platform administrators only; topics are those that the service keeps at the moment for the topic tree." example:"client"`
	ID      string     `json:"id" doc:"What identifies the object: the id of a project, broker, cluster or user; otherwise the username, role, group, client id, stream or topic." example:"meter-7"`
	Name    string     `json:"name" doc:"Name of the object. Of a user, first and last name." example:"meter-7"`
	Email   string     `json:"email,omitempty" doc:"Email address of a user; absent otherwise." example:"-"`
	Project *SearchRef `json:"project,omitempty" doc:"Project of the object; absent for a project and a user."`
	Broker  *SearchRef `json:"broker,omitempty" doc:"Broker of the object; absent for a project, broker, cluster and user."`
}

// SearchRef is where an object is.
type SearchRef struct {
	ID   string `json:"id" doc:"Id of the project or broker." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	Name string `json:"name" doc:"Name of the project or broker." example:"Plant"`
}

// SearchGap is a broker that was not searched, or not completely.
type SearchGap struct {
	Project SearchRef `json:"project" doc:"Project of the broker."`
	Broker  SearchRef `json:"broker" doc:"The broker."`
	Code    string    `json:"code" doc:"Code, as in the error object." example:"BROKER_TIMEOUT"`
	Message string    `json:"message" doc:"Why objects are missing, as a sentence." example:"the broker did not respond within 1.5s"`
}

// The kinds of results, in the order of the response.
var searchKinds = []string{"project", "broker", "cluster", "user", "client", "role", "group", "session", "stream", "topic"}

// found are the results of a search so far, by kind.
type found map[string]*matches

// matches are the results of one kind: those that begin with the text, and others that
// contain it. Each list is in the order of the names and bounded.
type matches struct {
	low           string // the text in lower case
	count         int
	begin, others []match
}

// match is a result with its name in lower case.
type match struct {
	low    string
	result SearchResult
}

func (r *SearchRequest) matches() *matches {
	return &matches{low: strings.ToLower(r.Q), count: r.Count}
}

// add adds a result if one of its texts, the first of which is its name, matches.
func (m *matches) add(result SearchResult, texts ...string) {
	begins, contains := false, false
	one := match{strings.ToLower(result.Name), result}
	for _, text := range texts {
		text = strings.ToLower(text)
		begins = begins || strings.HasPrefix(text, m.low)
		contains = contains || strings.Contains(text, m.low)
	}
	switch {
	case begins:
		m.begin = m.insert(m.begin, one)
	case contains:
		m.others = m.insert(m.others, one)
	}
}

// insert adds a result to one of the lists, and drops the last of too many.
func (m *matches) insert(list []match, one match) []match {
	i, _ := slices.BinarySearchFunc(list, one, match.compare)
	if i == m.count {
		return list
	}
	list = slices.Insert(list, i, one)
	return list[:min(m.count, len(list))]
}

// compare orders results by name, in any case first, then by where they are.
func (m match) compare(other match) int {
	a, b := m.result, other.result
	return cmp.Or(strings.Compare(m.low, other.low), strings.Compare(a.Name, b.Name), a.Project.compare(b.Project), a.Broker.compare(b.Broker),
		strings.Compare(a.ID, b.ID))
}

// compare orders places by name; results of one kind all have a place, or none.
func (r *SearchRef) compare(other *SearchRef) int {
	if r == nil || other == nil {
		return 0
	}
	return cmp.Or(strings.Compare(r.Name, other.Name), strings.Compare(r.ID, other.ID))
}

// merge adds the results of another list of the same kind.
func (m *matches) merge(other *matches) {
	for _, one := range other.begin {
		m.begin = m.insert(m.begin, one)
	}
	for _, one := range other.others {
		m.others = m.insert(m.others, one)
	}
}

// best returns the results to show.
func (m *matches) best() (results []SearchResult) {
	for _, one := range slices.Concat(m.begin, m.others) {
		results = append(results, one.result)
	}
	return results[:min(m.count, len(results))]
}

// Search finds objects by their names in everything that the caller may see.
func (a *API) Search(ctx context.Context, r *SearchRequest) (SearchRecord, error) {
	end, err := a.searches.begin(callerName(ctx))
	if err != nil {
		return SearchRecord{}, err
	}
	defer end()
	limited, cancel := context.WithTimeout(ctx, a.SearchTime)
	defer cancel()
	all := found{}
	for _, kind := range searchKinds {
		all[kind] = r.matches()
	}
	brokers, err := a.searchRecords(limited, r, all)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = searchBusy(fmt.Sprintf("what the service stores could not be searched within %s; try again, or search one project", a.SearchTime), err)
	}
	if err != nil {
		return SearchRecord{}, err
	}
	record := a.searchBrokers(limited, r, brokers, all)
	for _, kind := range searchKinds {
		record.Results = append(record.Results, all[kind].best()...)
	}
	return record, ctx.Err()
}

// searchedProjects returns the projects that the caller sees, or the one that it names.
func (a *API) searchedProjects(ctx context.Context, caller *auth.Principal, id string) ([]db.ProjectRole, error) {
	if id == "" {
		return a.projectsOf(ctx, caller)
	}
	role, err := a.Auth.RoleIn(ctx, caller, id)
	if err != nil {
		return nil, notFound(err, "there is no project with this id")
	}
	if !role.Allows(auth.Viewer) {
		return nil, Forbidden("your role in the project does not allow this")
	}
	p, err := a.DB.GetProject(ctx, id)
	return []db.ProjectRole{{Project: p}}, err
}

// searchedBroker is a broker and where it is.
type searchedBroker struct {
	rev             int64
	project, broker SearchRef
}

// searchRecords searches what this service stores, and returns the brokers to ask.
func (a *API) searchRecords(ctx context.Context, r *SearchRequest, all found) ([]searchedBroker, error) {
	caller := auth.From(ctx)
	projects, err := a.searchedProjects(ctx, caller, r.ProjectID)
	if err != nil {
		return nil, err
	}
	ids, refs := make([]string, 0, len(projects)), make(map[string]*SearchRef, len(projects))
	for _, p := range projects {
		ids, refs[p.ID] = append(ids, p.ID), &SearchRef{p.ID, p.Name}
		if !caller.Restricted() { // such a token has its brokers only
			all["project"].add(SearchResult{Kind: "project", ID: p.ID, Name: p.Name}, p.Name)
		}
	}
	if !caller.Restricted() {
		if err := a.searchClusters(ctx, ids, refs, all["cluster"]); err != nil {
			return nil, err
		}
	}
	if caller.Root && r.ProjectID == "" {
		if err := a.searchUsers(ctx, all["user"]); err != nil {
			return nil, err
		}
	}
	names, err := a.DB.BrokerNames(ctx, ids)
	brokers := make([]searchedBroker, 0, len(names))
	for _, n := range names {
		if !caller.BrokerAllowed(n.ID) {
			continue
		}
		project := refs[n.ProjectID]
		all["broker"].add(SearchResult{Kind: "broker", ID: n.ID, Name: n.Name, Project: project}, n.Name)
		brokers = append(brokers, searchedBroker{n.Rev, *project, SearchRef{n.ID, n.Name}})
	}
	return brokers, err
}

func (a *API) searchClusters(ctx context.Context, projectIDs []string, projects map[string]*SearchRef, m *matches) error {
	names, err := a.DB.ClusterNames(ctx, projectIDs)
	for _, n := range names {
		m.add(SearchResult{Kind: "cluster", ID: n.ID, Name: n.Name, Project: projects[n.ProjectID]}, n.Name)
	}
	return err
}

func (a *API) searchUsers(ctx context.Context, m *matches) error {
	for u, err := range a.DB.UserNames(ctx) {
		if err != nil {
			return err
		}
		m.add(SearchResult{Kind: "user", ID: u.ID, Name: u.Name(), Email: u.Email}, u.Name(), u.Email)
	}
	return nil
}
