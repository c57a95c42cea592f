package apitest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"signalbox/router/apitest"
	declared "signalbox/router/site"
)

// cutCalls is the API of a service whose caller is killed after a number of changes: before
// the last one reaches the service, or after it.
type cutCalls struct {
	caller *apitest.Caller
	after  bool

	mu   sync.Mutex
	left int // -1 for no end
}

var errCut = errors.New("killed")

func (c *cutCalls) Call(_ context.Context, method, path string, query url.Values, body, result any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if method == "GET" {
		c.caller.Get(path).Want(200).Decode(result)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return errCut
	}
	c.left--
	if c.left == 0 && !c.after {
		return errCut
	}
	if resp := c.caller.Do(method, path, body); resp.Status >= 300 {
		return fmt.Errorf("%s %s: %s", method, path, resp.Body)
	}
	if c.left == 0 {
		return errCut
	}
	return nil
}

// applied applies a document, and returns the number of changes.
func applied(t *testing.T, c *cutCalls, d *declared.Document) (changes int, err error) {
	t.Helper()
	plan, err := declared.Compare(t.Context(), c, d, declared.Options{Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Changes(), plan.Apply(t.Context(), func(declared.Step, error) {})
}

func siteOf(t *testing.T, text string) *declared.Document {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	d, err := declared.Decode(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	siteBefore = `{"version": 1, "projects": [{"name": "default", "brokers": [{"name": "embedded",
		"acldefault": [{"acltype": "publishClientSend", "allow": true}, {"acltype": "subscribe", "allow": false}],
		"anonymousgroup": "all",
		"roles": [
			{"rolename": "r1", "acls": [{"acltype": "publishClientSend", "topic": "a/#", "allow": true}]},
			{"rolename": "r2", "acls": [{"acltype": "publishClientSend", "topic": "b", "allow": false}]},
			{"rolename": "old", "acls": []}],
		"groups": [{"groupname": "all", "roles": ["r1"]}, {"groupname": "some", "roles": ["r2"]}, {"groupname": "gone"}],
		"clients": [{"username": "c1", "roles": ["old"], "groups": ["all", "gone"]}, {"username": "c2", "groups": ["some"]}, {"username": "c3"}],
		"streams": [{"streamname": "s1", "sourcetopic": "a/#"}, {"streamname": "s2", "sourcetopic": "b/#"}]}]}]}`
	siteAfter = `{"version": 1, "projects": [{"name": "default", "brokers": [{"name": "embedded",
		"acldefault": [{"acltype": "publishClientSend", "allow": false}, {"acltype": "subscribe", "allow": true}],
		"anonymousgroup": "some",
		"roles": [
			{"rolename": "r1", "textname": "One", "acls": [{"acltype": "publishClientSend", "topic": "a/b", "allow": true}, {"acltype": "subscribePattern", "topic": "a/#", "priority": 7, "allow": false}]},
			{"rolename": "r2", "allowwildcardsubs": false, "acls": []},
			{"rolename": "new", "acls": [{"acltype": "publishClientReceive", "topic": "#", "allow": false}]}],
		"groups": [{"groupname": "all", "roles": ["r2", {"rolename": "new", "priority": 3}]}, {"groupname": "some", "roles": []}],
		"clients": [{"username": "c1", "groups": [{"groupname": "some", "priority": 9}]}, {"username": "c2", "disabled": true, "groups": ["some", "all"]}, {"username": "c4", "disabled": true, "clientid": "only", "groups": ["all"]}],
		"streams": [{"streamname": "s1", "sourcetopic": "a/#", "textname": "S"}, {"streamname": "s3", "sourcetopic": "c/#", "active": false}]}]}]}`
)

// TestApplyIsRepeatable checks that a plan that is killed at any place, and made and applied
// again, ends in the declared state.
func TestApplyIsRepeatable(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	before, after := siteOf(t, siteBefore), siteOf(t, siteAfter)
	places := 0
	for cut := 1; ; cut++ {
		whole := &cutCalls{caller: api.Root, left: -1}
		if _, err := applied(t, whole, before); err != nil {
			t.Fatal(err)
		}
		killed := &cutCalls{caller: api.Root, left: (cut + 1) / 2, after: cut%2 == 0}
		changes, err := applied(t, killed, after)
		if changes == 0 {
			t.Fatal("the plan changes nothing")
		}
		if err != nil && !errors.Is(err, errCut) {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if _, again := applied(t, whole, after); again != nil {
			t.Fatalf("cut %d: again: %v", cut, again)
		}
		rest, _ := applied(t, whole, after) //nolint:errcheck // its number is compared
		if rest != 0 {
			t.Fatalf("cut %d: after the second run %d changes are left", cut, rest)
		}
		if err == nil {
			break
		}
		places++
	}
	if places < 40 {
		t.Errorf("the plan was killed at %d places only", places)
	}
}
