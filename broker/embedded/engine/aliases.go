package engine

// maxAliases is how many topics are given an alias on one connection at most.
const maxAliases = 256

// maxAliasTopic is the length of the longest topic that is given one, in bytes.
const maxAliasTopic = 1 << 10

// aliases are what stands for topics in messages to a client [MQTT-3.3.2-7].
// They are given to the topics that come first, and last as long as the
// connection.
type aliases struct {
	limit int // of the client, or ours
	given map[string]uint16
}

func newAliases(clientLimit uint16) aliases { return aliases{limit: min(int(clientLimit), maxAliases)} }

// apply puts an alias in, if the topic has one or can have one.
func (a *aliases) apply(d *delivery) {
	if a.limit == 0 {
		return
	}
	if d.alias, d.known = a.given[d.message.Topic]; !d.known && len(a.given) < a.limit && len(d.message.Topic) <= maxAliasTopic {
		d.alias = uint16(len(a.given)) + 1
	}
}

// learn notes that the client was told what an alias stands for.
func (a *aliases) learn(d *delivery) {
	if d.alias == 0 || d.known {
		return
	}
	if a.given == nil {
		a.given = map[string]uint16{}
	}
	a.given[d.message.Topic] = d.alias
}
