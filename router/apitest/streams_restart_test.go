package apitest_test

import (
	"testing"

	"signalbox/router/apitest"
)

// TestStreamsAfterARestart still have their messages and the state of their queries; a
// replay has ended.
func TestStreamsAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := apitest.New(t, withAdminPassword, apitest.In(dir))
	query := object{"select": []object{{"source": "[v]", "target": "[sum]", "function": object{"name": "sum"}}}}
	makeStream(t, before, object{"streamname": "kept", "sourceTopic": "in", "targetTopic": "out", "persist": true, "query": query})
	makeStream(t, before, object{"streamname": "passing", "sourceTopic": "in", "targetTopic": "passed", "query": query})
	makeStream(t, before, object{"streamname": "asleep", "sourceTopic": "in", "active": false, "textname": "later"})
	p := join(t, before, 5, "writer", asAdmin)
	for _, payload := range []string{`{"v":1}`, `{"v":2}`} {
		p.Publish("in", payload, 1)
	}
	before.Root.Put(before.At("/streams/replay"), object{"streamname": "kept", "replayTopic": "again", "speed": 1e-9}).Want(204)
	was := streamOf(before, "asleep")
	before.Stop()

	after := apitest.New(t, apitest.In(dir))
	s := streamOf(after, "kept")
	if s.Replaying || s.Replay != nil || s.Stats.Received != 0 || s.Stats.Messages != 2 || countOf(after, "kept") != 2 {
		t.Errorf("after the restart: %+v, %+v", s, s.Stats)
	}
	if now := streamOf(after, "asleep"); now.TextName != was.TextName || now.Active {
		t.Errorf("a definition: got %+v, want %+v", now, was)
	}
	d := join(t, after, 5, "reader", asAdmin)
	d.SubscribeTo(filter("out", 0))
	p = join(t, after, 5, "writer", asAdmin)
	p.Publish("in", `{"v":4}`, 1)
	d.WantMessage("out", `{"sum":7}`)
	waitFor(t, "the other stream to pass it on", func() bool { return streamOf(after, "passing").Stats.Republished == 1 })
	d.Unsubscribe("out")
	d.SubscribeTo(filter("passed", 0))
	p.Publish("in", `{"v":8}`, 1)
	d.WantMessage("passed", `{"sum":12}`) // since the restart
	after.Root.Put(after.At("/streams/replay"), object{"streamname": "kept", "replayTopic": "again", "reverse": true, "speed": "fastest"}).Want(204)
	noReplay(t, after, "kept")
	if got := streamOf(after, "kept").Stats.Replayed; got != 4 {
		t.Errorf("%d messages were replayed, want 4", got)
	}
}
