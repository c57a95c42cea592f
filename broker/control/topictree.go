package control

import (
	"cmp"
	"context"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// TopicTracker knows the topics in use. Page selects a part of both its lists, count -1
// for all; filters restrict what it tracks; limits are in topics and, for payloads, in
// bytes.
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

// Limits bound the size of a tracker.
type Limits struct {
	Publish   int `json:"publishLimit"`
	Subscribe int `json:"subscribeLimit"`
	Payload   int `json:"payloadLimit"`
}

// The texts of the topic tree. ErrNodeAway is for another node that cannot be reached.
const (
	ErrNodeAway refusal = "Node cannot be reached"

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

// TopicTree executes a request on TopicTreeTopic. The commands listTopics, getTtl and
// setTtl may name another node of an HP cluster, "nodeid", to which nodes forwards
// them; it is nil without a cluster.
func TopicTree(ctx context.Context, t TopicTracker, nodes broker.Topics, payload []byte) []byte {
	return serve(ctx, payload, append(treeSettings(t),
		command{"topicCount", func(context.Context, dynsec.Object) (any, error) {
			publish, subscribe := t.Counts()
			return topicCounts{publish, subscribe}, nil
		}},
		command{opListTopics, func(ctx context.Context, args dynsec.Object) (any, error) {
			return listTopics(ctx, t, nodes, args)
		}},
		command{opGetTTL, func(ctx context.Context, args dynsec.Object) (any, error) { return getTTL(ctx, t, nodes, args) }},
		command{opSetTTL, func(ctx context.Context, args dynsec.Object) (any, error) { return setTTL(ctx, t, nodes, args) }},
	)...)
}

// treeSettings returns the commands about what is tracked.
func treeSettings(t TopicTracker) []command {
	return []command{
		{"addFilter", func(_ context.Context, args dynsec.Object) (any, error) {
			filter, err := filterArg(args)
			if err != nil {
				return nil, err
			}
			t.AddFilter(filter)
			return done{}, nil
		}},
		{"removeFilter", func(_ context.Context, args dynsec.Object) (any, error) {
			return removeFilter(t, args)
		}},
		{"clearFilters", func(context.Context, dynsec.Object) (any, error) {
			t.ClearFilters()
			return done{}, nil
		}},
		{"listFilters", func(context.Context, dynsec.Object) (any, error) {
			return topicFilters{append([]string{}, t.Filters()...)}, nil
		}},
		{"getLimits", func(context.Context, dynsec.Object) (any, error) { return t.Limits(), nil }},
		{"setLimits", func(_ context.Context, args dynsec.Object) (any, error) { return setLimits(t, args) }},
	}
}

// TTL is the data of getTtl: seconds.
type TTL struct {
	TTL int64 `json:"ttl"`
}

func ttlOf(t TopicTracker) TTL { return TTL{int64(t.TTL() / time.Second)} }

// nodeArg returns the number of the node in a command, 0 if it is absent.
func nodeArg(args dynsec.Object, nodes broker.Topics) (id int, err error) {
	id, _ = args.Int("nodeid")
	if id != 0 && nodes == nil {
		err = ErrNoNode
	}
	return id, err
}

// nodeRefusal replaces errors of another node by the usual texts.
func nodeRefusal(err error) error {
	if err == nil {
		return nil
	}
	switch broker.KindOf(err) {
	case broker.NotFound:
		return ErrNoNode
	case broker.Unavailable:
		return ErrNodeAway
	case broker.Unconfirmed:
		return ErrUnconfirmed
	}
	return err
}

func listTopics(ctx context.Context, t TopicTracker, nodes broker.Topics, args dynsec.Object) (any, error) {
	offset, count := pageBounds(args)
	id, err := nodeArg(args, nodes)
	switch {
	case err != nil:
		return nil, err
	case id == 0:
		return t.Page(offset, count), nil
	}
	trees, err := nodes.ListTopics(ctx, id, offset, count)
	if err != nil || len(trees) != 1 {
		return nil, cmp.Or(nodeRefusal(err), error(errInternal))
	}
	return trees[0], nil
}

func getTTL(ctx context.Context, t TopicTracker, nodes broker.Topics, args dynsec.Object) (any, error) {
	id, err := nodeArg(args, nodes)
	switch {
	case err != nil:
		return nil, err
	case id == 0:
		return ttlOf(t), nil
	}
	ttls, err := nodes.GetTTL(ctx, id)
	if err != nil || len(ttls) != 1 {
		return nil, cmp.Or(nodeRefusal(err), error(errInternal))
	}
	return TTL{ttls[0]}, nil
}

func setTTL(ctx context.Context, t TopicTracker, nodes broker.Topics, args dynsec.Object) (any, error) {
	seconds, ok := args.Int("ttl")
	if !ok || seconds < 0 {
		return nil, errTTL
	}
	id, err := nodeArg(args, nodes)
	if err != nil {
		return nil, err
	}
	if id != 0 {
		return TTL{int64(seconds)}, nodeRefusal(nodes.SetTTL(ctx, id, int64(seconds)))
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
