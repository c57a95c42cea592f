//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// measureShared compares changes and reads of the data of the platform, which the nodes of a cluster share, with those
// at a product alone.
func (b *bench) measureShared(ctx context.Context) error {
	alone, err := b.smallProduct(ctx)
	if err != nil {
		return err
	}
	t, err := b.newSharedData(ctx)
	if err != nil {
		return err
	}
	leader, others, err := t.leading(ctx)
	if err != nil {
		return err
	}
	on := func(node int, load func(p *product) subject) subject {
		s := load(t.nodes[node])
		s.others = t.processes(node)
		return s
	}
	one := func(p *product) subject { return p.projectLoad(ctx, 1, b.creations) }
	got, err := compare(b.rounds, one(alone), on(leader, one), on(others[0], one))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("createProject over API, cluster of %d that shares the data of the platform", nodeCount)
	b.versus(what+", leader : alone", got[1], got[0], atMost(3))
	b.versus(what+", follower : alone", got[2], got[0], unbounded)
	many := func(p *product) subject { return p.projectLoad(ctx, writers, b.projects) }
	if got, err = compare(b.rounds, many(alone), on(leader, many), on(others[0], many)); err != nil {
		return err
	}
	what = fmt.Sprintf("projects created a second over API, %d callers: ", writers)
	for i, name := range []string{"alone", "through the leader", "through a follower"} {
		b.report.add(what+name, got[i].String(), got[i].perSecond, "%.0f /s", unbounded)
	}
	read := func(p *product) subject {
		return subject{server: p.child, callers: readers, calls: b.reads, do: p.get(ctx, p.project)}
	}
	if got, err = compare(b.rounds, read(alone), on(leader, read), on(others[0], read)); err != nil {
		return err
	}
	b.versus("GET project, leader : alone", got[1], got[0], unbounded)
	b.versus("GET project, follower : alone", got[2], got[0], unbounded)
	return nil
}

// newSharedData creates a cluster that shares the data of the platform, those of its first node, so that all nodes
// have its users.
func (b *bench) newSharedData(ctx context.Context) (*threeNodes, error) {
	a, err := writeAccess(b.path("cluster.json"), b.few, 0)
	if err != nil {
		return nil, err
	}
	t, err := b.newThreeNodes(ctx, "dynsec", a, "SIGNALBOX_CLUSTER_SHARE_DATA=true")
	if err != nil {
		return nil, err
	}
	first := t.nodes[0]
	for _, p := range t.nodes[1:] {
		p.token, p.root, p.project = first.root, first.root, p.url+first.project[len(first.url):]
		err := until(ctx, "a node has the shared data", func() (bool, error) {
			return p.call(ctx, http.MethodGet, p.project, "", http.StatusOK, io.Discard) == nil, nil
		})
		if err != nil {
			return nil, err
		}
	}
	first.token = first.root
	return t, nil
}

// projectLoad creates projects and deletes them again.
func (p *product) projectLoad(ctx context.Context, callers, calls int) subject {
	var created sync.Map // IDs by number
	owner := *p.api
	owner.token = p.root
	return subject{server: p.child, callers: callers, calls: calls,
		do: func(_, n int) error {
			var made struct{ ID string }
			err := owner.decode(ctx, http.MethodPost, p.url+"/api/projects", fmt.Sprintf(`{"name":"bench-%d"}`, n), &made)
			created.Store(n, made.ID)
			return err
		},
		undo: func(_, n int) error {
			id, _ := created.LoadAndDelete(n)
			return owner.call(ctx, http.MethodDelete, fmt.Sprint(p.url, "/api/projects/", id), "", http.StatusNoContent, io.Discard)
		}}
}
