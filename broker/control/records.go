package control

import (
	"encoding/json"

	"signalbox/broker"
)

// Clients is the decoded response to listClients: the number of all clients and the
// requested page, with only the ids set unless the command was verbose.
type Clients struct {
	Total   int
	Clients []broker.ConnectedClient
}

// UnmarshalJSON accepts names and records.
func (c *Clients) UnmarshalJSON(b []byte) error {
	var list struct {
		TotalCount int               `json:"totalCount"`
		Clients    []json.RawMessage `json:"clients"`
	}
	if err := decodeTolerant(b, &list); err != nil {
		return err
	}
	c.Total, c.Clients = max(list.TotalCount, len(list.Clients)), make([]broker.ConnectedClient, len(list.Clients))
	for i, raw := range list.Clients {
		if json.Unmarshal(raw, &c.Clients[i].ClientID) == nil {
			continue
		}
		if err := decodeTolerant(raw, &c.Clients[i]); err != nil {
			return err
		}
	}
	return nil
}

// Client is the decoded response to getClient.
type Client struct{ broker.ConnectedClientDetail }

// UnmarshalJSON decodes the record; its lists are never nil.
func (c *Client) UnmarshalJSON(b []byte) error {
	d := &c.ConnectedClientDetail
	if err := decodeTolerant(b, d); err != nil {
		return err
	}
	if d.Subscriptions == nil {
		d.Subscriptions = []string{}
	}
	if d.Will != nil && d.Will.Properties == nil {
		d.Will.Properties = []broker.WillProperty{}
	}
	return nil
}

// Topics is the decoded response to listTopics. Brokers list names under "topics" and
// records under "data", either or both.
type Topics struct{ broker.TopicTree }

// topicList is one of the two lists.
type topicList struct {
	Count  int     `json:"count"`
	Topics []topic `json:"topics"`
	Data   []topic `json:"data"`
}

// topic is an entry of either list: its name, or a record.
type topic struct {
	broker.PublishTopic
	Clients int `json:"clients"`
}

// UnmarshalJSON accepts both forms.
func (t *topic) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &t.Topic) == nil {
		return nil
	}
	type record topic
	return decodeTolerant(b, (*record)(t))
}

// UnmarshalJSON accepts all forms; the lists are never nil.
func (t *Topics) UnmarshalJSON(b []byte) error {
	var lists struct {
		Publish   topicList `json:"publishTopics"`
		Subscribe topicList `json:"subscribeTopics"`
	}
	if err := decodeTolerant(b, &lists); err != nil {
		return err
	}
	p, s := &t.PublishTopics, &t.SubscribeTopics
	p.Topics, p.Data, s.Topics, s.Data = []string{}, []broker.PublishTopic{}, []string{}, []broker.SubscribeTopic{}
	for _, entry := range lists.Publish.entries(&p.Count) {
		p.Topics, p.Data = append(p.Topics, entry.Topic), append(p.Data, entry.PublishTopic)
	}
	for _, entry := range lists.Subscribe.entries(&s.Count) {
		s.Topics = append(s.Topics, entry.Topic)
		s.Data = append(s.Data, broker.SubscribeTopic{Topic: entry.Topic, Clients: entry.Clients})
	}
	return nil
}

// entries returns the more detailed list, and the number of all topics.
func (l topicList) entries(count *int) []topic {
	all := l.Data
	if len(all) == 0 {
		all = l.Topics
	}
	*count = max(l.Count, len(all))
	return all
}
