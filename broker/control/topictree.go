package control

import (
	"context"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// TopicTracker knows the topics in use. Page selects a part of both its lists,
// count -1 for all; filters narrow what it tracks; limits are in topics and,
// for payloads, in bytes.
type TopicTracker interface {
	Counts() (publish, subscribe int)
	Page(offset, count int) broker.TopicTree
	TTL() time.Duration
	SetTTL(ttl time.Duration)
	AddFilter(filter string)
	RemoveFilter(filter string) (was bool)
	ClearFilters()
	Filters() []string
	Limits() Limits
	SetLimits(l Limits)
}

// Limits bound what a tracker keeps.
type Limits struct {
	Publish   int `json:"publishLimit"`
	Subscribe int `json:"subscribeLimit"`
	Payload   int `json:"payloadLimit"`
}

// The texts of the topic tree.
const (
	errTTL      refusal = "Invalid/missing ttl"
	errFilter   refusal = "Invalid/missing filter"
	errNoFilter refusal = "Filter not found"
	errLimits   refusal = "Invalid limits"
)

type (
	topicCounts struct {
		Publish   int `json:"publishCount"`
		Subscribe int `json:"subscribeCount"`
	}
	topicFilters struct {
		Filters []string `json:"filters"`
	}
)

// TopicTree does a request on TopicTreeTopic.
func TopicTree(ctx context.Context, t TopicTracker, payload []byte) []byte {
	return serve(ctx, payload,
		command{"topicCount", func(context.Context, dynsec.Object) (any, error) {
			publish, subscribe := t.Counts()
			return topicCounts{publish, subscribe}, nil
		}},
		command{opListTopics, func(_ context.Context, args dynsec.Object) (any, error) {
			return t.Page(window(args)), nil
		}},
		command{opGetTTL, func(context.Context, dynsec.Object) (any, error) { return ttlOf(t), nil }},
		command{opSetTTL, func(_ context.Context, args dynsec.Object) (any, error) { return setTTL(t, args) }},
		command{"addFilter", func(_ context.Context, args dynsec.Object) (any, error) {
			filter, err := filterArg(args)
			if err != nil {
				return nil, err
			}
			t.AddFilter(filter)
			return done{}, nil
		}},
		command{"removeFilter", func(_ context.Context, args dynsec.Object) (any, error) {
			return removeFilter(t, args)
		}},
		command{"clearFilters", func(context.Context, dynsec.Object) (any, error) {
			t.ClearFilters()
			return done{}, nil
		}},
		command{"listFilters", func(context.Context, dynsec.Object) (any, error) {
			return topicFilters{append([]string{}, t.Filters()...)}, nil
		}},
		command{"getLimits", func(context.Context, dynsec.Object) (any, error) { return t.Limits(), nil }},
		command{"setLimits", func(_ context.Context, args dynsec.Object) (any, error) { return setLimits(t, args) }},
	)
}

// TTL is the data of getTtl: seconds.
type TTL struct {
	TTL int64 `json:"ttl"`
}

func ttlOf(t TopicTracker) TTL { return TTL{int64(t.TTL() / time.Second)} }

func setTTL(t TopicTracker, args dynsec.Object) (any, error) {
	seconds, ok := args.Int("ttl")
	if !ok || seconds < 0 {
		return nil, errTTL
	}
	t.SetTTL(time.Duration(seconds) * time.Second)
	return ttlOf(t), nil
}

func filterArg(args dynsec.Object) (string, error) {
	filter, _ := args.Text("filter")
	if !broker.ValidFilter(filter) {
		return "", errFilter
	}
	return filter, nil
}

func removeFilter(t TopicTracker, args dynsec.Object) (any, error) {
	filter, err := filterArg(args)
	if err != nil {
		return nil, err
	}
	if !t.RemoveFilter(filter) {
		return nil, errNoFilter
	}
	return done{}, nil
}

// setLimits changes the limits that are given.
func setLimits(t TopicTracker, args dynsec.Object) (any, error) {
	l := t.Limits()
	for name, to := range map[string]*int{
		"publishLimit": &l.Publish, "subscribeLimit": &l.Subscribe, "payloadLimit": &l.Payload,
	} {
		if n, ok := args.Int(name); ok {
			*to = n
		}
	}
	if min(l.Publish, l.Subscribe, l.Payload) < 0 {
		return nil, errLimits
	}
	t.SetLimits(l)
	return t.Limits(), nil
}
