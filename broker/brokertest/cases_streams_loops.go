package brokertest

import (
	"errors"
	"strings"
	"testing"

	"signalbox/broker"
)

func streamLoopCases() []testCase {
	return []testCase{
		{name: "a stream whose target is its source is refused", run: loopDirect},
		{name: "a stream whose target its wildcard source matches is refused", run: loopWildcard},
		{name: "a loop through three streams is refused with its chain, at creation and modification", run: loopChain},
		{name: "streams that are not active close no loop, until they are enabled", run: loopInactive},
		{name: "a stream without a target closes no loop", run: loopNoTarget},
		{name: "a chain that does not come back is no loop, and delivers at its end", run: loopNone},
		{name: "a replay into the stream's own source is refused, also through others", run: loopReplay},
	}
}

// link creates a stream from one topic to another.
func (s *fixture) link(t *testing.T, source, target string, active bool) (name string) {
	t.Helper()
	name = s.name("link")
	s.createStream(t, broker.StreamSpec{StreamName: name, SourceTopic: &source, TargetTopic: &target, Active: &active})
	return name
}

// refusesLoop checks that an error refuses a loop and names each of these streams or topics.
func (s *fixture) refusesLoop(t *testing.T, err error, path string, chain ...string) {
	t.Helper()
	s.refusesFields(t, err, path)
	e, _ := errors.AsType[*broker.Error](err)
	for _, link := range chain {
		if !strings.Contains(e.Msg, link) {
			t.Errorf("%q does not name %q, which is part of the loop", e.Msg, link)
		}
	}
}

func loopDirect(t *testing.T, s *fixture) {
	name := s.name("self")
	spec := broker.StreamSpec{StreamName: name, SourceTopic: &name, TargetTopic: &name}
	s.refusesLoop(t, s.Broker.CreateStream(t.Context(), spec), "targettopic", name)
	_, err := s.Broker.GetStream(t.Context(), name)
	wantKind(t, err, broker.NotFound)
}

func loopWildcard(t *testing.T, s *fixture) {
	base := s.name("wild")
	for filter, target := range map[string]string{base + "/#": base + "/x/y", base + "/+/y": base + "/x/y",
		"#": base, "+/+": base + "/x", base + "/up/#": base + "/up"} {
		name := s.name("self")
		spec := broker.StreamSpec{StreamName: name, SourceTopic: &filter, TargetTopic: &target}
		s.refusesLoop(t, s.Broker.CreateStream(t.Context(), spec), "targettopic", name)
	}
	for filter, target := range map[string]string{base + "/+": base, base + "/x": base + "/X", "+": s.name("other") + "/x"} {
		s.link(t, filter, target, true)
	}
}

func loopChain(t *testing.T, s *fixture) {
	base := s.name("ring")
	a := base + "/a"
	first, second := s.link(t, a, base+"/b/c", true), s.link(t, base+"/b/+", "elsewhere/"+base+"/c", true)
	third := s.name("link")
	closing := broker.StreamSpec{StreamName: third, SourceTopic: new("elsewhere/" + base + "/#"), TargetTopic: &a}
	s.refusesLoop(t, s.Broker.CreateStream(t.Context(), closing), "targettopic", first, second, third)
	closing.TargetTopic = new("out/" + base)
	s.createStream(t, closing)
	want, err := s.Broker.GetStream(t.Context(), third)
	must(t, err)
	for _, replace := range []bool{false, true} {
		closing.TargetTopic = &a
		s.refusesLoop(t, s.Broker.ModifyStream(t.Context(), closing, replace), "targettopic", first, second, third)
	}
	s.wantStream(t, want)
}

func loopInactive(t *testing.T, s *fixture) {
	base := s.name("sleeping")
	a, b := base+"/a", base+"/b"
	there, back := s.link(t, a, b, true), s.link(t, b, a, false)
	self := s.link(t, a, a, false)
	enable := func(name string, active bool) error {
		return s.Broker.ModifyStream(t.Context(), broker.StreamSpec{StreamName: name, Active: &active}, false)
	}
	s.refusesLoop(t, enable(back, true), "targettopic", there, back)
	s.refusesLoop(t, enable(self, true), "targettopic", self)
	for _, name := range []string{back, self} {
		if r, err := s.Broker.GetStream(t.Context(), name); err != nil || r.Active {
			t.Errorf("after it was refused to be enabled: %+v, %v", r, err)
		}
	}
	must(t, enable(there, false))
	must(t, enable(back, true))
	s.refusesLoop(t, enable(there, true), "targettopic", there, back)
}

func loopNoTarget(t *testing.T, s *fixture) {
	base := s.name("open")
	s.link(t, base+"/#", "", true)
	s.link(t, base+"/a", base+"/b", true)
}

func loopNone(t *testing.T, s *fixture) {
	base := s.name("chain")
	last := s.flow(t, broker.StreamSpec{SourceTopic: new(base + "/c")})
	s.link(t, base+"/b", base+"/c", true)
	s.link(t, base+"/a", base+"/b", true)
	last.topic = base + "/a"
	last.publish(t, "1", "2", "3")
	last.wants(t, "1", "2", "3")
	last.awaitProcessed(t)
}

func loopReplay(t *testing.T, s *fixture) {
	base := s.name("back")
	name := s.name("kept")
	s.createStream(t, broker.StreamSpec{StreamName: name, SourceTopic: new(base + "/in/#"), TargetTopic: new(base + "/out"), Persist: new(true)})
	via := s.link(t, base+"/via", base+"/in/via", true)
	replay := func(topic string) error {
		return s.Broker.ReplayStream(t.Context(), broker.StreamReplay{StreamName: name, ReplayTopic: topic, Limit: -1})
	}
	s.refusesLoop(t, replay(base+"/in/x"), "replaytopic", name)
	s.refusesLoop(t, replay(base+"/via"), "replaytopic", name, via)
	must(t, replay(base+"/other"))
}
