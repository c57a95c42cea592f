package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/broker/embedded"
	"signalbox/db"
)

// absentTime is how long a node that does not respond delays the change of the schema. One that runs an
// earlier release and comes back later must be upgraded before it can continue.
const absentTime = time.Minute

// schemaRequest asks another node which schema of the database its release knows. A release without
// this request responds without one.
type schemaRequest struct {
	Schema bool `json:"schema"` // true
}

// schemaResponse is the response.
type schemaResponse struct {
	Schema int64 `json:"schema"`
}

// upgrade brings the schema of the database up to date if this node leads and the others know it, too. The
// error states what it waits for.
func (s sharedDatabase) upgrade(ctx context.Context, members embedded.SharedMembers) error {
	stored, release := s.Schema()
	if !members.Leads() {
		s.absence = absence{}
		return fmt.Errorf("the node was upgraded, and serves neither API nor console until all nodes run its release (schema %d of the shared data instead of %d)", release, stored)
	}
	voters, others, known, err := askSchemas(ctx, members)
	if err != nil {
		s.absence = absence{}
		return err
	}
	target, knowing := release, 1
	var former, absent []string
	for i, node := range others {
		switch schema := known[i]; {
		case schema == noResponse:
			absent = append(absent, fmt.Sprint(node))
		case schema <= stored:
			former = append(former, fmt.Sprint(node))
		default:
			target = min(target, schema)
			if slices.Contains(voters, node) {
				knowing++
			}
		}
	}
	missing := strings.Join(absent, ", ")
	absentFor := s.absence.of(missing)
	switch {
	case len(former) > 0:
		return fmt.Errorf("the nodes that were upgraded serve neither API nor console until these run the same release: %s", strings.Join(former, ", "))
	case 2*knowing <= len(voters)+1 || missing != "" && absentFor < absentTime:
		return fmt.Errorf("the nodes that were upgraded serve neither API nor console before these nodes respond, or are removed: %s", missing)
	}
	s.absence = absence{}
	switch err := s.Upgrade(ctx, target); {
	case errors.Is(err, db.ErrUnconfirmed):
		return fmt.Errorf("the schema of the shared data is being changed from %d to %d", stored, target)
	case errors.Is(err, db.ErrUnavailable):
		return fmt.Errorf("the schema of the shared data is changed from %d to %d as soon as the leader reaches a majority of the nodes: %w", stored, target, err)
	case err != nil:
		return fmt.Errorf("the schema of the shared data cannot be changed from %d to %d, and is as before: run the former release at all nodes again, and report this: %w", stored, target, err)
	}
	return nil
}

// noResponse is the schema of a node that does not respond.
const noResponse = -1

// askSchemas returns the other nodes, those of them that have a vote, and the schema that each knows, 0 if its release does not
// know the question. The error means that this node does not lead any more.
func askSchemas(ctx context.Context, members embedded.SharedMembers) (voters, others []int, known []int64, err error) {
	if voters, others, err = members.Others(); err != nil {
		return nil, nil, nil, err
	}
	known = make([]int64, len(others))
	var asked sync.WaitGroup
	for i, node := range others {
		asked.Go(func() {
			var r schemaResponse
			if err := ask(ctx, members, node, schemaRequest{true}, &r); err != nil {
				r.Schema = noResponse
			}
			known[i] = r.Schema
		})
	}
	asked.Wait()
	if !members.Leads() { // it may have left the cluster before it knew the others
		return nil, nil, nil, errors.New("the cluster has another leader now")
	}
	return voters, others, known, nil
}

// absence is how long the same nodes have not responded.
type absence struct {
	nodes string // "" for none
	begun time.Time
}

// of notes which nodes do not respond now, and returns for how long that has been so.
func (a *absence) of(nodes string) time.Duration {
	if a.nodes != nodes {
		*a = absence{nodes, time.Now()}
	}
	return time.Since(a.begun)
}

// answerSchema returns the response to a schemaRequest; nil if the request is another one.
func (s sharedDatabase) answerSchema(request []byte) ([]byte, error) {
	var r schemaRequest
	if err := json.Unmarshal(request, &r); err != nil || !r.Schema {
		return nil, nil //nolint:nilerr // it is another request, whatever that is
	}
	_, release := s.Schema()
	return json.Marshal(schemaResponse{release})
}
