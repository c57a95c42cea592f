package brokertest

import (
	"slices"
	"testing"

	"signalbox/broker"
)

func messageCases() []testCase {
	return []testCase{
		{name: "a message that is published arrives, and is retained where it shall be", run: messagePublish},
		{name: "retained messages are listed in order, in parts, by a filter", run: messageList},
		{name: "a retained message that is deleted is gone, the others stay", run: messageDelete},
		{name: "properties of MQTT 5 arrive, or are refused as invalid", run: messageProperties},
	}
}

// retain publishes a retained message and waits for the acknowledgement.
func (s *fixture) retain(t *testing.T, topic, payload string) {
	t.Helper()
	must(t, s.Broker.Publish(t.Context(), broker.PublishSpec{Topic: topic, Payload: []byte(payload), QoS: 1, Retain: true}))
}

// retained returns the topics of a page of the retained messages.
func (s *fixture) retained(t *testing.T, filter string, offset, count int) (topics []string, total int) {
	t.Helper()
	page, err := s.Broker.ListRetained(t.Context(), filter, offset, count)
	must(t, err)
	for m, err := range page.Items {
		must(t, err)
		topics = append(topics, m.Topic)
	}
	return topics, page.Total
}

func messagePublish(t *testing.T, s *fixture) {
	base := s.name("published")
	d := s.device(t, allow(broker.SubscribePattern, base+"/#"))
	wantFilters(t, d, map[string]bool{base + "/#": true})
	for qos, topic := range []string{base + "/0", base + "/1", base + "/2"} {
		must(t, s.Broker.Publish(t.Context(), broker.PublishSpec{Topic: topic, Payload: []byte("to " + topic), QoS: qos, Retain: qos == 2}))
		WaitFor(t, topic+" has come", func() bool { return d.has("to " + topic) })
	}
	if got, total := s.retained(t, base+"/#", 0, -1); !slices.Equal(got, []string{base + "/2"}) || total != 1 {
		t.Errorf("retained: %q of %d", got, total)
	}
	m, err := s.Broker.GetRetained(t.Context(), base+"/2")
	must(t, err)
	if m.Topic != base+"/2" || m.Payload != "to "+base+"/2" || m.Size != len(m.Payload) || m.Truncated || m.Encoding != "" {
		t.Errorf("retained: %+v", m)
	}
}

func messageList(t *testing.T, s *fixture) {
	base := s.name("listed")
	all := []string{base, base + "/a", base + "/a/1", base + "/b"}
	for _, topic := range slices.Backward(all) {
		s.retain(t, topic, "x")
	}
	for _, c := range []struct {
		filter        string
		offset, count int
		want          []string
		total         int
	}{
		{base + "/#", 0, -1, all, 4}, {base + "/#", 1, 2, all[1:3], 4}, {base + "/#", 4, -1, nil, 4}, {base + "/#", 0, 0, nil, 4},
		{base + "/+", 0, -1, []string{all[1], all[3]}, 2}, {base + "/+", 1, 5, all[3:], 2}, {base, 0, -1, all[:1], 1},
		{base + "/none", 0, -1, nil, 0},
	} {
		if got, total := s.retained(t, c.filter, c.offset, c.count); !slices.Equal(got, c.want) || total != c.total {
			t.Errorf("%q from %d, %d of them: got %q of %d, want %q of %d", c.filter, c.offset, c.count, got, total, c.want, c.total)
		}
	}
}

func messageDelete(t *testing.T, s *fixture) {
	base := s.name("deleted")
	for _, topic := range []string{base + "/1", base + "/2", base + "/3", base} {
		s.retain(t, topic, "x")
	}
	must(t, s.Broker.DeleteRetained(t.Context(), base+"/1"))
	wantKind(t, s.Broker.DeleteRetained(t.Context(), base+"/1"), broker.NotFound)
	_, err := s.Broker.GetRetained(t.Context(), base+"/1")
	wantKind(t, err, broker.NotFound)
	n, err := s.Broker.DeleteRetainedMatching(t.Context(), base+"/+")
	must(t, err)
	if again, err := s.Broker.DeleteRetainedMatching(t.Context(), base+"/+"); err != nil || again != 0 || n != 2 {
		t.Errorf("deleted %d, then %d (%v); want 2, then 0", n, again, err)
	}
	if got, _ := s.retained(t, base+"/#", 0, -1); !slices.Equal(got, []string{base}) {
		t.Errorf("left: %q", got)
	}
	d := s.Broker.RetainedDeleter()
	defer d.Close()
	must(t, d.DeleteRetained(t.Context(), base))
	wantKind(t, d.DeleteRetained(t.Context(), base), broker.NotFound)
}

func messageProperties(t *testing.T, s *fixture) {
	topic := s.name("five")
	spec := broker.PublishSpec{Topic: topic, Payload: []byte("{}"), QoS: 1, Retain: true, ContentType: "application/json",
		CorrelationData: []byte{1}, UserProperties: []broker.UserProperty{{Name: "k", Value: "v"}}}
	err := s.Broker.Publish(t.Context(), spec)
	if slices.Contains(s.Lacks, MessageProperties) {
		wantKind(t, err, broker.Invalid)
		return
	}
	must(t, err)
	m, err := s.Broker.GetRetained(t.Context(), topic)
	must(t, err)
	if p := m.Properties; p == nil || p.ContentType != "application/json" || p.CorrelationData != "AQ==" ||
		!slices.Equal(p.UserProperties, spec.UserProperties) {
		t.Errorf("properties: %+v", p)
	}
}
