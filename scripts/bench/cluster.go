//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// threeNodes is a cluster of three products, and a product without a broker that
// manages them.
type threeNodes struct {
	*console
	nodes []*product
	admin []string // host:port of each node's API
	mqtt  []string // host:port of each node's broker
	tries atomic.Int64
}

// console manages the cluster.
type console struct {
	*product
	cluster string // URL of the cluster
}

// nodeCount is the size of the cluster: the smallest that survives the loss of a node.
const nodeCount = 3

// newThreeNodes creates a cluster of fresh products with one access-control
// configuration, and with more settings.
func (b *bench) newThreeNodes(ctx context.Context, mode string, a access, settings ...string) (*threeNodes, error) {
	c, err := b.newConsole(ctx)
	if err != nil {
		return nil, err
	}
	t := &threeNodes{console: c}
	for range nodeCount {
		if err := b.addNode(ctx, t, a, settings); err != nil {
			return nil, err
		}
	}
	return t, t.form(ctx, mode, a)
}

func (b *bench) newConsole(ctx context.Context) (*console, error) {
	p, err := b.emptyProduct()
	if err != nil {
		return nil, err
	}
	p.brokerless, p.settings = true, []string{"SIGNALBOX_BROKER_ENABLED=false"}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	b.started = append(b.started, p)
	if err := p.makeToken(ctx); err != nil {
		return nil, err
	}
	p.token = p.root
	return &console{product: p}, nil
}

// addNode starts a product that can become a node, with an API listener of its own.
func (b *bench) addNode(ctx context.Context, t *threeNodes, a access, settings []string) error {
	p, err := b.emptyProduct()
	if err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	t.mqtt, t.admin = append(t.mqtt, ports[0]), append(t.admin, ports[1])
	p.access, p.config = a, p.dir+".yaml"
	p.settings = append([]string{"SIGNALBOX_BROKER_LISTEN=" + ports[0], "SIGNALBOX_CLUSTER_LISTEN=" + ports[2]}, settings...)
	text := fmt.Sprintf("broker:\n  listeners:\n    - {protocol: mqtt, address: %q, admin_only: true}\n", ports[1])
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		return err
	}
	t.nodes = append(t.nodes, p)
	if err := b.startProduct(ctx, p); err != nil {
		return err
	}
	return p.makeToken(ctx)
}

// freePorts returns unused ports of the loopback interface.
func freePorts(n int) (list []string, err error) {
	for range n {
		l, listenErr := net.Listen("tcp", "127.0.0.1:0")
		if listenErr != nil {
			return nil, errors.Join(err, listenErr)
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		list = append(list, l.Addr().String())
	}
	return list, nil
}

// form registers the nodes with the console and forms the cluster.
func (t *threeNodes) form(ctx context.Context, mode string, a access) error {
	var nodes []map[string]any
	for i, p := range t.nodes {
		id, err := t.connect(ctx, i, a)
		if err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(strings.TrimPrefix(p.settings[1], "SIGNALBOX_CLUSTER_LISTEN="))
		if err != nil {
			return err
		}
		nodes = append(nodes, map[string]any{"broker_id": id, "url": "mqtt://" + t.admin[i], "nodeid": i + 1, "name": fmt.Sprint("n", i+1),
			"address": host, "port": json.Number(port)})
	}
	body, err := json.Marshal(map[string]any{"clustername": "bench", "syncmode": mode, "nodes": nodes})
	if err != nil {
		return err
	}
	var made struct{ ID string }
	if err := t.decode(ctx, http.MethodPost, t.project+"/clusters", string(body), &made); err != nil {
		return err
	}
	t.cluster = t.project + "/clusters/" + made.ID
	return t.awaitActive(ctx)
}

// connect registers a node's broker with the console and waits until the console
// reports that it can become a node.
func (t *threeNodes) connect(ctx context.Context, i int, a access) (id string, err error) {
	body := fmt.Sprintf(`{"name":"n%d","url":"mqtt://%s","username":%q,"password":%q}`, i+1, t.admin[i], adminName, a.password)
	var added struct{ ID string }
	if err := t.decode(ctx, http.MethodPost, t.project+"/brokers", body, &added); err != nil {
		return "", err
	}
	return added.ID, until(ctx, "a broker can be a node", func() (bool, error) {
		var seen struct{ Capabilities []string }
		err := t.decode(ctx, http.MethodGet, t.project+"/brokers/"+added.ID, "", &seen)
		return slices.Contains(seen.Capabilities, "cluster"), err
	})
}

// until polls until a condition holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(startStopTimeout); time.Now().Before(deadline); {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("waited in vain until %s", what)
}

// state returns the state of the cluster and the index of its leader, -1 for none.
func (t *threeNodes) state(ctx context.Context) (state string, leader int, err error) {
	var seen struct {
		State string
		Nodes []struct {
			NodeID int
			Leader bool
		}
	}
	leader = -1
	err = t.decode(ctx, http.MethodGet, t.cluster, "", &seen)
	for _, n := range seen.Nodes {
		if n.Leader {
			leader = n.NodeID - 1
		}
	}
	return seen.State, leader, err
}

// awaitActive waits until all nodes are healthy and there is a leader.
func (t *threeNodes) awaitActive(ctx context.Context) error {
	return until(ctx, "the cluster is active", func() (bool, error) {
		state, leader, err := t.state(ctx)
		return state == "active" && leader >= 0, err
	})
}

// leading returns the index of the leader, and those of the others.
func (t *threeNodes) leading(ctx context.Context) (leader int, others []int, err error) {
	if err := t.awaitActive(ctx); err != nil {
		return 0, nil, err
	}
	if _, leader, err = t.state(ctx); err != nil {
		return 0, nil, err
	}
	for i := range t.nodes {
		if i != leader {
			others = append(others, i)
		}
	}
	return leader, others, nil
}

// processes returns the processes of all nodes but one.
func (t *threeNodes) processes(but int) (list []*child) {
	for i, p := range t.nodes {
		if i != but {
			list = append(list, p.child)
		}
	}
	return list
}

// create creates a client through a node.
func (t *threeNodes) create(ctx context.Context, node *product, username string) error {
	return node.call(ctx, http.MethodPost, node.clients, fmt.Sprintf(`{"username":%q}`, username), http.StatusNoContent, io.Discard)
}
