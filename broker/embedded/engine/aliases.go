package engine

// maxAliases bounds the topics with an alias on one connection.
const maxAliases = 256

// maxAliasTopic bounds the length of a topic with an alias, in bytes.
const maxAliasTopic = 1 << 10

// aliases are the topic aliases of messages to a client [MQTT-3.3.2-7]. The first topics
// of a connection get one, until its end.
type aliases struct {
	limit int // Topic Alias Maximum of the client, or maxAliases
	given map[string]uint16
}

func newAliases(clientLimit uint16) aliases { return aliases{limit: min(int(clientLimit), maxAliases)} }

// apply sets the alias of a delivery, if its topic has one or can get one.
func (a *aliases) apply(d *delivery) {
	if a.limit == 0 {
		return
	}
	if d.alias, d.known = a.given[d.message.Topic]; !d.known && len(a.given) < a.limit && len(d.message.Topic) <= maxAliasTopic {
		d.alias = uint16(len(a.given)) + 1
	}
}

// learn records that the client was sent the topic of an alias.
func (a *aliases) learn(d *delivery) {
	if d.alias == 0 || d.known {
		return
	}
	if a.given == nil {
		a.given = map[string]uint16{}
	}
	a.given[d.message.Topic] = d.alias
}
