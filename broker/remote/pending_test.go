package remote

import (
	"errors"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/control"
)

// waitingCall adds a call to a pending with the instance "ours".
func waitingCall(p *pending, topic, correlation string) *call {
	c := newCall(topic, correlation, nil)
	p.add(c)
	return c
}

// replied returns the reply to a call, if any.
func replied(c *call) (reply, bool) {
	select {
	case r := <-c.reply:
		return r, true
	default:
		return reply{}, false
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	const topic = "$CONTROL/x/v1"
	for name, c := range map[string]struct {
		topic, payload string
		replied        bool
		err            error
	}{
		"ours":                        {topic, `{"responses":[{"correlationData":"ours/1"}]}`, true, nil},
		"ours among others":           {topic, `{"responses":[{"correlationData":"theirs"},{"command":"c"},{"correlationData":"ours/1"}]}`, true, nil},
		"ours twice":                  {topic, `{"responses":[{"correlationData":"ours/1"},{"correlationData":"ours/1"}]}`, true, nil},
		"another one of ours":         {topic, `{"responses":[{"correlationData":"ours/2"}]}`, false, nil},
		"somebody else's":             {topic, `{"responses":[{"correlationData":"theirs/1"}]}`, false, nil},
		"on another topic":            {"$CONTROL/y/v1", `{"responses":[{"correlationData":"ours/1"}]}`, false, nil},
		"just mentioned":              {topic, `{"responses":[{"data":"ours/1"}]}`, false, nil},
		"without correlation data":    {topic, `{"responses":[{"command":"Unknown command","error":"Payload not valid JSON"}]}`, false, nil},
		"a refusal":                   {topic, endpointNotAvailable, true, errNoEndpoint},
		"a refusal on another topic":  {"$CONTROL/y/v1", endpointNotAvailable, false, nil},
		"an error beside responses":   {topic, `{"error":"x","responses":[]}`, false, nil},
		"a refusal that is too long":  {topic, `{"error":"` + strings.Repeat("x", maxRefusal) + `"}`, false, nil},
		"an empty object":             {topic, `{}`, false, nil},
		"no JSON":                     {topic, `ours/1`, false, nil},
		"responses of another type":   {topic, `{"responses":"ours/1"}`, false, nil},
		"correlation of another type": {topic, `{"responses":[{"correlationData":["ours/1"]}]}`, false, nil},
		"nothing":                     {topic, ``, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPending("ours")
			one := waitingCall(p, topic, "ours/1")
			p.answer(c.topic, []byte(c.payload))
			r, got := replied(one)
			if got != c.replied || !errors.Is(r.err, c.err) {
				t.Errorf("replied %v with error %v, want %v with %v", got, r.err, c.replied, c.err)
			}
			if again := p.take(topic, "ours/1"); (again == nil) != c.replied {
				t.Errorf("still waiting: %v", again != nil)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"responses":[{"command":"getClient","data":{"client":{"username":"u"}},"correlationData":"ours/1"}]}`,
		`{"responses":[{"command":"listClients","data":{"totalCount":2,"clients":["a",{"username":"b"}]},"correlationData":"ours/1"}]}`,
		`{"responses":[{"error":"Client not found","correlationData":"ours/1"}]}`,
		`{"responses":[{"data":{"listeners":[{"port":1883.5}],"plugins":[{"control-endpoints":[1]}],"features":[{},"x"]},"correlationData":"ours/1"}]}`,
		endpointNotAvailable, `{"responses":{}}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		p := newPending("ours")
		one := waitingCall(p, "t", "ours/1")
		p.answer("t", payload)
		r, got := replied(one)
		if !got || r.err != nil {
			return
		}
		for _, data := range []any{new(control.License), new(control.Listeners), new(control.Clients), new(control.Topics)} {
			control.Read(r.payload, "ours/1", data) //nolint:errcheck // it must not panic
		}
		new(offer).addPlugins(r.payload, "ours/1")
		if _, err := decodeDynsec("getClient", r.payload, "ours/1"); err != nil {
			if _, ok := errors.AsType[*broker.Error](err); !ok {
				t.Errorf("%s: error %v has no kind", payload, err)
			}
		}
	})
}
