package nats

import (
	"maps"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/mqtt/packet"
)

// plan is a compiled topic mapping.
type plan struct {
	subject *mapping.Template // nil to derive the subject from the topic
	value   mapping.Content
	headers bool
}

// message makes the message for an entry. The error explains why the entry cannot become one.
func (l *plan) message(e *bridges.Entry, withID bool) (*natsgo.Msg, error) {
	m := e.MappingMessage()
	subject, err := l.subjectOf(m)
	if err != nil {
		return nil, err
	}
	out := natsgo.NewMsg(subject)
	if out.Data, err = l.value.Of(m); err != nil {
		return nil, err
	}
	if l.headers {
		addHeaders(out.Header, e)
	}
	if withID || l.headers {
		out.Header.Set(natsgo.MsgIdHdr, e.MessageID)
	}
	return out, nil
}

// Preview returns the message for an entry.
func (c *connector) Preview(e *bridges.Entry) (p bridges.Preview, err error) {
	m, err := c.plans[e.Mapping].message(e, c.jetStream)
	if err != nil {
		return p, err
	}
	p.Destination, p.Payload = m.Subject, m.Data
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		for _, value := range m.Header[name] {
			p.AddAttribute(name, []byte(value))
		}
	}
	return p, nil
}

func (l *plan) subjectOf(m *mapping.Message) (string, error) {
	subject := ""
	if l.subject == nil {
		subject = subjectOfTopic(m.Topic)
	} else {
		text, err := l.subject.Append(nil, m)
		if err != nil {
			return "", err
		}
		subject = toTokens(string(text))
	}
	return subject, checkSubject(subject)
}

// Headers that describe the MQTT message.
const (
	headerTopic           = "Mqtt-Topic"
	headerQoS             = "Mqtt-Qos"
	headerRetain          = "Mqtt-Retain"
	headerContentType     = "Content-Type"
	headerResponseTopic   = "Mqtt-Response-Topic"
	headerCorrelationData = "Mqtt-Correlation-Data" // base64
)

// addHeaders adds the headers of an entry. User properties keep their names if these are valid.
// Names with a meaning for servers and the names above are reserved, so that a publisher cannot
// forge them.
func addHeaders(h natsgo.Header, e *bridges.Entry) {
	for _, p := range packet.DescribeProperties(e.Properties) {
		switch p.Identifier {
		case packet.PropertyUser:
			if isHeaderAllowed(p.Name) {
				h.Add(p.Name, oneLine(p.Value))
			}
		case packet.PropertyContentType:
			h.Set(headerContentType, oneLine(p.Value))
		case packet.PropertyResponseTopic:
			h.Set(headerResponseTopic, oneLine(p.Value))
		case packet.PropertyCorrelationData:
			h.Set(headerCorrelationData, p.Value)
		}
	}
	h.Set(headerTopic, oneLine(e.Topic))
	h.Set(headerQoS, strconv.Itoa(int(e.QoS)))
	h.Set(headerRetain, strconv.FormatBool(e.Retain))
}

// isHeaderAllowed reports whether a user property may become a header.
func isHeaderAllowed(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if name == "" || canonical == headerContentType || strings.HasPrefix(canonical, "Nats-") || strings.HasPrefix(canonical, "Mqtt-") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// oneLine replaces line breaks, which would end the header.
func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }
