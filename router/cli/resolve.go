package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"signalbox/router"
	"signalbox/router/client"
)

// session calls operations of one service.
type session struct {
	*client.Client
	target
	ops []router.Operation
	ids map[string]string // of the parameters of the path that are known
}

func (t *tree) connect(c *connection) (*session, error) {
	where, err := t.env.target(c)
	if err != nil {
		return nil, err
	}
	api, err := client.Connect(where.Options)
	if err != nil {
		return nil, UsageError{err}
	}
	return &session{Client: api, target: where, ops: t.ops, ids: map[string]string{}}, nil
}

// resolve finds the ids of the parameters of an operation's path, for which names may be
// given.
func (s *session) resolve(ctx context.Context, op *router.Operation, given map[string]string) error {
	for _, p := range op.PathParameters {
		value := given[p.Name]
		switch {
		case value != "":
		case p.Name == "projectId":
			value = s.project
		case p.Name == "brokerId":
			value = s.broker
		}
		id, err := s.idOf(ctx, op.Path, p.Name, value)
		if err != nil {
			return err
		}
		s.ids[p.Name] = id
	}
	return nil
}

// path returns a path with the ids of its parameters.
func (s *session) path(template string) string {
	for name, id := range s.ids {
		template = strings.ReplaceAll(template, "{"+name+"}", url.PathEscape(id))
	}
	return template
}

// entry is an object of a list, as far as it identifies itself.
type entry struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Clustername string `json:"clustername"`
	Email       string `json:"email"`
}

func (e entry) names() []string { return []string{e.Name, e.Clustername, e.Email} }

// label returns a name for a message.
func (e entry) label() string {
	for _, name := range e.names() {
		if name != "" {
			return name
		}
	}
	return e.ID
}

// idOf returns the id of the object that a parameter of a path names by its name or id.
// Without a value it is the only object.
func (s *session) idOf(ctx context.Context, path, parameter, value string) (string, error) {
	list, _, _ := strings.Cut(path, "/{"+parameter+"}")
	isID := uuid.Validate(value) == nil
	if isID || !slices.ContainsFunc(s.ops, func(op router.Operation) bool { return op.Method == "GET" && op.Path == list }) {
		return value, nil
	}
	all, err := s.entries(ctx, s.path(list))
	if err != nil {
		return "", err
	}
	noun := strings.TrimSuffix(parameter, "Id")
	if value == "" {
		return only(all, noun)
	}
	return match(all, noun, value)
}

// only returns the id of the only entry.
func only(all []entry, noun string) (string, error) {
	if len(all) == 1 {
		return all[0].ID, nil
	}
	if len(all) == 0 {
		return "", &failure{code: CodeNotFound, err: fmt.Errorf("there is no %s that the caller may use", noun)}
	}
	return "", usage("there are several of kind %s, so --%s is required: %s", noun, noun, labels(all))
}

// match returns the id of the entry with an id or a name.
func match(all []entry, noun, value string) (string, error) {
	var ids []string
	for _, e := range all {
		if e.ID == value {
			return value, nil
		}
		if slices.Contains(e.names(), value) {
			ids = append(ids, e.ID)
		}
	}
	switch len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return "", &failure{code: CodeNotFound, err: fmt.Errorf("there is no %s %q", noun, value)}
	}
	return "", usage("several objects of kind %s have the name %q; use an id: %s", noun, value, strings.Join(ids, ", "))
}

func labels(all []entry) string {
	const most = 10
	var names []string
	for i, e := range all {
		if i == most {
			return strings.Join(names, ", ") + ", ..."
		}
		names = append(names, e.label())
	}
	return strings.Join(names, ", ")
}

// pageSize is that of lists with numbered pages.
const pageSize = 500

// entries returns all entries of a list.
func (s *session) entries(ctx context.Context, path string) ([]entry, error) {
	var all []entry
	for page := 0; ; page++ {
		var query url.Values
		if path == "/api/users" {
			query = url.Values{"page": {strconv.Itoa(page)}, "pageSize": {strconv.Itoa(pageSize)}}
		}
		resp, err := s.Do(ctx, client.Request{Method: "GET", Path: path, Query: query})
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
		resp.Body.Close() //nolint:errcheck // it was only read
		if err != nil {
			return nil, &client.ConnectionError{Sent: true, Err: err}
		}
		if query == nil {
			return all, json.Unmarshal(text, &all)
		}
		var one struct {
			Data []entry `json:"data"`
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, err
		}
		if all = append(all, one.Data...); len(one.Data) < pageSize {
			return all, nil
		}
	}
}
