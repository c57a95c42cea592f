package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/broker/embedded"
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
		return fmt.Errorf("the node was upgraded, and serves neither API nor console until all nodes run its release (schema %d of the shared data instead of %d)", release, stored)
	}
	voters, others := members.Others()
	known := askSchemas(ctx, members, others)
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
	switch {
	case len(former) > 0:
		s.absence.end()
		return fmt.Errorf("the nodes that were upgraded serve neither API nor console until these run the same release: %s", strings.Join(former, ", "))
	case 2*knowing <= len(voters)+1 || len(absent) > 0 && s.absence.since() < absentTime:
		return fmt.Errorf("the nodes that were upgraded serve neither API nor console before these nodes respond, or are removed: %s", strings.Join(absent, ", "))
	}
	if err := s.Upgrade(ctx, target); err != nil {
		return fmt.Errorf("the schema of the shared data cannot be changed from %d to %d: %w", stored, target, err)
	}
	s.absence.end()
	return nil
}

// noResponse is the schema of a node that does not respond.
const noResponse = -1

// askSchemas returns the schema that each node knows, 0 if its release does not know the question.
func askSchemas(ctx context.Context, members embedded.SharedMembers, nodes []int) []int64 {
	known := make([]int64, len(nodes))
	var asked sync.WaitGroup
	for i, node := range nodes {
		asked.Go(func() {
			var r schemaResponse
			if err := ask(ctx, members, node, schemaRequest{true}, &r); err != nil {
				r.Schema = noResponse
			}
			known[i] = r.Schema
		})
	}
	asked.Wait()
	return known
}

// absence is how long some nodes have been the only ones that delay a change.
type absence struct{ begun time.Time }

// since returns the time since the first call after end.
func (a *absence) since() time.Duration {
	if a.begun.IsZero() {
		a.begun = time.Now()
	}
	return time.Since(a.begun)
}

func (a *absence) end() { a.begun = time.Time{} }

// answerSchema returns the response to a schemaRequest; nil if the request is another one.
func (s sharedDatabase) answerSchema(request []byte) ([]byte, error) {
	var r schemaRequest
	if err := json.Unmarshal(request, &r); err != nil || !r.Schema {
		return nil, nil //nolint:nilerr // it is another request, whatever that is
	}
	_, release := s.Schema()
	return json.Marshal(schemaResponse{release})
}
