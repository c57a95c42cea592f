package handlers

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"signalbox/broker"
	"signalbox/broker/panics"
)

// searchSources are the lists of a broker that are searched: the names alone, and read
// piece by piece, so that no list is ever in memory as a whole. Those that are usually
// short come first, since the time is limited.
var searchSources = []struct {
	kind  string
	names func(ctx context.Context, b broker.Broker) iter.Seq2[string, error]
}{
	{"role", func(ctx context.Context, b broker.Broker) iter.Seq2[string, error] {
		page, err := b.ListRoles(ctx, broker.ListOptions[broker.Role]{Count: -1, NamesOnly: true})
		return namesOf(page, err, func(r broker.Role) string { return r.RoleName })
	}},
	{"group", func(ctx context.Context, b broker.Broker) iter.Seq2[string, error] {
		page, err := b.ListGroups(ctx, broker.ListOptions[broker.Group]{Count: -1, NamesOnly: true})
		return namesOf(page, err, func(g broker.Group) string { return g.GroupName })
	}},
	{"stream", func(ctx context.Context, b broker.Broker) iter.Seq2[string, error] {
		page, err := b.ListStreams(ctx, broker.ListOptions[broker.Stream]{Count: -1, NamesOnly: true})
		return namesOf(page, err, func(s broker.Stream) string { return s.StreamName })
	}},
	{"topic", func(_ context.Context, b broker.Broker) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for topic := range b.KnownTopics() {
				if !yield(topic, nil) {
					return
				}
			}
		}
	}},
	{"client", func(ctx context.Context, b broker.Broker) iter.Seq2[string, error] {
		page, err := b.ListClients(ctx, broker.ListOptions[broker.Client]{Count: -1, NamesOnly: true})
		return namesOf(page, err, func(c broker.Client) string { return c.Username })
	}},
	{"session", func(ctx context.Context, b broker.Broker) iter.Seq2[string, error] {
		page, err := b.InspectClients(ctx, 0, -1, false)
		return namesOf(page, err, func(c broker.ConnectedClient) string { return c.ClientID })
	}},
}

// namesOf yields the names of a page, or the error that prevented it.
func namesOf[T any](page broker.Page[T], err error, name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err != nil {
			yield("", err)
			return
		}
		for item, err := range page.Items {
			if !yield(name(item), err) {
				return
			}
		}
	}
}

// searchBrokers adds what the connected brokers have, within the time of ctx and the number
// of brokers that a search has.
func (a *API) searchBrokers(ctx context.Context, r *SearchRequest, brokers []searchedBroker, all found) SearchRecord {
	record := SearchRecord{Results: []SearchResult{}, Incomplete: []SearchGap{}, NotAsked: max(len(brokers)-maxSearchBrokers, 0)}
	brokers = brokers[:min(maxSearchBrokers, len(brokers))]
	outcomes, gaps := make([]found, len(brokers)), make([]*SearchGap, len(brokers))
	var next int
	var mu sync.Mutex // guards next
	var workers sync.WaitGroup
	for range min(searchWorkers, len(brokers)) {
		workers.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(brokers) {
					return
				}
				outcomes[i], gaps[i] = a.searchSafely(ctx, r, brokers[i])
			}
		})
	}
	workers.Wait()
	for i := range brokers {
		for kind, m := range outcomes[i] {
			all[kind].merge(m)
		}
		if gaps[i] != nil {
			record.Incomplete = append(record.Incomplete, *gaps[i])
		}
	}
	return record
}

// searchSafely is searchBroker, which a panic ends for this broker only.
func (a *API) searchSafely(ctx context.Context, r *SearchRequest, s searchedBroker) (all found, gap *SearchGap) {
	defer func() {
		if v := recover(); v != nil {
			panics.Log(ctx, a.Log, "the search of a broker was ended by a panic", fmt.Sprint(v), slog.String("broker", s.broker.ID))
			all, gap = nil, s.gap(CodeInternalError, searchFailed)
		}
	}()
	return a.searchBroker(ctx, r, s)
}

// searchFailed is what callers see of a failure of the service.
const searchFailed = "the service failed; its operator finds the cause in the log by the id of the broker"

func (s *searchedBroker) gap(code, message string) *SearchGap {
	return &SearchGap{s.project, s.broker, code, message}
}

// searchBroker returns what one broker has, and why that is not everything.
func (a *API) searchBroker(ctx context.Context, r *SearchRequest, s searchedBroker) (found, *SearchGap) {
	b := a.Brokers.Live(s.broker.ID, s.rev)
	if b == nil {
		return nil, s.gap(CodeBrokerUnavailable, notConnected)
	}
	if status := b.Status(); !status.Connected {
		return nil, s.gap(CodeBrokerUnavailable, cmp.Or(status.Error, notConnected))
	}
	all := found{}
	var first *SearchGap
	for _, source := range searchSources {
		all[source.kind] = r.matches()
		err := all[source.kind].read(ctx, SearchResult{Kind: source.kind, Project: &s.project, Broker: &s.broker}, source.names(ctx, b))
		if err != nil && broker.KindOf(err) != broker.Unsupported && first == nil {
			first = a.searchGap(ctx, s, source.kind, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return all, first
}

const notConnected = "the broker is not connected"

// searchGap returns why a list of a broker is not complete. What is internal goes to the log.
func (a *API) searchGap(ctx context.Context, s searchedBroker, kind string, err error) *SearchGap {
	if ctx.Err() != nil {
		return s.gap(CodeBrokerTimeout, fmt.Sprintf("the broker did not respond within %s", a.SearchTime))
	}
	e := ErrorFor(err)
	if e.Code != CodeInternalError {
		return s.gap(e.Code, e.Message)
	}
	a.Log.Error("a broker could not be searched", "broker", s.broker.ID, "kind", kind, "error", err)
	return s.gap(e.Code, searchFailed)
}

// read adds the names that match, as results like the given one.
func (m *matches) read(ctx context.Context, like SearchResult, names iter.Seq2[string, error]) error {
	for name, err := range names {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		like.ID, like.Name = name, name
		m.add(like, name)
	}
	return nil
}
