package topictree

import (
	"math"
	"time"
)

// meter measures how many messages a second a topic has had lately: each message counts less
// the longer ago it was. It needs the same memory whatever the rate is.
type meter struct {
	weight float64       // sum of the messages, each by its age at the last one; 0 before the first
	age    time.Duration // from the first message to the last one
}

// rateWindow is the age at which a message counts 1/e.
const rateWindow = 30 * time.Second

func decay(age time.Duration) float64 { return math.Exp(-max(age, 0).Seconds() / rateWindow.Seconds()) }

// add counts a message; last is the time of the one before.
func (m *meter) add(last, now time.Time) {
	if m.weight > 0 {
		m.age += max(now.Sub(last), 0)
	}
	m.weight = m.weight*decay(now.Sub(last)) + 1
}

// at returns messages a second; last is the time of the last one. Of a topic that is younger
// than the window it is the mean since its first message, of which a second counts at least.
func (m *meter) at(last, now time.Time) float64 {
	if m.weight == 0 {
		return 0
	}
	counted := rateWindow.Seconds() * (1 - decay(max(m.age+now.Sub(last), time.Second)))
	return m.weight * decay(now.Sub(last)) / counted
}

// Rate returns the topic's messages a second.
func (e *entry) Rate(now time.Time) (perSecond float64, known bool) {
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	return e.rate.at(e.at, now), true
}
