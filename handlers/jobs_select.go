package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/broker"
)

// Validate checks that the objects are given in one way, which fits the action.
func (r *CreateJobRequest) Validate() (bad []FieldError) {
	b := &r.Body
	switch {
	case b.IDs == nil && b.Filter == nil:
		return []FieldError{{"body.ids", "is required, unless filter is given"}}
	case b.IDs != nil && b.Filter != nil:
		return []FieldError{{"body.filter", "must not be given beside ids"}}
	case b.Filter != nil:
		return b.Filter.check(b.Action)
	}
	return checkIDs(b.Action, b.IDs)
}

func checkIDs(action string, ids []string) (bad []FieldError) {
	if n := len(ids); n == 0 || n > maxJobIDs {
		return []FieldError{{"body.ids", fmt.Sprintf("must have from 1 to %d entries; a filter may select more", maxJobIDs)}}
	}
	for i, id := range ids {
		message := ""
		switch {
		case id == "":
			message = "must not be empty"
		case action == jobDeleteRetained && !broker.ValidTopic(id):
			message = notATopic
		}
		if message != "" && len(bad) < jobErrors {
			bad = append(bad, FieldError{fmt.Sprintf("body.ids[%d]", i), message})
		}
	}
	return bad
}

// jobErrors bounds how many invalid ids a response names.
const jobErrors = 100

// check checks that a filter has what the action needs, and nothing else.
func (f *JobFilter) check(action string) (bad []FieldError) {
	add := func(field, message string) { bad = append(bad, FieldError{"body.filter." + field, message}) }
	targets, states := selectable(action)
	if f.FilterTarget != "" && !slices.Contains(targets, f.FilterTarget) {
		add("filterTarget", orNothing(targets, action))
	}
	if f.State != "" && !slices.Contains(states, f.State) {
		add("state", orNothing(states, action))
	}
	switch retained := action == jobDeleteRetained; {
	case retained && !isFilter(f.TopicFilter):
		add("topicFilter", "is required for "+action+": a topic filter, such as plant/#")
	case retained && f.FilterValue != "":
		add("filterValue", orNothing(nil, action))
	case !retained && f.TopicFilter != "":
		add("topicFilter", orNothing(nil, action))
	case !retained && f.FilterValue == "" && f.State == "":
		add("filterValue", "is required, unless state is given: a filter without both would select everything")
	}
	return bad
}

// selectable returns the targets and the states by which the objects of an action can be
// selected.
func selectable(action string) (targets, states []string) {
	switch action {
	case jobDisconnect:
		return broker.SessionFilterTargets, []string{stateConnected}
	case jobForget:
		return broker.SessionFilterTargets, []string{stateConnected, stateDisconnected}
	case jobDeleteRetained:
		return nil, nil
	}
	return broker.ClientFilterTargets, []string{stateEnabled, stateDisabled}
}

// The states by which objects are selected.
const (
	stateConnected    = "connected"
	stateDisconnected = "disconnected"
	stateEnabled      = "enabled"
	stateDisabled     = "disabled"
)

func orNothing(allowed []string, action string) string {
	if allowed == nil {
		return "must be absent for " + action
	}
	return "must be one of " + strings.Join(allowed, ", ") + " for " + action
}

// names returns the objects of the job, each once.
func (r *CreateJobRequest) names(ctx context.Context, b broker.Broker) ([]string, error) {
	if r.Body.Filter == nil {
		return unique(r.Body.IDs), nil
	}
	var selected selection
	var err error
	switch r.Body.Action {
	case jobDisconnect, jobForget:
		err = selected.sessions(ctx, b, r.Body.Action, r.Body.Filter)
	case jobDeleteRetained:
		err = selected.retained(ctx, b, r.Body.Filter.TopicFilter)
	default:
		err = selected.clients(ctx, b, r.Body.Filter)
	}
	return selected.names, err
}

func unique(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// selection collects the names of the objects that a filter selects, and nothing else of
// them. They are all collected before the first is changed, since pages of a list shift
// while objects in it are deleted.
type selection struct {
	names []string
	bytes int
}

func (s *selection) add(name string) error {
	if s.bytes += len(name); len(s.names) == maxJobNames || s.bytes > maxJobBytes {
		return Invalid(FieldError{"body.filter", fmt.Sprintf("selects more than %d objects, or %d MiB of names: narrow it, and create several jobs",
			maxJobNames, maxJobBytes>>20)})
	}
	s.names = append(s.names, name)
	return nil
}

// matcher compiles the filter's target, mode and value; without a value it returns nil.
func matcher[T any](f *JobFilter, targets []string, compile func(target, mode, value string) (broker.Match[T], error)) (broker.Match[T], error) {
	if f.FilterValue == "" {
		return nil, nil
	}
	match, err := compile(cmp.Or(f.FilterTarget, targets[0]), cmp.Or(f.FilterMode, broker.FilterModes[0]), f.FilterValue)
	if err != nil {
		return nil, badJobFilter(err)
	}
	return func(ctx context.Context, entry T) (bool, error) {
		wanted, err := match(ctx, entry)
		if errors.Is(err, broker.ErrFilterTime) {
			err = badJobFilter(err)
		}
		return wanted, err
	}, nil
}

func badJobFilter(err error) error {
	return Invalid(FieldError{"body.filter.filterValue", err.Error()})
}

// clients selects clients. The list's own filter sees every record, and wants none: so the
// broker's side keeps none either.
func (s *selection) clients(ctx context.Context, b broker.Broker, f *JobFilter) error {
	match, err := matcher(f, broker.ClientFilterTargets, broker.ClientFilter)
	if err != nil {
		return err
	}
	_, err = b.ListClients(ctx, broker.ListOptions[broker.Client]{Count: -1, Match: func(ctx context.Context, c broker.Client) (bool, error) {
		if f.State != "" && c.Disabled != (f.State == stateDisabled) {
			return false, nil
		}
		wanted, err := broker.Matches(ctx, match, c)
		if wanted && err == nil {
			err = s.add(c.Username)
		}
		return false, err
	}})
	return err
}

// sessions selects sessions; to be disconnected, those that are connected.
func (s *selection) sessions(ctx context.Context, b broker.Broker, action string, f *JobFilter) error {
	match, err := matcher(f, broker.SessionFilterTargets, broker.SessionFilter)
	if err != nil {
		return err
	}
	state := f.State
	if action == jobDisconnect {
		state = stateConnected
	}
	page, err := b.InspectClients(ctx, 0, -1, false)
	if err != nil {
		return err
	}
	for c, err := range page.Items {
		if err != nil {
			return err
		}
		if state != "" && c.Connected != (state == stateConnected) {
			continue
		}
		wanted, err := broker.Matches(ctx, match, c)
		if wanted && err == nil {
			err = s.add(c.ClientID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// retained selects the topics of retained messages.
func (s *selection) retained(ctx context.Context, b broker.Broker, filter string) error {
	page, err := b.ListRetained(ctx, filter, 0, -1)
	if err != nil {
		return err
	}
	for m, err := range page.Items {
		if err == nil {
			err = s.add(m.Topic)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
